"""Circular storage: elements of a sliding window that are never kept at the same time share a place.

In iteration `t` of the loops between storage and stage (`StageBounds.slid`) an element is live that was computed in it
or before and is read in it or later. Along an axis of the storage the element at `x` is kept at `x % f`, with the
smallest `f` at which no two elements meet that are live together: of their differences, those that are 0 along the
other axes (or multiples of `f` of an axis that is folded) are no multiples of `f` here. Where they depend on sizes it
is the longest difference and 1. That is Halide's storage folding, on sets in the place of intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bound.infer.needs.box import Box
from bound.infer.needs.instances import size_limits
from bound.infer.needs.known import Known
from bound.infer.needs.need import Need
from bound.infer.needs.widest import widest
from bound.infer.phases.infer_root_bound import Pass
from bound.infer.phases.slide import conditions_around, earlier, later, needed
from bound.infer.phases.stage_bounds import StageBounds, Window
from bound.infer.storage.storage import FORMS, Storage, low_of
from bound.schedule import simple
from bound.tensor import Tensor
from intset import config
from intset.errors import BudgetError
from intset.expr.build import logical_and, logical_or, maximum
from intset.expr.node import Cond, Expr, Var, as_expr, const
from intset.expr.range import Range
from intset.infinity import Infinity
from intset.regions.product import has_select
from intset.regions.shape import Shape

_OPERATIONS: Final = 1_000_000  # of the domain, for one storage
_MAX_LISTED: Final = 2_000  # differences that are looked at one by one


def circular(state: Pass, bounds: StageBounds, tensor: Tensor, storage: Storage) -> Storage:
    """The storage with the axes folded of which fewer places are enough; as it is where that is not found."""
    known = state.known
    try:
        with known.budget(_OPERATIONS):
            apart = _differences(known, live(state, bounds, tensor), storage)
            folds: dict[int, Expr] = {}
            while True:
                found = {k: _fold(known, apart, k, folds) for k in range(apart.dims) if k not in folds}
                gains = {k: f for k, f in found.items() if f is not None and _saves(known, f, storage, k)}
                if not gains:
                    break
                best = min(gains, key=lambda k: _share(gains[k], storage, k))
                folds[best] = gains[best]
    except BudgetError:
        return storage
    return folded(storage, folds)


def rolled(known: Known, window: Window, fixed: Sequence[Var], storage: Storage, shape: Sequence[Expr]) -> Storage:
    """The storage of a window that only moves on: as many places as it has elements in an iteration."""
    lengths = {widest(known, Need(1, Box((side,))), 0, fixed, shape[window.dim]): None for side in window.filled}
    numbers = [number for e in lengths if (number := simple.number(e)) is not None]
    fold = as_expr(max(numbers)) if len(numbers) == len(lengths) else maximum(*lengths)
    return folded(storage, {window.dim: fold} if _saves(known, fold, storage, window.dim) else {})


def folded(storage: Storage, folds: Mapping[int, Expr]) -> Storage:
    """The storage with these axes counted modulo these numbers."""
    if not folds:
        return storage
    ranges = tuple(Range(_start(low_of(r)), folds[k]) if k in folds else r for k, r in enumerate(storage.ranges))
    return replace(storage, ranges=ranges, folds=tuple(folds.get(k) for k in range(len(ranges))))


def _start(low: Expr) -> Expr:
    """Where a circular axis begins: at the first element, if that is written shortly."""
    return low if all(isinstance(e, Var) for e in FORMS.form(low).terms) else const(0)


def live(state: Pass, bounds: StageBounds, tensor: Tensor) -> Shape:
    """The elements of a tensor that are kept in an iteration, and what it computes besides."""
    known, slid = state.known, bounds.slid
    running = conditions_around(state.bounds, bounds)

    def run(need: Need) -> Shape:
        return needed(known, bounds, need, running)

    made, read = run(bounds.made(tensor)), run(bounds.required[tensor])
    computed = made.union(earlier(known, made, slid))
    return computed.intersect(read.union(later(known, read, slid))).union(made)


def _differences(known: Known, kept: Shape, storage: Storage) -> Shape:
    """How far apart two elements that are live together are, along the axes of the storage."""
    dims = kept.dims
    point = [Var(f"x{k}") for k in range(2 * dims)]
    pairs = kept.product_with(kept, 0)
    apart = pairs.image(point, [x - y for x, y in zip(point[:dims], point[dims:], strict=True)])
    apart = apart.without([e for e in apart.atoms() if any(v in known.ranges for v in e.free_vars())])
    if not storage.is_compact:
        return apart
    numbers = [Var(f"t{k}") for k in range(dims)]
    moves = [sum((step * t for step, t in zip(row, numbers, strict=True) if step), const(0)) for row in storage.steps]
    still = [t.eq(0) for k, t in enumerate(numbers) if not any(row[k] for row in storage.steps)]
    return apart.preimage(numbers, moves).restricted(numbers, logical_and(*still))


def _fold(known: Known, apart: Shape, k: int, folds: Mapping[int, Expr]) -> Expr | None:
    """The smallest modulus along axis `k` beside those of other axes; `None` where none is found."""
    point = [Var(f"d{j}") for j in range(apart.dims)]
    meeting = [_meets(d, folds.get(j)) for j, d in enumerate(point) if j != k]
    alone = apart.restricted(point, logical_and(*meeting)).project([k])
    sizes = alone.atoms()
    numbers = alone.within(size_limits(known, sizes)).without(sizes)
    if numbers.is_empty():
        return None
    last = numbers.end(0, 1)
    if isinstance(last, Expr) and last.is_const:
        if last.data > _MAX_LISTED:
            return last + 1
        found = [d for (d,) in numbers.listed() if d > 0]
        return as_expr(next(f for f in range(1, last.data + 2) if not any(d % f == 0 for d in found)))
    longest = alone.end(0, 1)
    if isinstance(longest, Infinity) or has_select(longest):
        return None
    return known.form(longest + 1).expr()


def _meets(d: Var, fold: Expr | None) -> Cond:
    """That two elements that are `d` apart may have one place along an axis."""
    if fold is None:
        return d.eq(0)
    return (d % fold).eq(0) if fold.is_const else logical_or(d.eq(0), d >= fold, d <= -fold)


def _saves(known: Known, fold: Expr, storage: Storage, k: int) -> bool:
    """Whether fewer places are enough along an axis."""
    extent = as_expr(storage.ranges[k].extent)
    more = known.form(extent - fold)
    if more.is_const:
        return more.const > 0
    if fold.is_const:  # of a size that may be small, or large
        most = known.bounds(known.form(extent))[1]
        return most is None or most > fold.data
    goal = more.expr() >= 0
    with config.using(tiers=config.tiers_within(config.Effort.SETS)):  # where a size is 0 nothing is stored
        return bool(known.context.extended(facts=[v >= 1 for v in goal.free_vars()]).prove(goal))


def _share(fold: Expr, storage: Storage, k: int) -> float:
    """What part of the places is left, as far as it is known."""
    few, all_of_them = simple.number(fold), simple.number(as_expr(storage.ranges[k].extent))
    if few is None:
        return 0.5
    return 0.0 if all_of_them is None else few / max(all_of_them, 1)
