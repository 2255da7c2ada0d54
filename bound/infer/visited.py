"""Sizes of boxes by visiting every instance: for ends that isl cannot read, such as a product of loop variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Final

from bound.infer.box import Box
from bound.infer.instances import closed
from bound.infer.known import Known
from intset.errors import EvaluationError
from intset.expr.build import logical_and, maximum, minimum
from intset.expr.compiled import compiled
from intset.expr.node import Expr, Var

MAX_INSTANCES: Final = 20_000


def extents_of(known: Known, box: Box, fixed: Sequence[Var]) -> Iterator[tuple[int, ...]] | None:
    """The extents of a box in each instance, zeros where it is empty; `None` for open sizes or too many instances."""
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
    alive = logical_and(*inside)
    where = logical_and(*(form.expr() >= 0 for form in box.where), *box.also)
    lengths: list[Expr] = [
        minimum(*(f.expr() for f in side.highs)) - maximum(*(f.expr() for f in side.lows)) + 1 for side in box.sides
    ]
    tests = [compiled(cond, order) for cond in (alive, where)]
    return _visit(product(*spans), tests, [compiled(e, order) for e in lengths])


def _visit(points, tests, lengths) -> Iterator[tuple[int, ...]]:  # type: ignore[no-untyped-def]
    for point in points:
        try:
            if not tests[0](*point):
                continue
            extents = tuple(length(*point) for length in lengths) if tests[1](*point) else (0,) * len(lengths)
        except (ZeroDivisionError, EvaluationError):
            continue
        yield extents if min(extents, default=1) > 0 else (0,) * len(lengths)
