"""Regions by visiting every instance: for ends that isl cannot read, such as a product of loop variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, Final

from bound.infer.needs.box import Box
from bound.infer.needs.instances import visit
from bound.infer.needs.known import Known
from bound.infer.needs.need import Need
from intset.expr.build import logical_and, maximum, minimum
from intset.expr.compiled import compiled
from intset.expr.node import Var

MAX_POINTS: Final = 500_000
MAX_LISTED: Final = 3000  # elements, over all instances, that a set may list


def extents_of(known: Known, box: Box, fixed: Sequence[Var]) -> Iterator[tuple[int, ...]] | None:
    """The extents of a box in each instance, zeros where it is empty; `None` for open sizes or too many instances."""
    boxes = _boxes_of(known, box, fixed)
    return None if boxes is None else (tuple(map(len, spans)) for _, spans in boxes)


def counts_of(known: Known, need: Need, fixed: Sequence[Var]) -> tuple[int, int] | None:
    """The largest number of points of an instance and that of all, by looking at every point of every box.

    `None` for open sizes, or where there are too many.
    """
    variables = dict.fromkeys((*fixed, *need.hull(known).variables(), *need.variables()))
    elements = _elements(known, need, list(variables), MAX_POINTS)
    if elements is None:
        return None
    most = total = 0
    for found in elements:
        if found is None:
            return None
        most, total = max(most, len(found[1])), total + len(found[1])
    return most, total


def listed(known: Known, needs: Sequence[Need]) -> tuple[list[Var], list[tuple[int, ...]]] | None:
    """The elements of a union in all instances: the variables that tell these apart, and points that begin with them.

    `None` for open sizes, or where there are too many.
    """
    order = list(dict.fromkeys(v for need in needs for v in (*need.hull(known).variables(), *need.variables())))
    points: set[tuple[int, ...]] = set()
    for need in needs:
        elements = _elements(known, need, order, MAX_POINTS // 10)
        if elements is None:
            return None
        for found in elements:
            if found is None or len(points) > MAX_LISTED:
                return None
            instance, inside = found
            points.update((*instance, *x) for x in inside)
    return order, sorted(points)


def _elements(
    known: Known, need: Need, order: Sequence[Var], most: int
) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]] | None] | None:
    """Each instance with its elements; `None` in the end where more than `most` points had to be looked at."""
    boxes = _boxes_of(known, need.hull(known), order)
    if boxes is None or any(v not in order for v in need.variables()):
        return None
    point = [Var(f"x{k}") for k in range(need.dims)]
    return _filtered(boxes, compiled(logical_and(*need.conditions(point)), [*order, *point]), order, most)


def _filtered(
    boxes: Iterable[tuple[dict[Var, int], list[range]]], inside: Callable[..., Any], order: Sequence[Var], most: int
) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]] | None]:
    looked = 0
    for values, spans in boxes:
        looked += prod(map(len, spans))
        if looked > most:
            yield None
            return
        instance = tuple(values[v] for v in order)
        yield instance, [x for x in product(*spans) if inside(*instance, *x)]


def _boxes_of(known: Known, box: Box, fixed: Sequence[Var]) -> Iterator[tuple[dict[Var, int], list[range]]] | None:
    """Each instance with its box, empty where a condition does not hold."""
    order = [*fixed, *(v for v in box.variables() if v not in fixed)]
    points = visit(known, order) if all(v in known.ranges for v in order) else None
    if points is None:
        return None
    where = compiled(logical_and(*(form.expr() >= 0 for form in box.where), *box.also), order)
    ends = [
        (maximum(*(f.expr() for f in side.lows)), minimum(*(f.expr() for f in side.highs)) + 1) for side in box.sides
    ]
    return _boxes(order, points, where, [(compiled(low, order), compiled(end, order)) for low, end in ends])


def _boxes(
    order: Sequence[Var],
    points: Iterable[tuple[int, ...]],
    where: Callable[..., Any],
    ends: Sequence[tuple[Callable[..., int], Callable[..., int]]],
) -> Iterator[tuple[dict[Var, int], list[range]]]:
    nowhere = [range(0)] * len(ends)
    for point in points:
        try:
            spans = [range(low(*point), end(*point)) for low, end in ends] if where(*point) else nowhere
        except ArithmeticError:
            continue
        yield dict(zip(order, point, strict=True)), spans if all(spans) else nowhere
