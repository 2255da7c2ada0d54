"""The largest extent of a region over its instances: what storage and loops of one length for all have to provide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod

from bound.infer.needs.box import Box, Interval
from bound.infer.needs.instances import closed, instances
from bound.infer.needs.known import Known
from bound.infer.needs.need import Need
from bound.infer.needs.quotients import without_quotients
from bound.infer.needs.sample import happens
from bound.infer.needs.visited import extents_of
from bound.schedule import simple
from intset.domains.registry import CHEAPEST
from intset.errors import BudgetError
from intset.expr.node import Expr, Var, as_expr
from intset.linear.form import Linear
from intset.regions.product import has_select

_OPERATIONS = 200_000  # of the domain, for one dimension of one region
_MAX_CORNERS = 64


def widest(known: Known, need: Need, k: int, fixed: Sequence[Var], most: Expr) -> Expr:
    """The largest extent along dimension `k` over all values of the variables in `fixed`, in terms of sizes.

    `most` is the extent of the tensor, where nothing less is known.
    """
    box = need.box
    if box is not None:
        side = box.sides[k]
        extents = side.extents()
        if len(extents) == 1 and not any(v in known.ranges for e in extents[0].terms for v in e.free_vars()):
            value = extents[0]
            return as_expr(max(value.const, 0)) if value.is_const else value.expr()
        number = _at_corners(known, box, side)
        if number is not None:
            return as_expr(number)
    hull = need.hull(known)
    varying = [v for v in fixed if v in known.ranges and known.ranges[v].constant() is None]
    visited = extents_of(known, hull, varying) if need.has_ends and not hull.is_affine() else None
    if visited is not None:
        return as_expr(max((extents[k] for extents in visited), default=0))
    found = _asked(known, need, k, fixed) if need.has_ends else None
    return _bounded(known, hull.sides[k], most) if found is None else found


def is_never_alive(known: Known, need: Need, fixed: Sequence[Var]) -> bool:
    """Whether a region turns out to be empty in every instance, for conditions that exclude one another there."""
    box = need.box
    is_plain = not (need.guard if box is None else box).is_conditional()
    if is_plain and all(known.ranges[v].constant() for v in fixed):
        return False  # an empty set or interval would have been noticed
    if box is not None:
        alive = [gap.expr() >= 0 for side in box.sides for gap in side.gaps()]
        alive += [*(form.expr() >= 0 for form in box.where), *box.also]
        if happens(known, closed(known, (*fixed, *box.variables())), alive):
            return False
    visited = None if box is None or box.is_affine() else extents_of(known, box, fixed)
    if visited is not None:
        return not any(prod(extents) for extents in visited)
    try:
        around = instances(known, (*need.variables(), *fixed))
        return need.shape(known).within(around).is_empty()
    except BudgetError:
        return False


def _at_corners(known: Known, box: Box, side: Interval) -> int | None:
    """The largest extent, where it is met at a corner of the space of instances."""
    ends = [known.bounds(extent)[1] for extent in side.extents()]
    numbers = [n for n in ends if n is not None]
    if not numbers:
        return None
    most = max(min(numbers), 0)
    for values in _corners(known, box):
        if min(_value(f, values) for f in side.extents()) == most and _is_alive(box, values):
            return most
    return None


def _corners(known: Known, box: Box) -> Iterator[dict[Expr, int]]:
    """The corners of the space of instances, as values of loop variables; none where they are not independent."""
    if not box.is_affine():
        return
    variables = box.variables()
    spans = []
    for v in variables:
        limits = known.ranges.get(v)
        ends = None if limits is None else limits.constant()
        if ends is None or ends[0] > ends[1]:
            return
        spans.append(tuple(dict.fromkeys(ends)))
    if prod(len(span) for span in spans) <= _MAX_CORNERS:
        for corner in product(*spans):
            yield dict(zip(variables, corner, strict=True))


def _value(form: Linear, values: Mapping[Expr, int]) -> int:
    return form.const + sum(k * values[e] for e, k in form.terms.items())


def _is_alive(box: Box, values: Mapping[Expr, int]) -> bool:
    forms = [*box.where, *(gap for side in box.sides for gap in side.gaps())]
    return all(_value(form, values) >= 0 for form in forms)


def _asked(known: Known, need: Need, k: int, fixed: Sequence[Var]) -> Expr | None:
    try:
        shape = need.shape(known)
        around = instances(known, (*need.variables(), *fixed))
        with known.budget(_OPERATIONS):
            inside = shape.within(around)
            found = inside.widest(k, [v for v in inside.atoms() if v in known.ranges])
    except BudgetError:
        return None
    if found is None or has_select(found) or any(v in known.ranges for v in found.free_vars()):
        return None
    return found


def _bounded(known: Known, side: Interval, most: Expr) -> Expr:
    """A bound of the extent: the numeric one, or where sizes are unbounded one from the symbolic ends of loops."""
    ends = [known.bounds(extent)[1] for extent in side.extents()]
    numbers = [n for n in ends if n is not None]
    if numbers:
        number = max(min(numbers), 0)
        most = simple.minimum(number, most) if most.is_const else as_expr(number)
    choices = [most]
    for extent in side.extents():
        apart = without_quotients(known, extent)
        if numbers and apart is extent:
            continue
        high = _without_loops(known, apart.expr())
        if high is None:
            continue
        form = known.form(high)
        if not any(known.is_nonneg(form.minus(known.form(other))) for other in choices):
            choices = [other for other in choices if not known.is_nonneg(known.form(other).minus(form))]
            choices.append(high)
    return reduce(simple.minimum, choices[1:], choices[0])


def _without_loops(known: Known, e: Expr) -> Expr | None:
    """The most that an expression is over all values of loop variables, in sizes; `None` where that is not known."""
    if any(v in known.ranges for v in e.free_vars()):
        high = known.context.extended(known.ranges).bounds(e, domain=CHEAPEST)[1]
        if not isinstance(high, Expr) or any(v in known.ranges for v in high.free_vars()):
            return None
        return high
    return e
