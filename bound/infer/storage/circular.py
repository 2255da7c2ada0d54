"""Circular storage of sliding windows: elements with disjoint lifetimes share a place.

In iteration `t` of the loops between storage and stage (`StageBounds.slid`) an element is live if it was computed in
`t` or before and is read in `t` or later. Along an axis of the storage, element `x` is kept at `x % f`, with the
smallest `f` that keeps live elements apart: no difference of two live elements that is 0 along the other axes (or a
multiple of the modulus of a folded axis) is a multiple of `f`. For symbolic sizes `f` is the longest difference plus 1.

Source: Halide's storage folding, on sets instead of intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bound.infer.footprints.box import Box, whole_tensor
from bound.infer.footprints.environment import LoopEnvironment, instances, size_bounds
from bound.infer.footprints.extents import max_extent
from bound.infer.footprints.footprint import Footprint, footprint_of_shape
from bound.infer.phases.gather import (
    enclosing_guards,
    in_earlier_iterations,
    in_later_iterations,
    project_variables,
    reached_footprint,
    union_footprints,
    within_tensor,
)
from bound.infer.phases.infer_root_bound import InferenceState, requests_of
from bound.infer.phases.pass_down import rounds_up
from bound.infer.phases.stage_bounds import SlidingWindow, StageBounds, data_axes
from bound.infer.storage.storage import FORMS, Storage
from bound.schedule import simple
from bound.schedule.simple import low
from bound.tensor import Tensor
from intset import config
from intset.budgets import CIRCULAR
from intset.errors import BudgetError
from intset.expr.build import logical_and, logical_or, maximum
from intset.expr.node import Cond, Expr, Var, as_expr, const
from intset.expr.range import Range
from intset.infinity import Infinity
from intset.regions.derived import has_select
from intset.regions.shape import Shape


def window(state: InferenceState, bounds: StageBounds) -> Footprint:
    """The elements that a stage computes over all iterations of the loops between storage and stage."""
    env = state.env
    path = bounds.path[len(bounds.slid) :]
    shape = state.sizes.shape(bounds.op.outputs[0])
    footprints = [
        request.footprint for tensor in bounds.op.outputs for request in requests_of(state, bounds, tensor, path)
    ]
    required = within_tensor(env, union_footprints(env, len(shape), footprints), shape)
    is_exact = bounds.region.exact and bounds.stage not in state.boxed
    if is_exact and not any(rounds_up(bounds.relations, iv) for iv in data_axes(bounds.op)):
        return required
    try:  # computed is a proper superset of required
        with env.budget(CIRCULAR):
            run = instances(env, (*bounds.region.variables(), *bounds.fixed))
            computed = project_variables(bounds.region.shape(env).intersect_params(run), bounds.slid)
            return footprint_of_shape(
                env, len(shape), computed.union(required.shape(env)), required.exact, required.notes
            )
    except BudgetError as error:
        return Footprint(
            len(shape), whole_tensor(env, shape), None, False, (*required.notes, f"{error}: all of it is stored")
        )


_MAX_LISTED: Final = 2_000  # differences tested one by one


def fold_axes(state: InferenceState, bounds: StageBounds, tensor: Tensor, storage: Storage) -> Storage:
    """The storage with circular axes where that saves places; unchanged beyond the budget."""
    env = state.env
    try:
        with env.budget(CIRCULAR):
            apart = _differences(env, live_elements(state, bounds, tensor), storage)
            folds: dict[int, Expr] = {}
            while True:
                moduli = {k: _fold(env, apart, k, folds) for k in range(apart.dims) if k not in folds}
                gains = {k: f for k, f in moduli.items() if f is not None and _saves(env, f, storage, k)}
                if not gains:
                    break
                best = min(gains, key=lambda k: _share(gains[k], storage, k))
                folds[best] = gains[best]
    except BudgetError:
        return storage
    return with_folds(storage, folds)


def fold_window(
    env: LoopEnvironment, window: SlidingWindow, fixed: Sequence[Var], storage: Storage, shape: Sequence[Expr]
) -> Storage:
    """The circular storage of a monotone window: as many places as its longest filling."""
    lengths = {max_extent(env, Footprint(1, Box((side,))), 0, fixed, shape[window.dim]): None for side in window.filled}
    numbers = [number for e in lengths if (number := simple.number(e)) is not None]
    fold = as_expr(max(numbers)) if len(numbers) == len(lengths) else maximum(*lengths)
    return with_folds(storage, {window.dim: fold} if _saves(env, fold, storage, window.dim) else {})


def with_folds(storage: Storage, folds: Mapping[int, Expr]) -> Storage:
    """The storage with circular axes of these moduli."""
    if not folds:
        return storage
    ranges = tuple(Range(_start(low(r)), folds[k]) if k in folds else r for k, r in enumerate(storage.ranges))
    return replace(storage, ranges=ranges, folds=tuple(folds.get(k) for k in range(len(ranges))))


def _start(low: Expr) -> Expr:
    """The origin of a circular axis: its first element if affine in variables, else 0."""
    return low if all(isinstance(e, Var) for e in FORMS.form(low).terms) else const(0)


def live_elements(state: InferenceState, bounds: StageBounds, tensor: Tensor) -> Shape:
    """The live elements of a tensor in an iteration, and all elements computed in it."""
    env, slid = state.env, bounds.slid
    running = enclosing_guards(state.bounds, bounds)

    def run(footprint: Footprint) -> Shape:
        return reached_footprint(env, bounds, footprint, running)

    new, read = run(bounds.computed_of(tensor)), run(bounds.required[tensor])
    computed = new.union(in_earlier_iterations(env, new, slid))
    return computed.intersect(read.union(in_later_iterations(env, read, slid))).union(new)


def _differences(env: LoopEnvironment, kept: Shape, storage: Storage) -> Shape:
    """The differences of simultaneously live elements, along the axes of the storage."""
    dims = kept.dims
    point = [Var(f"x{k}") for k in range(2 * dims)]
    pairs = kept.product_with(kept, 0)
    apart = pairs.image(point, [x - y for x, y in zip(point[:dims], point[dims:], strict=True)])
    apart = apart.without([e for e in apart.atoms() if any(v in env.ranges for v in e.free_vars())])
    if not storage.is_compact:
        return apart
    numbers = [Var(f"t{k}") for k in range(dims)]
    moves = [sum((step * t for step, t in zip(row, numbers, strict=True) if step), const(0)) for row in storage.steps]
    still = [t.eq(0) for k, t in enumerate(numbers) if not any(row[k] for row in storage.steps)]
    return apart.preimage(numbers, moves).filter(numbers, logical_and(*still))


def _fold(env: LoopEnvironment, apart: Shape, k: int, folds: Mapping[int, Expr]) -> Expr | None:
    """The smallest modulus of axis `k` for given moduli of other axes; `None` if unbounded."""
    point = [Var(f"d{j}") for j in range(apart.dims)]
    meeting = [_meets(d, folds.get(j)) for j, d in enumerate(point) if j != k]
    alone = apart.filter(point, logical_and(*meeting)).project([k])
    sizes = alone.atoms()
    numbers = alone.intersect_params(size_bounds(env, sizes)).without(sizes)
    if numbers.is_empty():
        return None
    last = numbers.end(0, 1)
    if isinstance(last, Expr) and last.is_const:
        if last.data > _MAX_LISTED:
            return last + 1
        distances = [d for (d,) in numbers.listed() if d > 0]
        return as_expr(next(f for f in range(1, last.data + 2) if not any(d % f == 0 for d in distances)))
    longest = alone.end(0, 1)
    if isinstance(longest, Infinity) or has_select(longest):
        return None
    return env.form(longest + 1).expr()


def _meets(d: Var, fold: Expr | None) -> Cond:
    """The condition that elements at distance `d` share a place along an axis."""
    if fold is None:
        return d.eq(0)
    return (d % fold).eq(0) if fold.is_const else logical_or(d.eq(0), d >= fold, d <= -fold)


def _saves(env: LoopEnvironment, fold: Expr, storage: Storage, k: int) -> bool:
    """Whether a modulus saves places along an axis."""
    extent = as_expr(storage.ranges[k].extent)
    more = env.form(extent - fold)
    if more.is_const:
        return more.const > 0
    if fold.is_const:  # for a size of unknown magnitude
        most = env.bounds(env.form(extent))[1]
        return most is None or most > fold.data
    goal = more.expr() >= 0
    with config.using(tiers=config.tiers_within(config.Effort.SETS)):  # a size of 0 stores nothing
        return bool(env.context.extended(facts=[v >= 1 for v in goal.free_vars()]).prove(goal))


def _share(fold: Expr, storage: Storage, k: int) -> float:
    """The remaining share of places; an estimate for symbolic extents."""
    few, all_of_them = simple.number(fold), simple.number(as_expr(storage.ranges[k].extent))
    if few is None:
        return 0.5
    return 0.0 if all_of_them is None else few / max(all_of_them, 1)
