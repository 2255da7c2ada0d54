"""Sliding windows: what a stage that keeps what it computed has to compute in one iteration of the loops in between.

Where the storage of a stage is further out than the stage, each iteration of the loops in between (`StageBounds.slid`)
finds what those before it computed. With `N(t)` the need of iteration `t` it computes

    N(t) minus the union of all N(t') with t' before t in lexicographic order,

as sets, so every element is computed once, by the first iteration that needs it. What an iteration computes may be a
superset of its difference (a box, whole tiles); what is taken off is never more than what was computed: `N(t')` counts
only where the loops run and the stage is reached.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from bound.infer.needs.instances import closed
from bound.infer.needs.known import Known
from bound.infer.needs.need import Need, from_shape
from bound.infer.phases.stage_bounds import StageBounds
from bound.schedule import Stage
from intset.errors import BudgetError
from intset.expr.build import logical_and, logical_or
from intset.expr.node import Cond, Var, as_expr, truth
from intset.expr.walk import conjuncts
from intset.regions.shape import Shape

_OPERATIONS: Final = 1_000_000  # of the domain, for the difference of one stage
_END_OPERATIONS: Final = 300_000  # for its ends in each iteration
_MAX_NODES: Final = 60  # of these; else the ends are those of the need


def conditions_around(all_bounds: Mapping[Stage, StageBounds], bounds: StageBounds) -> list[Cond]:
    """The guards of the loops around a stage that are decided before it is reached."""
    found: list[Cond] = []
    for stage in dict.fromkeys(stage for stage, _ in bounds.path):
        loops = {iv for at, iv in bounds.path if at is stage}
        further_in = {iv for iv in stage.leaf_iter_vars if iv not in loops}
        parts = [part for guard in all_bounds[stage].guards for part in conjuncts(guard)]
        found += [part for part in parts if not further_in.intersection(part.free_vars())]
    return found


def new_of(known: Known, bounds: StageBounds, need: Need, running: Sequence[Cond] = ()) -> Need:
    """What of a need no earlier iteration computed; the need itself for a stage that keeps nothing, as one does of
    which the difference is not found: it is stored where it is computed then."""
    if not bounds.slid:
        return need
    try:
        with known.budget(_OPERATIONS):
            whole = needed(known, bounds, need, running)
            new = whole.subtract(earlier(known, whole, bounds.slid)).coalesced()
        found = from_shape(known, need.dims, new, need.exact, need.notes)
        found.settle_hull(known, _END_OPERATIONS, _MAX_NODES, need.hull(known))
    except BudgetError as error:
        bounds.slid = ()
        return need.noted(f"{error}: what earlier iterations computed is not kept")
    found.limits = need.limits
    return found


def needed(known: Known, bounds: StageBounds, need: Need, running: Sequence[Cond]) -> Shape:
    """A need in the iterations in which it is met."""
    ranges = closed(known, (*bounds.slid, *bounds.fixed))
    inside = [cond for v, r in ranges.items() for cond in (v >= as_expr(r.min), v <= as_expr(r.max))]
    run = known.shapes.where((), logical_and(*inside, *running))
    hidden = [v for v in ranges if v not in bounds.fixed]  # threads that share the storage
    return need.shape(known).within(for_some(run, hidden))


def earlier(known: Known, whole: Shape, slid: Sequence[Var]) -> Shape:
    """The elements that `whole` has in some earlier iteration of the loops `slid`."""
    before = {v: Var(f"{v.name}.before") for v in slid}
    order = _ordered([(before[v], v) for v in slid])
    return for_some(whole.at(before).within(known.shapes.where((), order)), before.values())


def later(known: Known, whole: Shape, slid: Sequence[Var]) -> Shape:
    """The elements that `whole` has in some later iteration of the loops `slid`."""
    after = {v: Var(f"{v.name}.after") for v in slid}
    order = _ordered([(v, after[v]) for v in slid])
    return for_some(whole.at(after).within(known.shapes.where((), order)), after.values())


def for_some(shape: Shape, variables: Collection[Var]) -> Shape:
    """The points that are there for some value of these variables.

    Raises
    ------
    BudgetError: they stand in a term that is not affine, which the set knows by itself.
    """
    left = shape.without(variables)
    term = next((e for e in left.atoms() if any(v in variables for v in e.free_vars())), None)
    if term is not None:
        raise BudgetError(f"{term} is not affine")
    return left


def _ordered(pairs: Sequence[tuple[Var, Var]]) -> Cond:
    """That the first values come before the second ones, lexicographically."""
    cases: list[Cond] = []
    same: list[Cond] = []
    for first, second in pairs:
        cases.append(logical_and(*same, first < second))
        same.append(first.eq(second))
    return logical_or(*cases) if cases else truth(False)
