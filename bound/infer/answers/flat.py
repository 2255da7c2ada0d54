"""Flat storage: axes over which fused loops run as one are one axis of the storage.

The bounding box of a run of the flattened tensor is almost the tensor. In flat coordinates (`fused_axes.py`) it is an
interval, and its places are the loop variables below the outer loops.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from bound.infer.answers.storage import Storage, places_of
from bound.infer.footprints.extents import max_extent
from bound.infer.phases.fused_axes import FlatAxes, flat_image, fused_axes
from bound.infer.phases.infer_root_bound import InferenceState
from bound.infer.phases.stage_bounds import StageBounds
from bound.operation import ComputeOp
from bound.schedule import simple
from bound.tensor import Tensor
from intset.expr.node import as_expr
from intset.expr.range import Range


def flat_storage(state: InferenceState, bounds: StageBounds, tensor: Tensor, box: Storage) -> Storage:
    """The storage with the axes of one nest of fused loops as one axis, or `box` where that saves less than a quarter.

    Guarantee: injective on the tensor, and every computed element has a place.
    """
    if not isinstance(bounds.op, ComputeOp) or not box.is_plain:
        return box
    best = box
    for axes in fused_axes(state, bounds, tensor):
        storage = _flattened(state, bounds, tensor, axes, box)
        if _pays(state, storage, best):
            best = storage
    return best


def _flattened(state: InferenceState, bounds: StageBounds, tensor: Tensor, axes: FlatAxes, box: Storage) -> Storage:
    env, (first, *others) = state.env, axes.dims
    footprint = flat_image(state, bounds, tensor, axes)
    ranges = [Range(0, 1) if k in others else r for k, r in enumerate(box.ranges)]
    extent = max_extent(env, footprint, first, bounds.fixed, axes.shape(state.sizes.shape(tensor))[first])
    ranges[first] = Range(footprint.hull(env).sides[first].range().min, extent)
    return replace(box, ranges=tuple(ranges), flat=axes)


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
