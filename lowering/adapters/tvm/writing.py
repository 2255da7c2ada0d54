"""A nest as a `PrimFunc` without blocks.

Loops on threads as TVM launches them: they count from 0, and all loops on one thread run equally far.

A shared tile that threads fetch together is a loop on `threadIdx.x` inside another one, over another range. TVM takes
both for one launched thread and binds its index to the start of the range; division by the extent then fails.

Expressions are written by a table of operations, statements by rules of the driver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import tvm
from tvm import tirx
from tvm.tirx import stmt as tir

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.build import FLOAT_FUNCTIONS, FLOAT_PAIRS, PREDICATES, ROUNDINGS
from bound.tir.machine import TRAPPING, Trapping
from bound.tir.value import CALL, CONVERT, DIV, NUMBER, PARAM, READ, UNDEF, IntFunction, Operand, TensorElement, Value
from bound.tir.walk import nodes
from intset.errors import InputError
from intset.expr import Expr, Range, Var, const, constant_value, dag, ops, shown
from intset.expr.build import ceildiv, logical_and
from intset.expr.convert import Converter, operation_of
from intset.infinity import Infinity
from lowering.adapters.tvm.reading import KINDS, ForeignCall, PrimFunc, PrimFuncReader, restored
from lowering.adapters.tvm.terms import CLASSES
from lowering.nest import driver, ir
from lowering.nest.scope import proves
from lowering.nest.walk import map_operands, range_ends, rebuilt, replaced, substitute

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
    return ir.For(
        outer, Range(0, ceildiv(extent, threads)), ir.with_fields(loop, var=inner, range=Range(0, threads), body=within)
    )


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
        name = stmt.var.name if isinstance(stmt.var, Var) else str(stmt.var.data[0])
        return tir.Bind(self._bound(stmt.var, tirx.Var(name, value.ty)), value)

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
        return restored(call, terms, map(self._buffer, tensors))

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
    (*(ops.LOAD, ops.FLOORDIV, ops.FLOORMOD, ops.CEILDIV, ops.TRUNCDIV, ops.TRUNCMOD, ops.SHL, ops.SHR), *(READ, CALL))
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
