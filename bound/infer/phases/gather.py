"""GatherBound, phase 4 of InferRootBound: the union of the consumers' footprints, and the ranges of the root axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bound.infer.footprints.box import (
    Box,
    SymbolicInterval,
    empty_box,
    end_forms,
    guarded,
    hull,
    interval,
    span,
    union_boxes,
    unproved_gaps,
    whole_tensor,
)
from bound.infer.footprints.enumeration import listed
from bound.infer.footprints.environment import LoopEnvironment
from bound.infer.footprints.extents import is_always_empty, max_extent
from bound.infer.footprints.footprint import NO_GUARD, Footprint, box_around, footprint_of_shape, shape_of
from bound.infer.footprints.instances import takes_two_values, transitive_ranges
from bound.infer.phases.pass_down import rounded_up, rounds_up, uniform_roots
from bound.infer.phases.slide import new_elements
from bound.infer.phases.stage_bounds import StageBounds, data_axes
from bound.infer.phases.threads import started
from bound.intrin import TensorComputeOp
from bound.itervar import IterVar
from bound.operation import ComputeOp
from bound.schedule import simple
from bound.schedule.relations import with_ancestors
from bound.schedule.simple import extent, low
from bound.tensor import Tensor
from intset.budgets import UNION
from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var, as_expr
from intset.expr.range import Range
from intset.expr.walk import is_small, postorder
from intset.linear.form import constant

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_PROVED = 400  # nodes of an extent that is tested for being constant
_MAX_NODES = 40  # a longer extent is replaced by its largest value


def gather(
    env: LoopEnvironment,
    bounds: StageBounds,
    footprints: Mapping[Tensor, Sequence[Footprint]],
    shape_of: Callable[[Tensor], tuple[Expr, ...]],
    with_unions: bool = True,
) -> None:
    """Set the required region of each output: the union of all footprints, within the tensor.

    Parameters
    ----------
    footprints: those of all consumers, by output.
    shape_of: the extents of a tensor.
    with_unions: whether the domain has unions; else the outer box is used.
    """
    for tensor in bounds.op.outputs:
        shape = shape_of(tensor)
        footprint = union_footprints(env, len(shape), footprints.get(tensor, ()), with_unions)
        footprint = within_tensor(env, footprint, shape)
        if with_unions and is_always_empty(env, footprint, bounds.fixed):
            footprint = footprint.with_box(empty_box(len(shape)))
        bounds.required[tensor] = footprint


def within_tensor(env: LoopEnvironment, footprint: Footprint, shape: Sequence[Expr]) -> Footprint:
    """A footprint intersected with a tensor of extents `shape`."""
    ends = whole_tensor(env, shape)
    if footprint.box is None:
        if not ends.is_affine():
            return footprint
        around = env.shapes.box([(side.lows, side.highs) for side in ends.sides])
        footprint.limits = ends
        if around.includes(footprint.unguarded):
            return footprint
        return footprint.with_shape(footprint.unguarded.intersect(around), footprint.exact, footprint.notes)
    sides = []
    for side, end in zip(footprint.box.sides, ends.sides, strict=True):
        low_known = any(env.is_nonneg(form) for form in side.lows)
        high_known = any(env.is_nonneg(end.highs[0].minus(form)) for form in side.highs)
        if low_known and high_known:
            sides.append(side)
            continue
        lows = side.lows if low_known else (*side.lows, constant(0))
        highs = side.highs if high_known else (*side.highs, *end.highs)
        sides.append(interval(env, lows, highs) or SymbolicInterval(lows, highs))
    if all(a is b for a, b in zip(sides, footprint.box.sides, strict=True)):
        return footprint
    return footprint.with_box(Box(tuple(sides), footprint.box.where, footprint.box.also))


def gather_bound(
    env: LoopEnvironment,
    bounds: StageBounds,
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
        bounds.computed = _with_rounded_tiles(env, bounds, footprint, shape)
    uniform = uniform_roots(stage, bounds.relations)
    always = uniform_roots(stage, bounds.relations, with_nparts=False)
    threaded = with_ancestors(bounds.relations, [iv for iv in stage.leaf_iter_vars if stage.thread_of(iv) is not None])
    for k, iv in enumerate(data_axes(op)):
        side = bounds.sides[iv] = bounds.region.hull(env).sides[k]
        # A tile cut by the end of the tensor alone has one length; tiles of a varying region vary with it.
        if iv in bounds.aligned:
            bounds.ranges[iv] = Range(0, rounded_up(bounds.relations, iv, shape[k]))
            bounds.widened.add(iv)
            continue
        is_cut = any(form.is_const for form in side.extents())
        is_uniform = iv in always or iv in bounds.foreign or (iv in uniform and is_cut)
        bounds.ranges[iv] = _root_range(env, bounds, k, iv, is_uniform, iv in threaded, shape[k])
        number = started(bounds, iv, threads) if iv in threaded and threads else None
        has = simple.number(as_expr(bounds.ranges[iv].extent))
        if number is not None and has is not None and has < number:
            bounds.ranges[iv] = Range(bounds.ranges[iv].min, number)
            bounds.widened.add(iv)
    for iv in op.root_iter_vars:
        if iv not in bounds.sides:
            assert iv.dom is not None
            domain = bounds.ranges.setdefault(iv, iv.dom)
            bounds.sides[iv] = span(env, domain)


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
    env: LoopEnvironment, bounds: StageBounds, footprint: Footprint, shape: Sequence[Expr]
) -> Footprint:
    """The region extended to whole tiles where splits round up, within the tensor."""
    axes = data_axes(bounds.op)
    box = None
    for k, iv in enumerate(axes):
        if not rounds_up(bounds.relations, iv):
            continue
        box = footprint.hull(env) if box is None else box
        side = box.sides[k]
        total = max_extent(env, footprint, k, bounds.fixed, shape[k])
        more = simple.sub(rounded_up(bounds.relations, iv, total), total)
        if simple.number(more) == 0:
            continue
        start = low(side.range())
        highs = [env.form(start + (total + more - 1)), env.form(shape[k]).shift(-1)]
        wider = interval(env, side.lows, highs) or SymbolicInterval(side.lows, tuple(highs))
        box = Box((*box.sides[:k], wider, *box.sides[k + 1 :]), box.where, box.also)
    return footprint if box is None else footprint.with_box(box)


def _root_range(
    env: LoopEnvironment, bounds: StageBounds, k: int, iv: IterVar, is_uniform: bool, is_threaded: bool, whole: Expr
) -> Range:
    """The range of the root axis of dimension `k`: exact in each instance, or of maximal length.

    The number of threads does not depend on the tensor: a threaded tile keeps its length.
    """
    side = bounds.sides[iv]
    limits = side.range()
    number = _only_value(env, bounds, extent(limits))
    if number is not None and number > 0:
        exact = Range(limits.min, number)
        if unproved_gaps(env, side, bounds.region.hull(env).where):
            bounds.widened.add(iv)
    elif number is not None:  # never runs, but a loop fused from it needs a length
        bounds.widened.add(iv)
        exact = Range(limits.min, 1)
    elif not is_uniform and _is_short(extent(limits)):
        exact = limits
    else:
        most = max_extent(env, bounds.region, k, bounds.fixed, whole)
        if is_threaded:
            most = _number_in(env, most)
        exact = Range(limits.min, most)
        if not _is_same(env, most, extent(limits)):
            bounds.widened.add(iv)
    total = rounded_up(bounds.relations, iv, extent(exact))
    if not _is_same(env, total, extent(exact)):
        bounds.widened.add(iv)
        return Range(exact.min, total)
    return exact


def _number_in(env: LoopEnvironment, e: Expr) -> Expr:
    """The smallest constant operand of a minimum; the extent itself if there is none."""
    numbers = [form.const for form in end_forms(env, e, ops.MIN) if form.is_const]
    return as_expr(min(numbers)) if numbers else e


def _only_value(env: LoopEnvironment, bounds: StageBounds, e: Expr) -> int | None:
    """The value of an extent with the same value in every instance, else `None`."""
    number = env.number(e)
    if number is not None or all(isinstance(t, Var) for t in env.form(e).terms):
        return number
    if not is_small(_MAX_PROVED, (e,)):
        return None
    box = bounds.region.hull(env)
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
    return is_small(_MAX_NODES, (e,)) and sum(node.op is ops.SELECT for node in postorder((e,))) <= 1


MAX_DISJUNCTS = 160  # larger unions become boxes


def union_footprints(
    env: LoopEnvironment, dims: int, footprints: Sequence[Footprint], with_unions: bool = True
) -> Footprint:
    """The union of several footprints; for a domain without unions their outer box."""
    if len(footprints) == 1 and footprints[0].box is None:
        return footprints[0]
    footprint = _union_footprints(env, dims, footprints, with_unions)
    footprint.limits = next((other.limits for other in footprints if other.limits is not None), None)
    return footprint


def _union_footprints(env: LoopEnvironment, dims: int, footprints: Sequence[Footprint], with_unions: bool) -> Footprint:
    notes = [note for footprint in footprints for note in footprint.notes]
    exact = all(footprint.exact for footprint in footprints)
    alone = union_boxes(env, [footprint.box for footprint in footprints if footprint.box is not None])
    others = [footprint for footprint in footprints if footprint.box is None]
    if not others and len(alone) < 2:
        return Footprint(dims, alone[0] if alone else empty_box(dims), None, exact, notes)
    if not with_unions:
        boxes = [*alone, *(footprint.hull(env) for footprint in others)]
        return Footprint(dims, hull(env, boxes)[0], None, False, (*notes, "the box around several needs"))
    return _union_shapes(env, dims, alone, others, exact, notes)


def _union_shapes(
    env: LoopEnvironment,
    dims: int,
    alone: Sequence[Box],
    others: Sequence[Footprint],
    exact: bool,
    notes: Sequence[str],
) -> Footprint:
    guard = _common_guard(alone) if not others else NO_GUARD
    if guard.is_conditional():
        return _union_guarded_boxes(env, dims, [Box(box.sides) for box in alone], guard, exact, notes)
    try:
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
        counted = _listed(env, dims, [*(Footprint(dims, box) for box in alone), *others], exact, notes)
        if counted is not None:
            return counted
        note = f"{error}: the box around several needs was used"
    boxes = [*alone, *(footprint.hull(env) for footprint in others)]
    return Footprint(dims, hull(env, boxes)[0], None, False, (*notes, note))


def _listed(
    env: LoopEnvironment, dims: int, footprints: Sequence[Footprint], exact: bool, notes: Sequence[str]
) -> Footprint | None:
    """A union by enumeration; `None` beyond its budget."""
    try:
        points_of_union = listed(env, footprints)
        if points_of_union is None:
            return None
        order, points = points_of_union
        return footprint_of_shape(env, dims, env.shapes.listing(points, order, dims), exact, notes)
    except BudgetError:
        return None


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
    return not (box.where or box.also or any(unproved_gaps(env, side) for side in box.sides))
