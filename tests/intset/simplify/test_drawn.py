"""Small expressions with shared parts: what `simplify` makes of them has their value wherever they have one.

Rules and moves need parts that are met twice, constants that divide one another, conditions that say something of one
another, and guards. So operands are drawn from what was made before, constants from a few. What may have no value is
among it: divisions by variables, and a table that ends.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from intset import (
    Context,
    EvaluationError,
    Opaque,
    Range,
    ShapeVar,
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
from intset.simplify import Pricing
from tests.sweeps import daily

TABLE = Opaque("t", rank=1, lower=-2, upper=2)
Point = dict[Any, Any]


def element(index: int) -> int:
    if not -3 <= index <= 4:
        raise EvaluationError(f"no element {index}")
    return (index * 7) % 5 - 2


class Drawn:
    """A case: an expression or condition `e`, ranges of its variables, facts."""

    def __init__(self, seed: int) -> None:
        r = self.r = random.Random(seed)
        self.names: list[Any] = [Var(name) for name in "xyz"[: r.choice((1, 2, 2, 2, 3))]]
        sizes = (2, 3, 4) if len(self.names) > 2 else (2, 3, 4, 5, 6)
        self.ranges = {v: Range(r.choice((-3, -2, 0, 0, 0, 1)), r.choice(sizes)) for v in self.names}
        self.size: Any = None
        if len(self.names) == 2 and r.random() < 0.25:
            self.size = ShapeVar("n", lower=r.choice((0, 1)), upper=5)
            self.ranges[self.names[0]] = Range(0, self.size)
            self.names.append(self.size)
        self.made: list[Any] = [*self.names, *self.names]
        self.conditions: list[Any] = []
        self.constants = r.sample((-4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 8), 3)
        self.divisors = r.sample((2, 3, 4, 6, -2, -3, 8), 2)
        self.facts = [self.comparison() for _ in range(r.choice((0, 0, 0, 1, 2)))]
        for _ in range(r.choice((1, 2, 3, 4, 5))):
            (self.integer if r.random() < 0.65 else self.condition)()
        self.e = self.whole()

    def leaf(self) -> Any:
        r = self.r
        return r.choice(self.made) if r.random() < 0.8 else const(r.choice((*self.constants, 0)))

    def integer(self) -> Any:
        r, a, b = self.r, self.leaf(), self.leaf()
        k = const(r.choice(self.constants))
        v = r.choice(self.names)
        d = const(r.choice(self.divisors)) if r.random() < 0.8 else v
        made = r.choice(
            (
                lambda: a + b, lambda: a - b, lambda: a + k, lambda: k - a, lambda: a * k, lambda: a * k + b,
                lambda: a * b, lambda: a // d, lambda: a % d, lambda: (a + k) // d, lambda: (a + k) % d,
                lambda: (a + b) // d, lambda: (a + b) % d, lambda: a // d * d, lambda: truncdiv(a, d),
                lambda: truncmod(a, d), lambda: ceildiv(a, d), lambda: minimum(a, b), lambda: maximum(a, b),
                lambda: minimum(a, k), lambda: maximum(a, k), lambda: minimum(a + k, b),
                lambda: select(self.condition(), a, b), lambda: select(self.condition(), a, k),
                lambda: select(self.condition(about=v), a // v, b), lambda: -a, lambda: abs(a), lambda: abs(a - b),
                lambda: a & abs(k), lambda: a & b, lambda: a | b, lambda: a ^ k, lambda: a << 1, lambda: a >> 1,
                lambda: cast(a, 3), lambda: TABLE[a],
            )
        )()  # fmt: skip
        self.made.append(made)
        return made

    def condition(self, about: Any = None) -> Any:
        r = self.r
        found = self.comparison() if about is None else self.comparison(about)
        if self.conditions and about is None and r.random() < 0.4:
            p, q = r.choice(self.conditions), r.choice(self.conditions)
            found = r.choice((p, p & q, p | q, ~p, p & ~q, ~p | q, p & found, p | found))
        self.conditions.append(found)
        return found

    def comparison(self, a: Any = None) -> Any:
        r = self.r
        a, b = self.leaf() if a is None else a, self.leaf()
        k, m = const(r.choice((*self.constants, 0))), const(r.randint(0, 3))
        d = const(r.choice([x for x in self.divisors if x > 0] or [2]))
        return r.choice(
            (
                lambda: a < b, lambda: a <= b, lambda: a > b, lambda: a >= b, lambda: a.eq(b), lambda: a.ne(b),
                lambda: a < k, lambda: a <= k, lambda: a > k, lambda: a >= k, lambda: a.eq(k), lambda: a.ne(k),
                lambda: (a % d).eq(m), lambda: (a % d).ne(m), lambda: a // d < k, lambda: (a // d).eq(b // d),
                lambda: a + b <= k,
            )
        )()  # fmt: skip

    def whole(self) -> Any:
        r, kind = self.r, self.r.random()
        if kind < 0.4:
            return self.integer()
        if kind < 0.6:
            a, b = self.integer(), self.integer()
            return r.choice((a + b, a - b, a - b * 2, minimum(a, b), maximum(a, b), a * self.leaf()))
        p, q = self.condition(), r.choice(self.conditions)
        more = self.comparison(self.integer())
        if r.random() < 0.15:  # what a condition guards, beside conditions on the same
            v = r.choice(self.names)
            guard = self.condition(about=v)
            more = self.comparison(select(guard, self.leaf() // v, self.leaf()))
            q = r.choice((guard, ~guard, self.comparison(v)))
        return r.choice((p, ~p, p & more, more & p, p | more, more | q, more & p & q, p | q | more, p & q))

    def points(self) -> Iterator[Point]:
        """The points in the ranges at which all facts hold."""
        others = [v for v in self.names if v is not self.size]
        for n in (None,) if self.size is None else range(6):
            at: Point = {TABLE: element} if n is None else {TABLE: element, self.size: n}
            if n is not None and n < int(self.size.declared()[0]):
                continue
            ends = [[evaluate(end, at) for end in (self.ranges[v].min, self.ranges[v].extent)] for v in others]
            for values in product(*(range(low, low + extent) for low, extent in ends)):
                point = {**at, **dict(zip(others, values, strict=True))}
                try:
                    if all(evaluate(fact, point) for fact in self.facts):
                        yield point
                except EvaluationError:
                    continue


def check(seed: int) -> bool:
    """Whether a case is written in another way, which is then right and no dearer."""
    case = Drawn(seed)
    new = Context(case.ranges, assume=case.facts).simplify(case.e)
    before, after = (Pricing().price(e) for e in (case.e, new))
    assert after[0] <= before[0] and after[1] <= before[1], (seed, case.e, new)
    if new is case.e:
        return False
    for point in case.points():
        try:
            expected = evaluate(case.e, point)
        except EvaluationError:
            continue
        found = evaluate(new, point)
        assert found == expected and type(found) is type(expected), (seed, case.e, new, point)
    return True


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("start", daily(range(0, 60_000, 300), 100))
def test_what_is_drawn_keeps_its_values(start: int) -> None:
    assert sum(map(check, range(start, start + 300))) > 100
