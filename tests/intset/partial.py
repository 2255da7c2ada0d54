"""Random conditions with operations that have no value at some points, and what they mean there by enumeration."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from intset import Var, const, evaluate, maximum, minimum, nonneg, select
from intset.errors import EvaluationError
from intset.expr.build import asserting
from intset.expr.node import Cond, Expr, Node, as_cond


class Drawing:
    """Draws conditions over variables; quotients that were drawn are drawn again, so that lazy branches share them."""

    def __init__(self, r: random.Random, variables: Sequence[Var]) -> None:
        self.r, self.variables = r, list(variables)
        self.quotients: list[Expr] = []

    def integer(self, depth: int) -> Expr:
        r = self.r
        kind = r.random()
        if self.quotients and kind < 0.2:
            return r.choice(self.quotients)
        if depth <= 0 or kind < 0.4:
            return r.choice(self.variables) if r.random() < 0.65 else const(r.randint(-4, 8))
        if kind < 0.7:
            a, b = self.integer(depth - 1), self.integer(depth - 2)
            if b is const(0):
                return a
            self.quotients.append(a // b if r.random() < 0.6 else a % b)
            return self.quotients[-1]
        a = self.integer(depth - 1)
        if kind < 0.8:
            b = self.integer(depth - 1)
            return r.choice((a + b, a - b, minimum(a, b), maximum(a, b)))
        if kind < 0.9:
            return select(self.condition(depth - 1), a, self.integer(depth - 1))
        return nonneg(a) if r.random() < 0.4 else asserting(self.condition(depth - 1), a)

    def condition(self, depth: int) -> Cond:
        kind = self.r.random()
        if depth <= 0 or kind < 0.4:
            a, b = self.integer(depth), self.integer(depth - 2)
            return as_cond(self.r.choice((a < b, a <= b, a.eq(b), a.ne(b), a >= b)))
        a, b = self.condition(depth - 1), self.condition(depth - 1)
        if kind < 0.65:
            return a & b
        if kind < 0.85:
            return a | b
        return ~(a & b) if kind < 0.95 else (a & b) | (~a & self.condition(depth - 1))


def value(e: Node, point: Mapping[Var, int]) -> int | bool | None:
    """The value at a point; `None` where there is none."""
    try:
        return evaluate(e, point)
    except EvaluationError:
        return None
