"""Dependence: pairs of accesses to one element, and races between iterations of parallel loops.

Races are decided in two steps. First by index: `c * i + r` tells iterations apart if inner loops change `r` by less
than `c`. Otherwise by sets of elements, exactly. Undecided races (data-dependent indices, an exhausted budget) are left
to the user's responsibility.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from bound.tensor import Tensor
from bound.tir.walk import loaded_tensor, nodes, read_indices
from intset.errors import BudgetError, IntSetError
from intset.expr.build import logical_and, logical_or
from intset.expr.node import Cond, Expr, PlainVar, Var
from intset.linear.form import Linear
from lowering.dataflow.points import Points
from lowering.dataflow.program import Access, Program, Write
from lowering.errors import LayoutError
from lowering.nest.driver import cursors
from lowering.nest.ir import Allocate, Evaluate, For, Function, LoopKind, Stmt, Store
from lowering.nest.scope import Scope
from lowering.nest.text import end_of
from lowering.nest.walk import children, operands, range_ends, statements
from lowering.passes.affine import Loops, form_of


class Race(NamedTuple):
    """Two iterations of a parallel loop that touch an element of a tensor, and which; `None` where that depends on
    sizes."""

    loop: For
    tensor: Tensor
    iterations: tuple[int, int] | None
    element: tuple[int, ...] | None


class _Touch(NamedTuple):
    tensor: Tensor
    indices: tuple[Expr, ...]
    path: tuple[For, ...]
    is_store: bool


def races(f: Function) -> Iterator[Race]:
    """The parallel loops of a function with iterations that certainly touch one element, one of them storing."""
    if not any(isinstance(s, For) and s.kind is LoopKind.PARALLEL for s in statements(f.body)):
        return
    for place in cursors(f):
        loop = place.stmt
        if isinstance(loop, For) and loop.kind is LoopKind.PARALLEL and not _is_apart(loop):
            found = _race(loop, Meeting(f, loop, place.scope))
            if found is not None:
                yield found


# -- by one index ------------------------------------------------------------------------------------------------------


def _is_apart(loop: For) -> bool:
    """Whether indices alone show that no two iterations access one element that one of them stores."""
    touches = list(_touches(loop))
    stores = [one for one in touches if one.is_store]
    return all(_are_apart(loop.var, a, b) for a in stores for b in touches if a.tensor is b.tensor)


def _touches(loop: For) -> Iterator[_Touch]:
    """The accesses below a loop to tensors shared by all iterations."""
    own = {s.tensor for s in statements(loop) if isinstance(s, Allocate)}
    stack: list[tuple[Stmt, tuple[For, ...]]] = [(loop.body, ())]
    while stack:
        stmt, path = stack.pop()
        below = (*path, stmt) if isinstance(stmt, For) else path
        stack.extend((inner, below) for inner in children(stmt))
        if isinstance(stmt, Store) and stmt.tensor not in own:
            yield _Touch(stmt.tensor, stmt.indices, path, True)
        for node in nodes(*operands(stmt)):
            tensor = loaded_tensor(node)
            if tensor is not None and tensor not in own:
                yield _Touch(tensor, read_indices(node), path, False)


def _are_apart(var: Var, a: _Touch, b: _Touch) -> bool:
    return any(_tells_apart(var, x, y, a.path, b.path) for x, y in zip(a.indices, b.indices, strict=True))


def _tells_apart(var: Var, a: Expr, b: Expr, inside_a: Sequence[For], inside_b: Sequence[For]) -> bool:
    """Whether two indices differ wherever the loop variable does."""
    x, y = form_of(a), form_of(b)
    step = x.terms.get(var, 0)
    if not step or step != y.terms.get(var, 0):
        return False
    (outer, first), (other, second) = _split(x, var, inside_a), _split(y, var, inside_b)
    if not outer.same(other) or any(var in t.free_vars() for t in (*outer.terms, *first.terms, *second.terms)):
        return False
    spans = [_span(form, loops) for form, loops in ((first, inside_a), (second, inside_b))]
    if None in spans:
        return False
    (low, high), (least, most) = (span for span in spans if span is not None)
    return max(abs(low - most), abs(high - least)) < abs(step)


def _split(form: Linear, var: Var, loops: Sequence[For]) -> tuple[Linear, Linear]:
    """Split an index into the contributions of outer and of inner loops."""
    inner = {loop.var for loop in loops}
    moving = {t: k for t, k in form.terms.items() if inner & set(t.free_vars())}
    rest = {t: k for t, k in form.terms.items() if t not in moving and t is not var}
    return Linear(form.const, rest), Linear(0, moving)


def _span(form: Linear, loops: Sequence[For]) -> tuple[int, int] | None:
    known = Loops()
    for loop in loops:
        low, extent = range_ends(loop.range)
        known = known.inside(loop.var, (low,), (end_of(low, extent) - 1,))
    lows = [f.const for f in known.least(form) if f.is_const]
    highs = [-f.const for f in known.least(form.scale(-1)) if f.is_const]
    return (max(lows), min(highs)) if lows and highs else None


# -- by sets -----------------------------------------------------------------------------------------------------------


def _race(loop: For, meeting: Meeting) -> Race | None:
    for a, b in meeting.conflicts():
        try:
            first, second = meeting.points.graph(a), meeting.points.graph(b)
            if not (first.is_exact and second.is_exact):
                continue
            with first.points.budget(MAX_OPERATIONS):
                both = first.keyed(0, False).product_with(second.keyed(0, True), first.dims)
                at = [PlainVar(f"x{k}") for k in range(both.dims)]
                met = both.filter(at, at[0].ne(at[first.instances + first.dims]))
                if met.is_empty():
                    continue
        except BudgetError:
            continue
        tensor = a.storage.tensor
        try:
            point = met.sample()
        except IntSetError:
            point = None
        if point is None:
            return Race(loop, tensor, None, None)
        other = first.instances + first.dims
        return Race(loop, tensor, (point[0], point[other]), point[first.instances : other])
    return None


MAX_OPERATIONS = 1_000_000  # of isl, for two accesses


class StaysError(Exception):
    """The reason why a loop stays unchanged."""


class Meeting:
    """The dependences of one statement of a function.

    Parameters
    ----------
    scope: facts that hold before the statement.
    """

    def __init__(self, f: Function, stmt: Stmt, scope: Scope) -> None:
        used: dict[Tensor, None] = {}
        own = {inner.tensor for inner in statements(stmt) if isinstance(inner, Allocate)}
        for inner in statements(stmt):
            if isinstance(inner, Store):
                used[inner.tensor] = None
            if isinstance(inner, Evaluate):
                used.update(dict.fromkeys((*inner.reads, *inner.writes)))
            found = (loaded_tensor(node) for node in nodes(*operands(inner)))
            used.update((t, None) for t in found if t is not None)
        self.points = Points(
            Program(replace(f, params=tuple(t for t in used if t not in own), outputs=(), body=stmt, ctx=scope.ctx))
        )

    def conflicts(self) -> Iterator[tuple[Access, Access]]:
        """Pairs of accesses to one storage; one or both write.

        Storage allocated inside is left out: each iteration has its own.
        """
        program = self.points.program
        for storage in (s for s in program.storages if s.is_param):
            writes = [w for w in program.writes[storage] if w.kind != "assume"]
            every: list[Access] = [*program.reads[storage], *writes]
            for k, a in enumerate(every):
                for b in every[k:]:
                    if (isinstance(a, Write) or isinstance(b, Write)) and not self.points.are_apart(a, b):
                        yield a, b

    def met(
        self, a: Access, b: Access, order: Callable[[Sequence[Var], Sequence[Var]], Cond]
    ) -> tuple[int, ...] | None:
        """Values of the loops around both accesses at which they touch one element, or may, and `order(x, y)` holds.

        Raises
        ------
        LayoutError: sets cannot express the order.
        StaysError: the answer is out of the budget.
        """
        x = [PlainVar(v.name) for v in a.loop.vars]
        y = [PlainVar(v.name) for v in b.loop.vars]
        try:
            met = self.points.kind.everything(len(x) + len(y)).filter([*x, *y], order(x, y))
        except BudgetError as error:
            raise LayoutError(f"whether the order of accesses matters is not known: {error}") from error
        try:
            first, second = self.points.graph(a), self.points.graph(b)
            own, other = range(first.depth), first.instances + first.dims
            with first.points.budget(MAX_OPERATIONS):
                both = first.keyed(0, False).product_with(second.keyed(0, True), first.dims)
                met = both.project([*own, *range(other, other + second.depth)]).intersect(met)
                return None if met.is_empty() else met.sample()
        except BudgetError as error:
            raise StaysError(f"whether the order of accesses matters is out of the budget: {error}") from error


def earlier(x: Sequence[Expr], y: Sequence[Expr]) -> Cond:
    """The condition that one point precedes another in lexicographic order."""
    less = [logical_and(*(a.eq(b) for a, b in zip(x[:k], y[:k], strict=True)), x[k] < y[k]) for k in range(len(x))]
    return logical_or(*less)
