"""Random index questions over small boxes, with the truth by enumeration: what domains and prover are held against."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from intset import Range, Var, cast, ceildiv, const, maximum, minimum, select, truncdiv, truncmod
from intset.errors import EvaluationError
from intset.expr.evaluate import compiled
from intset.expr.node import Cond, Expr, as_int

DIVISORS = (-7, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16)


@dataclass
class Question:
    """An expression over a box, conditions that hold there, and the values that it takes at the defined points."""

    ranges: dict[Var, Range]
    conds: list[Cond]
    expr: Expr
    goal: Cond
    values: set[int]
    goal_holds: bool  # at every point where it is defined
    goal_points: int = 0  # points where it is defined

    @property
    def variables(self) -> list[Var]:
        return list(self.ranges)

    def points(self) -> Iterator[tuple[int, ...]]:
        """The points of the box at which the conditions are defined and hold."""
        spans = [range(first, last + 1) for first, last in map(_ends, self.ranges.values())]
        guards = [compiled(cond, self.variables) for cond in self.conds]
        for point in itertools.product(*spans):
            try:
                if all(guard(*point) for guard in guards):
                    yield point
            except (ZeroDivisionError, EvaluationError):
                continue


def _ends(limits: Range) -> tuple[int, int]:
    ends = limits.constant()
    assert ends is not None
    return ends


def expression(rng: random.Random, variables: list[Var], depth: int) -> Expr:
    """All operations, constant and other divisors of either sign, nesting to `depth`."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(variables) if rng.random() < 0.7 else const(rng.randint(-9, 12))

    def again() -> Expr:
        return expression(rng, variables, depth - 1)

    def nonzero() -> Expr:
        e = again()
        return const(3) if e.is_const and int(e) == 0 else e

    a, c = again(), rng.choice(DIVISORS)
    makers = (
        lambda: a + again(),
        lambda: a + again(),
        lambda: a - again(),
        lambda: -a,
        lambda: a * rng.randint(-6, 8),
        lambda: a * again(),
        lambda: a // c,
        lambda: a % c,
        lambda: a // c,
        lambda: a % c,
        lambda: rng.choice((ceildiv, truncdiv, truncmod))(a, c),
        lambda: rng.choice((ceildiv, truncdiv, truncmod, lambda x, y: x // y, lambda x, y: x % y))(a, nonzero()),
        lambda: minimum(a, again()),
        lambda: maximum(a, again()),
        lambda: select(condition(rng, variables, depth - 1), a, again()),
        lambda: abs(a),
        lambda: a & rng.choice((again(), const(rng.randint(-4, 15)))),
        lambda: a | rng.choice((again(), const(rng.randint(-4, 15)))),
        lambda: a ^ rng.choice((again(), const(rng.randint(-4, 15)))),
        lambda: a << rng.randint(0, 3),
        lambda: a >> rng.randint(0, 3),
        lambda: ~a,
        lambda: cast(a, rng.choice((3, 4, 8)), rng.random() < 0.5),
    )
    return rng.choice(makers)()


def condition(rng: random.Random, variables: list[Var], depth: int) -> Cond:
    """Comparisons, negations, conjunctions and disjunctions."""
    a = expression(rng, variables, max(depth - 1, 0))
    b = expression(rng, variables, max(depth - 1, 0)) if rng.random() < 0.4 else const(rng.randint(-5, 9))
    cond = rng.choice((a < b, a <= b, a > b, a >= b, a.eq(b), a.ne(b)))
    roll = rng.random()
    if roll < 0.15 and depth > 0:
        return cond & condition(rng, variables, depth - 1)
    if roll < 0.25 and depth > 0:
        return cond | condition(rng, variables, depth - 1)
    return ~cond if roll < 0.3 else cond


def question(seed: int) -> Question:
    """The question with this number: the same on every machine."""
    rng = random.Random(as_int(seed, "seed"))
    variables = [Var(name) for name in "xyz"[: rng.choice((2, 3))]]
    ranges = {v: Range(rng.randint(-8, 5), rng.randint(1, 12 if len(variables) == 2 else 8)) for v in variables}
    expr = expression(rng, variables, 4)
    conds = [condition(rng, variables, 2)] if rng.random() < 0.5 else []
    found = Question(ranges, conds, expr, condition(rng, variables, 2), set(), True)
    value, goal = compiled(expr, variables), compiled(found.goal, variables)
    for point in found.points():
        with contextlib.suppress(ZeroDivisionError, EvaluationError):
            found.values.add(value(*point))
        try:
            found.goal_holds = bool(goal(*point)) and found.goal_holds
            found.goal_points += 1
        except (ZeroDivisionError, EvaluationError):
            pass
    return found
