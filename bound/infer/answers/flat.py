"""Flat storage: axes over which fused loops run as one are one axis of the storage.

The bounding box of a run of the flattened tensor is almost the tensor. In flat coordinates (`fused_axes.py`) it is an
interval, and its places are the loop variables below the outer loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

from bound.infer.answers.storage import Storage, places_of, plain
from bound.infer.footprints.extents import max_extent
from bound.infer.footprints.footprint import Footprint
from bound.infer.phases.fused_axes import FlatAxes, flat_image, fused_axes
from bound.infer.phases.infer_root_bound import InferenceState
from bound.infer.phases.stage_bounds import StageBounds
from bound.operation import ComputeOp
from bound.schedule import simple
from bound.tensor import Tensor
from intset.errors import BudgetError
from intset.expr.node import as_expr
from intset.expr.range import Range


def flat_storage(
    state: InferenceState,
    bounds: StageBounds,
    tensor: Tensor,
    axis: Callable[[int], Range],
    most: Callable[[], Storage],
) -> Storage | None:
    """The storage with the axes of one nest of fused loops as one axis; `None` where that does not pay.

    It pays where the loops compute an interval of required elements, which is indexed by the loops then and which no
    box in coordinates of the tensor is shorter than; else from a quarter of the places saved on.

    Guarantee: injective on the tensor, and every computed element has a place.

    Parameters
    ----------
    axis: the range of an axis of plain storage.
    most: the plain storage.
    """
    if not isinstance(bounds.op, ComputeOp):
        return None
    best = None
    for axes in fused_axes(state, bounds, tensor):
        footprint = flat_image(state, bounds, tensor, axes)
        try:
            storage = _flattened(state, bounds, tensor, axes, footprint, axis)
        except BudgetError:  # no ends: loops that overrun the tensor leave no other box
            continue
        if bounds.stays_inside and bounds.region.box is None and footprint.box is not None:
            return storage
        if _pays(state, storage, best or most()):
            best = storage
    return best


def _flattened(
    state: InferenceState,
    bounds: StageBounds,
    tensor: Tensor,
    axes: FlatAxes,
    footprint: Footprint,
    axis: Callable[[int], Range],
) -> Storage:
    env, first, shape = state.env, axes.dims[0], axes.shape(state.sizes.shape(tensor))
    start = footprint.hull(env).sides[first].range().min
    run = Range(start, max_extent(env, footprint, first, bounds.fixed, shape[first]))
    ranges = [run if k == first else Range(0, 1) if k in axes.dims else axis(k) for k in range(tensor.ndim)]
    return replace(plain(ranges), flat=axes)


def _pays(state: InferenceState, storage: Storage, best: Storage) -> bool:
    """Whether a quarter of the places is saved, since a joint coordinate costs index arithmetic."""
    few, many = places_of(storage), places_of(best)
    if few is not None and many is not None:
        return few <= many * 3 // 4
    env = state.env
    a, b = (env.form(reduce(simple.mul, (as_expr(r.extent) for r in one.ranges))) for one in (storage, best))
    if env.bounds(a)[1] is not None and env.bounds(b)[1] is None:
        return True
    return not a.same(b) and env.is_nonneg(b.minus(a))
