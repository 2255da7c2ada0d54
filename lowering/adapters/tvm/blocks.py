"""A nest as a `PrimFunc` with blocks, as schedules of TVM need it.

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
from typing import Any, Final, NamedTuple

import tvm
from tvm import tirx
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.tirx import stmt as tir

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.value import Operand
from bound.tir.walk import loaded_tensor, nodes, read_indices
from intset.errors import InputError
from intset.expr import Cond, Expr, Range, Var, arguments, const, dag, ops, shown
from intset.expr.build import logical_and
from intset.expr.node import truth
from intset.itermap.itermap import IterMap
from lowering.adapters.tvm.reading import (
    DETECTED,
    SEQUENTIAL,
    ForeignCall,
    PrimFunc,
    annotations_of,
    guarded,
    is_initialization,
    with_guarded_initializations,
    written_tensors,
)
from lowering.adapters.tvm.writing import INDEX, PrimFuncWriter, TirStmt, TirTerm
from lowering.nest import driver, ir
from lowering.nest.scope import Indices, Scope, element_accesses, proves
from lowering.nest.walk import bound_in, free_variables, range_ends, replaced, statements, touched, transform, variables
from lowering.passes.values.cse import inline_values


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


class BlockIterations(NamedTuple):
    """A block.

    Attributes
    ----------
    axes: its iteration variables.
    predicate: a condition on the variables of the loops.
    init: stores for the first reduction iteration, over block variables.
    body: the statements of one iteration, over block variables.
    """

    axes: tuple[BlockAxis, ...]
    predicate: tuple[Cond, ...]
    init: ir.Stmt | None
    body: ir.Stmt


def iterations(loops: Sequence[ir.For], scope: Scope, stmt: ir.Stmt) -> BlockIterations:
    """The block of a statement inside loops whose ranges do not depend on one another.

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
    return BlockIterations(tuple(_with_kinds(axes, body, scope)), tuple(predicate), init, body)


def _usable(indices: Sequence[Expr], loops: Sequence[ir.For], stmt: ir.Stmt) -> list[Expr]:
    """Indices over the loops around, without constant offsets; each once."""
    own, inside = {loop.var for loop in loops}, bound_in(stmt)
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
        new = transform(stmt, lambda e: replaced(e, self._names))
        free = set(free_variables(new))
        left = [v for v in self._own if v in free]
        if not left or self._map is None:
            return new
        inverse = self._map.inverse([self._names[e] for e in self._fused])
        return transform(new, lambda e: replaced(e, {v: inverse[v] for v in left}))


def _initialization(first: ir.Stmt, body: Sequence[ir.Stmt], axes: Sequence[BlockAxis]) -> ir.Stmt | None:
    """The initialization of a reduction, if it runs in the first iteration alone and stores what the body updates."""
    start, updates = guarded(first), ir.flat(ir.seq(*body))
    reduced = _reduced(ir.seq(*body), axes)
    if start is None or not reduced or not is_initialization(start.stmts):
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
    places: dict[Tensor, dict[Indices, None]] = {}
    accesses = [access for stmt in statements(body) for access in element_accesses(stmt) if access.tensor not in made]
    for access in accesses:
        places.setdefault(access.tensor, {})[access.indices] = None
    written = [list(places[t]) for t in {access.tensor for access in accesses if access.is_store}]
    found = {axis.var for axis in axes if range_ends(axis.domain)[1] is const(1)}
    for axis in axes:
        if all(_separates(axis.var, indices) for indices in written):
            found.add(axis.var)
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
    return (BlockWriter if arguments.of_kind(bool, blocks, "blocks", "True or False") else PrimFuncWriter)(
        f, like
    ).function()


class BlockCursor(driver.Cursor):
    """A position among blocks.

    Attributes
    ----------
    around: the loops between the enclosing block and here, outermost first.
    is_inside: whether statements here are the body of a block, which no block divides any further.
    opened: the body of the enclosing block.
    storage: the buffers that the enclosing block allocates.
    """

    __slots__ = ("around", "is_inside", "opened", "storage")
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
        super().__init__(with_guarded_initializations(inline_values(f)), like)
        self._allocated: list[TirTerm] = []
        self._labels: dict[str, int] = {"root": 1}
        self._sizes = {*self.f.sizes, *self.f.scalars}

    def function(self) -> PrimFunc:
        params = self._parameters()
        body = driver.synthesized(self.f.body, BlockCursor.root(self.f), self._rules())
        former = None if self.like is None else self.like.body
        marks = dict(annotations_of(former.block)) if isinstance(former, SBlockRealize) else {}
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
        if not isinstance(first, ir.If) or start is None or not is_initialization(start.stmts):
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
        found = iterations(here.around, here.scope, stmt)
        name = self._label(stmt)
        values = [self._terms(axis.value) for axis in found.axes]
        predicate = [self._terms(cond) for cond in found.predicate]
        scope, iter_vars = here.scope, []
        for axis in found.axes:
            low, extent = (self._terms(end) for end in range_ends(axis.domain))
            var = self._bound(axis.var, tirx.Var(axis.var.name, INDEX))
            iter_vars.append(tirx.IterVar(tvm.ir.Range.from_min_extent(low, extent), var, int(axis.kind)))
            scope = scope.inside(ir.For(axis.var, axis.domain, ir.seq()))
        is_leaf = not any(isinstance(part, ir.For) for part in statements(found.body))
        inside = here.moved(scope=scope, around=(), is_inside=is_leaf, opened=found.body, storage=[])
        init = None
        if found.init is not None:
            init = yield found.init, inside
        body = yield found.body, inside
        labels = _labels(found.body) if is_leaf else ()
        marks = {key: value for label in labels for key, value in label.annotations}
        reads, writes = self._regions(found.body) if is_leaf else ([], [])
        if not reads and not writes:
            marks[DETECTED] = tirx.IntImm("int32", _READS_AND_WRITES)
        block = SBlock(iter_vars, reads, writes, name, body, init, inside.storage, annotations=marks)
        return SBlockRealize(values, functools.reduce(tirx.And, predicate) if predicate else True, block)

    def _regions(self, stmt: ir.Stmt) -> tuple[list[TirTerm], list[TirTerm]]:
        """The tensors that a block reads and writes, whole, if it passes pointers to them; else TVM infers regions."""
        calls = [part for part in statements(stmt) if isinstance(part, ir.Evaluate)]
        if all(isinstance(part.call, ForeignCall) and part.call.is_plain for part in calls):
            return [], []
        regions = {}
        for t in (t for t in touched(stmt) if t in self._buffers):
            whole = [tvm.ir.Range.from_min_extent(tirx.IntImm(e.ty, 0), e) for e in self._buffers[t].ty.shape]
            regions[t] = tirx.BufferRegion(self._buffers[t], whole)
        return list(regions.values()), [regions[t] for t in written_tensors(stmt) if t in regions]

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
