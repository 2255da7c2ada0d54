"""Counts of regions as numeric functions of sizes, where there is no closed form.

An `InstanceCount` visits the instances of a product of intervals at given sizes. A count is an expression, a
symbol with a `NumericFunction`: `evaluate` computes it, and arithmetic and conditions accept it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from bound.schedule import Schedule
from bound.tensor import Tensor
from intset.budgets import REGION_POINTS
from intset.config import Configured, as_configured
from intset.context import Context
from intset.errors import BudgetError
from intset.expr.build import NumericFunction, logical_and, maximum, minimum, select
from intset.expr.evaluate import compiled
from intset.expr.node import Cond, Expr, Var, as_expr

MAX, TOTAL = "count_max", "count_total"


@dataclass(frozen=True)
class InstanceCount:
    """The largest (`MAX`) or the total (`TOTAL`) number of points of boxes over all values of loops.

    Attributes
    ----------
    word: `MAX` or `TOTAL`.
    sizes: the arguments of the function.
    loops: each with its lower end and extent, over sizes and the loops before it.
    sides: for each dimension the expressions whose minimum is the extent, if positive.
    where: the conditions of an instance.
    axes: the number of last loops that run over the elements of an instance.
    """

    word: str
    sizes: tuple[Var, ...]
    loops: tuple[tuple[Var, Expr, Expr], ...]
    sides: tuple[tuple[Expr, ...], ...]
    where: tuple[Cond, ...]
    axes: int = 0

    def __reduce__(self) -> tuple[object, ...]:
        return InstanceCount, (self.word, self.sizes, self.loops, self.sides, self.where, self.axes)

    @cached_property
    def _program(self) -> tuple[list[tuple[Callable[..., int], Callable[..., int]]], Callable[..., int]]:
        """The ends of each loop and the number of points of an instance, as functions of sizes and loops."""
        known, ends = list(self.sizes), []
        for v, low, extent in self.loops:
            ends.append((compiled(low, known), compiled(extent, known)))
            known.append(v)
        number = as_expr(1)
        for extents in self.sides:
            number = number * maximum(minimum(*extents), 0)
        return ends, compiled(select(logical_and(*self.where), number, 0) if self.where else number, known)

    def __call__(self, *sizes: int) -> int:
        """The count at these sizes.

        Raises
        ------
        ZeroDivisionError: an end is undefined.
        BudgetError: there are more than `REGION_POINTS` instances.
        """
        ends, number = self._program
        instances = [sizes]
        for low, extent in ends:
            spans = [range(first := low(*point), first + extent(*point)) for point in instances]
            if sum(map(len, spans)) > REGION_POINTS:
                raise BudgetError(f"more than {REGION_POINTS} instances are to be counted", "REGION_POINTS")
            instances = [(*point, x) for point, span in zip(instances, spans, strict=True) for x in span]
        counts: Counter[tuple[int, ...]] = Counter()
        outer = len(sizes) + len(self.loops) - self.axes
        for point in instances:
            counts[point[:outer]] += number(*point)
        return counts.total() if self.word == TOTAL else max(counts.values(), default=0)


@dataclass(frozen=True, eq=False)
class NumericInference(Configured):
    """The inference of a schedule at further values of sizes; the last answer is remembered.

    Attributes
    ----------
    infer: `infer_bound`.
    schedule, context, sizes, domain, compute, compact, whole: the arguments of `infer_bound`.
    """

    infer: Callable[..., Any]
    schedule: Schedule
    context: Context | None
    sizes: Mapping[Any, Any]
    domain: str
    compute: str | Mapping[Any, str]
    compact: bool
    whole: tuple[Tensor, ...] = ()
    last: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "last": {}}

    @as_configured
    def __call__(self, values: Mapping[Any, Any]) -> Any:
        """The answers at these values of sizes, by variable or name."""
        key = tuple(values.items())
        bounds = self.last.get(key)
        if bounds is None:
            given = {**self.sizes, **values}
            arguments = (self.domain, self.compute, self.compact, self.whole)
            bounds = self.infer(self.schedule, self.context, given, *arguments)
            self.last.clear()
            self.last[key] = bounds
        return bounds


class NumericCount(Protocol):
    """A count as a function of values of its sizes."""

    @property
    def word(self) -> str: ...
    @property
    def sizes(self) -> tuple[Var, ...]: ...
    def __call__(self, *sizes: int) -> int: ...


def count_term(function: NumericCount) -> Expr:
    """A count as a term over its sizes."""
    symbol = NumericFunction(function.word, len(function.sizes), function, lower=0)
    return symbol(*function.sizes)


__all__ = [
    "MAX",
    "TOTAL",
    "InstanceCount",
    "NumericInference",
    "count_term",
]
