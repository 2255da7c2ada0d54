"""A few instances to try: what differs between two of them need not be asked to be the same in all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bound.infer.needs.known import Known
from intset.errors import EvaluationError
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from intset.expr.walk import opaque_terms

_SIZES: Final = (1000, 5)  # a size is tried that far above its lower end


def varies(known: Known, e: Expr, ranges: Mapping[Var, Range], conditions: Sequence[Cond]) -> bool:
    """Whether `e` is seen to take two values in instances in which the conditions hold."""
    seen: set[int] = set()
    for point in _instances(known, (e,), ranges, conditions):
        try:
            seen.add(evaluate(e, point))
        except EvaluationError:
            continue
        if len(seen) > 1:
            return True
    return False


def happens(known: Known, ranges: Mapping[Var, Range], conditions: Sequence[Cond]) -> bool:
    """Whether an instance is seen in which the conditions hold."""
    return any(True for _ in _instances(known, (), ranges, conditions))


def _instances(
    known: Known, roots: Sequence[Expr], ranges: Mapping[Var, Range], conditions: Sequence[Cond]
) -> Iterator[dict[Var, int]]:
    facts = (*known.context.frame.conditions, *conditions)
    if opaque_terms(*facts):
        return  # whether they hold depends on data: no instance is known
    for point in _points(known, [*roots, *facts], ranges):
        try:
            if all(evaluate(fact, point) for fact in facts):
                yield point
        except EvaluationError:
            continue


def _points(known: Known, roots: Sequence[Expr | Cond], ranges: Mapping[Var, Range]) -> Iterator[dict[Var, int]]:
    """Values of all variables: sizes of two magnitudes, loops all at their first and all at their last iteration.

    A point at which a loop does not run is no instance.
    """
    loops = _ordered(ranges)
    used = dict.fromkeys(v for root in (*roots, *ranges.values()) for v in root.free_vars())
    for size in _SIZES:
        sizes: dict[Var, int] = {}
        for v in used:
            if v not in ranges:
                low, high = known.bounds(known.form(v))
                number = size if low is None else low + size
                sizes[v] = number if high is None else min(number, high)
        for at_end in (False, True):
            point = dict(sizes)
            try:
                for v in loops:
                    first, last = ranges[v].min, ranges[v].max
                    assert isinstance(first, Expr) and isinstance(last, Expr)
                    low, high = evaluate(first, point), evaluate(last, point)
                    if low > high:
                        break
                    point[v] = high if at_end else low
                else:
                    yield point
            except (EvaluationError, KeyError):
                continue


def _ordered(ranges: Mapping[Var, Range]) -> list[Var]:
    """The loops, each after those that its range depends on."""
    order: dict[Var, None] = {}
    waiting = list(ranges)
    while waiting:
        v = waiting[-1]
        missing = [w for w in ranges[v].free_vars() if w in ranges and w not in order]
        if missing and v not in order:
            waiting.extend(missing)
            continue
        order[waiting.pop()] = None
    return list(order)
