"""Random expressions with ranges and facts, and the points at which they are compared."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from intset import (
    Cond,
    EvaluationError,
    Opaque,
    Range,
    Var,
    cast,
    ceildiv,
    const,
    evaluate,
    maximum,
    minimum,
    select,
    truncdiv,
    truncmod,
)

CONSTANTS = (-8, -3, -2, -1, 0, 1, 2, 3, 4, 5, 8)
DIVISORS = (-3, -2, 2, 3, 4, 8)
TABLE = Opaque("table", rank=1, lower=-2, upper=2)


def element(index: int) -> int:
    """What the table holds at an index; it ends before 5, as a tensor does."""
    if not -4 <= index <= 4:
        raise EvaluationError(f"no element {index}")
    return (index * 7) % 5 - 2


@dataclass
class Case:
    """An expression or condition, ranges of its variables, and facts."""

    e: Any
    ranges: dict[Var, Range]
    facts: list[Cond]

    def points(self) -> Iterator[dict[Any, Any]]:
        """Points of the ranges that satisfy all facts, with the table's value."""
        spans = [range(int(r.min), int(r.min) + int(r.extent)) for r in self.ranges.values()]
        for values in product(*spans):
            point: dict[Any, Any] = {**dict(zip(self.ranges, values, strict=True)), TABLE: element}
            try:
                if all(evaluate(fact, point) for fact in self.facts):
                    yield point
            except EvaluationError:
                continue


class Maker:
    """Expressions over a few variables, of a depth."""

    def __init__(self, r: random.Random, variables: list[Var]) -> None:
        self.r, self.variables = r, variables

    def integer(self, depth: int) -> Any:
        r = self.r
        if depth <= 0 or r.random() < 0.15:
            return r.choice(self.variables) if r.random() < 0.7 else const(r.choice(CONSTANTS))
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        c = const(r.choice(DIVISORS))
        d = c if r.random() < 0.7 else r.choice(self.variables)
        makers = (
            lambda: a + b, lambda: a - b, lambda: a + b, lambda: a - b, lambda: a * c, lambda: a * c, lambda: a * b,
            lambda: a // d, lambda: a % d, lambda: truncdiv(a, d), lambda: truncmod(a, d), lambda: ceildiv(a, d),
            lambda: minimum(a, b), lambda: maximum(a, b), lambda: minimum(a, b), lambda: maximum(a, b),
            lambda: select(self.condition(depth - 1), a, b), lambda: select(self.condition(depth - 1), a, b),
            lambda: -a, lambda: abs(a), lambda: a & b, lambda: a | b, lambda: a ^ c, lambda: a << 1, lambda: a >> 2,
            lambda: cast(a, 8), lambda: TABLE[a],
        )  # fmt: skip
        return r.choice(makers)()

    def condition(self, depth: int) -> Any:
        r = self.r
        kind = r.random()
        if depth <= 0 or kind < 0.6:
            a, b = self.integer(depth - 1), self.integer(depth - 1)
            makers = (
                lambda: a < b, lambda: a <= b, lambda: a > b, lambda: a >= b, lambda: a.eq(b), lambda: a.ne(b)
            )  # fmt: skip
            return r.choice(makers)()
        p, q = self.condition(depth - 1), self.condition(depth - 1)
        return p & q if kind < 0.75 else p | q if kind < 0.9 else ~p


def random_case(r: random.Random) -> Case:
    variables = [Var(name) for name in "xyz"]
    ranges = {v: Range(r.choice((-4, -2, 0, 0, 0, 1)), r.choice((2, 3, 5, 7))) for v in variables}
    maker = Maker(r, variables)
    facts = [maker.condition(1)] if r.random() < 0.4 else []
    depth = r.choice((2, 3, 3, 4))
    return Case(maker.condition(depth) if r.random() < 0.4 else maker.integer(depth), ranges, facts)
