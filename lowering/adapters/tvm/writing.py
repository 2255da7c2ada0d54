"""A nest as a `PrimFunc`, plain or with the blocks that schedules of TVM need.

Loops on threads as TVM launches them: they count from 0, and all loops on one thread run equally far.

A shared tile that threads fetch together is a loop on `threadIdx.x` inside another one, over another range. TVM takes
both for one launched thread and binds its index to the start of the range; division by the extent then fails.

Expressions are written by a table of operations, statements by rules of the driver.

An iteration variable of a block has a value, a range, and a claim on its iterations: a block of TVM claims that its
iterations along a spatial axis are independent, and along a reduction axis commute. Schedules rely on these claims, so
an axis is opaque unless one of them follows from the statements.

Each store is a block over the loops around it. Branches, names of data and loops over dependent ranges get a block of
their own, with inner blocks for the stores inside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

import tvm
from tvm import tirx
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.tirx import stmt as tir

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.build import FLOAT_FUNCTIONS, FLOAT_PAIRS, PREDICATES, ROUNDINGS
from bound.tir.machine import TRAPPING, Trapping
from bound.tir.value import CALL, CONVERT, DIV, NUMBER, PARAM, READ, UNDEF, IntFunction, Operand, TensorElement, Value
from bound.tir.walk import loaded_tensor, nodes, read_indices
from intset.errors import InputError
from intset.expr import Cond, Expr, Infinity, Range, Var, arguments, const, constant_value, dag, ops, shown
from intset.expr.build import ceildiv, logical_and
from intset.expr.convert import Converter, operation_of
from intset.expr.node import truth
from intset.itermap.itermap import IterMap
from lowering.adapters.tvm import reading
from lowering.adapters.tvm.reading import CLASSES, KINDS, SEQUENTIAL, ForeignCall, PrimFunc, PrimFuncReader, guarded
from lowering.nest import driver, ir, walk
from lowering.nest.names import label_of
from lowering.nest.scope import Indices, Scope, element_accesses, proves
from lowering.nest.walk import map_operands, range_ends, rebuilt, replaced, statements, substitute, variables
from lowering.passes.values.cse import inline_values

_ON_THREADS = (ir.LoopKind.THREAD, ir.LoopKind.VTHREAD)


def with_launched_threads(f: ir.Function) -> ir.Function:
    """The function with loops on threads that count from 0, and vectorized loops of constant extents.

    A nested loop on the same thread but with another extent becomes a serial loop over a guarded loop with the launched
    extent.
    """
    return driver.rewritten_function(f, enter={ir.For: (_from_zero, _on_launched, _of_lanes)})


def _from_zero(loop: ir.For, here: driver.Cursor) -> ir.Stmt:
    low, extent = range_ends(loop.range)
    if loop.kind not in _ON_THREADS or low is const(0):
        return loop
    var = Var(loop.var.name)
    ctx = here.ctx

    def moved(stmt: ir.Stmt) -> ir.Stmt:
        new = map_operands(stmt, lambda e: replaced(e, {loop.var: low + var}))
        return new if new is stmt else map_operands(new, lambda e: ctx.simplify(e) if isinstance(e, Expr) else e)

    return ir.with_fields(loop, var=var, range=Range(0, extent), body=rebuilt(loop.body, moved))


def _on_launched(loop: ir.For, here: driver.Cursor) -> ir.Stmt:
    _, extent = range_ends(loop.range)
    launched = next((outer for outer in here.loops if outer.thread == loop.thread), None)
    if loop.kind not in _ON_THREADS or launched is None:
        return loop
    _, threads = range_ends(launched.range)
    if threads is extent or proves(here.scope, threads.eq(extent)):
        return loop
    if proves(here.scope, threads >= extent):
        return ir.with_fields(loop, range=Range(0, threads), body=ir.If(loop.var < extent, loop.body))
    outer, inner = Var(f"{loop.var.name}_outer"), Var(loop.var.name)
    index = outer * threads + inner
    body = substitute(loop.body, {loop.var: index})
    within = body if proves(here.scope, (extent % threads).eq(0)) else ir.If(index < extent, body)
    launched = ir.with_fields(loop, var=inner, range=Range(0, threads), body=within)
    return ir.For(outer, Range(0, ceildiv(extent, threads)), launched)


def _of_lanes(loop: ir.For, here: driver.Cursor) -> ir.Stmt:
    """A vectorized loop over the largest extent, guarded; a serial one where no constant bounds the extent."""
    low, extent = range_ends(loop.range)
    if loop.kind is not ir.LoopKind.VECTORIZED or extent.is_const:
        return loop
    most = here.ctx.bounds(extent, over="sizes")[1]
    if isinstance(most, Infinity):
        return ir.with_fields(loop, kind=ir.LoopKind.SERIAL)
    whole = ir.with_fields(loop, range=Range(low, most if most.data > 0 else 0))
    inside = here.scope.inside(whole)
    ends = extent.args if extent.op is ops.MIN else (extent,)
    last = [end.args[1] + loop.var - low < end.args[0] if end.op is ops.SUB else loop.var - low < end for end in ends]
    guards = [inside.ctx.simplify(guard) for guard in last if not proves(inside, guard)]
    return ir.with_fields(whole, body=ir.If(logical_and(*guards), loop.body))


TirTerm: TypeAlias = "Any"
TirStmt: TypeAlias = "driver.Synthesis[driver.Descent, TirTerm]"

INDEX: Final = "int64"
_SCHEDULABLE: Final = "s_tir"  # the attribute of a function with blocks
_THREAD_AXIS: Final = 1  # `ThreadIndex` of TVM's kinds of axes


class PrimFuncWriter:
    """The conversion of one nest, without blocks."""

    _widens = False  # whether parameters get extents of the type of indices

    def __init__(self, f: ir.Function, like: PrimFunc | None) -> None:
        self.f, self.like = with_launched_threads(f), like
        self._variables: dict[Any, TirTerm] = {}
        self._buffers: dict[Tensor, TirTerm] = {}
        self._starts: dict[Tensor, tuple[Expr, ...]] = {}
        self._strides: dict[Any, TirTerm] = {}
        self._terms = self._converter()

    def function(self) -> PrimFunc:
        """The function of TVM."""
        return self._named(
            tirx.PrimFunc(self._parameters(), driver.synthesized(self.f.body, driver.Descent(), self._rules())), False
        )

    def _named(self, func: TirTerm, has_blocks: bool) -> PrimFunc:
        """Attach name and attributes."""
        attrs = {} if self.like is None or self.like.attrs is None else dict(self.like.attrs.items())
        for key, value in {**attrs, "global_symbol": self.f.name}.items():
            if str(key) != _SCHEDULABLE:
                func = func.with_attr(str(key), value)
        return func.with_attr(_SCHEDULABLE, True) if has_blocks else func

    # -- parameters -------------------------------------------------------------------------------------------------

    def _parameters(self) -> list[TirTerm]:
        read = None if self.like is None else PrimFuncReader(self.like)
        old = {} if read is None else {str(name): p for p, name in read.names.items()}
        shaped = set() if read is None else {v for p in read.tensors for v in p.ty.shape if isinstance(v, tvm.ir.Var)}
        for size in self.f.sizes:
            former = old.get(size.name)
            is_new = former is None or (self._widens and former in shaped and former.ty != INDEX)
            self._variables[size] = tirx.Var(size.name, INDEX) if is_new else former
        for scalar in self.f.scalars:
            name = str(scalar.data[0])
            self._variables[scalar] = old[name] if name in old else tirx.Var(name, scalar.dtype)
        for tensor in self.f.params:
            buffer = None if read is None else self._same(tensor, read)
            self._buffers[tensor] = self._declared(tensor) if buffer is None else buffer
        named: dict[str, TirTerm] = {tensor.name: self._buffers[tensor] for tensor in self.f.params}
        named |= {size.name: self._variables[size] for size in self.f.sizes}
        kept = [] if read is None or self.like is None else [named.get(read.names[p], p) for p in self.like.params]
        told = {dag.without_assertions(extent) for tensor in self.f.params for extent in tensor.extents}
        added = [self._buffers[tensor] for tensor in self.f.params]
        added += [self._variables[v] for v in (*(s for s in self.f.sizes if s not in told), *self.f.scalars)]
        return [*kept, *(p for p in added if not any(p.same_as(q) for q in kept))]

    def _same(self, tensor: Tensor, read: PrimFuncReader) -> TirTerm | None:
        """The buffer of the former function that has the name, the type and the shape of a tensor."""
        named = {v.name: v for v in self.f.sizes}
        renamed = {v: named[v.name] for v in read.sizes.values() if v.name in named}
        here = tuple(dag.without_assertions(e) for e in tensor.extents)
        for buffer, old in read.tensors.items():
            there = tuple(dag.substitute(e, renamed) for e in old.extents)
            if (old.name, old.dtype, there) == (tensor.name, tensor.dtype, here):
                return self._widened(buffer, tensor) if self._widens else buffer
        return None

    def _widened(self, buffer: TirTerm, tensor: Tensor) -> TirTerm:
        """A buffer whose extents have the type of indices; mixed types keep TVM from analysing accesses."""
        ty = buffer.ty
        parts = (*ty.shape, *ty.strides, ty.elem_offset)
        if all(part.ty == INDEX for part in parts):
            return buffer
        *strides, offset = (self._wide(part) for part in (*ty.strides, ty.elem_offset))
        layout = {"data_alignment": ty.data_alignment, "offset_factor": ty.offset_factor, "layout": None}
        shape = [self._extent(e) for e in tensor.extents]
        scope = str(ty.storage_scope)
        return tirx.decl_buffer(shape, str(ty.dtype), buffer.name, None, strides, offset, scope, **layout)

    def _wide(self, term: TirTerm) -> TirTerm:
        """A stride or an offset in the type of indices; sizes of shapes are those of the nest."""
        if isinstance(term, tirx.IntImm):
            return _integer(int(term.value))
        if isinstance(term, tvm.ir.Var):
            sizes = {v.name: self._variables[v] for v in self.f.sizes}
            return sizes.get(term.name) or self._strides.setdefault(term, tirx.Var(term.name, INDEX))
        return term if term.ty == INDEX else tirx.Cast(INDEX, term)

    def _declared(self, tensor: Tensor, extents: Any = None, scope: str = "") -> TirTerm:
        shape = [self._extent(e) for e in (tensor.extents if extents is None else extents)]
        return tirx.decl_buffer(shape, tensor.dtype, name=tensor.name, scope=scope or "global", layout=None)

    def _extent(self, e: Expr) -> TirTerm:
        e = dag.without_assertions(e)
        return self._variables[e] if isinstance(e, Var) and e in self._variables else self._terms(e)

    # -- terms ------------------------------------------------------------------------------------------------------

    def _converter(self) -> Converter[Any, TirTerm]:
        return Converter(
            {
                **_ROWS,
                ops.VAR: self._variable,
                PARAM: self._variable,
                ops.LOAD: self._opaque,
                READ: lambda e, *indices: self._element(e.data, indices),
            },
            opaque=_refused,
            kind=operation_of,
            operands=self._operands,
        )

    def _bound(self, var: Any, term: TirTerm) -> TirTerm:
        """The variable of TVM for one that a statement binds; copies of loops bind one again."""
        if var in self._variables:
            self._terms = self._converter()  # what was converted mentions the former one
        self._variables[var] = term
        return term

    def _operands(self, e: Any) -> Any:
        if e.op is not ops.LOAD:
            return e.args
        if isinstance(e.data, IntFunction):
            return (replaced(e.data.body, dict(zip(e.data.params, e.args, strict=True))),)
        if isinstance(e.data, ir.ShapeOf) and e.args[0].is_const:
            return (e.data.tensor.extents[e.args[0].data],)
        return e.args

    def _variable(self, e: Any) -> TirTerm:
        if e not in self._variables:
            raise InputError(f"the nest binds no {e.name if isinstance(e, Var) else e}")
        found = self._variables[e]
        return found if not isinstance(e, Var) or found.ty == INDEX else tirx.Cast(INDEX, found)

    def _opaque(self, e: Any, *args: TirTerm) -> TirTerm:
        """An integer that depends on data, in 64 bits."""
        if isinstance(e.data, TensorElement):
            return _index(self._element(e.data.tensor, args))
        if isinstance(e.data, ir.Undef):
            return _undef(INDEX)
        if isinstance(e.data, (IntFunction, ir.ShapeOf)):
            return _index(args[0])
        return _refused(e)

    def _element(self, tensor: Tensor, indices: Any) -> TirTerm:
        return tirx.BufferLoad(self._buffer(tensor), self._places(tensor, indices))

    def _buffer(self, tensor: Tensor) -> TirTerm:
        if tensor not in self._buffers:
            raise InputError(f"the nest neither takes nor allocates {tensor.name}")
        return self._buffers[tensor]

    def _places(self, tensor: Tensor, indices: Any) -> list[TirTerm]:
        """Places in the storage of a tensor, which counts from the start of its allocated range."""
        starts = self._starts.get(tensor)
        if starts is None:
            return list(indices)
        return [
            i if constant_value(start) == 0 else tirx.Sub(i, self._terms(start))
            for i, start in zip(indices, starts, strict=True)
        ]

    # -- statements -------------------------------------------------------------------------------------------------

    def _rules(self) -> dict[type[ir.Stmt], Callable[[Any, driver.Descent], Any]]:
        return {
            ir.Seq: self._seq,
            ir.For: self._for,
            ir.If: self._if,
            ir.Store: self._store,
            ir.Let: self._let,
            ir.Allocate: self._allocate,
            ir.Assert: self._assert,
            ir.Assume: lambda stmt, _: tir.Evaluate(tirx.assume(self._terms(stmt.cond))),
            ir.Evaluate: self._call,
        }

    def _seq(self, stmt: ir.Seq, descent: driver.Descent) -> TirStmt:
        parts = []
        for inner in stmt.stmts:
            parts.append((yield inner, descent))  # noqa: PERF401  # a comprehension cannot yield
        if len(parts) == 1:
            return parts[0]
        return tir.SeqStmt(parts) if parts else tir.Evaluate(_integer(0))

    def _for(self, stmt: ir.For, descent: driver.Descent) -> TirStmt:
        if stmt.carried:
            raise InputError(
                f"the loop over {stmt.var.name} carries variables: convert the nest before strength_reduce"
            )
        low, extent = (self._terms(end) for end in range_ends(stmt.range))
        var = self._bound(stmt.var, tirx.Var(stmt.var.name, INDEX))
        kind, binding = stmt.kind, None
        if kind in _ON_THREADS:
            kind = ir.LoopKind.THREAD
            binding = tirx.IterVar(None, tirx.Var(stmt.thread, INDEX), _THREAD_AXIS, stmt.thread)
        body = yield stmt.body, descent.inside(stmt)
        return tir.For(var, low, extent, KINDS.index(kind), body, binding, dict(stmt.annotations))

    def _if(self, stmt: ir.If, descent: driver.Descent) -> TirStmt:
        then = yield stmt.then, descent.then(stmt)
        orelse = None
        if stmt.orelse is not None:
            orelse = yield stmt.orelse, descent.otherwise(stmt)
        return tir.IfThenElse(self._terms(stmt.cond), then, orelse)

    def _store(self, stmt: ir.Store, _: driver.Descent) -> TirTerm:
        dtype = stmt.tensor.dtype
        value = _undef(dtype) if ir.is_undef(stmt.value) else _as(dtype, self._terms(stmt.value))
        indices = [self._terms(e) for e in stmt.indices]
        return tir.BufferStore(self._buffer(stmt.tensor), value, self._places(stmt.tensor, indices))

    def _let(self, stmt: ir.Let, _: driver.Descent) -> TirTerm:
        value = self._terms(stmt.value)
        return tir.Bind(self._bound(stmt.var, tirx.Var(label_of(stmt.var), value.ty)), value)

    def _allocate(self, stmt: ir.Allocate, _: driver.Descent) -> TirTerm:
        ends = [range_ends(r) for r in stmt.ranges]
        if stmt.tensor in self._buffers:
            self._terms = self._converter()
        self._starts[stmt.tensor] = tuple(low for low, _ in ends)
        buffer = self._declared(stmt.tensor, [extent for _, extent in ends], stmt.scope)
        self._buffers[stmt.tensor] = buffer
        return tir.AllocBuffer(buffer)

    def _call(self, stmt: ir.Evaluate, _: driver.Descent) -> TirTerm:
        """A statement that came from TVM, with present variables and buffers."""
        call = stmt.call
        if not isinstance(call, ForeignCall):
            raise InputError(f"the nest calls {call.name}, a function of the host")
        count = len(call.variables)
        terms = [_as(var.ty, self._terms(e)) for var, e in zip(call.variables, call.args[:count], strict=True)]
        tensors = [t for t in call.args[count:] if isinstance(t, Tensor)]
        for tensor, former in zip(tensors, call.buffers, strict=True):
            if len(former.ty.shape) != tensor.ndim or any(constant_value(e) != 0 for e in self._starts.get(tensor, ())):
                raise InputError(f"{call.name}, a statement of TVM, knows {tensor.name} in its former storage")
        return reading.restored(call, terms, map(self._buffer, tensors))

    def _assert(self, stmt: ir.Assert, _: driver.Descent) -> TirTerm:
        made = tvm.get_global_func("tirx.AssertStmt")
        kind, message = (tvm.ir.StringImm(text) for text in ("RuntimeError", stmt.message))
        return made(self._terms(stmt.cond), kind, [message], None)


def _refused(e: Operand, *_: TirTerm) -> TirTerm:
    raise InputError(f"TVM has no {e.op if isinstance(e, Value) else e.op.name}: {shown(e)}")


def _integer(value: int) -> TirTerm:
    low, high = dtypes.int_range(INDEX)
    if not low <= value <= high:
        raise InputError(f"{shown(value)} has no 64 bits in TVM")
    return tirx.IntImm(INDEX, value)


def _truth(value: bool) -> TirTerm:
    return tirx.IntImm("bool", int(value))


def _as(dtype: str, term: TirTerm) -> TirTerm:
    if isinstance(term, tirx.IntImm) and dtypes.is_int(dtype):
        return tirx.IntImm(dtype, ops.wrap(int(term.value), dtypes.bits(dtype), dtypes.signed(dtype)))
    return term if term.ty == dtype else tirx.Cast(dtype, term)


def _index(term: TirTerm) -> TirTerm:
    return _as(INDEX, term)


def _undef(dtype: str) -> TirTerm:
    return tvm.ir.Call("tirx.undef", [], ret_ty=dtype)


def _is_eager(e: Any) -> bool:
    """Whether an operand may be computed although its value is unused: it reads nothing and divides by nothing."""
    return not any(node.op in _PARTIAL for node in nodes(e))


_PARTIAL: Final = frozenset(
    (ops.LOAD, ops.FLOORDIV, ops.FLOORMOD, ops.CEILDIV, ops.TRUNCDIV, ops.TRUNCMOD, ops.SHL, ops.SHR, READ, CALL)
)


def _select(e: Any, c: TirTerm, a: TirTerm, b: TirTerm) -> TirTerm:
    dtype = e.dtype if isinstance(e, Value) and not dtypes.is_int(e.dtype) else INDEX
    a, b = _as(dtype, a), _as(dtype, b)
    return tirx.Select(c, a, b) if all(map(_is_eager, e.args[1:])) else tirx.if_then_else(c, a, b)


def _constant(e: Any) -> TirTerm:
    if isinstance(e, Expr):
        return _integer(e.data)
    return _truth(e.data) if e.dtype == "bool" else tirx.FloatImm(e.dtype, e.data)


def _negated(e: Any, a: TirTerm) -> TirTerm:
    return tirx.Mul(a, tirx.FloatImm(e.dtype, -1.0)) if isinstance(e, Value) else tirx.Sub(_integer(0), a)


def _call(e: Any, *args: TirTerm) -> TirTerm:
    if e.data == "fmod":
        return tirx.Mod(*args)  # what TVM's code generators have
    if e.data in TRAPPING:
        return _index(_as(e.dtype, _ROWS[Trapping(e.data).op](e, *args)))
    if e.data == "popcount":
        return _index(tirx.popcount(_as(e.dtype, args[0])))
    if e.data not in _CALLS:
        raise InputError(f"TVM has no function {e.data} here")
    return getattr(tirx, e.data)(*args)


_CALLS: Final = {*FLOAT_FUNCTIONS, *ROUNDINGS, *FLOAT_PAIRS, *PREDICATES, "pow"} - {"ldexp"}


def _of(make: Any) -> Callable[..., TirTerm]:
    return lambda e, *args: make(*args)


def _division(make: Any) -> Callable[..., TirTerm]:
    """A division that TVM has of integers alone."""
    return lambda e, a, b: make(a, b) if isinstance(e, Expr) else _refused(e)


_ROWS: Final[dict[Any, Callable[..., TirTerm]]] = {
    ops.CONST: _constant,
    ops.BOOL: lambda e: _truth(e.data),
    ops.NEG: _negated,
    ops.CEILDIV: lambda e, a, b: tirx.Sub(_integer(0), tirx.FloorDiv(tirx.Sub(_integer(0), a), b)),
    ops.ABS: lambda e, a: tirx.abs(a) if isinstance(e, Value) else tirx.Max(a, tirx.Sub(_integer(0), a)),
    ops.BITNOT: _of(tirx.bitwise_not),
    ops.CAST: lambda e, a: _index(_as(dtypes.int_named(*e.data), a)),
    ops.SELECT: _select,
    ops.ASSERTING: lambda e, c, a: a,
    ops.NOT: _of(tirx.Not),
    ops.AND: lambda e, a, b: tirx.And(a, b) if _is_eager(e.args[1]) else tirx.if_then_else(a, b, _truth(False)),
    ops.OR: lambda e, a, b: tirx.Or(a, b) if _is_eager(e.args[1]) else tirx.if_then_else(a, _truth(True), b),
    **{op: _of(make) for op, make in CLASSES.items()},
    **{op: _division(CLASSES[op]) for op in (ops.FLOORDIV, ops.FLOORMOD, ops.TRUNCDIV)},
    DIV: _of(tirx.Div),
    ops.BITAND: _of(tirx.bitwise_and),
    ops.BITOR: _of(tirx.bitwise_or),
    ops.BITXOR: _of(tirx.bitwise_xor),
    ops.SHL: _of(tirx.shift_left),
    ops.SHR: _of(tirx.shift_right),
    NUMBER: _constant,
    UNDEF: lambda e: _undef(e.dtype),
    CONVERT: lambda e, a: _as(e.dtype, a),
    CALL: _call,
}


# -- blocks -------------------------------------------------------------------------------------------------------


class AxisKind(IntEnum):
    """TVM's numbers of the kinds of iteration variables."""

    SPATIAL = 0
    REDUCTION = 2
    OPAQUE = 4


class BlockAxis(NamedTuple):
    """An iteration variable of a block, its value in the variables of the loops around, and the range of its values."""

    var: Var
    value: Expr
    domain: Range
    kind: AxisKind = AxisKind.OPAQUE


def iterations(
    loops: Sequence[ir.For], scope: Scope, stmt: ir.Stmt
) -> tuple[list[BlockAxis], list[Cond], ir.Stmt | None, ir.Stmt]:
    """The block of a statement inside loops whose ranges do not depend on one another.

    These are its iteration variables, its predicate on the variables of the loops, and over its own variables the
    stores for the first iteration of a reduction and the statements of one iteration.

    Indices of stores that fuse or split loops become iteration variables, so that a split loop is one variable again;
    other loops are variables themselves.

    Parameters
    ----------
    scope: ranges and conditions in force at the statement.
    """
    whole = guarded(stmt)
    guards, inner = (list(dag.conjuncts(whole.cond)), whole.stmts) if whole is not None else ([], [stmt])
    start = guarded(inner[0]) if len(inner) > 1 and isinstance(inner[0], ir.If) else None
    stores = [part for one in inner for part in statements(one) if isinstance(part, ir.Store)]
    wanted = list(stores[0].indices) if len({store.indices for store in stores}) == 1 else []
    if start is not None:
        wanted += [e for c in dag.conjuncts(start.cond) if c.op is ops.EQ for e in c.args if isinstance(e, Expr)]
    values = _AxisValues(loops, scope, _usable(wanted, loops, stmt))
    axes, predicate, kept = values.limited([c for c in guards if c is not truth(True)])
    parts = [values.in_block(part) for part in inner]
    init = None
    if start is not None and not kept:
        init = _initialization(parts[0], parts[1:], axes)
        parts = parts if init is None else parts[1:]
    body = values.in_block(ir.If(logical_and(*kept), ir.seq(*inner))) if kept else ir.seq(*parts)
    return _with_kinds(axes, body, scope), predicate, init, body


def _usable(indices: Sequence[Expr], loops: Sequence[ir.For], stmt: ir.Stmt) -> list[Expr]:
    """Indices over the loops around, without constant offsets; each once."""
    own, inside = {loop.var for loop in loops}, walk.bound_in(stmt)
    found: dict[Expr, None] = {}
    for index in indices:
        e = _without_offset(index)
        used = set(variables(e))
        if used & own and not used & inside and not dag.opaque_terms(e) and _is_fused(e):
            found[e] = None
    return list(found)


def _is_fused(e: Expr) -> bool:
    """Whether TVM may recognize an index: variables times positive numbers, sums, quotients and remainders of them."""
    for node in dag.postorder((e,)):
        factors = [part for part in node.args if part.op is ops.CONST] if node.op is ops.MUL else [node]
        if not factors or (node.op is ops.CONST and node.data < 0) or node.op not in _FUSING:
            return False
    return True


_FUSING: Final = frozenset((ops.VAR, ops.CONST, ops.ADD, ops.MUL, ops.FLOORDIV, ops.FLOORMOD))


def _without_offset(e: Expr) -> Expr:
    if e.op in (ops.ADD, ops.SUB) and isinstance(e.args[0], Expr) and e.args[1].op is ops.CONST:
        return e.args[0]
    return e


class _AxisValues:
    """Values and ranges of the iteration variables of a block.

    Invariant: values and ranges determine each other: every tuple of values within the ranges is reached at exactly one
    iteration of the loops.
    """

    def __init__(self, loops: Sequence[ir.For], scope: Scope, wanted: Sequence[Expr]) -> None:
        own = {loop.var: loop.range for loop in loops}
        self._scope, self._own = scope, own
        fused = {v for e in wanted if e not in own for v in variables(e) if v in own}
        joint = [e for e in wanted if fused.intersection(variables(e))]
        self._map = IterMap(scope.ctx, tuple(v for v in own if v in fused), joint) if joint else None
        if self._map is not None and not (self._map.found and self._map.surjective):
            self._map, joint, fused = None, [], set()
        ranges: dict[Expr, Range] = {} if self._map is None else dict(zip(joint, self._map.ranges, strict=True))
        for e in (*wanted, *own):
            if isinstance(e, Var) and e in own and e not in fused:
                ranges.setdefault(e, own[e])
        self._fused = joint
        self.axes = [
            BlockAxis(Var(f"v_{e.name}" if isinstance(e, Var) else f"v{k}"), e, r)
            for k, (e, r) in enumerate(ranges.items())
        ]
        self._names = {axis.value: axis.var for axis in self.axes}

    def limited(self, guards: Sequence[Cond]) -> tuple[list[BlockAxis], list[Cond], list[Cond]]:
        """Axes narrowed by guards that bound an axis value, the guards used, and the remaining guards."""
        axes, used, others = list(self.axes), [], []
        for guard in guards:
            k = next((k for k, axis in enumerate(axes) if guard.args and guard.args[0] is axis.value), None)
            domain = None if k is None else self._limit(axes[k].domain, guard)
            if k is None or domain is None:
                others.append(guard)
            else:
                axes[k] = axes[k]._replace(domain=domain)
                used.append(guard)
        return axes, used, others

    def _limit(self, domain: Range, guard: Cond) -> Range | None:
        (low, extent), end = range_ends(domain), guard.args[1]
        if not isinstance(end, Expr) or self._own.keys() & set(variables(end)):
            return None
        if guard.op in (ops.LT, ops.LE):
            end = end if guard.op is ops.LT else end + 1
            if proves(self._scope, (end <= low + extent) & (end >= low)):
                return Range(low, self._scope.ctx.simplify(end - low))
            return domain if proves(self._scope, end >= low + extent) else None
        if guard.op is ops.GE and proves(self._scope, (end >= low) & (end <= low + extent)):
            return Range(end, self._scope.ctx.simplify(low + extent - end))
        return None

    def in_block(self, stmt: ir.Stmt) -> ir.Stmt:
        """Replace variables of loops by those of the block."""
        new = walk.transform(stmt, lambda e: replaced(e, self._names))
        free = set(walk.free_variables(new))
        left = [v for v in self._own if v in free]
        if not left or self._map is None:
            return new
        inverse = self._map.inverse([self._names[e] for e in self._fused])
        return walk.transform(new, lambda e: replaced(e, {v: inverse[v] for v in left}))


def _initialization(first: ir.Stmt, body: Sequence[ir.Stmt], axes: Sequence[BlockAxis]) -> ir.Stmt | None:
    """The initialization of a reduction, if it runs in the first iteration alone and stores what the body updates."""
    start, updates = guarded(first), ir.flat(ir.seq(*body))
    reduced = _reduced(ir.seq(*body), axes)
    if start is None or not reduced or not reading.is_initialization(start.stmts):
        return None
    ends = {axis.var.eq(range_ends(axis.domain)[0]): range_ends(axis.domain)[1] for axis in reduced}
    found = set(dag.conjuncts(start.cond))
    if not found <= set(ends) or any(cond not in found and extent is not const(1) for cond, extent in ends.items()):
        return None
    stored = [{(s.tensor, s.indices) for s in part if isinstance(s, ir.Store)} for part in (start.stmts, updates)]
    return ir.seq(*start.stmts) if stored[0] == stored[1] else None


# -- kinds ----------------------------------------------------------------------------------------------------------


def _with_kinds(axes: Sequence[BlockAxis], body: ir.Stmt, scope: Scope) -> list[BlockAxis]:
    if any(isinstance(stmt, ir.Evaluate) for stmt in statements(body)):
        return list(axes)
    reduced = {axis.var for axis in _reduced(body, axes)}
    independent = _independent(axes, body, scope)
    kinds = {**dict.fromkeys(reduced, AxisKind.REDUCTION), **dict.fromkeys(independent, AxisKind.SPATIAL)}
    return [axis._replace(kind=kinds.get(axis.var, AxisKind.OPAQUE)) for axis in axes]


def _reduced(body: ir.Stmt, axes: Sequence[BlockAxis]) -> list[BlockAxis]:
    """The axes of a commutative update: an element combined with values that do not read its tensor."""
    if not isinstance(body, ir.Store) or not _combines(body):
        return []
    used = set(variables(*body.indices))
    return [axis for axis in axes if axis.var not in used]


def _combines(store: ir.Store) -> bool:
    """Whether a store combines its element with values that do not read its tensor, by a commutative operation."""
    value: Operand = store.value
    if isinstance(value, Expr) and value.op is ops.CAST and value.data[0] >= dtypes.bits(store.tensor.dtype):
        value = value.args[0] if value.args[0].op in (ops.ADD, ops.MUL) else value
    if value.op not in _COMMUTATIVE:
        return False
    op, terms, stack = value.op, [], [value]
    while stack:
        term = stack.pop()
        stack += term.args if term.op is op else ()
        terms += [] if term.op is op else [term]
    own = [t for t in terms if loaded_tensor(t) is store.tensor and read_indices(t) == store.indices]
    reads = [n for t in terms if t not in own for n in nodes(t) if loaded_tensor(n) is store.tensor]
    return len(own) == 1 and not reads


_COMMUTATIVE: Final = frozenset((ops.ADD, ops.MUL, ops.MIN, ops.MAX, ops.AND, ops.OR))


def _independent(axes: Sequence[BlockAxis], body: ir.Stmt, scope: Scope) -> set[Var]:
    """The axes of which different values touch different elements of every tensor that the body writes."""
    made = {stmt.tensor for stmt in statements(body) if isinstance(stmt, ir.Allocate)}
    accesses = [access for stmt in statements(body) for access in element_accesses(stmt) if access.tensor not in made]
    stored = {access.tensor for access in accesses if access.is_store}
    written = [list(dict.fromkeys(a.indices for a in accesses if a.tensor is tensor)) for tensor in stored]
    found = {axis.var for axis in axes if range_ends(axis.domain)[1] is const(1)}
    found |= {axis.var for axis in axes if all(_separates(axis.var, indices) for indices in written)}
    left = [axis for axis in axes if axis.var not in found]
    if left and written and all(len(indices) == 1 and _tells(left, indices[0], scope) for indices in written):
        found |= {axis.var for axis in left}
    return found


def _separates(var: Var, places: Sequence[Indices]) -> bool:
    """Whether all accesses have one index that is the variable plus a constant."""
    columns = zip(*places, strict=True)
    return any(len(set(column)) == 1 and _without_offset(column[0]) is var for column in columns)


def _tells(axes: Sequence[BlockAxis], indices: Indices, scope: Scope) -> bool:
    """Whether the indices of an element determine the values of the axes."""
    mapped = [e for e in indices if not dag.opaque_terms(e)]
    if not {axis.var for axis in axes} <= set(variables(*mapped)):
        return False
    own = {axis.var: axis.domain for axis in axes}
    ctx = scope.ctx.extended(ranges=own)
    return IterMap(ctx, tuple(own), [e for e in mapped if own.keys() & set(variables(e))]).found


_READS_AND_WRITES = 3


def to_tvm(f: ir.Function, like: PrimFunc | None = None, blocks: bool = True) -> PrimFunc:
    """A nest as a function of TVM, which TVM schedules and compiles.

    Each store is a block over the loops around it, named after its tensor. Indices that fuse split loops become
    iteration variables of the block, limits on them its predicate, stores of a reduction's first iteration `T.init`.
    Branches, names of data and loops over dependent ranges get a block of their own.

    Integers are computed in 64 bits, as the interpreter does, and converted to the type of the tensor where they are
    stored. `and`, `or` and `select` whose later operands read elements or divide are `if_then_else`, so they stay lazy.
    Parameters are the tensors, then the sizes that no shape tells, then the scalars. Assumptions become `T.assume`, and
    `undef()` becomes `T.undef`, whose stores TVM's `RemoveStoreUndef` removes; padding declarations are dropped.

    Parameters
    ----------
    like: the function that the nest was read from. Parameters keep its order and, where name, type and shape are the
        same, its buffers with strides, offsets and alignment; its attributes stay.
    blocks: whether to write blocks, which `s_tir.Schedule` requires. Without them statements correspond one to one.

    Raises
    ------
    InputError: a statement or operation unsupported by TVM, named in the message.
    """
    ir.checked_function(f, "to_tvm")
    if like is not None and not isinstance(like, tirx.PrimFunc):
        raise InputError(f"like must be a PrimFunc of TVM, not {shown(like)}")
    writer = BlockWriter if arguments.of_kind(bool, blocks, "blocks", "True or False") else PrimFuncWriter
    return writer(f, like).function()


class BlockCursor(driver.Cursor):
    """A position among blocks.

    Attributes
    ----------
    around: the loops between the enclosing block and here, outermost first.
    is_inside: whether statements here are the body of a block, which no block divides any further.
    opened: the body of the enclosing block.
    storage: the buffers that the enclosing block allocates.
    """

    around: tuple[ir.For, ...]
    is_inside: bool
    opened: ir.Stmt | None
    storage: list[TirTerm]

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.around, self.is_inside, self.opened, self.storage = (), False, None, []

    def inside(self, loop: ir.For) -> BlockCursor:
        return super().inside(loop).moved(around=(*self.around, loop))


class BlockWriter(PrimFuncWriter):
    """The conversion of one nest to blocks."""

    _widens = True

    def __init__(self, f: ir.Function, like: PrimFunc | None) -> None:
        super().__init__(reading.with_guarded_initializations(inline_values(f)), like)
        self._allocated: list[TirTerm] = []
        self._labels: dict[str, int] = {"root": 1}
        self._sizes = {*self.f.sizes, *self.f.scalars}

    def function(self) -> PrimFunc:
        params = self._parameters()
        body = driver.synthesized(self.f.body, BlockCursor.root(self.f), self._rules())
        former = None if self.like is None else self.like.body
        marks = dict(reading.annotations_of(former.block)) if isinstance(former, SBlockRealize) else {}
        root = SBlock([], [], [], "root", body, None, self._allocated, annotations=marks)
        func = self._named(tirx.PrimFunc(params, SBlockRealize([], True, root)), has_blocks=True)
        return tvm.get_global_func("script.Complete")(func, [], True)

    def _rules(self) -> dict[type[ir.Stmt], Callable[[Any, Any], Any]]:
        rules = super()._rules()
        kinds: tuple[type[ir.Stmt], ...] = (ir.Store, ir.If, ir.Let, ir.Assert, ir.Assume, ir.Evaluate)
        outside = {kind: self._or_block(rules[kind]) for kind in kinds}
        return {**rules, **outside, ir.For: self._loop, ir.Seq: self._sequence, ir.Allocate: self._allocation}

    def _or_block(self, rule: Callable[[Any, Any], Any]) -> Callable[[Any, BlockCursor], Any]:
        """A rule that opens a block around a statement, unless the cursor is already inside one."""
        return lambda stmt, here: rule(stmt, here) if here.is_inside or here.opened is stmt else self._block(stmt, here)

    def _loop(self, stmt: ir.For, here: BlockCursor) -> TirStmt:
        ends = range_ends(stmt.range)
        own = {loop.var for loop in here.around}
        if here.opened is not stmt and (own & set(variables(*ends)) or dag.opaque_terms(*ends)):
            return self._block(stmt, here)
        return self._for(stmt, here)

    def _sequence(self, stmt: ir.Seq, here: BlockCursor) -> TirStmt:
        parts, waiting = [], list(stmt.stmts)
        is_divided = not here.is_inside and here.opened is not stmt
        while waiting:
            count = self._together(waiting, here) if is_divided else 1
            together, waiting = ir.seq(*waiting[:count]), waiting[count:]
            own = here if is_divided or isinstance(together, ir.For) else here.moved(opened=together)
            if count > 1:
                part = yield from self._block(together, own)
            else:
                part = yield together, own
            parts += [] if part is None else [part]
        if len(parts) == 1:
            return parts[0]
        return tir.SeqStmt(parts) if parts else tir.Evaluate(0)

    def _together(self, stmts: Sequence[ir.Stmt], here: BlockCursor) -> int:
        """How many statements at the front stand in one block."""
        first = stmts[0]
        if isinstance(first, ir.Let) or (isinstance(first, ir.Allocate) and not self._is_common(first, here)):
            return len(stmts)  # its name reaches to the end
        start = guarded(first)
        if not isinstance(first, ir.If) or start is None or not reading.is_initialization(start.stmts):
            return 1
        missing = {s.tensor for s in start.stmts if isinstance(s, ir.Store)}
        for k, stmt in enumerate(stmts[1:], 1):
            if isinstance(stmt, ir.Let):
                return len(stmts)
            if not isinstance(stmt, ir.Store):
                return 1
            missing.discard(stmt.tensor)
            if not missing:
                return k + 1
        return 1

    def _is_common(self, stmt: ir.Allocate, here: BlockCursor) -> bool:
        """Whether the function allocates it: fixed extents inside sequential loops."""
        return self._is_fixed(stmt) and all(loop.kind in SEQUENTIAL for loop in here.loops)

    def _is_fixed(self, stmt: ir.Allocate) -> bool:
        """Whether extents of a storage depend on sizes alone."""
        ends = [e for r in stmt.ranges for e in range_ends(r)[1:]]
        return set(variables(*ends)) <= self._sizes and not dag.opaque_terms(*ends)

    def _allocation(self, stmt: ir.Allocate, here: BlockCursor) -> TirTerm:
        made = self._allocate(stmt, here)
        if not self._is_fixed(stmt):
            return made
        (self._allocated if self._is_common(stmt, here) else here.storage).append(made.buffer)
        return None

    def _block(self, stmt: ir.Stmt, here: BlockCursor) -> TirStmt:
        axes, guards, start, one = iterations(here.around, here.scope, stmt)
        name = self._label(stmt)
        values = [self._terms(axis.value) for axis in axes]
        predicate = [self._terms(cond) for cond in guards]
        scope, iter_vars = here.scope, []
        for axis in axes:
            low, extent = (self._terms(end) for end in range_ends(axis.domain))
            var = self._bound(axis.var, tirx.Var(axis.var.name, INDEX))
            iter_vars.append(tirx.IterVar(tvm.ir.Range.from_min_extent(low, extent), var, int(axis.kind)))
            scope = scope.inside(ir.For(axis.var, axis.domain, ir.seq()))
        is_leaf = not any(isinstance(part, ir.For) for part in statements(one))
        inside = here.moved(scope=scope, around=(), is_inside=is_leaf, opened=one, storage=[])
        init = None
        if start is not None:
            init = yield start, inside
        body = yield one, inside
        labels = _labels(one) if is_leaf else ()
        marks = {key: value for label in labels for key, value in label.annotations}
        reads, writes = self._regions(one) if is_leaf else ([], [])
        if not reads and not writes:
            marks[reading.DETECTED] = tirx.IntImm("int32", _READS_AND_WRITES)
        block = SBlock(iter_vars, reads, writes, name, body, init, inside.storage, annotations=marks)
        return SBlockRealize(values, functools.reduce(tirx.And, predicate) if predicate else True, block)

    def _regions(self, stmt: ir.Stmt) -> tuple[list[TirTerm], list[TirTerm]]:
        """The tensors that a block reads and writes, whole, if it passes pointers to them; else TVM infers regions."""
        calls = [part for part in statements(stmt) if isinstance(part, ir.Evaluate)]
        if all(isinstance(part.call, ForeignCall) and part.call.is_plain for part in calls):
            return [], []
        regions = {}
        for t in (t for t in walk.touched(stmt) if t in self._buffers):
            whole = [tvm.ir.Range.from_min_extent(tirx.IntImm(e.ty, 0), e) for e in self._buffers[t].ty.shape]
            regions[t] = tirx.BufferRegion(self._buffers[t], whole)
        return list(regions.values()), [regions[t] for t in reading.written_tensors(stmt) if t in regions]

    def _label(self, stmt: ir.Stmt) -> str:
        """A name that no other block has: that of the former block, else the first tensor that a block stores."""
        stores = [part.tensor.name for part in statements(stmt) if isinstance(part, ir.Store)]
        calls = [part.call.name for part in statements(stmt) if isinstance(part, ir.Evaluate)]
        labels = _labels(stmt)
        first = labels[-1].name if labels else [*stores, *calls, type(stmt).__name__.lower()][0]
        stem = f"{first}_o" if any(isinstance(part, ir.For) for part in statements(stmt)) else first
        count = self._labels[stem] = self._labels.get(stem, 0) + 1
        return stem if count == 1 else f"{stem}_{count - 1}"


def _labels(stmt: ir.Stmt) -> tuple[ir.BlockLabel, ...]:
    """The former labels of the statements in a block, initialization first."""
    parts = [part.block for part in statements(stmt) if isinstance(part, (ir.Store, ir.Evaluate))]
    return tuple(dict.fromkeys(label for label in parts if label is not None))
