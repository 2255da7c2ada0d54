"""The instances of a stage: the values that the loop variables around it take together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, Final

from bound.infer.needs.known import Known
from intset.domains.instanced import image_in_instances
from intset.errors import BudgetError
from intset.expr.build import logical_and
from intset.expr.compiled import compiled
from intset.expr.node import Expr, Var, as_expr
from intset.expr.range import Range
from intset.linear.form import Linear
from intset.regions.shape import Shape

MAX_INSTANCES: Final = 20_000  # that are visited one by one
_MAX_LISTED: Final = 3_000


def instances(known: Known, variables: Sequence[Var]) -> Shape:
    """The values that the loop variables take together, as a set without coordinates: its parameters are these,
    and sizes.

    Loops that the ranges depend on beyond these run: threads that share the storage of a stage, for instance.
    """
    key = tuple(v for v in dict.fromkeys(variables) if v in known.ranges)
    found = known.instances.get(key)
    if found is None:
        found = known.instances[key] = _instances(known, key)
    return found


def _instances(known: Known, variables: Sequence[Var]) -> Shape:
    ranges = closed(known, variables)
    forms: list[Linear] = []
    for v, r in ranges.items():
        forms += [known.form(v - as_expr(r.min)), known.form(as_expr(r.max) - v)]
    if all(isinstance(e, Var) for form in forms for e in form.terms):
        return _parameters(known, forms, [v for v in ranges if v not in variables])
    try:
        return _asked_instances(known, ranges, variables)
    except BudgetError:
        points = _listed(known, variables)
        if points is not None:
            return points
    forms = []  # a superset: each loop within its numeric ends
    for v in variables:
        low, high = known.bounds(known.form(v))
        forms += [] if low is None else [known.form(v - low)]
        forms += [] if high is None else [known.form(high - v)]
    return _parameters(known, forms)


def size_limits(known: Known, params: Sequence[Expr]) -> Shape:
    """The parameters within what is known of each by itself."""
    forms: list[Linear] = []
    for param in params:
        form = known.form(param)
        low, high = known.bounds(form)
        forms += [] if low is None else [form.shift(-low)]
        forms += [] if high is None else [form.scale(-1).shift(high)]
    return _parameters(known, forms)


def _parameters(known: Known, forms: Sequence[Linear], running: Sequence[Var] = ()) -> Shape:
    """The set of parameters where all forms are at least 0, for some values of those that run."""
    return known.shapes.box([], forms).without(running)


def _asked_instances(known: Known, ranges: Mapping[Var, Range], variables: Sequence[Var]) -> Shape:
    inside = [v >= r.min for v, r in ranges.items()] + [v <= r.max for v, r in ranges.items()]
    # As conditions: of a range that is at most one point long, an empty one would not be told apart.
    context = known.context.extended(dict.fromkeys(ranges), inside)
    found = image_in_instances(context, list(variables), list(known.size_ranges), known.regions)
    if found.notes:
        raise BudgetError(found.notes[0])
    return found.shape.fibred(variables)


def _listed(known: Known, variables: Sequence[Var]) -> Shape | None:
    """The instances as a list of points; `None` for open sizes, or where there are too many."""
    visited = visit(known, variables)
    points = None if visited is None else sorted(visited)
    if points is None or len(points) > _MAX_LISTED:
        return None
    try:
        return known.shapes.listing(points, (), len(variables)).fibred(variables)
    except BudgetError:
        return None


def visit(known: Known, variables: Sequence[Var]) -> Iterator[tuple[int, ...]] | None:
    """The instances one by one, as values of the variables; `None` for open sizes, or too many."""
    ranges = closed(known, variables)
    spans = []
    for v in ranges:
        low, high = known.bounds(known.form(v))
        if low is None or high is None:
            return None
        spans.append(range(low, high + 1))
    inside = [v >= r.min for v, r in ranges.items()] + [v <= r.max for v, r in ranges.items()]
    if prod(map(len, spans)) > MAX_INSTANCES or any(w not in ranges for cond in inside for w in cond.free_vars()):
        return None
    order = list(ranges)
    places = [order.index(v) for v in variables]
    points = _holding(compiled(logical_and(*inside), order), product(*spans))
    found = (tuple(point[k] for k in places) for point in points)
    return found if len(order) == len(variables) else iter(dict.fromkeys(found))


def _holding(test: Any, points: Iterable[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    for point in points:
        try:
            if test(*point):
                yield point
        except ArithmeticError:  # a division by 0: no such instance
            continue


def closed(known: Known, variables: Iterable[Expr]) -> dict[Var, Range]:
    """The ranges of loop variables, with those of the loops that their ranges depend on."""
    found: dict[Var, Range] = {}
    waiting = list(variables)
    while waiting:
        v = waiting.pop()
        if isinstance(v, Var) and v not in found and v in known.ranges:
            found[v] = known.ranges[v]
            waiting.extend(known.ranges[v].free_vars())
    return found
