"""Sliding windows: the new elements of an iteration, for a stage with storage further out (`store_at`).

With `N(t)` the footprint of iteration `t` of the loops between storage and stage (`StageBounds.slid`), it computes

    N(t) minus the union of N(t') over all t' lexicographically before t.

Guarantee: every element is computed once, by its first iteration. A superset of the difference may be computed (a box,
whole tiles), but only computed elements are subtracted: `N(t')` counts iterations that run and reach the stage.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from bound.infer.footprints.box import Box, SymbolicInterval
from bound.infer.footprints.environment import LoopEnvironment
from bound.infer.footprints.footprint import Footprint, footprint_of_shape, shape_of
from bound.infer.footprints.instances import instances, transitive_ranges
from bound.infer.phases.stage_bounds import SlidingWindow, StageBounds
from bound.schedule import Stage
from intset.budgets import SLIDE, SLIDE_ENDS
from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.build import logical_and, logical_or, maximum, select
from intset.expr.node import Cond, Expr, Var, as_expr, truth
from intset.expr.range import Range
from intset.expr.walk import chain, conjuncts, postorder, substitute
from intset.linear.form import Linear
from intset.regions.shape import Shape

_MAX_NODES: Final = 60  # of these ends; beyond it, the ends of the footprint


def enclosing_guards(all_bounds: Mapping[Stage, StageBounds], bounds: StageBounds) -> list[Cond]:
    """The guards of outer stages over loops around the stage: they hold whenever it is reached."""
    guards: list[Cond] = []
    for stage in dict.fromkeys(stage for stage, _ in bounds.path):
        loops = {iv for at, iv in bounds.path if at is stage}
        further_in = {iv for iv in stage.leaf_iter_vars if iv not in loops}
        parts = [part for guard in all_bounds[stage].guards for part in conjuncts(guard)]
        guards += [part for part in parts if not further_in.intersection(part.free_vars())]
    return guards


def new_elements(
    env: LoopEnvironment, bounds: StageBounds, footprint: Footprint, running: Sequence[Cond] = ()
) -> Footprint:
    """The elements of a footprint that no earlier iteration computed.

    Stages without kept elements compute the whole footprint. Beyond the budget, `bounds.slid` becomes empty: the
    stage is stored where it is computed.
    """
    if not bounds.slid:
        return footprint
    try:
        with env.budget(SLIDE):
            whole = reached_footprint(env, bounds, footprint, running)
            new = whole.subtract(in_earlier_iterations(env, whole, bounds.slid)).coalesced()
            advance = _advance(env, bounds, footprint, new)
        if advance is not None:
            return advance
        difference = footprint_of_shape(env, footprint.dims, new, footprint.exact, footprint.notes)
        difference.write_hull_within(env, SLIDE_ENDS, _MAX_NODES, footprint.hull(env))
    except BudgetError as error:
        bounds.slid = ()
        return footprint.with_notes(f"{error}: what earlier iterations computed is not kept")
    difference.limits = footprint.limits
    return difference


def _advance(env: LoopEnvironment, bounds: StageBounds, footprint: Footprint, new: Shape) -> Footprint | None:
    """The new elements as a box: the whole footprint in the first iteration, then the elements past the last end.

    Returns `None` unless the footprint is a box that advances in one dimension. Sets `bounds.window` if it never moves
    back.
    """
    if footprint.box is None:
        return None
    sides = footprint.box.sides
    moving = [k for k, side in enumerate(sides) if any(_names(f, bounds.slid) for f in (*side.lows, *side.highs))]
    if len(moving) != 1:
        return None
    side, last = sides[moving[0]], bounds.slid[-1]
    ends = [high for high in side.highs if _names(high, bounds.slid)]
    step = ends[0].terms.get(last, 0) if len(ends) == 1 else 0
    if step < 1:
        return None
    begins = {v: as_expr(r.min) for v, r in transitive_ranges(env, bounds.slid).items() if v in bounds.slid}
    start = maximum(*(low.expr() for low in side.lows))
    first = env.context.simplify(substitute(start, begins))
    is_first = logical_and(*(v.eq(begin) for v, begin in begins.items()))
    low = select(is_first, first, ends[0].shift(1 - step).expr())
    window = SymbolicInterval((Linear(0, {low: 1}),), side.highs)
    box = Box((*sides[: moving[0]], window, *sides[moving[0] + 1 :]), footprint.box.where, footprint.box.also)
    run = instances(env, [v for v in box.variables() if v in env.ranges])
    here, there = shape_of(env, box).intersect_params(run), new.intersect_params(run)
    if not (here.includes(there) and there.includes(here)):
        return None
    advanced = Footprint(footprint.dims, box, new, footprint.exact, footprint.notes)
    if _moves_on(env, bounds.slid, start):
        choices = [e for e in postorder((start,)) if isinstance(e, Expr) and e.op is ops.SELECT]
        chosen = {e: as_expr(e.args[2]) for e in choices if e.args[0] is is_first}
        starts = [(first, substitute(ends[0].expr(), begins)), (substitute(start, chosen), ends[0].expr())]
        filled = [SymbolicInterval(tuple(map(env.form, chain(ops.MAX, a))), (env.form(z),)) for a, z in starts]
        bounds.window = SlidingWindow(advanced, moving[0], tuple(filled))
    return advanced


def _moves_on(env: LoopEnvironment, slid: Sequence[Var], start: Expr) -> bool:
    """Whether a value is monotone: nondecreasing over iterations."""
    after = {v: Var(f"{v.name}.after") for v in slid}
    ranges = transitive_ranges(env, (*slid, *start.free_vars()))
    later_on = {
        after[v]: Range(*(substitute(as_expr(e), after) for e in (ranges[v].min, ranges[v].extent))) for v in slid
    }
    context = env.context.extended({**ranges, **later_on}, [_precedes([(v, after[v]) for v in slid])])
    return bool(context.prove(substitute(start, after) >= start))


def _names(form: Linear, variables: Collection[Var]) -> bool:
    return any(v in variables for e in form.terms for v in e.free_vars())


def reached_footprint(
    env: LoopEnvironment, bounds: StageBounds, footprint: Footprint, running: Sequence[Cond]
) -> Shape:
    """A footprint restricted to iterations that run and reach the stage."""
    ranges = transitive_ranges(env, (*bounds.slid, *bounds.fixed))
    inside = [cond for v, r in ranges.items() for cond in (v >= as_expr(r.min), v <= as_expr(r.max))]
    run = env.shapes.where((), logical_and(*inside, *running))
    hidden = [v for v in ranges if v not in bounds.fixed]  # threads sharing the storage
    return footprint.shape(env).intersect_params(project_variables(run, hidden))


def in_earlier_iterations(env: LoopEnvironment, whole: Shape, slid: Sequence[Var]) -> Shape:
    """The union of `whole` over all earlier iterations of the loops `slid`."""
    before = {v: Var(f"{v.name}.before") for v in slid}
    order = _precedes([(before[v], v) for v in slid])
    return project_variables(whole.at(before).intersect_params(env.shapes.where((), order)), before.values())


def in_later_iterations(env: LoopEnvironment, whole: Shape, slid: Sequence[Var]) -> Shape:
    """The union of `whole` over all later iterations of the loops `slid`."""
    after = {v: Var(f"{v.name}.after") for v in slid}
    order = _precedes([(v, after[v]) for v in slid])
    return project_variables(whole.at(after).intersect_params(env.shapes.where((), order)), after.values())


def project_variables(shape: Shape, variables: Collection[Var]) -> Shape:
    """Project out variables: the union of a shape over their values.

    Raises
    ------
    BudgetError: a nonlinear term, opaque to the shape, mentions one of them.
    """
    left = shape.without(variables)
    term = next((e for e in left.atoms() if any(v in variables for v in e.free_vars())), None)
    if term is not None:
        raise BudgetError(f"{term} is not affine")
    return left


def _precedes(pairs: Sequence[tuple[Var, Var]]) -> Cond:
    """Lexicographic order of two tuples, given as pairs of coordinates."""
    cases: list[Cond] = []
    same: list[Cond] = []
    for first, second in pairs:
        cases.append(logical_and(*same, first < second))
        same.append(first.eq(second))
    return logical_or(*cases) if cases else truth(False)
