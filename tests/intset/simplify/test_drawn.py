"""Random expressions with shared subexpressions: `simplify` preserves values wherever the input is defined.

Rewrites need repeated operands, constants that divide one another, related conditions, and guards. So operands are
drawn from earlier subexpressions, and constants from a small pool. Partial operations are included: divisions by
variables, and a finite table.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
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
    logical_and,
    logical_or,
    maximum,
    minimum,
    select,
    truncdiv,
    truncmod,
)
from intset.simplify import Pricing
from tests.sweeps import daily

WINDOW, POINTS = range(-9, 10), 50
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
        low, extent = (-9, -3, -2, 0, 0, 0, 1), (2, 3, 4, 5, 6, 9, 15)
        self.ranges = {v: Range(r.choice(low), r.choice(extent)) for v in self.names if r.random() < 0.8}
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

    def compared(self, a: Any, b: Any) -> Any:
        return self.r.choice((a < b, a <= b, a > b, a >= b, a.eq(b), a.ne(b)))

    def whole(self) -> Any:
        r, kind = self.r, self.r.random()
        if kind < 0.55:
            return r.choice(FAMILIES)(self, r, *(r.choice(self.names) for _ in range(3)))
        if kind < 0.7:
            return self.integer()
        if kind < 0.8:
            a, b = self.integer(), self.integer()
            return r.choice((a + b, a - b, a - b * 2, minimum(a, b), maximum(a, b), a * self.leaf()))
        p, q = self.condition(), r.choice(self.conditions)
        more = self.comparison(self.integer())
        return r.choice((p, ~p, p & more, more & p, p | more, more | q, more & p & q, p | q | more, p & q))

    def points(self) -> Iterator[Point]:
        """Sample points of ranges and windows that satisfy all facts."""
        spans = dict.fromkeys(self.names, WINDOW)
        least = 0 if self.size is None else int(self.size.declared()[0])
        for v, limits in self.ranges.items():
            if v is not self.names[0] or self.size is None:
                spans[v] = range(int(limits.min), int(limits.min) + int(limits.extent))
        if self.size is not None:
            spans[self.size], spans[self.names[0]] = range(least, 6), range(6)
        rows = list(product(*spans.values()))
        for row in rows if len(rows) <= POINTS else self.r.sample(rows, POINTS):
            point: Point = {TABLE: element, **dict(zip(spans, row, strict=True))}
            try:
                is_inside = self.size is None or point[self.names[0]] < point[self.size]
                if is_inside and all(evaluate(fact, point) for fact in self.facts):
                    yield point
            except EvaluationError:
                continue


Case = Drawn
Family = Callable[[Case, random.Random, Any, Any, Any], Any]


def remainders(case: Case, r: random.Random, x: Any, y: Any, z: Any) -> Any:
    """Two remainders of one expression."""
    e = r.choice((x, x, x - y, x * 3 + y))
    m, n = r.choice((2, 3, 4, 6)), r.choice((2, 3, 4, 6))
    a, b = (e % m).eq(r.randint(-1, m)), (e % r.choice((m, n))).eq(r.randint(0, n - 1))
    return r.choice((a & b, a | b, ~a & ~b, ~a | ~b))


def digits(case: Case, r: random.Random, x: Any, y: Any, z: Any) -> Any:
    """A quotient and a remainder, sometimes separated by another part."""
    c = r.choice((2, 3, 4))
    d = r.choice((c, c, c + 1))
    first = r.choice(((x // c).eq(y // c), (x // c).eq(r.randint(-1, 2)), (x // c).eq(y)))
    value = r.choice((z, const(r.randint(-1, c))))
    second = r.choice((((x - y) % d).eq(r.choice((0, 0, 1))), (x % d).eq(y % d), (x % d).eq(value)))
    between = r.choice(([], [], [z <= 1], [x // z > -3]))
    parts = [first, *between, second] if r.random() < 0.7 else [second, *between, first]
    return logical_and(*parts) if r.random() < 0.6 else logical_or(*(~part for part in parts))


def congruences(case: Case, r: random.Random, x: Any, y: Any, z: Any) -> Any:
    c = r.choice((2, 2, 2, 3, 4, 5))
    k = r.randint(-3, 5)
    return case.compared((x * r.choice((1, 2, 3, -1)) + y * r.choice((0, 1, 2)) + k) % c, const(r.randint(-1, c)))


def bounds(case: Case, r: random.Random, x: Any, y: Any, z: Any) -> Any:
    """A choice beside what it is compared with."""
    k = const(r.randint(-3, 5))
    choice = r.choice((minimum(x, k), maximum(x, k), minimum(x, y), select(case.comparison(), x, r.choice((y, k)))))
    other = r.choice((y, const(r.randint(-4, 6)), x + r.randint(-1, 1)))
    return case.compared(choice, other) if r.random() < 0.6 else case.compared(other, choice)


def spelled(case: Case, r: random.Random, x: Any, y: Any, z: Any) -> Any:
    """A select whose condition compares the difference of its arms."""
    k, a, b = r.choice((1, 1, -1, 2, -2)), r.randint(-2, 2), r.randint(-2, 2)
    cond = r.choice((x < y + a, x <= y + a, x > y + a, x >= y + a, x.eq(y + a), x.ne(y + a), (x * 2).eq(y)))
    yes, no = r.choice(((x * k + z, y * k + z + b), (y * k, x * k + b), (x * z, y * z + a * z), (x // z, x), (x, y)))
    return select(cond, *r.choice(((yes, no), (no, yes))))


def ordered(case: Case, r: random.Random, x: Any, y: Any, z: Any) -> Any:
    """Inequalities that imply or exclude one another, interleaved with partial operations."""
    parts: list[Any] = []
    for _ in range(r.randint(2, 4)):
        a, b = r.choice((x, y)), r.choice((x, y, z, const(r.randint(-1, 3))))
        parts.append(r.choice((a < b, a <= b, a > b, a >= b, a <= b + 1)))
    for _ in range(r.choice((0, 1, 1, 2))):
        parts.insert(r.randint(0, len(parts)), r.choice((x // z > -9, TABLE[x] > -9, y % z < 2)))
    return r.choice((logical_and, logical_or))(*parts)


def guarded(case: Case, r: random.Random, x: Any, y: Any, z: Any) -> Any:
    """Guarded partial operations next to conditions on the same operands."""
    k = const(r.randint(-1, 2))
    guard = case.compared(y, k)
    e = case.compared(select(guard, x // y, z), const(r.randint(-1, 2)))
    more = r.choice((guard, ~guard, case.compared(y, k)))
    return r.choice((e & more, e | more, more & e, more | e, e & (z > 0) & more))


def products(case: Case, r: random.Random, x: Any, y: Any, z: Any) -> Any:
    """Comparisons of products with common factors."""
    k = r.randint(-2, 3)
    forms = (
        *(x * y, x * z, x * y + x, x * z + x * k, x * x, x * x + x * k, x // y * y, (x + k) // y * y, x, y, const(k)),
        *(x * k, abs(x) * y, abs(x - y), x & y, x | y, x // y, minimum(x, y) * z, x & 3, truncdiv(x, 2) * 2, -x),
    )
    a, b = (r.choice(forms) for _ in range(2))
    return r.choice((minimum(a, b), maximum(a, b), a < b, a >= b, a.eq(b), a.ne(b)))


def quotients(case: Case, r: random.Random, x: Any, y: Any, z: Any) -> Any:
    """Sums of quotients and remainders of almost the same."""
    c, k = r.choice((2, 2, 3, 4, -2)), r.randint(-2, 3)
    a, b, d = r.randint(-3, 4), r.randint(-3, 4), r.choice((c, c, c, c + 1))
    terms = (
        *(x // c, (x + a) // c, (x + b) // d, x % c, (x + a) % d, x % (c * 3) % d, truncdiv(x, d), truncmod(x, c)),
        *(ceildiv(x, c), (x + y) // c, x, y, x // y, x % y, (x * 2 + a) // c),
    )
    total: Any = const(r.choice((0, 0, 1, k, c - 1)))
    for term in r.sample(terms, r.randint(2, 3)):
        total = total + term * r.choice((1, 1, -1, -1, c, -c))
    if r.random() < 0.15:
        total = sum(((x + n) // 3 for n in r.sample(range(-1, 4), 3)), const(0))
    return r.choice((total, total, x - x // y * y, x // y * y + x % y))


def choices(case: Case, r: random.Random, x: Any, y: Any, z: Any) -> Any:
    """Sums of choices of almost the same."""
    k, p = r.randint(-2, 3), case.comparison()
    ways = (p, p, ~p)
    first = r.choice((minimum(x, y), maximum(x, y + k), abs(x - y), select(p, x, y), minimum(minimum(x + z, y), k)))
    second = r.choice(
        (maximum(x, y), minimum(-x, k - y), minimum(x + k, y), abs(y - x), select(r.choice(ways), z, x), x, y, -z)
    )
    return first * r.choice((1, 1, -1, 2, -2)) + second * r.choice((1, 1, -1, 2, -2)) + r.choice((0, 0, k))


def chains(case: Case, r: random.Random, x: Any, y: Any, z: Any) -> Any:
    made, k = r.choice((minimum, maximum)), r.choice((2, 3, -2))
    a, b = r.randint(-3, 3), r.randint(-3, 3)
    one, two = r.choice(
        (
            (x * k, y * k),
            (x * k + a, y * k),
            (x * k + z, y * 2 + z + b),
            (x, -x),
            (x - y, y - x + a),
            (x, x + a),
            (-x, -y),
        )
    )
    rest = r.choice((None, None, z, minimum(x, z) + a, const(b)))
    return made(one, two) if rest is None else made(made(one, rest), two)


def divided(case: Case, r: random.Random, x: Any, y: Any, z: Any) -> Any:
    """Factors that a dividend shares with its divisor, coefficients beyond it, choices in it."""
    c, g = r.choice((2, 3, 4, 6, -2, -3)), r.choice((2, 3, 4))
    a = r.choice((x * g + r.randint(-3, 5), x * g * y, x * (g + 3) + y * 5 + 7, minimum(x, y), x * c + y, -x, x * z))
    d = r.choice((const(c), const(g * 2), y, y * g, -y, z))
    return r.choice((a // d, a % d, truncdiv(a, d), truncmod(a, d), ceildiv(a, d)))


def masked(case: Case, r: random.Random, x: Any, y: Any, z: Any) -> Any:
    a, m = r.choice((x * 4 + y, x * 8 + y * 4 + 5, x * 3, x - y)), r.choice((3, 7, 1, 4, -2))
    return r.choice((a & m, cast(cast(a, r.randint(2, 4)), r.randint(2, 4)), cast(a, r.randint(2, 5)), (a | m) & 6))


FAMILIES: list[Family] = [
    *(
        remainders,
        digits,
        congruences,
        bounds,
        spelled,
        ordered,
        guarded,
        products,
        quotients,
        choices,
        chains,
        divided,
    ),
    masked,
]


def check(seed: int) -> bool:
    """Check one case for equality and cost; returns whether it was rewritten."""
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
@pytest.mark.parametrize("start", daily(range(0, 60_000, 200), 150))
def test_what_is_drawn_keeps_its_values(start: int) -> None:
    assert sum(map(check, range(start, start + 200))) > 100
