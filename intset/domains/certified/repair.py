"""Local search for a point that satisfies conditions over many sizes: a violated one is repaired, one size a step.

Conditions that stay violated gain weight, so that the search leaves a point at which every single step makes matters
worse (Morris, *The Breakout Method for Escaping From Local Minima*, AAAI 1993). Nothing is drawn: the same conditions
give the same point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from intset.domains.certified.witness import Point
from intset.errors import EvaluationError, InputError
from intset.expr import ops
from intset.expr.dag import free_vars, opaque_terms
from intset.expr.evaluate import evaluate, may_be_long, repeatable
from intset.expr.node import Cond, Expr, Var
from intset.linear.bounds import Interval

REPAIR_EVALUATIONS: Final = 3_000  # conditions evaluated in one search for a point
REPAIR_REACH: Final = 65  # steps from the value of a size to the last one that is tried
REPAIR_SIZES: Final = 64  # sizes of one search

_FAR = 64  # bits of a size without an end
FEW = 4  # values of one size, among those that satisfy the violated condition, that are weighed


class _OutOfEvaluationsError(Exception):
    """The search is out of evaluations."""


class _LocalSearch:
    """A point, the conditions that it violates, and their weights."""

    def __init__(self, conditions: Sequence[Cond], spans: Mapping[Var, Interval]) -> None:
        self.conditions, self.spans = conditions, spans
        self.mentioned = [free_vars(cond) for cond in conditions]
        self.tests = [repeatable(cond, own) for cond, own in zip(conditions, self.mentioned, strict=True)]
        self.touching: dict[Var, list[int]] = {v: [] for v in spans}
        for number, own in enumerate(self.mentioned):
            for v in own:
                self.touching[v].append(number)
        self.weights = [1] * len(conditions)
        self.left = REPAIR_EVALUATIONS
        self.point: Point = {v: _first(span) for v, span in spans.items()}

    def holds(self, number: int) -> bool:
        """Whether a condition holds at the point; one without a value there does not."""
        self.left -= 1
        if self.left < 0:
            raise _OutOfEvaluationsError
        try:
            return bool(self.tests[number](*[self.point[v] for v in self.mentioned[number]]))
        except (EvaluationError, ZeroDivisionError):
            return False

    def search(self) -> Point | None:
        """A point that satisfies all conditions; `None` if no size of a violated one can move."""
        violated = {number for number in range(len(self.conditions)) if not self.holds(number)}
        while violated:
            number = min(violated)
            best: tuple[int, int, Var, int, set[int]] | None = None
            for v in self.mentioned[number]:
                old = self.point[v]
                for value in self.values(number, v):
                    self.point[v] = value
                    broken = {other for other in self.touching[v] if not self.holds(other)}
                    cost = sum(self.weights[other] for other in broken)
                    cost -= sum(self.weights[other] for other in violated if other in self.touching[v])
                    if best is None or (cost, abs(value - old)) < best[:2]:
                        best = (cost, abs(value - old), v, value, broken)
                self.point[v] = old
            for other in violated:
                self.weights[other] += 1
            if best is None:
                return None
            _, _, v, value, broken = best
            self.point[v] = value
            violated = {other for other in violated if v not in self.mentioned[other]} | broken
        return self.point

    def values(self, number: int, v: Var) -> list[int]:
        """The nearest values of a size at which the condition holds; else some toward it."""
        old = self.point[v]
        found: list[int] = []
        toward = list(self._toward(number, v))
        near = (old + side * step for step in range(1, REPAIR_REACH) for side in (1, -1))
        for value in (*toward, *near):
            if value not in found and self.is_within(v, value):
                self.point[v] = value
                if self.holds(number):
                    found.append(value)
                self.point[v] = old
                if len(found) == FEW:
                    break
        return found or [value for value in (*toward, old + 1, old - 1) if self.is_within(v, value)]

    def is_within(self, v: Var, value: int) -> bool:
        low, high = self.spans[v]
        return value != self.point[v] and (low is None or low <= value) and (high is None or value <= high)

    def _toward(self, number: int, v: Var) -> Iterator[int]:
        """Where the line through two values of the difference of the sides is zero."""
        for part in _comparisons(self.conditions[number]):
            a, b = part.args
            old = self.point[v]
            try:
                here = evaluate(a, self.point) - evaluate(b, self.point)
                self.point[v] = old + 1
                slope = evaluate(a, self.point) - evaluate(b, self.point) - here
            except EvaluationError:
                continue
            finally:
                self.point[v] = old
            if slope:
                zero = old - here // slope
                yield from (zero, zero + 1, zero - 1)


def _first(span: Interval) -> int:
    low, high = span
    return low if low is not None else min(0, high) if high is not None else 0


def _comparisons(cond: Cond) -> Iterator[Cond]:
    stack: list[Cond] = [cond]
    while stack:
        part = stack.pop()
        if part.op in (ops.AND, ops.OR, ops.NOT):
            stack.extend(part.args)
        elif part.op is not ops.BOOL and all(isinstance(arg, Expr) for arg in part.args):
            yield part


def repaired(conditions: Sequence[Cond], spans: Mapping[Var, Interval]) -> Point | None:
    """A point of the spans that satisfies all conditions, or `None` if the search finds none.

    Parameters
    ----------
    spans: an interval for each variable of the conditions.
    """
    if len(spans) > REPAIR_SIZES or opaque_terms(*conditions):
        return None
    if may_be_long(conditions, {v: max([_FAR if k is None else abs(k).bit_length() for k in spans[v]]) for v in spans}):
        return None
    try:
        return _LocalSearch(conditions, spans).search()
    except (_OutOfEvaluationsError, InputError):
        return None
