"""Iteration variables of blocks: value, range, and whether iterations are independent.

A block of TVM claims that its iterations along a spatial axis are independent, and along a reduction axis commute.
Schedules rely on these claims, so an axis is opaque unless one of them follows from the statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.value import Operand
from bound.tir.walk import loaded_tensor, nodes, read_indices
from intset.expr import ops
from intset.expr.build import logical_and
from intset.expr.dag import conjuncts, opaque_terms, postorder
from intset.expr.node import Cond, Expr, Var, const, truth
from intset.expr.range import Range
from intset.itermap.itermap import IterMap
from lowering.adapters.tvm.initialization import guarded, is_initialization
from lowering.nest.ir import Allocate, Evaluate, For, If, Stmt, Store, flat, seq
from lowering.nest.scope import Scope, proves
from lowering.nest.tensors import Indices, element_accesses
from lowering.nest.walk import bound_in, free_variables, range_ends, replaced, statements, transform, variables


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
    init: Stmt | None
    body: Stmt


def iterations(loops: Sequence[For], scope: Scope, stmt: Stmt) -> BlockIterations:
    """The block of a statement inside loops whose ranges do not depend on one another.

    Indices of stores that fuse or split loops become iteration variables, so that a split loop is one variable again;
    other loops are variables themselves.

    Parameters
    ----------
    scope: ranges and conditions in force at the statement.
    """
    whole = guarded(stmt)
    guards, inner = (list(conjuncts(whole.cond)), whole.stmts) if whole is not None else ([], [stmt])
    start = guarded(inner[0]) if len(inner) > 1 and isinstance(inner[0], If) else None
    stores = [part for one in inner for part in statements(one) if isinstance(part, Store)]
    wanted = list(stores[0].indices) if len({store.indices for store in stores}) == 1 else []
    if start is not None:
        wanted += [e for c in conjuncts(start.cond) if c.op is ops.EQ for e in c.args if isinstance(e, Expr)]
    values = _AxisValues(loops, scope, _usable(wanted, loops, stmt))
    axes, predicate, kept = values.limited([c for c in guards if c is not truth(True)])
    parts = [values.in_block(part) for part in inner]
    init = None
    if start is not None and not kept:
        init = _initialization(parts[0], parts[1:], axes)
        parts = parts if init is None else parts[1:]
    body = values.in_block(If(logical_and(*kept), seq(*inner))) if kept else seq(*parts)
    return BlockIterations(tuple(_with_kinds(axes, body, scope)), tuple(predicate), init, body)


def _usable(indices: Sequence[Expr], loops: Sequence[For], stmt: Stmt) -> list[Expr]:
    """Indices over the loops around, without constant offsets; each once."""
    own, inside = {loop.var for loop in loops}, bound_in(stmt)
    found: dict[Expr, None] = {}
    for index in indices:
        e = _without_offset(index)
        used = set(variables(e))
        if used & own and not used & inside and not opaque_terms(e) and _is_fused(e):
            found[e] = None
    return list(found)


def _is_fused(e: Expr) -> bool:
    """Whether TVM may recognize an index: variables times positive numbers, sums, quotients and remainders of them."""
    for node in postorder((e,)):
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

    def __init__(self, loops: Sequence[For], scope: Scope, wanted: Sequence[Expr]) -> None:
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

    def in_block(self, stmt: Stmt) -> Stmt:
        """Replace variables of loops by those of the block."""
        new = transform(stmt, lambda e: replaced(e, self._names))
        free = set(free_variables(new))
        left = [v for v in self._own if v in free]
        if not left or self._map is None:
            return new
        inverse = self._map.inverse([self._names[e] for e in self._fused])
        return transform(new, lambda e: replaced(e, {v: inverse[v] for v in left}))


def _initialization(first: Stmt, body: Sequence[Stmt], axes: Sequence[BlockAxis]) -> Stmt | None:
    """The initialization of a reduction, if it runs in the first iteration alone and stores what the body updates."""
    start, updates = guarded(first), flat(seq(*body))
    reduced = _reduced(seq(*body), axes)
    if start is None or not reduced or not is_initialization(start.stmts):
        return None
    ends = {axis.var.eq(range_ends(axis.domain)[0]): range_ends(axis.domain)[1] for axis in reduced}
    found = set(conjuncts(start.cond))
    if not found <= set(ends) or any(cond not in found and extent is not const(1) for cond, extent in ends.items()):
        return None
    stored = [{(s.tensor, s.indices) for s in part if isinstance(s, Store)} for part in (start.stmts, updates)]
    return seq(*start.stmts) if stored[0] == stored[1] else None


# -- kinds ----------------------------------------------------------------------------------------------------------


def _with_kinds(axes: Sequence[BlockAxis], body: Stmt, scope: Scope) -> list[BlockAxis]:
    if any(isinstance(stmt, Evaluate) for stmt in statements(body)):
        return list(axes)
    reduced = {axis.var for axis in _reduced(body, axes)}
    independent = _independent(axes, body, scope)
    kinds = {**dict.fromkeys(reduced, AxisKind.REDUCTION), **dict.fromkeys(independent, AxisKind.SPATIAL)}
    return [axis._replace(kind=kinds.get(axis.var, AxisKind.OPAQUE)) for axis in axes]


def _reduced(body: Stmt, axes: Sequence[BlockAxis]) -> list[BlockAxis]:
    """The axes of a commutative update: an element combined with values that do not read its tensor."""
    if not isinstance(body, Store) or not _combines(body):
        return []
    used = set(variables(*body.indices))
    return [axis for axis in axes if axis.var not in used]


def _combines(store: Store) -> bool:
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


def _independent(axes: Sequence[BlockAxis], body: Stmt, scope: Scope) -> set[Var]:
    """The axes of which different values touch different elements of every tensor that the body writes."""
    made = {stmt.tensor for stmt in statements(body) if isinstance(stmt, Allocate)}
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
    mapped = [e for e in indices if not opaque_terms(e)]
    if not {axis.var for axis in axes} <= set(variables(*mapped)):
        return False
    own = {axis.var: axis.domain for axis in axes}
    ctx = scope.ctx.extended(ranges=own)
    return IterMap(ctx, tuple(own), [e for e in mapped if own.keys() & set(variables(e))]).found
