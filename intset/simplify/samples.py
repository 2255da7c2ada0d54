"""Sample points of a normalizer's assumptions, which refute an order before a proof search begins.

Most comparisons that simplification examines are undecided. Every consequence of the ranges, symbolic ends and facts
holds at a sample point, so a negative value there ends the search for `form >= 0`. Points refute; they prove nothing.
"""

from __future__ import annotations

from typing import Any, Final

from intset.budgets import SAMPLE_POINTS, SAMPLE_TRIES, SAMPLED_NODES
from intset.expr import ops
from intset.expr.dag import free_vars, postorder_until
from intset.expr.node import Expr, Node, Var
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear

SPREAD: Final = (0, 1, 3, 17, 2, 60, 5, 1000)  # distances from the end of a half-open range

Values = tuple["int | bool | None", ...]  # one per point; None: undefined or unknown


class SamplePoints:
    """Values of linear forms at sample points of one normalizer.

    Invariant: every point satisfies all ranges and facts; each atom is evaluated once.
    """

    __slots__ = ("_count", "_given", "_known", "_values")

    def __init__(self, known: Normalizer) -> None:
        self._known = known
        self._values: dict[Node, Values] = {}
        self._given: list[dict[Expr, int]] | None = None
        assumptions = known.assumptions
        if known.empty:
            self._given = []
        elif assumptions.nonneg or assumptions.limits or any(e.op is not ops.VAR for e in assumptions.atoms):
            self._given = self._satisfying()
        self._count = SAMPLE_POINTS if self._given is None else len(self._given)

    def is_negative(self, form: Linear) -> bool:
        """Whether the form is negative at a sample point."""
        values = self._at(form)
        return values is not None and min(values, default=0) < 0

    def _at(self, form: Linear) -> list[int] | None:
        """Defined values of the form, over all sample points."""
        if not self._count:
            return None
        totals: list[int | None] = [form.const] * self._count
        for e, k in form.terms.items():
            values = self._values.get(e)
            if values is None:
                values = self._computed(e)
            totals = [None if t is None or v is None else t + k * v for t, v in zip(totals, values, strict=True)]
        return [t for t in totals if t is not None]

    # -- points ---------------------------------------------------------------------------------------------------

    def _satisfying(self) -> list[dict[Expr, int]]:
        """Points over the variables of facts and symbolic ends that satisfy both."""
        assumptions = self._known.assumptions
        speaking = [e for fact in assumptions.nonneg for e in fact.terms] + list(assumptions.atoms)
        for first, last in assumptions.limits.values():
            speaking += [e for end in (first, last) if end is not None for e in end.terms]
        variables = (
            (*dict.fromkeys((*free_vars(*speaking), *assumptions.limits)),) if speaking else (*assumptions.limits,)
        )
        points: list[dict[Expr, int]] = []
        for number in range(SAMPLE_TRIES):
            point: dict[Expr, int] = {}
            for var in variables:
                point[var] = self._chosen(var, number)
            self._fit(point, number)
            if self._satisfies(point):
                points.append(point)
                if len(points) == SAMPLE_POINTS:
                    break
        return points

    def _fit(self, point: dict[Expr, int], number: int) -> None:
        """Move variables with symbolic ends into their ranges."""
        for var, (first, last) in self._known.assumptions.limits.items():
            low = None if first is None else _value(first, point)
            high = None if last is None else _value(last, point)
            if low is not None and high is not None and high >= low:
                far = number and (high - low if number == 1 else (var.serial * 13 + number * 5) % (high - low + 1))
                point[var] = low + far
            elif low is not None and high is None:
                point[var] = low + SPREAD[number % SAMPLE_POINTS]
            elif high is not None and low is None:
                point[var] = high - SPREAD[number % SAMPLE_POINTS]

    def _satisfies(self, point: dict[Expr, int]) -> bool:
        known = self._known
        for var, value in point.items():
            low, high = known.atom_bounds(var)
            if low is not None and value < low or high is not None and value > high:
                return False
        for fact in known.assumptions.nonneg:
            value_there = _value(fact, point)
            if value_there is None or value_there < 0:
                return False
        for first, var_, last in ((first, var, last) for var, (first, last) in known.assumptions.limits.items()):
            low = None if first is None else _value(first, point)
            high = None if last is None else _value(last, point)
            if first is not None and (low is None or point[var_] < low):
                return False
            if last is not None and (high is None or point[var_] > high):
                return False
        for e, (least, most) in known.assumptions.atoms.items():
            atom_value = _value(Linear(0, {e: 1}), point)
            if atom_value is None or least is not None and atom_value < least or most is not None and atom_value > most:
                return False
        return True

    def _chosen(self, var: Var, number: int) -> int:
        low, high = self._known.atom_bounds(var)
        far = SPREAD[(number + var.serial) % SAMPLE_POINTS] if number > 1 else SPREAD[0]
        if low is not None and high is not None:
            if number < 2:
                return (low, high)[number]
            return low + (var.serial * 7919 + number * 104_729 + var.serial * number * 31) % (high - low + 1)
        if low is not None:
            return low + (far if number != 1 else SPREAD[-1])
        if high is not None:
            return high - far
        return far if (number + var.serial) % 2 else -far

    # -- values ---------------------------------------------------------------------------------------------------

    def _computed(self, root: Expr) -> Values:
        values = self._values
        nothing: Values = (None,) * self._count
        order = postorder_until(root, values)
        if len(order) > SAMPLED_NODES:
            values[root] = nothing
            return nothing
        for e in order:
            if e.op is ops.VAR:
                values[e] = self._of_variable(e)
            elif e.op is ops.CONST or e.op is ops.BOOL:
                values[e] = (e.data,) * self._count
            else:
                rows = zip(*[values[arg] for arg in e.args], strict=True) if e.args else [()] * self._count
                values[e] = tuple([_applied(e, row) for row in rows])
        return values[root]

    def _of_variable(self, var: Any) -> Values:
        if self._given is None:
            return tuple([self._chosen(var, number) for number in range(self._count)])
        return tuple(
            [point[var] if var in point else self._chosen(var, number) for number, point in enumerate(self._given)]
        )


def _applied(e: Node, row: tuple[Any, ...]) -> Any:
    """The value of an operation; None if undefined or uninterpreted."""
    if not row or row[0] is None:
        return None
    op = e.op
    if op is ops.SELECT:
        return row[1] if row[0] else row[2]
    if op is ops.AND or op is ops.OR:
        return row[0] if row[0] is (op is ops.OR) else row[1]
    if op.meaning is None or None in row or op is ops.SHL and row[1] > 64:
        return None
    try:
        return op.meaning(*row)
    except ZeroDivisionError:
        return None


def _value(form: Linear, point: dict[Expr, int]) -> int | None:
    """The value of a form at one point; None for undefined values and missing variables."""
    total = form.const
    values: dict[Node, Any] = {var: value for var, value in point.items()}  # noqa: C416  # of a wider type
    for root, k in form.terms.items():
        for e in postorder_until(root, values):
            if e.op is ops.CONST or e.op is ops.BOOL:
                values[e] = e.data
            else:
                values[e] = _applied(e, tuple([values[arg] for arg in e.args]))
        if values[root] is None:
            return None
        total += k * values[root]
    return total
