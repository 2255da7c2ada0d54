"""Drawn instances of all loops entered so far, which refute claims that a form is nonnegative."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from bound.schedule.simple import low
from intset.context import Context
from intset.errors import EvaluationError, InputError
from intset.expr.dag import opaque_terms
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Var, as_expr
from intset.expr.range import Range
from intset.linear.form import Linear

# The distance of each size from its lower end; the iteration of each loop in turn, modulo its extent.
_DRAWN: Final = ((1009, (0,)), (7, (-1,)), (12, (0, -1, 1)), (2, (-1, 0)), (4, (1, -2, 3)))

Span = tuple[int | None, int | None, int]  # low end, high end, step


def within(span: Span, magnitude: int) -> int:
    """A value `magnitude` above the lower end of a size, within its upper end and a multiple of its declared step."""
    least, most, step = span
    value = magnitude if least is None else least + magnitude
    value = value if most is None else min(value, most)
    value -= value % step
    return value if least is None or value >= least else value + step


def is_inside(r: Range | None, point: Mapping[Expr, int], value: int) -> bool:
    """Whether a value lies in a range, at a point that fixes the range's ends."""
    if r is None:
        return True
    first = evaluate(r.min, point) if isinstance(r.min, Expr) else value
    last = evaluate(r.max, point) if isinstance(r.max, Expr) else value
    return bool(first <= value <= last)


class Witnesses:
    """A few instances, each with every loop running.

    Guarantee: a form that `refute` confirms is negative in an instance, so no proof of the contrary is lost.

    Parameters
    ----------
    ends: numeric ends of a size.
    loops: the ranges of the loops; it may grow.
    """

    def __init__(
        self, context: Context, ends: Callable[[Var], tuple[int | None, int | None]], loops: Mapping[Var, Range]
    ) -> None:
        self._context, self._ends, self._loops = context, ends, loops
        self._instances: list[_Instance] | None = None
        self._pending: list[Var] = []

    def enter(self, loop: Var) -> None:
        """Drop the instances in which a new loop does not run."""
        if not as_expr(self._loops[loop].extent).is_const:
            self._pending.append(loop)

    def refute(self, form: Linear) -> bool:
        """Whether a drawn instance makes the form negative."""
        return any(instance.makes_negative(form) for instance in self._running())

    def give_two_values(self, e: Expr, conditions: Sequence[Cond]) -> bool:
        """Whether two drawn instances that satisfy the conditions give `e` different values."""
        inside = (one.value(e, conditions) for one in self._running())
        return len({value for value in inside if value is not None}) > 1

    def _running(self) -> list[_Instance]:
        """The instances in which all loops entered so far run."""
        if self._instances is None:
            self._instances = self._drawn()
        if self._pending:
            self._instances = [one for one in self._instances if all(one.runs(v) for v in self._pending)]
            self._pending = []
        return self._instances

    def _drawn(self) -> list[_Instance]:
        facts, ranges = self._context.frame.conditions, self._context.ranges
        if opaque_terms(*facts):
            return []
        instances = (_Instance(magnitude, steps, self._ends, self._loops) for magnitude, steps in _DRAWN)
        return [one for one in instances if one.satisfies(ranges, facts)]


class _Instance:
    """Values of sizes and loops, drawn on first use.

    Parameters
    ----------
    magnitude: the distance of each size from its lower end.
    steps: the iterations of the loops in turn, modulo their extents.
    """

    def __init__(
        self,
        magnitude: int,
        steps: Sequence[int],
        ends: Callable[[Var], tuple[int | None, int | None]],
        loops: Mapping[Var, Range],
    ) -> None:
        self._magnitude, self._steps, self._ends, self._loops = magnitude, steps, ends, loops
        self._values: dict[Expr, int] = {}

    def satisfies(self, ranges: Mapping[Var, Range], facts: Iterable[Cond]) -> bool:
        """Whether the sizes lie in their ranges and satisfy the facts."""
        try:
            for v in (*ranges, *(v for fact in facts for v in fact.free_vars())):
                self._draw(v)
            inside = all(is_inside(r, self._values, self._values[v]) for v, r in ranges.items())
            return inside and all(evaluate(fact, self._values) for fact in facts)
        except (EvaluationError, InputError):
            return False

    def runs(self, v: Var) -> bool:
        """Whether a loop has an iteration."""
        try:
            self._draw(v)
        except (EvaluationError, InputError):
            return False
        return True

    def makes_negative(self, form: Linear) -> bool:
        """Whether the form is negative; `False` where it has no value."""
        try:
            return form.const + sum(k * self._value(e) for e, k in form.terms.items()) < 0
        except (EvaluationError, InputError):
            return False

    def value(self, e: Expr, conditions: Sequence[Cond]) -> int | None:
        """The value of an expression; `None` if it is undefined or a condition fails."""
        try:
            for v in (v for cond in conditions for v in cond.free_vars()):
                self._draw(v)
            return self._value(e) if all(evaluate(cond, self._values) for cond in conditions) else None
        except (EvaluationError, InputError):
            return None

    def _value(self, e: Expr) -> int:
        value = self._values.get(e)
        if value is None:
            for v in e.free_vars():
                self._draw(v)
            value = self._values[e] = int(evaluate(e, self._values))
        return value

    def _draw(self, v: Var) -> None:
        """Give a size or a loop its value.

        Raises
        ------
        EvaluationError: the loop does not run.
        """
        if v in self._values:
            return
        if v not in self._loops:
            self._values[v] = within((*self._ends(v), v.declared()[2]), self._magnitude)
            return
        first, length = self._value(low(self._loops[v])), self._value(as_expr(self._loops[v].extent))
        if length < 1:
            raise EvaluationError(f"{v} has no iteration")
        self._values[v] = first + self._steps[len(self._values) % len(self._steps)] % length
