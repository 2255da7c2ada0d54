"""`tvm.arith`: `Analyzer`, questions about integers with facts that grow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bound.tir.value import Value
from intset.context import Context
from intset.expr.node import Cond, Expr, Var, as_expr
from intset.expr.range import Range
from intset.infinity import Infinity


@dataclass(frozen=True)
class ConstIntBound:
    """Constant ends of an expression, both included; `None` is no end.

    `POS_INF` and `NEG_INF` are TVM's numbers for no end.
    """

    min_value: int
    max_value: int
    POS_INF = (1 << 63) - 1
    NEG_INF = -(1 << 63) + 1


class Analyzer:
    """TVM's analyzer: a `Context` whose ranges and facts are added by calls."""

    def __init__(self) -> None:
        self._ranges: dict[Var, Range] = {}
        self._facts: list[Cond] = []

    @property
    def context(self) -> Context:
        """The context of the present facts."""
        return Context(self._ranges, assume=list(self._facts))

    def bind(self, var: Var, expr: Any) -> None:
        """State the range of a variable, or its value."""
        self._ranges[var] = expr if isinstance(expr, Range) else Range(as_expr(expr), 1)

    def update(self, var: Var, info: ConstIntBound, override: bool = False) -> None:
        """State constant ends of a variable."""
        self._ranges[var] = Range(info.min_value, info.max_value - info.min_value + 1)

    @contextmanager
    def constraint_scope(self, constraint: Cond) -> Iterator[None]:
        """A block in which a condition holds."""
        self._facts.append(constraint)
        try:
            yield
        finally:
            self._facts.pop()

    def simplify(self, expr: Any, steps: int = 2) -> Any:
        """The expression simplified; values other than integers as they are."""
        return (
            expr
            if isinstance(expr, (Value, float))
            else self.context.simplify(as_expr(expr) if isinstance(expr, int) else expr)
        )

    rewrite_simplify = canonical_simplify = simplify

    def can_prove(self, cond: Any, strength: object = None) -> bool:
        """Whether a condition always holds."""
        return cond if isinstance(cond, bool) else bool(self.context.prove(cond))

    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        return self.can_prove(as_expr(lhs).eq(rhs))

    def can_prove_greater_equal(self, expr: Any, lower: int) -> bool:
        return self.can_prove(as_expr(expr) >= lower)

    def can_prove_less(self, expr: Any, upper: int) -> bool:
        return self.can_prove(as_expr(expr) < upper)

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """The smallest and the largest value."""
        low, high = self.context.bounds(as_expr(expr))
        ends = (_end(low, ConstIntBound.NEG_INF), _end(high, ConstIntBound.POS_INF))
        return ConstIntBound(*ends)


def _end(value: Any, otherwise: int) -> int:
    return otherwise if isinstance(value, Infinity) or not (isinstance(value, Expr) and value.is_const) else int(value)
