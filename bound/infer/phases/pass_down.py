"""PassDownDomain: ranges of intermediate and leaf axes from root ranges, guards not implied by loops, and the nest.

Guarantee: loops and guards together run over the computed region; loops alone may run past it. `pass_down` leaves all
guards, which other stages may need; `finish_nest` drops the implied ones.

A reduction is initialised by a nest over data axes alone, before the first reduction loop: the data loops inside that
loop stand in this nest, too. A loop fused from data and reduction axes is replaced there by the data axis, so the
initialisation is independent of the length of the reduction, even 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bound.errors import ScheduleError
from bound.infer.footprints.box import SymbolicInterval, end_forms
from bound.infer.footprints.environment import LoopEnvironment, constant_extent
from bound.infer.footprints.footprint import Footprint
from bound.infer.phases.guards import has_cases_of_products, membership_guards, without_implied
from bound.infer.phases.stage_bounds import ReductionInit, StageBounds, StageLoop, StageNest, data_axes
from bound.itervar import IterType, IterVar
from bound.operation import ComputeOp, TensorComputeOp
from bound.schedule import Fuse, IterVarRelation, Rebase, Split, Stage, Tail, simple
from bound.schedule.relations import pass_down_domain, pass_up_index, with_descendants
from bound.schedule.simple import extent, low
from intset.errors import BudgetError
from intset.expr import Cond, Expr, Range, Var, as_expr, dag, ops
from intset.expr.build import floordiv, minimum
from intset.linear.form import Linear


def pass_down(
    env: LoopEnvironment, bounds: StageBounds, region_of_loops: Callable[[], Footprint | None] = lambda: None
) -> None:
    """PassDownDomain for one stage: set ranges, loops, values and guards from the root ranges.

    Parameters
    ----------
    region_of_loops: a region that the current loops never leave, without guards of the computed region, if known.

    Raises
    ------
    ScheduleError: a thread axis has no extent.
    """
    stage = bounds.stage
    threads = [iv for iv in (*bounds.outer, *stage.leaf_iter_vars) if stage.thread_of(iv) is not None]
    bounds.ranges = pass_down_domain(bounds.relations, bounds.ranges, threads)
    for iv in stage.leaf_iter_vars:
        if iv not in bounds.ranges:
            if iv.dom is None:
                raise ScheduleError(
                    f"stage {stage.name}: the thread axis {iv.name} of env_threads has no extent: declare it, "
                    f'as in thread_axis((0, 32), "{iv.thread_tag}")'
                )
            bounds.ranges[iv] = iv.dom
    for iv in stage.leaf_iter_vars:  # outer loops first: shrinking loops depend on them
        bounds.loops[iv] = loop_range(env, bounds, iv)
        env.add(iv, bounds.loops[iv])
    around = {iv: env.ranges[iv] for iv in bounds.outer}
    leaves = {iv: low(r) if constant_extent(r) == 1 else iv for iv, r in {**around, **bounds.loops}.items()}
    values = pass_up_index(bounds.relations, bounds.ranges, leaves)
    bounds.values = {iv: values[iv] for iv in stage.op.root_iter_vars if iv in values}
    inside = region_of_loops()
    if inside is not None:
        bounds.computed, bounds.stays_inside = inside, True
    try:
        bounds.guards = tuple(all_guards(env, bounds, values))
    except BudgetError as error:
        footprint = bounds.region
        note = f"{error}: the guard could not be written, the box is computed"
        bounds.computed = footprint.with_box(footprint.hull(env), note)
        bounds.guards = tuple(all_guards(env, bounds, values))


def finish_nest(env: LoopEnvironment, bounds: StageBounds) -> None:
    """Keep the guards that loops and other guards do not imply, and initialise the reduction."""
    around = [*(iv for _, iv in bounds.path), *bounds.stage.leaf_iter_vars]
    bounds.guards = without_implied(env, around, bounds.guards)
    bounds.start = _create_reduction_init(env, bounds)


def loop_range(env: LoopEnvironment, bounds: StageBounds, iv: IterVar) -> Range:
    """The range of a loop; the last tile of a shrinking split ends with its parent."""
    split = shrinking(bounds, iv)
    if split is None:
        return bounds.ranges[iv]
    total, width = extent(bounds.ranges[split.parent]), extent(bounds.ranges[iv])
    if not split.overruns(bounds.ranges):
        return bounds.ranges[iv]
    start = simple.mul(split.outer, width)
    ends = [env.form(end - start).expr() for end in dag.chain(ops.MIN, total)]
    return Range(0, minimum(width, *ends))


def shrinking(bounds: StageBounds, iv: IterVar) -> Split | None:
    """The split with the shrinking inner loop `iv`, if its outer loop is further out; else `None`."""
    position = {leaf: k for k, leaf in enumerate((*bounds.outer, *bounds.stage.leaf_iter_vars))}
    for relation in bounds.relations:
        if isinstance(relation, Split) and relation.inner is iv and relation.tail is Tail.SHRINK:
            is_thread = bounds.stage.thread_of(iv) is not None
            ordered = relation.outer in position and iv in position and position[relation.outer] < position[iv]
            return relation if ordered and not is_thread else None
    return None


# -- guards -----------------------------------------------------------------------------------------------------------


def all_guards(env: LoopEnvironment, bounds: StageBounds, values: Mapping[IterVar, Expr]) -> list[Cond]:
    """All guards of the body, ordered by their innermost loop."""
    guards: dict[Cond, None] = dict.fromkeys(region_guards(env, bounds, values))
    by_region = bounds.region.box is None and not bounds.stays_inside
    guards.update(dict.fromkeys(split_guards(env, bounds, bounds.relations, values, by_region)))
    depth: dict[Var, int] = {leaf: k + 1 for k, leaf in enumerate(bounds.stage.leaf_iter_vars)}
    return sorted(guards, key=lambda cond: max((depth.get(v, 0) for v in cond.free_vars()), default=0))


def region_guards(env: LoopEnvironment, bounds: StageBounds, values: Mapping[IterVar, Expr]) -> list[Cond]:
    """Guards that keep the loops inside the computed region."""
    if bounds.stays_inside:
        return []
    footprint = bounds.region
    guards: list[Cond] = []
    axes = data_axes(bounds.op)
    if axes and footprint.box is None:
        point = [values[iv] for iv in axes if iv in values]
        guards += membership_guards(env, bounds, point, overrun_roots(bounds))
    elif axes and footprint.box is not None:
        kept = _forms_of_ends(env, bounds, values)
        where = (form for form in footprint.box.where if not any(form.same(other) for other in kept))
        guards += [form.expr() >= 0 for form in where] + list(footprint.box.also)
    for iv in bounds.op.root_iter_vars:
        if iv in bounds.widened and iv in values:
            end = _unpassed_end(env, bounds, iv)
            guards += within_side(env, bounds, iv, values[iv], end, footprint.box is None)
    return guards


def _unpassed_end(env: LoopEnvironment, bounds: StageBounds, iv: IterVar) -> Linear | None:
    """The last element of an aligned root axis whose loops never pass it; `None` if a split may pass it."""
    rounds = any(isinstance(r, Split) and r.tail is Tail.ROUND_UP for r in bounds.relations)
    if rounds or iv not in bounds.aligned or iv in overrun_roots(bounds):
        return None
    return env.form(extent(bounds.ranges[iv])).shift(-1)


def _forms_of_ends(env: LoopEnvironment, bounds: StageBounds, values: Mapping[IterVar, Expr]) -> list[Linear]:
    """Forms that are nonnegative because loops never pass the ends of aligned roots."""
    forms: list[Linear] = []
    for iv in bounds.op.root_iter_vars:
        end = _unpassed_end(env, bounds, iv)
        if end is None or iv not in values:
            continue
        value = values[iv]
        forms.append(end.minus(env.form(value)))
        if value.op is ops.FLOORMOD:
            whole, divisor = value.args
            forms.append(end.minus(env.form(whole - divisor * floordiv(whole, divisor))))
    return forms


def within_side(
    env: LoopEnvironment,
    bounds: StageBounds,
    iv: IterVar,
    value: Expr,
    end: Linear | None = None,
    by_region: bool = False,
) -> list[Cond]:
    """The unproved conditions that a root axis of this value lies in its interval.

    A lower end needs a condition only for aligned axes: other loops start at it.

    Parameters
    ----------
    end: an upper end that loops never pass.
    by_region: whether guards of membership in the region imply the ends that they do not assume.
    """
    side = bounds.sides[iv]
    if by_region and iv in data_axes(bounds.op):
        lows, highs = ([f for f in forms if not has_cases_of_products(f.expr())] for forms in (side.lows, side.highs))
        side = SymbolicInterval(tuple(lows), tuple(highs))
    above = below(env, value, side, end)
    if iv not in bounds.aligned:
        return above
    return [*(value >= low.expr() for low in side.lows if not _is_at_most(env, low, env.form(value))), *above]


def below(env: LoopEnvironment, value: Expr, side: SymbolicInterval, end: Linear | None = None) -> list[Cond]:
    """The unproved conditions that a value is at most the upper end of an interval."""
    form = env.form(value)
    conditions = []
    for high in side.highs:
        ends = [e for e in end_forms(env, high.expr(), ops.MIN) if end is None or not e.same(end)]
        if not all(_is_at_most(env, form, e) for e in ends):
            conditions.append(value <= high.expr())
    return conditions


def _is_at_most(env: LoopEnvironment, low: Linear, high: Linear) -> bool:
    """Whether `low <= high` is proved, directly or for dividends of quotients by one size."""
    if env.is_nonneg(high.minus(low)):
        return True
    one, other = _quotient(low), _quotient(high)
    if one is None or other is None or one[1] is not other[1]:
        return False
    return env.is_nonneg(env.form(one[1])) and env.is_nonneg(env.form(other[0] - one[0]))


def _quotient(form: Linear) -> tuple[Expr, Expr] | None:
    """Dividend and divisor of a form that is a single quotient, else `None`."""
    term = next(iter(form.terms), None)
    if term is None or len(form.terms) > 1 or form.terms[term] != 1 or form.const or term.op is not ops.FLOORDIV:
        return None
    return term.args[0], term.args[1]


def split_guards(
    env: LoopEnvironment,
    bounds: StageBounds,
    relations: Sequence[IterVarRelation],
    values: Mapping[IterVar, Expr],
    by_region: bool = False,
) -> list[Cond]:
    """Guards that keep the loops of splits inside their parents; `by_region` as for `within_side`."""
    guards: list[Cond] = []
    above = roots_above(bounds)
    for relation in relations:
        if not isinstance(relation, Split) or relation.parent not in values or shrinks(bounds, relation):
            continue
        root = above.get(relation.parent)
        if root is not None and (relation.overruns(bounds.ranges) or runs_over(bounds, relation)):
            guards += within_side(env, bounds, root, values[root], by_region=by_region)
        elif relation.overruns(bounds.ranges):
            end = extent(bounds.ranges[relation.parent]) - 1
            value = values[relation.parent]
            if not env.is_nonneg(env.form(end - value)):
                guards.append(value <= env.form(end).expr())
    return guards


def overrun_roots(bounds: StageBounds) -> set[IterVar]:
    """The roots whose loops run past the end of the range; a guard stops them."""
    above = roots_above(bounds)
    return {
        above[r.parent]
        for r in bounds.relations
        if isinstance(r, Split)
        and r.parent in above
        and not shrinks(bounds, r)
        and (r.overruns(bounds.ranges) or runs_over(bounds, r))
    }


def shrinks(bounds: StageBounds, split: Split) -> bool:
    """Whether the inner loop ends with its parent, which needs no guard."""
    return split.tail is Tail.SHRINK and shrinking(bounds, split.inner) is split


def roots_above(bounds: StageBounds) -> dict[IterVar, IterVar]:
    """Each root, and each rebased root, mapped to the root."""
    above = {iv: iv for iv in bounds.op.root_iter_vars}
    for relation in bounds.relations:
        if isinstance(relation, Rebase) and relation.parent in above:
            above[relation.rebased] = above[relation.parent]
    return above


def runs_over(bounds: StageBounds, split: Split) -> bool:
    """Whether a split further below overruns its parent without a guard."""
    below = with_descendants(bounds.relations, split.children)
    further = (r for r in bounds.relations if isinstance(r, Split) and r.parent in below)
    return any(overruns_unguarded(bounds, relation) for relation in further)


def overruns_unguarded(bounds: StageBounds, split: Split) -> bool:
    """Whether a split computes whole tiles past the end of its parent."""
    if split.tail is not Tail.ROUND_UP:
        return False
    covered = split.covered(bounds.ranges)
    return covered is None or covered != simple.number(extent(bounds.ranges[split.parent]))


# -- how ranges have to be --------------------------------------------------------------------------------------------


def uniform_roots(stage: Stage, relations: Sequence[IterVarRelation], with_nparts: bool = True) -> set[IterVar]:
    """The roots that need one extent for all instances.

    These are fused roots, roots split by `nparts` or with shifting tiles (their indices would not be affine), and roots
    with threaded, unrolled, vectorized or tensorized loops.
    """
    marked: set[IterVar] = set()
    for iv in stage.leaf_iter_vars:
        if stage.thread_of(iv) is not None or stage.kind_of(iv) in _FIXED_KINDS:
            marked.add(iv)
    for relation in reversed(relations):
        if isinstance(relation, Fuse) or any(child in marked for child in relation.children):
            marked.update(relation.parents)
        elif isinstance(relation, Split) and (
            relation.tail in _FIXED_TAILS or (relation.factor is None and with_nparts)
        ):
            marked.add(relation.parent)
    return marked


_FIXED_KINDS = (IterType.UNROLLED, IterType.VECTORIZED, IterType.TENSORIZED)
_FIXED_TAILS = (Tail.SHIFT_INWARDS, Tail.ROUND_UP)


def rounded_up(relations: Sequence[IterVarRelation], root: IterVar, total: Expr) -> Expr:
    """The extent of a root axis, rounded up to whole tiles if its split rounds up."""
    split = _split_of_root(relations, root)
    if split is None or split.tail is not Tail.ROUND_UP:
        return total
    size = split.nparts if split.factor is None else split.factor
    assert size is not None
    return simple.mul(simple.ceildiv(total, size), size)


def rounds_up(relations: Sequence[IterVarRelation], root: IterVar) -> bool:
    """Whether the split of a root axis rounds up."""
    split = _split_of_root(relations, root)
    return split is not None and split.tail is Tail.ROUND_UP


def _split_of_root(relations: Sequence[IterVarRelation], root: IterVar) -> Split | None:
    axis = root
    for relation in relations:
        if isinstance(relation, Rebase) and relation.parent is axis:
            axis = relation.rebased
        elif isinstance(relation, Split) and relation.parent is axis:
            return relation
    return None


def nest_of(bounds: StageBounds) -> StageNest:
    """The nest of a stage for a code generator."""
    loops = tuple(loop_of(bounds, iv) for iv in bounds.stage.leaf_iter_vars)
    values = {iv: as_expr(e) for iv, e in bounds.values.items()}
    return StageNest(bounds.stage, loops, values, bounds.guards, bounds.start)


def loop_of(bounds: StageBounds, iv: IterVar) -> StageLoop:
    """A loop of a stage with its thread and kind."""
    return StageLoop(iv, bounds.loops[iv], bounds.stage.thread_of(iv), bounds.stage.kind_of(iv))


def _create_reduction_init(env: LoopEnvironment, bounds: StageBounds) -> ReductionInit | None:
    """The initialisation for a stage with known loops; `None` without a reduction."""
    op, leaves = bounds.op, bounds.stage.leaf_iter_vars
    if not isinstance(op, (ComputeOp, TensorComputeOp)) or not op.reduce_axis:
        return None
    kinds = _constituents(bounds)
    reducing = {iv for iv, (reduces, _) in kinds.items() if reduces}
    position = next((k for k, iv in enumerate(leaves) if iv in reducing and not _is_one(bounds, iv)), len(leaves))
    relations = tuple(r for r in bounds.relations if not reducing.intersection(r.children))
    loops = {iv: _loop(bounds, iv) for iv in _inside(bounds, kinds, position)}
    points: dict[IterVar, Expr] = {
        iv: low(env.ranges[iv]) if constant_extent(env.ranges[iv]) == 1 else iv
        for iv in (*bounds.outer, *leaves[:position])
        if iv not in reducing
    }
    for iv, loop in loops.items():
        env.add(loop.iv, loop.range)
        own = low(loop.range) if constant_extent(loop.range) == 1 else loop.iv
        points[iv] = own if loop.iv is iv else as_expr(own + low(bounds.ranges[iv]))
    values = pass_up_index(relations, bounds.ranges, points)
    values = {iv: as_expr(values[iv]) for iv in op.root_iter_vars if iv in values and iv not in reducing}
    is_mixed = any(kinds[r.children[0]] == (True, True) for r in bounds.relations)  # the data loops are new
    inside = bounds.stays_inside and not is_mixed
    apart = replace(bounds, relations=relations, values=values, stays_inside=inside)
    around = [*(iv for _, iv in bounds.path), *leaves[:position], *(loop.iv for loop in loops.values())]
    guards = without_implied(env, around, all_guards(env, apart, pass_up_index(relations, bounds.ranges, points)))
    return ReductionInit(position, tuple(loops.values()), values, guards)


def _constituents(bounds: StageBounds) -> dict[IterVar, tuple[bool, bool]]:
    """For each axis, whether it contains reduction axes, and whether it contains data axes.

    Reduction axes of extent 1 do not count: no loop runs over them.
    """
    reduced = {iv for iv in bounds.op.root_iter_vars if iv.is_reduce and constant_extent(bounds.ranges[iv]) != 1}
    leaves = (*bounds.outer, *bounds.stage.leaf_iter_vars)
    kinds = {iv: (iv in reduced, iv not in reduced) for iv in (*leaves, *bounds.op.root_iter_vars)}
    for relation in bounds.relations:
        starts = [kinds.setdefault(iv, (False, True)) for iv in relation.parents]
        both = any(reduces for reduces, _ in starts), any(data for _, data in starts) or not starts
        kinds.update(dict.fromkeys(relation.children, both))
    return kinds


def _inside(bounds: StageBounds, kinds: Mapping[IterVar, tuple[bool, bool]], position: int) -> list[IterVar]:
    """The data axes with loops from `position` inwards, ordered by their first loops."""
    leaves = bounds.stage.leaf_iter_vars
    fused = [
        iv
        for relation in bounds.relations
        if kinds[relation.children[0]][0]
        for iv in relation.parents
        if not kinds[iv][0]
    ]

    def first(iv: IterVar) -> int:
        below = with_descendants(bounds.relations, (iv,))
        return next(k for k, leaf in enumerate(leaves) if leaf in below)

    return sorted((*(iv for iv in leaves[position:] if not kinds[iv][0]), *fused), key=first)


def _loop(bounds: StageBounds, iv: IterVar) -> StageLoop:
    """The loop of an axis; a new one from 0 without one."""
    if iv in bounds.loops:
        return loop_of(bounds, iv)
    return StageLoop(iv.part(iv.name), Range(0, bounds.ranges[iv].extent), None, IterType.DATA_PAR)


def _is_one(bounds: StageBounds, iv: IterVar) -> bool:
    return constant_extent(bounds.loops[iv]) == 1
