"""GatherBound, phase 4 of InferRootBound: the union of the consumers' footprints, and the ranges of the root axes.

Sliding windows: a stage with storage further out (`store_at`) computes the new elements of an iteration. With `N(t)`
the footprint of iteration `t` of the loops between storage and stage (`StageBounds.slid`), these are

    N(t) minus the union of N(t') over all t' lexicographically before t.

Guarantee: the first iteration that needs an element computes it. No other one does, unless the difference is widened
(to a box, to whole tiles); then elements may be computed again. None is missing, because only computed elements are
subtracted: `N(t')` counts iterations that run and reach the stage.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from bound.infer.environment import LoopEnvironment, instances, project_variables, takes_two_values, transitive_ranges
from bound.infer.extents import is_always_empty, max_extent
from bound.infer.footprint import (
    NO_GUARD,
    Box,
    Footprint,
    Outline,
    SymbolicInterval,
    box_around,
    empty_box,
    end_forms,
    footprint_of_shape,
    guarded,
    hull,
    interval,
    is_empty,
    shape_of,
    span,
    union_boxes,
    unproved_gaps,
    whole_tensor,
)
from bound.infer.phases import pass_down
from bound.itervar import IterVar
from bound.schedule import Split, Stage, simple
from bound.schedule.relations import with_ancestors
from bound.schedule.simple import extent, low
from bound.tensor import ComputeOp, Tensor, TensorComputeOp
from intset.errors import BudgetError
from intset.expr import Cond, Expr, Range, Var, as_expr, dag, ops
from intset.expr.build import logical_and, logical_or, select
from intset.expr.range import range_conditions
from intset.linear.form import Linear
from intset.regions.shape import Shape

SLIDE: Final = 1_000_000  # operations of the domain, for one difference
SLIDE_ENDS: Final = 300_000  # operations of the domain for the ends of a difference
UNION: Final = 1_000_000  # operations of the domain, for one union

_MAX_PROVED = 400  # nodes of an extent that is tested for being constant
_MAX_NODES = 40  # a longer extent is replaced by its largest value


def gather(
    env: LoopEnvironment, fixed: Sequence[Var], footprints: Sequence[Footprint], shape: Sequence[Expr]
) -> Footprint:
    """The required region of an output: the union of the footprints of all consumers, within the extents `shape`.

    Parameters
    ----------
    fixed: the loops that distinguish instances.
    """
    footprint = within_tensor(env, union_footprints(env, len(shape), footprints, env.has_regions), shape)
    is_nothing = env.has_regions and is_always_empty(env, footprint, fixed)
    return footprint.with_box(empty_box(len(shape))) if is_nothing else footprint


def within_tensor(env: LoopEnvironment, footprint: Footprint, shape: Sequence[Expr]) -> Footprint:
    """A footprint intersected with a tensor of extents `shape`."""
    ends = whole_tensor(env, shape)
    if footprint.box is None:
        footprint.outline = Outline(_outline_within, env, footprint.outline, ends)
        if not ends.is_affine():
            return footprint
        around = env.shapes.box([(side.lows, side.highs) for side in ends.sides])
        if around.includes(footprint.unguarded):
            return footprint
        return footprint.with_shape(footprint.unguarded.intersect(around), footprint.exact, footprint.notes)
    box = box_within(env, footprint.box, ends)
    return footprint if box is footprint.box else footprint.with_box(box)


def _outline_within(env: LoopEnvironment, outline: Outline | None, ends: Box) -> Box:
    return ends if outline is None else box_within(env, outline.box, ends)


def box_within(env: LoopEnvironment, box: Box, around: Box) -> Box:
    """The intersection of a footprint's box with an outer bound; `box` itself if proved to lie inside."""
    sides = []
    for side, end in zip(box.sides, around.sides, strict=True):
        lows = [low for low in end.lows if not any(env.is_nonneg(form.minus(low)) for form in side.lows)]
        highs = [high for high in end.highs if not any(env.is_nonneg(high.minus(form)) for form in side.highs)]
        if not lows and not highs:
            sides.append(side)
            continue
        lows, highs = [*side.lows, *lows], [*side.highs, *highs]
        sides.append(interval(env, lows, highs) or SymbolicInterval(tuple(lows), tuple(highs)))
    if all(a is b for a, b in zip(sides, box.sides, strict=True)):
        return box
    return Box(tuple(sides), box.where, box.also)


def gather_bound(
    env: LoopEnvironment,
    bounds: pass_down.StageBounds,
    is_boxed: bool,
    shape_of: Callable[[Tensor], tuple[Expr, ...]],
    threads: Mapping[IterVar, int],
    running: Sequence[Cond] = (),
    unconditional: Footprint | None = None,
) -> None:
    """GatherBound: set the computed region and the ranges of the root axes.

    A data axis gets the interval of the computed region in its dimension; every other axis gets its declared domain.

    Parameters
    ----------
    is_boxed: whether the stage computes the outer box of the required region.
    threads: thread axes with more threads than work, with their numbers of threads.
    running: the guards that hold whenever the stage runs.
    unconditional: a box around the required region, computed in its place.
    """
    stage, op = bounds.stage, bounds.op
    shape = shape_of(op.outputs[0])
    if not isinstance(op, (ComputeOp, TensorComputeOp)):
        bounds.wholes = {t: Footprint(t.ndim, whole_tensor(env, shape_of(t))) for t in op.outputs}
        bounds.computed = bounds.wholes[op.outputs[0]]
    else:
        footprints = list(dict.fromkeys(bounds.required.values()))
        footprint = unconditional or union_footprints(env, len(shape), [n for n in footprints if not _is_nothing(n)])
        footprint = new_elements(env, bounds, footprint, running)
        if isinstance(op, TensorComputeOp):
            footprint = _with_whole_tiles(env, footprint, op, shape)
        if footprint.box is None and (is_boxed or stage.is_tensorized):
            footprint = box_around(env, footprint)
            if bounds.aligned:
                assert footprint.box is not None
                footprint = footprint.with_box(footprint.box, "loops that stages share may compute less than the box")
        bounds.computed = _with_rounded_tiles(env, bounds, footprint, shape)
    uniform = pass_down.uniform_roots(stage, bounds.relations)
    by_nparts = [r for r in bounds.relations if isinstance(r, Split) and r.factor is None]
    always = pass_down.uniform_roots(stage, bounds.relations, with_nparts=False) if by_nparts else uniform
    threaded = with_ancestors(bounds.relations, bounds.threads)
    for k, iv in enumerate(pass_down.data_axes(op)):
        side = bounds.sides[iv] = bounds.region.hull(env).sides[k]
        # A tile cut by the end of the tensor alone has one length; tiles of a varying region vary with it.
        if iv in bounds.aligned:
            bounds.ranges[iv] = Range(0, pass_down.rounded_up(bounds.relations, iv, shape[k]))
            bounds.widened.add(iv)
            continue
        is_uniform = iv in always or iv in bounds.foreign or (iv in uniform and any(gap.is_const for gap in side.gaps))
        bounds.ranges[iv] = _root_range(env, bounds, k, iv, is_uniform, iv in threaded, shape[k])
        if iv in threaded:
            _start_threads(bounds, iv, threads)
    for iv in op.root_iter_vars:
        if iv not in bounds.sides:
            assert iv.dom is not None
            domain = bounds.ranges.setdefault(iv, iv.dom)
            bounds.sides[iv] = span(env, domain)
            if iv in threaded:
                _start_threads(bounds, iv, threads)


def _start_threads(bounds: pass_down.StageBounds, root: IterVar, threads: Mapping[IterVar, int]) -> None:
    """Widen the range of a root axis on more threads than it has iterations."""
    count, has = pass_down.started(bounds, root, threads), simple.number(as_expr(bounds.ranges[root].extent))
    if count is not None and has is not None and has < count:
        bounds.ranges[root] = Range(bounds.ranges[root].min, count)
        bounds.widened.add(root)


def _is_nothing(footprint: Footprint) -> bool:
    return footprint.box is not None and any(form.is_const and form.const < 0 for form in footprint.box.where)


def _with_whole_tiles(
    env: LoopEnvironment, footprint: Footprint, op: TensorComputeOp, shape: Sequence[Expr]
) -> Footprint:
    """The region in whole tiles of an intrinsic: axes inside a tile run over the whole tile."""
    box = footprint.hull(env)
    inner = whole_tensor(env, shape).sides[op.schedulable :]
    return footprint.with_box(Box((*box.sides[: op.schedulable], *inner), box.where, box.also))


def _with_rounded_tiles(
    env: LoopEnvironment, bounds: pass_down.StageBounds, footprint: Footprint, shape: Sequence[Expr]
) -> Footprint:
    """The region extended to whole tiles where splits round up, within the tensor."""
    axes = pass_down.data_axes(bounds.op)
    box = None
    for k, iv in enumerate(axes):
        if pass_down.rounding_split(bounds.relations, iv) is None:
            continue
        box = footprint.hull(env) if box is None else box
        side = box.sides[k]
        total = max_extent(env, footprint, k, bounds.fixed, shape[k])
        more = simple.sub(pass_down.rounded_up(bounds.relations, iv, total), total)
        if simple.number(more) == 0:
            continue
        start = low(side.range())
        highs = [env.form(start + (total + more - 1)), env.form(shape[k]).shift(-1)]
        wider = interval(env, side.lows, highs) or SymbolicInterval(side.lows, tuple(highs))
        box = Box((*box.sides[:k], wider, *box.sides[k + 1 :]), box.where, box.also)
    return footprint if box is None else footprint.with_box(box)


def _root_range(
    env: LoopEnvironment,
    bounds: pass_down.StageBounds,
    k: int,
    iv: IterVar,
    is_uniform: bool,
    is_threaded: bool,
    whole: Expr,
) -> Range:
    """The range of the root axis of dimension `k`: exact in each instance, or of maximal length.

    The number of threads does not depend on the tensor: a threaded tile keeps its length.
    """
    side = bounds.sides[iv]
    limits = side.range()
    own = extent(limits)
    number = _only_value(env, bounds, own)
    if number is not None and number > 0:
        exact = Range(limits.min, number)
        if unproved_gaps(env, side, bounds.region.hull(env).where):
            bounds.widened.add(iv)
    elif number is not None:  # never runs, but a loop fused from it needs a length
        bounds.widened.add(iv)
        exact = Range(limits.min, 1)
    elif not is_uniform and _is_short(own):
        exact = limits
    else:
        most = max_extent(env, bounds.region, k, bounds.fixed, whole)
        numbers = [form.const for form in end_forms(env, most, ops.MIN) if form.is_const] if is_threaded else []
        most = as_expr(min(numbers)) if numbers else most
        exact = Range(limits.min, most)
        if not _is_same(env, most, own):
            bounds.widened.add(iv)
    total = pass_down.rounded_up(bounds.relations, iv, extent(exact))
    if total is not exact.extent and not _is_same(env, total, extent(exact)):
        bounds.widened.add(iv)
        return Range(exact.min, total)
    return exact


def _only_value(env: LoopEnvironment, bounds: pass_down.StageBounds, e: Expr) -> int | None:
    """The value of an extent with the same value in every instance, else `None`."""
    number = env.number(e)
    if number is not None or not [t for t in env.form(e).terms if not isinstance(t, Var)]:
        return number
    if env.bounds(env.form(e))[1] == 1:  # the extent of a nonempty region
        return 1
    if not dag.is_small(_MAX_PROVED, (e,)):
        return None
    box = bounds.region.hull(env)
    forms = end_forms(env, e, ops.MIN)
    least = min([form.const for form in forms if form.is_const], default=None)
    if least is not None and all(env.is_nonneg(form.shift(-least), box.nonempty_forms()) for form in forms):
        return least
    ranges = transitive_ranges(env, (*e.free_vars(), *box.variables()))
    alive = box.nonempty_conditions()
    if takes_two_values(env, e, ranges, alive):
        return None
    context = env.context.extended(ranges, alive)
    low, high = context.bounds(e)
    return low.data if isinstance(low, Expr) and low.is_const and low is high else None


def _is_same(env: LoopEnvironment, a: Expr, b: Expr) -> bool:
    return env.form(a).same(env.form(b))


def _is_short(e: Expr) -> bool:
    return dag.is_small(_MAX_NODES, (e,)) and sum(node.op is ops.SELECT for node in dag.postorder((e,))) <= 1


MAX_DISJUNCTS = 160  # larger unions become boxes


def union_footprints(
    env: LoopEnvironment, dims: int, footprints: Sequence[Footprint], with_unions: bool = True
) -> Footprint:
    """The union of several footprints; for a domain without unions their outer box."""
    if len(footprints) == 1 and (footprints[0].box is None or not is_empty(env, footprints[0].box)):
        return footprints[0]
    footprint = _union_footprints(env, dims, footprints, with_unions)
    if footprint.box is None:
        footprint.outline = Outline(_hull_of_all, env, footprints)
    return footprint


def _hull_of_all(env: LoopEnvironment, footprints: Sequence[Footprint]) -> Box:
    return hull(env, [footprint.hull(env) for footprint in footprints])[0]


def _union_footprints(env: LoopEnvironment, dims: int, footprints: Sequence[Footprint], with_unions: bool) -> Footprint:
    notes = [note for footprint in footprints for note in footprint.notes]
    exact = all(footprint.exact for footprint in footprints)
    alone = union_boxes(env, [footprint.box for footprint in footprints if footprint.box is not None])
    others = [footprint for footprint in footprints if footprint.box is None]
    if not others and len(alone) < 2:
        return Footprint(dims, alone[0] if alone else empty_box(dims), None, exact, notes)
    guard = _common_guard(alone) if not others else NO_GUARD
    if with_unions and guard.is_conditional():
        return _union_guarded_boxes(env, dims, [Box(box.sides) for box in alone], guard, exact, notes)
    note = "the box around several needs"
    try:
        if with_unions:
            with env.budget(UNION):
                shapes = [*(shape_of(env, box) for box in alone), *(footprint.shape(env) for footprint in others)]
                total = shapes[0].union_all(shapes[1:])
                if MAX_DISJUNCTS < total.disjuncts() <= 2 * MAX_DISJUNCTS:
                    total = total.disjoint()
            if total.disjuncts() <= MAX_DISJUNCTS:
                footprint = footprint_of_shape(env, dims, total, exact, notes)
                if not others and all(_is_alive(env, box) for box in alone):
                    footprint.set_hull(*hull(env, alone))
                return footprint
            note = f"the region has {total.disjuncts()} parts: its box was used"
    except BudgetError as error:
        note = f"{error}: the box around several needs was used"
    boxes = [*alone, *(footprint.hull(env) for footprint in others)]
    return Footprint(dims, hull(env, boxes)[0], None, False, (*notes, note))


def _common_guard(boxes: Sequence[Box]) -> Box:
    """The common guard of all boxes, else no guard."""
    first = boxes[0]
    keys = {(frozenset(form.key() for form in box.where), box.also) for box in boxes}
    return Box((), first.where, first.also) if len(keys) == 1 else NO_GUARD


def _union_guarded_boxes(
    env: LoopEnvironment, dims: int, bare: Sequence[Box], guard: Box, exact: bool, notes: Sequence[str]
) -> Footprint:
    """The union of boxes under one common guard, which stays apart from the shape."""
    footprint = union_footprints(env, dims, [Footprint(dims, box) for box in bare])
    notes, exact = (*notes, *footprint.notes), exact and footprint.exact
    if footprint.box is not None:
        box = guarded(env, footprint.box, guard)
        return Footprint(dims, box, None, exact, notes)
    return Footprint(dims, None, footprint.shape(env), exact, notes, guard)


def _is_alive(env: LoopEnvironment, box: Box) -> bool:
    """Whether a box is provably nonempty in every instance."""
    return not (box.is_conditional() or any(unproved_gaps(env, side) for side in box.sides))


_MAX_END_NODES: Final = 60  # of these ends; beyond it, the ends of the footprint


def enclosing_guards(all_bounds: Mapping[Stage, pass_down.StageBounds], bounds: pass_down.StageBounds) -> list[Cond]:
    """The guards of outer stages over loops around the stage: they hold whenever it is reached."""
    guards: list[Cond] = []
    for stage in dict.fromkeys(stage for stage, _ in bounds.path):
        loops = {iv for at, iv in bounds.path if at is stage}
        further_in = {iv for iv in stage.leaf_iter_vars if iv not in loops}
        parts = [part for guard in all_bounds[stage].guards for part in dag.conjuncts(guard)]
        guards += [part for part in parts if not further_in.intersection(part.free_vars())]
    return guards


def new_elements(
    env: LoopEnvironment, bounds: pass_down.StageBounds, footprint: Footprint, running: Sequence[Cond] = ()
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
            new = whole.subtract(in_other_iterations(env, whole, bounds.slid, are_earlier=True)).coalesced()
            advance = _advance(env, bounds, footprint, new)
        if advance is not None:
            return advance
        difference = footprint_of_shape(env, footprint.dims, new, footprint.exact, footprint.notes)
        difference.write_hull_within(env, SLIDE_ENDS, _MAX_END_NODES, footprint.hull(env))
    except BudgetError as error:
        bounds.slid = ()
        return footprint.with_notes(f"{error}: what earlier iterations computed is not kept")
    difference.outline = footprint.outline
    return difference


def _advance(env: LoopEnvironment, bounds: pass_down.StageBounds, footprint: Footprint, new: Shape) -> Footprint | None:
    """The new elements as a box: the whole footprint in the first iteration, then the elements past the last end.

    Returns `None` unless the footprint is a box that advances in one dimension. Sets `bounds.window` if it never moves
    back.
    """
    if footprint.box is None:
        return None
    sides = footprint.box.sides
    moving = [k for k, side in enumerate(sides) if any(_names(f, bounds.slid) for f in side.ends)]
    if len(moving) != 1:
        return None
    side, last = sides[moving[0]], bounds.slid[-1]
    ends = [high for high in side.highs if _names(high, bounds.slid)]
    step = ends[0].terms.get(last, 0) if len(ends) == 1 else 0
    if step < 1:
        return None
    begins = {v: as_expr(r.min) for v, r in transitive_ranges(env, bounds.slid).items() if v in bounds.slid}
    start = side.low()
    first = env.context.simplify(dag.substitute(start, begins))
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
        choices = [e for e in dag.postorder((start,)) if isinstance(e, Expr) and e.op is ops.SELECT]
        chosen = {e: as_expr(e.args[2]) for e in choices if e.args[0] is is_first}
        starts = [(first, dag.substitute(ends[0].expr(), begins)), (dag.substitute(start, chosen), ends[0].expr())]
        filled = [SymbolicInterval(tuple(map(env.form, dag.chain(ops.MAX, a))), (env.form(z),)) for a, z in starts]
        bounds.window = pass_down.SlidingWindow(advanced, moving[0], tuple(filled))
    return advanced


def _moves_on(env: LoopEnvironment, slid: Sequence[Var], start: Expr) -> bool:
    """Whether a value is monotone: nondecreasing over iterations."""
    after = {v: Var(f"{v.name}.after") for v in slid}
    ranges = transitive_ranges(env, (*slid, *start.free_vars()))
    later_on = {
        after[v]: Range(*(dag.substitute(as_expr(e), after) for e in (ranges[v].min, ranges[v].extent))) for v in slid
    }
    context = env.context.extended({**ranges, **later_on}, [_precedes([(v, after[v]) for v in slid])])
    return bool(context.prove(dag.substitute(start, after) >= start))


def _names(form: Linear, variables: Collection[Var]) -> bool:
    return any(v in variables for e in form.terms for v in e.free_vars())


def reached_footprint(
    env: LoopEnvironment, bounds: pass_down.StageBounds, footprint: Footprint, running: Sequence[Cond]
) -> Shape:
    """A footprint restricted to iterations that run and reach the stage."""
    ranges = transitive_ranges(env, (*bounds.slid, *bounds.fixed))
    inside = [cond for v, r in ranges.items() for cond in range_conditions(v, r)]
    run = env.shapes.where((), logical_and(*inside, *running))
    hidden = [v for v in ranges if v not in bounds.fixed]  # threads sharing the storage
    return footprint.shape(env).intersect_params(project_variables(run, hidden))


def in_other_iterations(env: LoopEnvironment, whole: Shape, slid: Sequence[Var], are_earlier: bool) -> Shape:
    """The union of `whole` over all earlier, or all later, iterations of the loops `slid`."""
    others = {v: Var(f"{v.name}.other") for v in slid}
    order = _precedes([(others[v], v) if are_earlier else (v, others[v]) for v in slid])
    return project_variables(whole.at(others).intersect_params(env.shapes.where((), order)), others.values())


def _precedes(pairs: Sequence[tuple[Var, Var]]) -> Cond:
    """Lexicographic order of two tuples, given as pairs of coordinates."""
    cases: list[Cond] = []
    same: list[Cond] = []
    for first, second in pairs:
        cases.append(logical_and(*same, first < second))
        same.append(first.eq(second))
    return logical_or(*cases)
