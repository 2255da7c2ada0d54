"""Footprints by enumeration of instances and elements: exact where ends are not affine, for constant sizes.

Example: ends that contain a product of loop variables, which no Presburger set expresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, Final

from bound.infer.footprints.box import Box
from bound.infer.footprints.environment import LoopEnvironment
from bound.infer.footprints.footprint import Footprint, footprint_of_shape
from bound.infer.footprints.instances import MAX_LISTED, enumerate_instances
from intset import config
from intset.context import Context
from intset.domains.certified.consistency import values_of
from intset.domains.query import Query
from intset.errors import BudgetError
from intset.expr.build import logical_and, maximum, minimum
from intset.expr.evaluate import compiled
from intset.expr.node import Expr, Var
from intset.expr.walk import is_small, opaque_terms

MAX_POINTS: Final = 500_000


def enumerate_extents(env: LoopEnvironment, box: Box, fixed: Sequence[Var]) -> Iterator[tuple[int, ...]] | None:
    """The extents of a box in each instance, zeros if empty; `None` for symbolic sizes or too many instances."""
    boxes = _boxes_of(env, box, fixed)
    return None if boxes is None else (tuple(map(len, spans)) for _, spans in boxes)


def enumerate_counts(env: LoopEnvironment, footprint: Footprint, fixed: Sequence[Var]) -> tuple[int, int] | None:
    """Maximum and sum, over instances, of the number of elements.

    `None` for symbolic sizes or too many points.
    """
    variables = dict.fromkeys((*fixed, *footprint.hull(env).variables(), *footprint.variables()))
    elements = _elements(env, footprint, list(variables), MAX_POINTS)
    if elements is None:
        return None
    most = total = 0
    for instance in elements:
        if instance is None:
            return None
        most, total = max(most, len(instance[1])), total + len(instance[1])
    return most, total


def listed(env: LoopEnvironment, footprints: Sequence[Footprint]) -> tuple[list[Var], list[tuple[int, ...]]] | None:
    """The elements of a union in all instances, as loop variables and the tuples of their values and coordinates.

    `None` for symbolic sizes or too many points.
    """
    order = list(
        dict.fromkeys(v for footprint in footprints for v in (*footprint.hull(env).variables(), *footprint.variables()))
    )
    points: set[tuple[int, ...]] = set()
    for footprint in footprints:
        elements = _elements(env, footprint, order, MAX_POINTS // 10)
        if elements is None:
            return None
        for entry in elements:
            if entry is None or len(points) > MAX_LISTED:
                return None
            instance, inside = entry
            points.update((*instance, *x) for x in inside)
    return order, sorted(points)


def _elements(
    env: LoopEnvironment, footprint: Footprint, order: Sequence[Var], most: int
) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]] | None] | None:
    """Each instance with its elements; a final `None` if that takes more than `most` membership tests."""
    boxes = _boxes_of(env, footprint.hull(env), order)
    if boxes is None or any(v not in order for v in footprint.variables()):
        return None
    point = [Var(f"x{k}") for k in range(footprint.dims)]
    return _filtered(boxes, compiled(logical_and(*footprint.conditions(point)), [*order, *point]), order, most)


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


def _boxes_of(
    env: LoopEnvironment, box: Box, fixed: Sequence[Var]
) -> Iterator[tuple[dict[Var, int], list[range]]] | None:
    """Each instance with its box, empty where the guard fails."""
    order = [*fixed, *(v for v in box.variables() if v not in fixed)]
    points = enumerate_instances(env, order) if all(v in env.ranges for v in order) else None
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


_MAX_NODES: Final = 1000  # of the expressions evaluated at every point


def enumerate_image(
    env: LoopEnvironment, context: Context, exprs: Sequence[Expr], fixed: Sequence[Var]
) -> Footprint | None:
    """The image of `exprs` in each instance; `None` for symbolic sizes, data or too many points."""
    frame = context.frame
    if opaque_terms(*exprs) or not is_small(_MAX_NODES, (*exprs, *frame.conditions)):
        return None
    query = Query((*fixed, *exprs), frame.ranges, frame.conditions, (), frame.base, frame.known, config.current())
    values = values_of(query)
    if values is None or len(values) > MAX_LISTED:
        return None
    try:
        shape = env.shapes.listing(sorted(values), fixed, len(exprs))
    except BudgetError:
        return None
    return footprint_of_shape(env, len(exprs), shape, True)
