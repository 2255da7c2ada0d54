"""Nests that read a tensor, with loops over its axes: the other half of `sequential.py`, for nests that store others.

The indices of the reads, as a map from the loops to the axes, are turned round (`IterMap`, with the tensor's own
extents as ranges); a guard is set where the map does not reach all of it. Loops that the indices do not mention stay
inside. What stands beside an inner loop, such as the start of a reduction, gets loops of its own first. That no two
accesses of one element change their order is asked of the sets that the dataflow keeps; sums of integers may.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bound import dtypes
from bound.tensor import Tensor, element
from bound.tir.walk import loaded_tensor, nodes
from intset.errors import BudgetError, UndecidedError
from intset.expr import ops
from intset.expr.build import logical_and, logical_or
from intset.expr.node import Cond, Expr, PlainVar, Var
from intset.expr.range import Range
from intset.expr.walk import opaque_terms
from intset.itermap.itermap import IterMap, iter_map
from lowering.dataflow.points import Points
from lowering.dataflow.program import Access, Program, Write
from lowering.errors import LayoutError
from lowering.nest.ir import Allocate, Evaluate, For, Function, If, LoopKind, Seq, Stmt, Store, seq
from lowering.nest.scope import Scope
from lowering.nest.walk import operands, range_ends, replaced, statements, substitute
from lowering.passes.places import Report
from lowering.passes.simplify import plain

_MOVABLE = (LoopKind.SERIAL, LoopKind.PARALLEL)


class Nest(NamedTuple):
    """Loops around a statement, the outermost first, and the guards between them, which depend on integers alone."""

    loops: tuple[For, ...]
    guards: tuple[Cond, ...]
    body: Stmt

    def stmt(self) -> Stmt:
        """The nest as a statement, its guards inside of all loops."""
        inner = If(logical_and(*self.guards), self.body) if self.guards else self.body
        for loop in reversed(self.loops):
            inner = replace(loop, body=inner)
        return inner


def touches(stmt: Stmt, tensor: Tensor) -> bool:
    """Whether a statement reads or writes elements of a tensor."""
    for inner in statements(stmt):
        if isinstance(inner, Store) and inner.tensor is tensor:
            return True
        if isinstance(inner, Evaluate) and tensor in (*inner.reads, *inner.writes):
            return True
        if any(loaded_tensor(node) is tensor for node in nodes(*operands(inner))):
            return True
    return False


def in_reading_order(f: Function, item: For, tensor: Tensor, scope: Scope, said: Report, path: tuple[int, ...]) -> Stmt:
    """A loop nest that reads a tensor, over its axes; the nest itself, and why in the report, where it stays.

    Raises
    ------
    LayoutError: results would change, or the indices cannot be turned round.
    """
    for stmt in statements(item):
        if isinstance(stmt, For) and (stmt.kind not in _MOVABLE or stmt.carried):
            said.say(path, False, f"the loop {stmt.var} is {stmt.kind}, and stays")
            return item
        if isinstance(stmt, Allocate):
            raise LayoutError(f"{stmt.tensor.name} is allocated inside of the loop {item.var}, which stays as it is")
    nests = list(_split(item, (), (), tensor))
    if len(nests) > 1:
        _check_split(_alone(f, item, scope), item, nests)
    found = [_turned(f, nest, tensor, scope) if touches(nest.body, tensor) else None for nest in nests]
    if not any(found):
        said.say(path, False, "the elements are met in order already")
        return item
    turned = [nest.stmt() if new is None else new for nest, new in zip(nests, found, strict=True)]
    said.say(path, True, f"the loops are the axes of {tensor.name}")
    return plain(replace(f, body=seq(*turned), ctx=scope.ctx)).body


# -- splitting ----------------------------------------------------------------------------------------------------


def _split(stmt: Stmt, loops: tuple[For, ...], guards: tuple[Cond, ...], tensor: Tensor) -> Iterator[Nest]:
    """The nests of a statement, in order, each with loops around one statement alone."""
    has_loop = any(isinstance(s, For) and touches(s, tensor) for s in statements(stmt))
    if not has_loop:
        yield Nest(loops, guards, stmt)
    elif isinstance(stmt, For):
        yield from _split(stmt.body, (*loops, stmt), guards, tensor)
    elif isinstance(stmt, Seq):
        for inner in stmt.stmts:
            yield from _split(inner, loops, guards, tensor)
    elif isinstance(stmt, If) and stmt.orelse is None and isinstance(stmt.cond, Cond) and not opaque_terms(stmt.cond):
        yield from _split(stmt.then, loops, (*guards, stmt.cond), tensor)
    else:
        raise LayoutError(f"a branch with loops over {tensor.name} inside stays as it is")


def _alone(f: Function, stmt: Stmt, scope: Scope) -> Points:
    """The accesses of one statement of a function."""
    used: dict[Tensor, None] = {}
    for inner in statements(stmt):
        if isinstance(inner, Store):
            used[inner.tensor] = None
        if isinstance(inner, Evaluate):
            used.update(dict.fromkeys((*inner.reads, *inner.writes)))
        found = (loaded_tensor(node) for node in nodes(*operands(inner)))
        used.update((t, None) for t in found if t is not None)
    return Points(Program(replace(f, params=tuple(used), outputs=(), body=stmt, ctx=scope.ctx)))


def _conflicts(points: Points) -> Iterator[tuple[Access, Access]]:
    """Pairs of accesses of the same storage of which one at least writes."""
    program = points.program
    for storage in program.storages:
        writes = [w for w in program.writes[storage] if w.kind != "assume"]
        every: list[Access] = [*program.reads[storage], *writes]
        for k, a in enumerate(every):
            for b in every[k:]:
                if (isinstance(a, Write) or isinstance(b, Write)) and not points.are_apart(a, b):
                    yield a, b


def _meet(points: Points, a: Access, b: Access, order: Any) -> tuple[int, ...] | None:
    """Values of the loops around both accesses at which they touch one element and `order(x, y)` holds; else `None`.

    Raises
    ------
    LayoutError: that is not known.
    """
    first, second = points.graph(a), points.graph(b)
    both = first.keyed(0, False).product_with(second.keyed(0, True), first.dims)
    own, other = range(first.depth), range(first.instances + first.dims, first.instances + first.dims + second.depth)
    x = [PlainVar(v.name) for v in a.loop.vars]
    y = [PlainVar(v.name) for v in b.loop.vars]
    try:
        met = both.project([*own, *other]).restricted([*x, *y], order(x, y))
        return None if met.is_empty() else met.sample()
    except BudgetError as error:
        raise LayoutError(f"whether the order of accesses matters is not known: {error}") from error


def _before(x: Sequence[Expr], y: Sequence[Expr]) -> Cond:
    """That one point comes before another in lexicographic order."""
    less = [logical_and(*(a.eq(b) for a, b in zip(x[:k], y[:k], strict=True)), x[k] < y[k]) for k in range(len(x))]
    return logical_or(*less)


def _check_split(points: Points, item: For, nests: Sequence[Nest]) -> None:
    """That the nests may run one after another."""
    places = {id(stmt): k for k, nest in enumerate(nests) for stmt in statements(nest.body)}

    def part(access: Access) -> int:
        return places.get(id(access.place.stmt), -1)

    for one, two in _conflicts(points):
        early, late = (one, two) if part(one) <= part(two) else (two, one)
        if part(early) < 0 or part(early) == part(late):
            continue
        shared = len([1 for a, b in zip(early.loop.vars, late.loop.vars, strict=False) if a is b])
        point = _meet(points, early, late, lambda x, y, n=shared: _before(y[:n], x[:n]))
        if point is not None:
            line = early.place.line.text.strip()
            raise LayoutError(f"{line!r} cannot be split off: it depends on what the loop does before", (point,))


# -- turning round ------------------------------------------------------------------------------------------------


def _turned(f: Function, nest: Nest, tensor: Tensor, scope: Scope) -> Stmt | None:
    """The nest with the axes of the tensor as its outer loops; `None` where it has them already."""
    indices = _indices(nest.body, tensor)
    used = [loop for loop in nest.loops if any(loop.var in e.free_vars() for e in indices)]
    rest = [loop for loop in nest.loops if loop not in used]
    axes = [Range(0, extent) for extent in tensor.extents]
    inside = scope
    for loop in nest.loops:
        inside = inside.inside(loop)
    inside = inside.where(*nest.guards)
    own = {loop.var for loop in used}
    for loop in used:
        if any(v in {other.var for other in rest} for e in range_ends(loop.range) for v in e.free_vars()):
            raise LayoutError(f"the range of the loop {loop.var} depends on one that {tensor.name} is not indexed with")
    around = scope
    for loop in used:
        around = around.inside(loop)
    usable = [g for g in nest.guards if all(v in own or v not in _vars(rest) for v in g.free_vars())]
    found = iter_map(around.where(*usable).ctx, [loop.var for loop in used], indices, axes) if used else None
    if found is None or not found.injective:
        why = "" if found is None else f": {found.why_no_inverse()}"
        raise LayoutError(
            f"the indices of {tensor.name} do not tell the loops{why}", found.injective.points if found else ()
        )
    if _is_same(nest, found, indices, rest):
        return None
    _check_order(_alone(f, nest.stmt(), scope), nest, indices, rest)
    return _made(nest, found, rest, axes, usable, tensor)


def _vars(loops: Sequence[For]) -> set[Var]:
    return {loop.var for loop in loops}


def _indices(body: Stmt, tensor: Tensor) -> tuple[Expr, ...]:
    """The indices with which a tensor is accessed, those of stores if there are any."""
    stored: dict[tuple[Expr, ...], None] = {}
    read: dict[tuple[Expr, ...], None] = {}
    for stmt in statements(body):
        if isinstance(stmt, Store) and stmt.tensor is tensor:
            stored[stmt.indices] = None
        for node in nodes(*operands(stmt)):
            if loaded_tensor(node) is tensor:
                read[node.args] = None
        if isinstance(stmt, Evaluate) and tensor in (*stmt.reads, *stmt.writes):
            raise LayoutError(f"a host call touches all of {tensor.name}")
    found = list(stored or read)
    if len(found) != 1:
        raise LayoutError(f"{tensor.name} is accessed at {len(found)} different indices in one loop nest")
    if any(opaque_terms(e) for e in found[0]):
        raise LayoutError(f"the indices of {tensor.name} depend on data")
    return found[0]


def _is_same(nest: Nest, found: IterMap, indices: tuple[Expr, ...], rest: Sequence[For]) -> bool:
    """Whether the loops are the axes already."""
    names = [loop.var for loop in nest.loops]
    if not all(any(e is v for v in names) for e in indices) or [*indices, *(loop.var for loop in rest)] != names:
        return False
    padding = found.padding
    return padding.op is ops.BOOL and not padding.data


def _check_order(points: Points, nest: Nest, indices: Sequence[Expr], rest: Sequence[For]) -> None:
    """That accesses of one element keep their order."""
    own = [loop.var for loop in nest.loops]

    def time(x: Sequence[Var]) -> list[Expr]:
        values = dict(zip(own, x, strict=False))
        return [*(replaced(e, values) for e in indices), *(values[loop.var] for loop in rest)]

    depth = len(own)

    def swapped(x: Sequence[Var], y: Sequence[Var]) -> Cond:
        a, b = x[:depth], y[:depth]
        return (_before(a, b) & _before(time(b), time(a))) | (_before(b, a) & _before(time(a), time(b)))

    for a, b in _conflicts(points):
        if a.loop.depth < depth or b.loop.depth < depth:
            raise LayoutError(f"the range of a loop reads {a.storage.tensor.name}, which the loop writes")
        if a.place is b.place and _adds_up(a.place.stmt):
            continue
        point = _meet(points, a, b, swapped)
        if point is not None:
            line = b.place.line.text.strip()
            raise LayoutError(f"the order in which {line!r} is run matters: at {point}", (point,))


def _adds_up(stmt: Stmt) -> bool:
    """Whether a store adds an integer to its element: in whatever order, the sum is the same."""
    if not isinstance(stmt, Store) or not isinstance(stmt.value, Expr) or stmt.value.op is not ops.ADD:
        return False
    if not dtypes.is_int(stmt.tensor.dtype):
        return False
    held: Any = element(stmt.tensor, stmt.indices)
    a, b = stmt.value.args
    added = b if a is held else a if b is held else None
    return added is not None and all(loaded_tensor(node) is not stmt.tensor for node in nodes(added))


def _made(
    nest: Nest, found: IterMap, rest: Sequence[For], axes: Sequence[Range], known: Sequence[Cond], tensor: Tensor
) -> Stmt:
    """The new loops around the body."""
    places = tuple(PlainVar(f"{tensor.name}{k}".lower()) for k in range(len(axes)))
    try:
        back = found.inverse(places)
        guard = found.arriving_at(places)
    except (UndecidedError, BudgetError) as error:
        raise LayoutError(f"the indices of {tensor.name} cannot be turned round: {error}") from error
    values: dict[Any, Any] = dict(back)
    body = substitute(nest.body, values)
    open_guards = [replaced(g, values) for g in nest.guards if g not in known]
    if open_guards:
        body = If(logical_and(*open_guards), body)
    for loop in reversed(rest):
        low, extent = (replaced(e, values) for e in range_ends(loop.range))
        body = replace(loop, range=Range(low, extent), body=body)
    if guard.op is not ops.BOOL:
        body = If(guard, body)
    elif not guard.data:
        return Seq()
    for var, axis in zip(reversed(places), reversed(axes), strict=True):
        body = For(var, axis, body)
    return body
