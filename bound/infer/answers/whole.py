"""Whether the nest computes a tensor whole, as a caller that receives it expects."""

from __future__ import annotations

from contextlib import suppress

from bound.infer.footprints.box import contains, whole_tensor
from bound.infer.footprints.environment import LoopEnvironment
from bound.infer.footprints.footprint import FOOTPRINT, Footprint, shape_of
from bound.infer.phases.gather import union_footprints
from bound.infer.phases.infer_root_bound import InferenceState, requests_of
from bound.infer.phases.stage_bounds import StageBounds
from bound.operation import PlaceholderOp
from bound.tensor import Tensor
from intset.errors import BudgetError


def computes_whole(state: InferenceState, bounds: StageBounds, tensor: Tensor) -> bool:
    """Whether a stage's instances provably compute every element of one of its outputs.

    The union over all instances of what consumers read is what they read from a stage outside of all loops.
    """
    if isinstance(bounds.op, PlaceholderOp) or bounds.outer or state.is_root(bounds, tensor):
        return state.is_root(bounds, tensor)
    shape = state.sizes.shape(tensor)
    footprints = [request.footprint for request in requests_of(state, bounds, tensor, ())]
    whole = Footprint(len(shape), whole_tensor(state.env, shape))
    if any(footprint.exact and _includes(state.env, footprint, whole) for footprint in footprints):
        return True
    footprint = union_footprints(state.env, len(shape), footprints, state.env.has_regions)
    return footprint.exact and _includes(state.env, footprint, whole)


def _includes(env: LoopEnvironment, outer: Footprint, whole: Footprint) -> bool:
    assert whole.box is not None
    if outer.box is not None and contains(env, outer.box, whole.box):
        return True
    with suppress(BudgetError), env.budget(FOOTPRINT):
        return env.has_regions and outer.shape(env).includes(shape_of(env, whole.box))
    return False
