"""Traffic of a tensor: the elements that its stage stores and its consumers load, over all instances.

An element that one instance needs several times is loaded once: it stays in registers or in a cache meanwhile. Example:
a tile of `t` outputs of a stencil of width 3 loads `t + 2` elements, and `n // t` of such tiles load them anew each.
"""

from __future__ import annotations

from collections.abc import Callable

from bound.infer.answers.region import StageRegion
from bound.infer.phases.gather import union_footprints, within_tensor
from bound.infer.phases.infer_root_bound import InferenceState, own_propagation
from bound.infer.phases.stage_bounds import StageBounds
from bound.operation import PlaceholderOp
from bound.schedule import AttachType, Stage
from bound.tensor import Tensor
from intset.errors import InputError
from intset.expr.build import sum_of
from intset.expr.node import Expr, as_expr
from intset.expr.printer import shown

LOADS, STORES = "loads", "stores"


def traffic_of(
    state: InferenceState,
    bounds: StageBounds,
    tensor: Tensor,
    only: str | None,
    region: Callable[[str], StageRegion],
) -> Expr:
    """The stores of a tensor, its loads, or with `None` both.

    Parameters
    ----------
    bounds: those of its stage.
    region: its region, "required" or "computed".

    Raises
    ------
    InputError: `only` is none of these.
    """
    if only not in (None, LOADS, STORES):
        raise InputError(f"traffic counts 'loads', 'stores' or, with None, both, not {shown(only)}")
    is_stored = only != LOADS and not isinstance(bounds.op, PlaceholderOp)
    stored = as_expr(region("computed").count_total() if is_stored else 0)
    if only == STORES:
        return stored
    loaded = _loads(state, bounds, tensor, region("required"))
    return loaded if only == LOADS or stored.is_const and not stored.data else stored + loaded


def _loads(state: InferenceState, bounds: StageBounds, tensor: Tensor, required: StageRegion) -> Expr:
    """The elements of a tensor that its consumers load.

    Parameters
    ----------
    bounds: those of its stage.
    required: its required region.
    """
    readers = dict.fromkeys(state.graph.get(tensor, ()))
    consumers = [stage for stage in readers if stage.attach_type is not AttachType.INLINED_ALREADY]
    if len(consumers) == 1 and _serves(state, bounds, consumers[0]):
        return as_expr(required.count_total())
    return sum_of([as_expr(_loaded(state, bounds, tensor, consumer).count_total()) for consumer in consumers])


def _serves(state: InferenceState, bounds: StageBounds, consumer: Stage) -> bool:
    """Whether a stage is computed inside the loops of its consumer."""
    return len(bounds.path) > len(state.bounds[consumer].path)


def _loaded(state: InferenceState, bounds: StageBounds, tensor: Tensor, consumer: Stage) -> StageRegion:
    """The elements that a consumer loads in one instance: of the tensor's stage if inside of it, else of its own."""
    env, reader, shape = state.env, state.bounds[consumer], state.sizes.shape(tensor)
    if _serves(state, bounds, consumer):
        fixed = bounds.fixed
        footprints = [one.footprint for one in state.requests[tensor] if one.consumer is reader]
    else:
        fixed, propagation = reader.fixed, own_propagation(state, reader)
        footprints = [propagation.image(access, shape) for access in state.accesses(consumer.op, tensor)]
    return StageRegion(env, within_tensor(env, union_footprints(env, len(shape), footprints), shape), fixed)
