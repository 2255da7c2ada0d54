"""Sizes of boxes by visiting every instance: for ends that isl cannot read, such as a product of loop variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Final

from bound.infer.box import Box
from bound.infer.instances import closed
from bound.infer.known import Known
from intset.errors import EvaluationError
from intset.expr.build import logical_and, maximum, minimum
from intset.expr.compiled import compiled
from intset.expr.node import Var

if TYPE_CHECKING:
    from bound.infer.need import Need

MAX_INSTANCES: Final = 20_000
MAX_POINTS: Final = 500_000


def extents_of(known: Known, box: Box, fixed: Sequence[Var]) -> Iterator[tuple[int, ...]] | None:
    """The extents of a box in each instance, zeros where it is empty; `None` for open sizes or too many instances."""
    boxes = _boxes_of(known, box, fixed)
    return None if boxes is None else (tuple(map(len, spans)) for _, spans in boxes)


def counts_of(known: Known, need: Need, fixed: Sequence[Var]) -> tuple[int, int] | None:
    """The largest number of points of an instance and that of all, by looking at every point of every box.

    `None` for open sizes, or where there are too many.
    """
    boxes = _boxes_of(known, need.hull(known), fixed)
    if boxes is None:
        return None
    point = [Var(f"x{k}") for k in range(need.dims)]
    order = list(closed(known, [*fixed, *need.hull(known).variables(), *need.variables()]))
    inside = compiled(logical_and(*need.conditions(point)), [*order, *point])
    most = total = looked = 0
    for values, spans in boxes:
        looked += prod(map(len, spans))
        if looked > MAX_POINTS:
            return None
        instance = [values[v] for v in order]
        number = sum(1 for x in product(*spans) if inside(*instance, *x))
        most, total = max(most, number), total + number
    return most, total


def _boxes_of(known: Known, box: Box, fixed: Sequence[Var]) -> Iterator[tuple[dict[Var, int], list[range]]] | None:
    """Each instance with its box, empty where a condition does not hold."""
    variables = [*fixed, *(v for v in box.variables() if v not in fixed)]
    ranges = closed(known, variables)
    spans = []
    for v in ranges:
        low, high = known.bounds(known.form(v))
        if low is None or high is None:
            return None
        spans.append(range(low, high + 1))
    if any(v not in ranges for v in variables) or prod(map(len, spans)) > MAX_INSTANCES:
        return None
    order = list(ranges)
    inside = [v >= r.min for v, r in ranges.items()] + [v <= r.max for v, r in ranges.items()]
    if any(w not in ranges for cond in inside for w in cond.free_vars()):
        return None
    where = logical_and(*(form.expr() >= 0 for form in box.where), *box.also)
    ends = [
        (maximum(*(f.expr() for f in side.lows)), minimum(*(f.expr() for f in side.highs)) + 1) for side in box.sides
    ]
    tests = [compiled(cond, order) for cond in (logical_and(*inside), where)]
    functions = [(compiled(low, order), compiled(end, order)) for low, end in ends]
    return _visit(order, product(*spans), tests, functions)


def _visit(
    order: Sequence[Var],
    points: Iterable[tuple[int, ...]],
    tests: Sequence[Callable[..., Any]],
    ends: Sequence[tuple[Callable[..., int], Callable[..., int]]],
) -> Iterator[tuple[dict[Var, int], list[range]]]:
    nowhere = [range(0)] * len(ends)
    for point in points:
        try:
            if not tests[0](*point):
                continue
            spans = [range(low(*point), end(*point)) for low, end in ends] if tests[1](*point) else nowhere
        except (ZeroDivisionError, EvaluationError):
            continue
        yield dict(zip(order, point, strict=True)), spans if all(spans) else nowhere
