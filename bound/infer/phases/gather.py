"""GatherBound, phase 4 of InferRootBound: what all consumers need together, and the ranges of the root axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bound.infer.needs.box import Box, Interval, gaps_unknown, interval, nothing, span, whole
from bound.infer.needs.instances import closed
from bound.infer.needs.joined import joined
from bound.infer.needs.known import Known
from bound.infer.needs.need import Need, boxed, end_forms
from bound.infer.needs.sample import varies
from bound.infer.needs.widest import is_never_alive, widest
from bound.infer.phases.pass_down import rounded_up, rounds_up, uniform_roots
from bound.infer.phases.slide import new_of
from bound.infer.phases.stage_bounds import StageBounds, data_axes
from bound.infer.phases.threads import started
from bound.infer.program.graph import thread_of
from bound.intrin import TensorComputeOp
from bound.itervar import IterType, IterVar
from bound.operation import ComputeOp
from bound.schedule import simple
from bound.schedule.message import with_ancestors
from bound.tensor import Tensor
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var, as_expr
from intset.expr.range import Range
from intset.expr.walk import is_small, postorder
from intset.linear.form import constant

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_ASKED = 400  # nodes of an extent of which is asked whether it has one value only
_MAX_NODES = 40  # an extent written with more nodes is replaced by its largest value


def gather(
    known: Known,
    bounds: StageBounds,
    needs: Mapping[Tensor, Sequence[Need]],
    shape_of: Callable[[Tensor], tuple[Expr, ...]],
    with_unions: bool = True,
) -> None:
    """The required region of each output: the union of the needs, within the tensor."""
    for tensor in bounds.op.outputs:
        shape = shape_of(tensor)
        need = joined(known, len(shape), needs.get(tensor, ()), with_unions)
        need = within(known, need, shape)
        if with_unions and is_never_alive(known, need, bounds.fixed):
            need = Need(len(shape), nothing(len(shape)), None, need.exact, need.notes)
        bounds.required[tensor] = need


def within(known: Known, need: Need, shape: Sequence[Expr]) -> Need:
    """The part of a region inside a tensor."""
    ends = whole(known, shape)
    if need.box is None:
        if not ends.is_affine():
            return need
        around = known.shapes.box([(side.lows, side.highs) for side in ends.sides])
        need.limits = ends
        if around.includes(need.unguarded):
            return need
        return need.replaced(need.unguarded.intersect(around), need.exact, need.notes)
    sides = []
    for side, end in zip(need.box.sides, ends.sides, strict=True):
        low_known = any(known.is_nonneg(form) for form in side.lows)
        high_known = any(known.is_nonneg(end.highs[0].minus(form)) for form in side.highs)
        if low_known and high_known:
            sides.append(side)
            continue
        lows = side.lows if low_known else (*side.lows, constant(0))
        highs = side.highs if high_known else (*side.highs, *end.highs)
        sides.append(interval(known, lows, highs) or Interval(lows, highs))
    if all(a is b for a, b in zip(sides, need.box.sides, strict=True)):
        return need
    return Need(need.dims, Box(tuple(sides), need.box.where, need.box.also), None, need.exact, need.notes)


def gather_bound(
    known: Known,
    bounds: StageBounds,
    is_boxed: bool,
    shape_of: Callable[[Tensor], tuple[Expr, ...]],
    threads: Mapping[IterVar, int],
    running: Sequence[Cond] = (),
    steady: Need | None = None,
) -> None:
    """What is computed, and the ranges of the root axes.

    The axes of a dimension take the interval of what is computed there, all others the domain that they declare.
    `is_boxed`: whether that is the box around what is required. `threads`: of which more are started than there is work
    for, with their number. `running`: the conditions without which the stage is not reached. `steady`: a box around
    what is required, which is computed in its place.
    """
    stage, op = bounds.stage, bounds.op
    shape = shape_of(op.outputs[0])
    if not isinstance(op, (ComputeOp, TensorComputeOp)):
        bounds.wholes = {t: Need(t.ndim, whole(known, shape_of(t))) for t in op.outputs}
        bounds.computed = bounds.wholes[op.outputs[0]]
    else:
        needs = list(dict.fromkeys(bounds.required.values()))
        need = steady or joined(known, len(shape), [n for n in needs if not _is_nothing(n)])
        need = new_of(known, bounds, need, running)
        if isinstance(op, TensorComputeOp):
            need = _with_whole_tiles(known, need, op, shape)
        if need.box is None and (is_boxed or _is_tensorized(bounds)):
            need = boxed(known, need)
        bounds.computed = _rounded(known, bounds, need, shape)
    uniform = uniform_roots(stage, bounds.relations)
    always = uniform_roots(stage, bounds.relations, with_nparts=False)
    threaded = with_ancestors(bounds.relations, [iv for iv in stage.leaf_iter_vars if thread_of(stage, iv) is not None])
    for k, iv in enumerate(data_axes(op)):
        side = bounds.sides[iv] = bounds.region.hull(known).sides[k]
        # A tile that only the end of the tensor cuts has one length; parts of a region that varies follow it.
        if iv in bounds.aligned:
            bounds.ranges[iv] = Range(0, rounded_up(bounds.relations, iv, shape[k]))
            bounds.widened.add(iv)
            continue
        is_cut = any(extent.is_const for extent in side.extents())
        is_uniform = iv in always or iv in bounds.led or (iv in uniform and is_cut)
        bounds.ranges[iv] = _root_range(known, bounds, k, iv, is_uniform, iv in threaded, shape[k])
        wanted = started(bounds, iv, threads) if iv in threaded and threads else None
        has = simple.number(as_expr(bounds.ranges[iv].extent))
        if wanted is not None and has is not None and has < wanted:
            bounds.ranges[iv] = Range(bounds.ranges[iv].min, wanted)
            bounds.widened.add(iv)
    for iv in op.root_iter_vars:
        if iv not in bounds.sides:
            assert iv.dom is not None
            domain = bounds.ranges.setdefault(iv, iv.dom)
            bounds.sides[iv] = span(known, domain)


def _is_nothing(need: Need) -> bool:
    return need.box is not None and any(form.is_const and form.const < 0 for form in need.box.where)


def _is_tensorized(bounds: StageBounds) -> bool:
    return any(attr.iter_type is IterType.TENSORIZED for attr in bounds.stage.iter_var_attrs.values())


def _with_whole_tiles(known: Known, need: Need, op: TensorComputeOp, shape: Sequence[Expr]) -> Need:
    """An intrinsic computes whole tiles: the axes inside a tile run over all of them."""
    box = need.hull(known)
    inner = whole(known, shape).sides[op.schedulable :]
    return Need(
        need.dims, Box((*box.sides[: op.schedulable], *inner), box.where, box.also), None, need.exact, need.notes
    )


def _rounded(known: Known, bounds: StageBounds, need: Need, shape: Sequence[Expr]) -> Need:
    """The region with the last tiles of splits that round up, as far as the tensor has elements there."""
    axes = data_axes(bounds.op)
    box = None
    for k, iv in enumerate(axes):
        if not rounds_up(bounds.relations, iv):
            continue
        box = need.hull(known) if box is None else box
        side = box.sides[k]
        total = widest(known, need, k, bounds.fixed, shape[k])
        more = simple.sub(rounded_up(bounds.relations, iv, total), total)
        if simple.number(more) == 0:
            continue
        start = side.range().min
        assert isinstance(start, Expr)
        highs = [known.form(start + (total + more - 1)), known.form(shape[k]).shift(-1)]
        wider = interval(known, side.lows, highs) or Interval(side.lows, tuple(highs))
        box = Box((*box.sides[:k], wider, *box.sides[k + 1 :]), box.where, box.also)
    return need if box is None else Need(need.dims, box, None, need.exact, need.notes)


def _root_range(
    known: Known, bounds: StageBounds, k: int, iv: IterVar, is_uniform: bool, is_threaded: bool, extent: Expr
) -> Range:
    """The range of the root axis of dimension `k`: what is computed there in each instance, or long enough for all.

    Threads are started in a number that no small tensor changes: there a tile keeps its length.
    """
    side = bounds.sides[iv]
    limits = side.range()
    assert isinstance(limits.extent, Expr) and isinstance(limits.min, Expr)
    number = _only_value(known, bounds, limits.extent)
    if number is not None and number > 0:
        exact = Range(limits.min, number)
        if gaps_unknown(known, side, bounds.region.hull(known).where):
            bounds.widened.add(iv)
    elif number is not None:  # never run, but a loop made from this one and others has to have a length
        bounds.widened.add(iv)
        exact = Range(limits.min, 1)
    elif not is_uniform and _is_short(limits.extent):
        exact = limits
    else:
        most = widest(known, bounds.region, k, bounds.fixed, extent)
        if is_threaded:
            most = _number_in(known, most)
        exact = Range(limits.min, most)
        if not _is_same(known, most, limits.extent):
            bounds.widened.add(iv)
    assert isinstance(exact.extent, Expr) and isinstance(exact.min, Expr)
    total = rounded_up(bounds.relations, iv, exact.extent)
    if not _is_same(known, total, exact.extent):
        bounds.widened.add(iv)
        return Range(exact.min, total)
    return exact


def _number_in(known: Known, extent: Expr) -> Expr:
    """The smallest number among the choices of a minimum; the extent itself where there is none."""
    numbers = [form.const for form in end_forms(known, extent, ops.MIN) if form.is_const]
    return as_expr(min(numbers)) if numbers else extent


def _only_value(known: Known, bounds: StageBounds, e: Expr) -> int | None:
    """The value of an extent that is the same in every instance."""
    number = known.number(e)
    if number is not None or all(isinstance(t, Var) for t in known.form(e).terms):
        return number
    if not is_small(_MAX_ASKED, (e,)):
        return None
    box = bounds.region.hull(known)
    ranges = closed(known, (*e.free_vars(), *box.variables()))
    alive = [gap.expr() >= 0 for side in box.sides for gap in side.gaps() if not gap.is_const]
    alive += [*(form.expr() >= 0 for form in box.where), *box.also]
    if varies(known, e, ranges, alive):
        return None
    context = known.context.extended(ranges, alive)
    low, high = context.bounds(e)
    return low.data if isinstance(low, Expr) and low.is_const and low is high else None


def _is_same(known: Known, a: Expr, b: Expr) -> bool:
    return known.form(a).same(known.form(b))


def _is_short(e: Expr) -> bool:
    return is_small(_MAX_NODES, (e,)) and sum(node.op is ops.SELECT for node in postorder((e,))) <= 1


__all__ = ["gather", "gather_bound", "nothing", "within"]
