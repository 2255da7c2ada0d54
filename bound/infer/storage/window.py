"""The storage of a stage that keeps what it computed (`StageBounds.slid`): what all iterations of its loops need."""

from __future__ import annotations

from typing import Final

from bound.infer.needs.box import whole
from bound.infer.needs.instances import instances
from bound.infer.needs.joined import joined
from bound.infer.needs.need import Need, from_shape
from bound.infer.phases.gather import within
from bound.infer.phases.infer_root_bound import Pass, requests_of
from bound.infer.phases.pass_down import rounds_up
from bound.infer.phases.slide import for_some
from bound.infer.phases.stage_bounds import StageBounds, data_axes
from intset.errors import BudgetError

_OPERATIONS: Final = 1_000_000  # of the domain, for what all iterations compute


def window(state: Pass, bounds: StageBounds) -> Need:
    """The elements that a stage computes in all iterations of the loops between its storage and itself."""
    known = state.known
    path = bounds.path[len(bounds.slid) :]
    shape = state.sizes.shape(bounds.op.outputs[0])
    needs = [request.need for tensor in bounds.op.outputs for request in requests_of(state, bounds, tensor, path)]
    found = within(known, joined(known, len(shape), needs), shape)
    is_exact = bounds.region.exact and bounds.stage not in state.boxed
    if is_exact and not any(rounds_up(bounds.relations, iv) for iv in data_axes(bounds.op)):
        return found
    try:  # more is computed than needed
        with known.budget(_OPERATIONS):
            run = instances(known, (*bounds.region.variables(), *bounds.fixed))
            made = for_some(bounds.region.shape(known).within(run), bounds.slid)
            return from_shape(known, len(shape), made.union(found.shape(known)), found.exact, found.notes)
    except BudgetError as error:
        return Need(len(shape), whole(known, shape), None, False, (*found.notes, f"{error}: all of it is stored"))
