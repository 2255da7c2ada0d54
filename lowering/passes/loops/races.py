"""Races between iterations of parallel loops.

They are decided in two steps. First by index: `c * i + r` tells iterations apart if inner loops change `r` by less
than `c`. Otherwise by the dependences of the loop, exactly. Undecided races (data-dependent indices, an exhausted
budget) are left to the user's responsibility.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from bound.tensor import Tensor
from intset.errors import BudgetError, IntSetError
from intset.expr.node import Cond, Expr, Var
from intset.linear.form import Linear
from lowering.dataflow.reaching import Dependences
from lowering.errors import LayoutError
from lowering.nest.driver import Descent, cursors, walked
from lowering.nest.ir import For, Function, If, Let, LoopKind, Stmt
from lowering.nest.tensors import ElementAccess, element_accesses
from lowering.nest.walk import bound_in, statements
from lowering.passes.affine import Loops, form_of


class Race(NamedTuple):
    """Two iterations of a parallel loop that touch an element of a tensor, and which; `None` where that depends on
    sizes."""

    loop: For
    tensor: Tensor
    iterations: tuple[int, int] | None
    element: tuple[int, ...] | None


class NestedAccess(NamedTuple):
    """An access, and the loops and conditions around it inside a given loop."""

    access: ElementAccess
    steps: tuple[For | Cond, ...]

    @property
    def loops(self) -> tuple[For, ...]:
        return tuple(step for step in self.steps if isinstance(step, For))


def races(f: Function) -> Iterator[Race]:
    """The parallel loops of a function with iterations that certainly touch one element, one of them storing."""
    if not any(isinstance(s, For) and s.kind is LoopKind.PARALLEL for s in statements(f.body)):
        return
    for place in cursors(f):
        loop = place.stmt
        if isinstance(loop, For) and loop.kind is LoopKind.PARALLEL and not _is_apart(loop):
            found = _race(loop, Dependences(f, loop, place.scope))
            if found is not None:
                yield found


# -- by one index ------------------------------------------------------------------------------------------------------


def _is_apart(loop: For) -> bool:
    """Whether indices alone show that no two iterations access one element that one of them stores."""
    every = nested_accesses(loop, bound_in(loop))
    stores = [one for one in every if one.access.is_store]
    return all(_are_apart(loop.var, a, b) for a in stores for b in every if a.access.tensor is b.access.tensor)


class _Inside(Descent):
    """The loops and conditions around a position, outermost first."""

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[For | Cond, ...] = ()) -> None:
        self.steps = steps

    def inside(self, loop: For) -> _Inside:
        return _Inside((*self.steps, loop))

    def then(self, branch: If) -> _Inside:
        return self._where(branch.cond)

    def otherwise(self, branch: If) -> _Inside:
        return self._where(~branch.cond) if isinstance(branch.cond, Cond) else self

    def after(self, old: Stmt, new: Stmt) -> _Inside:
        if isinstance(old, Let) and isinstance(old.var, Var) and isinstance(old.value, Expr):
            return self._where(old.var.eq(old.value))
        return self

    def _where(self, cond: object) -> _Inside:
        return _Inside((*self.steps, cond)) if isinstance(cond, Cond) else self


def nested_accesses(loop: For, own: Collection[object]) -> list[NestedAccess]:
    """The accesses in the body of a loop, except to the tensors in `own`."""
    return [
        NestedAccess(access, here.steps)
        for stmt, here in walked(loop.body, _Inside())
        for access in element_accesses(stmt)
        if access.tensor not in own
    ]


def _are_apart(var: Var, a: NestedAccess, b: NestedAccess) -> bool:
    pairs = zip(a.access.indices, b.access.indices, strict=True)
    return any(_tells_apart(var, x, y, a.loops, b.loops) for x, y in pairs)


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
    known = Loops().within(*loops)
    lows = [f.const for f in known.least(form) if f.is_const]
    highs = [-f.const for f in known.least(form.scale(-1)) if f.is_const]
    return (max(lows), min(highs)) if lows and highs else None


# -- by sets -----------------------------------------------------------------------------------------------------------


def _race(loop: For, dependences: Dependences) -> Race | None:
    """Find a race between accesses whose iterations are known exactly."""
    for a, b in dependences.pairs():
        if not (dependences.is_exact(a) and dependences.is_exact(b)):
            continue
        try:
            shape = dependences.meetings(a, b, lambda x, y: x[0].ne(y[0]), with_element=True)
        except (BudgetError, LayoutError):
            continue
        if shape is None:
            continue
        tensor, depth = a.storage.tensor, a.loop.depth
        try:
            point = shape.sample()
        except IntSetError:
            point = None
        if point is None:
            return Race(loop, tensor, None, None)
        return Race(loop, tensor, (point[0], point[depth]), point[depth + b.loop.depth :])
    return None
