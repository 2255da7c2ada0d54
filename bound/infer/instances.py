"""The instances of a stage: the values that the loop variables around it take together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bound.infer.known import Known
from intset.errors import BudgetError
from intset.expr.node import Var
from intset.expr.range import Range
from intset.linear.form import Linear

if TYPE_CHECKING:
    from intset.domains.isl.sets import Presburger


def instances(known: Known, variables: Sequence[Var]) -> Presburger:
    """The values that the loop variables take together, as an isl set of parameters."""
    from intset.domains.isl.boxes import box_shape
    from intset.domains.isl.sets import Presburger

    ranges = closed(known, variables)
    forms: list[Linear] = []
    for v, r in ranges.items():
        forms += [known.form(v - r.min), known.form(r.max - v)]  # type: ignore[operator]
    if all(isinstance(e, Var) for form in forms for e in form.terms):
        shape = box_shape([], forms)
        return Presburger(shape.get().params(), shape.params)
    try:
        return _asked_instances(known, ranges)
    except BudgetError:  # a superset: each loop within its numeric ends
        forms = []
        for v in ranges:
            low, high = known.bounds(known.form(v))
            forms += [] if low is None else [known.form(v - low)]
            forms += [] if high is None else [known.form(high - v)]
        shape = box_shape([], forms)
        return Presburger(shape.get().params(), shape.params)


def _asked_instances(known: Known, ranges: Mapping[Var, Range]) -> Presburger:
    from intset.domains.isl.instanced import image_in_instances
    from intset.domains.isl.session import isl
    from intset.domains.isl.sets import Presburger
    from intset.domains.isl.translate import param_name

    variables = list(ranges)
    inside = [v >= r.min for v, r in ranges.items()] + [v <= r.max for v, r in ranges.items()]
    # As conditions: of a range that is at most one point long, an empty one would not be told apart.
    context = known.context.extended(dict.fromkeys(variables), inside)
    region = image_in_instances(context, variables, list(known.size_ranges))
    kinds = isl().dim_type
    current = region.shape.get()
    start = current.dim(kinds.param)
    moved = current.move_dims(kinds.param, start, kinds.set, 0, len(variables))
    for k, v in enumerate(variables):
        moved = moved.set_dim_name(kinds.param, start + k, param_name(v))
    return Presburger(moved.params(), (*region.shape.params, *variables))


def closed(known: Known, variables: Iterable[Var]) -> dict[Var, Range]:
    """The ranges of loop variables, with those of the loops that their ranges depend on."""
    found: dict[Var, Range] = {}
    waiting = list(variables)
    while waiting:
        v = waiting.pop()
        if v not in found and v in known.ranges:
            found[v] = known.ranges[v]
            waiting.extend(known.ranges[v].free_vars())
    return found
