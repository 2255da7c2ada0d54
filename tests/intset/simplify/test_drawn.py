"""Random expressions with shared subexpressions: `simplify` preserves values wherever the input is defined.

Rewrites need repeated operands, constants that divide one another, related conditions, and guards. So operands are
drawn from earlier subexpressions, and constants from a small pool. Partial operations are included: divisions by
variables, and a finite table.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from intset import cast, ceildiv, const, logical_and, logical_or, maximum, minimum, select, truncdiv, truncmod
from tests.intset.oracle import simplified
from tests.strategies.contexts import TABLE, Drawn
from tests.sweeps import daily

KINDS = "sums sums multiples products quotients quotients divisors choices choices bits shifts casts loads"


class Related:
    """A drawn context, with an expression or condition `e` whose parts are related as rewrites need them."""

    def __init__(self, seed: int) -> None:
        kinds = Drawn(seed, KINDS, "box box box sized", variables=3, sizes=seed % 4 == 0, facts=25, depth=1, shared=40)
        self.drawn, self.r, self.parts = kinds, kinds.rng, kinds.expressions
        self.names = [*kinds.ranges, *kinds.sizes]
        self.e = self.whole()

    def comparison(self) -> Any:
        return self.parts.condition(0)

    def compared(self, a: Any, b: Any) -> Any:
        return self.r.choice((a < b, a <= b, a > b, a >= b, a.eq(b), a.ne(b)))

    def whole(self) -> Any:
        r, kind = self.r, self.r.random()
        if kind < 0.6:
            return r.choice(FAMILIES)(self, r, *(r.choice(self.names) for _ in range(3)))
        a, b = self.parts.integer(2), self.parts.integer(1)
        if kind < 0.8:
            return r.choice((a, a + b, a - b, a - b * 2, minimum(a, b), maximum(a, b), a * b))
        p, q, more = self.parts.condition(2), self.parts.condition(1), self.compared(a, b)
        return r.choice((p, ~p, p & more, more & p, p | more, more | q, more & p & q, p | q | more, p & q))


Case = Related
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
        remainders, digits, congruences, bounds, spelled, ordered, guarded, products, quotients, choices, chains,
        divided,
    ),
    masked,
]  # fmt: skip


def check(seed: int) -> bool:
    """Whether one case is rewritten; equality and cost are checked."""
    case = Related(seed)
    return simplified(case.e, case.drawn.ctx, itertools.islice(case.drawn.points(), 50)) is not case.e


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("start", daily(range(0, 60_000, 200), 150))
def test_what_is_drawn_keeps_its_values(start: int) -> None:
    assert sum(map(check, range(start, start + 200))) > 100
