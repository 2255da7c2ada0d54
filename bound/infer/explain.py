"""Why a tensor has the bounds it has, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bound.infer.box import Interval
from bound.infer.need import Need
from bound.infer.stage_bounds import StageBounds
from bound.tensor import Tensor
from intset.errors import IntSetError
from intset.expr.build import maximum, minimum
from intset.expr.range import Range

if TYPE_CHECKING:
    from bound.infer.infer_root_bound import Pass


def explain(state: Pass, bounds: StageBounds, tensor: Tensor, allocated: tuple[Range, ...]) -> str:
    """A paragraph: place, requests, what is required, computed and stored, what was given up."""
    lines = [f"{tensor.name}: {_place(bounds)}"]
    requests = state.requests.get(tensor, ())
    for request in requests:
        indices = ", ".join(map(str, request.access.indices))
        when = " and ".join(map(str, request.access.conditions))
        lines.append(
            f"  {request.consumer.stage.name} reads {tensor.name}[{indices}]{' where ' + when if when else ''}"
        )
        fixed, relaxed = ", ".join(reversed(request.fixed)), ", ".join(reversed(request.relaxed))
        lines.append(f"    loops fixed: {fixed or 'none'}; running: {relaxed or 'none'}")
        lines.append(f"    asks for {_text(state, request.need)}")
    if bounds.stage.is_output:
        lines.append("  it is an output: all of it is needed")
    elif not requests:
        lines.append("  nobody reads it")
    required = bounds.required[tensor]
    lines.append(f"  required: {_text(state, required)}")
    if bounds.computed is not None and bounds.computed is not required:
        lines.append(f"  computed: {_text(state, bounds.computed)}")
    if bounds.guards:
        lines.append(f"  its body runs where {' and '.join(map(str, bounds.guards))}")
    lines.append(f"  stored in {' x '.join(f'{r.extent} from {r.min}' for r in allocated)}")
    notes = tuple(dict.fromkeys((*required.notes, *(() if bounds.computed is None else bounds.computed.notes))))
    lines += [f"  precision was given up: {note}" for note in notes]
    if not notes and not required.exact:
        lines.append("  precision was given up: the domain does not promise to be exact here")
    return "\n".join(lines)


def _place(bounds: StageBounds) -> str:
    if not bounds.path:
        return "computed at the root" if bounds.computed is not None else "given"
    stage, axis = bounds.path[0]
    loops = ", ".join(iv.name for _, iv in reversed(bounds.path))
    relaxed = [iv.name for _, iv in bounds.path if iv not in bounds.fixed]
    shared = f"; {', '.join(relaxed)} share its storage" if relaxed else ""
    return f"computed at {axis.name} of {stage.name}, inside {loops}{shared}"


def _side(side: Interval) -> str:
    low, high = maximum(*(f.expr() for f in side.lows)), minimum(*(f.expr() for f in side.highs))
    return f"[{low}, {high}]"


def _text(state: Pass, need: Need) -> str:
    try:
        box = need.hull(state.known)
        sides = " x ".join(_side(side) for side in box.sides) or "its only element"
    except IntSetError as error:
        return f"a region whose ends are not known ({error})"
    where = " and ".join([*(f"{form.expr()} >= 0" for form in box.where), *map(str, box.also)])
    kind = "" if need.box is not None else ", and there a part of the box"
    return f"{sides}{' where ' + where if where else ''}{kind}"
