"""Irreducible expressions: `settled` agrees with the full simplifier."""

from __future__ import annotations

import random
from typing import Any

import pytest

from intset import (
    Cond,
    Context,
    Expr,
    Range,
    ShapeVar,
    Var,
    ceildiv,
    const,
    evaluate,
    maximum,
    minimum,
    truncdiv,
    truncmod,
)
from intset.expr.node import truth
from intset.simplify.engine import COST, Simplifier, at_once, run, simplified
from intset.simplify.irreducible import settled
from tests.intset.elsewhere import in_threads
from tests.sweeps import daily

SIZES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24)


class Maker:
    """Draws sums, quotients, remainders and comparisons with single-use variables."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.left = [Var(name) for name in "abcdefgh"]
        self.ranges: dict[Any, Range] = {}

    def variable(self) -> Expr:
        r = self.r
        v = self.left.pop() if self.left and r.random() < 0.9 else r.choice([*self.ranges, *self.left[-1:]])
        self.ranges.setdefault(v, Range(r.choice((0, 0, 0, 0, 1, -2, 3)), r.choice(SIZES)))
        return v

    def sum(self, depth: int) -> Expr:
        r = self.r
        total: Any = None
        for _ in range(r.choice((1, 1, 2, 2, 3))):
            term = self.term(depth)
            if r.random() < 0.5:
                term = term * r.choice(SIZES[1:])
            total = term if total is None else total - term if r.random() < 0.15 else total + term
        if r.random() < 0.25:
            total = total + r.choice((1, 2, 3, 4, 7, 8, -1, -4))
        return total

    def term(self, depth: int) -> Expr:
        if depth <= 0 or self.r.random() < 0.4:
            return self.variable()
        inner, c, kind = self.sum(depth - 1), self.r.choice(SIZES[1:]), self.r.random()
        if kind > 0.97:  # factored
            return (self.variable() + self.variable() // c) * self.r.choice(SIZES[1:])
        if kind > 0.94:  # a digit
            return inner % (c * self.r.choice((2, 3, 4, 7))) // c
        if kind < 0.08:
            return truncdiv(inner, c) if kind < 0.04 else truncmod(inner, c)
        return inner // c if kind < 0.45 else inner % c if kind < 0.9 else minimum(inner, c)

    def comparison(self, depth: int) -> Cond:
        r = self.r
        a, c = self.sum(depth), r.choice((0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 40))
        if r.random() < 0.15:
            b = self.sum(depth - 1)
            return r.choice((a < b, a <= b, a > b, a >= b))
        return r.choice((a < c, a <= c, a > c, a >= c, a.eq(c), a.ne(c), const(c) < a, const(c) >= a))

    def condition(self, depth: int) -> Cond:
        if self.r.random() < 0.3:  # with a constant in common
            a, b, c = self.sum(0), self.term(depth), self.r.choice((1, 2, 3, 5, 8))
            return self.r.choice(((a < c) & (b < c), (a >= c) | (b >= c), (a >= c) & (b >= c), maximum(a, b) < c))
        found = self.comparison(depth)
        for _ in range(self.r.choice((0, 0, 1, 2))):
            more = self.comparison(depth)
            found = found & more if self.r.random() < 0.7 else found | more
        return found

    def choice(self) -> Expr:
        r = self.r
        a, c = self.sum(r.choice((0, 0, 0, 1))), const(r.choice((0, 1, 2, 3, 4, 5, 8, 16, 20, 32, -3)))
        made = r.choice((minimum, maximum))
        return made(a, c) if r.random() < 0.6 else made(c, a)


def walk() -> Simplifier:
    """The walk that looks at every node: by weights of its own."""
    return Simplifier(dict(COST))


def case(r: random.Random) -> tuple[Any, Context]:
    maker = Maker(r)
    depth = r.choice((0, 1, 2, 3))
    kind = r.random()
    e: Any = maker.condition(depth) if kind < 0.4 else maker.sum(depth) if kind < 0.8 else maker.choice()
    facts = []
    if r.random() < 0.3:
        some = list(maker.ranges)
        facts = [sum((v * r.choice((1, 1, 2, 4)) for v in r.sample(some, min(2, len(some)))), r.choice(some)) < 12]
    if r.random() < 0.1:
        facts = [r.choice(list(maker.ranges)) < r.choice((1, 2, 3, 6))]
    if r.random() < 0.2:
        v, n = r.choice(list(maker.ranges)), ShapeVar("n", lower=1, upper=r.choice((None, 1, 4)))
        maker.ranges[v] = Range(r.choice((0, 0, 1)), r.choice((n, n, ceildiv(n, 4), ceildiv(n * 3, 8))))
        if r.random() < 0.5:
            facts.append(v * r.choice((1, 4, 64)) + r.choice(list(maker.ranges)) < n * r.choice((1, 3, 4)))
    return e, Context(maker.ranges, assume=facts)


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("seed", daily(range(20_000), 150))
def test_as_the_walk_has_it(seed: int) -> None:
    e, ctx = case(random.Random(seed))
    known = ctx.frame.known
    found, best = settled(e, known), run(walk(), e, known)
    assert found is None or differ_in_order(found, best)
    again = Context(ctx.frame.ranges, assume=[fact.condition for fact in ctx.frame.facts])
    box = again._intervals()
    if box is not None:
        own, seen, price = settled(e, box), at_once(e, box), walk().price
        assert own is found or box.is_part
        assert own is None or differ_in_order(own, best)
        if seen is not None:
            after = again.frame.where_defined((e,)).known
            whole = simplified(e, after)
            assert differ_in_order(seen, whole) or price(seen) < price(whole)


def differ_in_order(a: Any, b: Any) -> bool:
    """Whether two expressions differ at most in the order of operands, by the signs in their texts."""
    return a is b or sorted(str(a)) == sorted(str(b))


def test_boxes_are_asked_without_a_scope_and_blocks_that_ended_leave_questions_plain() -> None:
    x, y = Var("x"), Var("y")
    ctx = Context({x: Range(0, 8), y: Range(0, 4)})
    assert ctx.simplify((x * 4 + y) // 7) is (x * 4 + y) // 7
    fixed = Context({x: Range(0, 8), y: Range(0, 4)}, assume=[x < 6, y.eq(2)])
    assert fixed.simplify((x * 4) // 7) is (x * 4) // 7
    assert ctx._scope is fixed._scope is None
    assert fixed.simplify((x * 4 + y) // 7) is (x * 4 + 2) // 7
    with ctx.assuming(x < 1):
        assert ctx.simplify((x * 4 + y) // 7) is const(0)
    assert Context({x: Range(0, 8), y: Range(0, ShapeVar("n"))}).simplify(x * 4 + y) is x * 4 + y
    x = Var("x")
    block = Context({x: Range(0, 8)}).assuming(x > 2)
    block.__enter__()
    in_threads(lambda _: block.__exit__(None, None, None), 1)
    ctx = Context({x: Range(0, 8)})
    assert ctx.simplify(x * 4 // 7) is x * 4 // 7 and ctx.bounds(x * 4) == (0, 28)
    assert ctx._scope is None


def test_facts_are_entered_where_some_points_do_not_decide() -> None:
    x, y, m, s = Var("x"), Var("y"), ShapeVar("m"), ShapeVar("s", upper=64)
    tiles = {x: Range(0, ceildiv(m, 256)), y: Range(0, 256)}
    for ranges, fact, e, after in (
        (tiles, x * 256 + y < m, (x * 256 + y) // 96, (x * 256 + y) // 96),
        (tiles, x * 256 + y < m, (x * 256 + y) % 3, (x + y) % 3),
        ({x: Range(0, 13), y: Range(0, 1024)}, x * 1024 + y < 12_544, x * 1024 + y, x * 1024 + y),
        ({x: Range(0, 13), y: Range(0, 1024)}, x * 1024 + y < 12_544, (x * 1024 + y) % 600 < 50, None),
        ({x: Range(0, 13), y: Range(0, 8)}, x * 2 + y * 0 < 20 + m * 0, x * 8 + y, x * 8 + y),
        ({x: Range(0, m), y: Range(0, 8)}, y.eq(3), x * 8 + m, x * 8 + m),
    ):
        ctx = Context(ranges, assume=[fact])
        assert ctx.simplify(e) is (e if after is None else after) and ctx._scope is None
    for ranges, fact, e, after in (
        (tiles, x * 256 + y < m, x * 256 + y < m + 1, truth(True)),
        ({x: Range(0, 8), y: Range(0, 8)}, x * 8 + y < 3, x * 8 + y, y),
        ({x: Range(0, 8), y: Range(0, 8)}, x * 8 + y < 3, (x * 8 + y) // 5, const(0)),
        ({x: Range(0, 8), y: Range(0, s)}, x + y < s, x * 8 + y, x * 8 + y),
    ):
        ctx = Context(ranges, assume=[fact])
        assert ctx.simplify(e) is after and ctx._scope is not None


def test_most_are_settled() -> None:
    # Otherwise nothing is tested above.
    count = sum(settled(e, ctx.frame.known) is not None for e, ctx in map(case, map(random.Random, range(100))))
    assert count > 15
    x, y = Var("x"), Var("y")
    ctx = Context({x: Range(0, 25), y: Range(0, 4)})
    assert ctx.simplify(((x * 56 + y) % 25).eq(4)) is (y * 4 + 9).eq(x)


X, Y, Z, W, A, B, C, M = (Var(name) for name in "xyzwabcm")
LOW = (A * 4 + B * 2 + C) % 16
# ranges, facts, what is irreducible, and what a search may shorten
IRREDUCIBLE: dict[str, tuple[dict[Var, Range], list[Cond], list[Any], list[Any]]] = {
    "a remainder within a division prime to its parts": (
        {X: Range(0, 9), A: Range(0, 8), B: Range(0, 2), C: Range(0, 2)}, [],
        [(X * 16 + LOW) // 9, (X * 16 + LOW) // 49, (X * 16 + LOW) % 19 // 3],
        [(X * 16 + LOW) // 6, (X * 16 + LOW) % 7, (X * 2 + LOW) // 9],
    ),
    "a guard of symbolic tiles with points on both sides": (
        {X: Range(0, (M + 255) // 256), Y: Range(0, 256)}, [],
        [X * 256 + Y < M, X * 256 + Y < M * 3],
        [X * 256 < M, X * 256 + Y < M + 256, X * 256 - Y < M, X * 256 + Y >= -M],
    ),
    "factored sums": (
        dict.fromkeys((X, Y, Z, W), Range(0, 8)), [],
        [(X + Y) * 2, (X - Y) * 29 + Z + W * 841, (X + Y) * 3 - (Z + W) * 5],
        [(X + Y) * 2 + Z * 2, (X + Y) * 2 + 6, (X + Y) * 2 + X, ((X + Y) * 2) // 4, (X + Y) * 2 < 4],
    ),
    "quotients beside their variables": (
        {X: Range(0, 64), Y: Range(0, 8), Z: Range(0, 40)}, [],
        [X - X // 21 * 35 + Y * 7, X // 21 * 42 - X, Y * 16 + (X * 8 + Z) // 21 * 45 - X, (Y + X * 9 // 4) * 2 + Z],
        [
            X * 4 + X // 21 * 2, X - X // 21 * 21, X * 3 - X // 21 * 42, X * 3 + (X * 22 + Z) // 21 * 5,
            X + (X + Y) % 5 * 7, (X - X // 21 * 35) // 6, X * 3 + (X // 4 + Y) // 3 * 5, X + X // 8 * 3 + X // 4 * 3,
        ],
    ),
    "inequalities beside a remainder of parts": (
        {X: Range(0, 10), A: Range(0, 8), B: Range(0, 4), C: Range(0, 2)}, [],
        [X * 16 + (A * 8 + B * 2 + C) % 16 < 147, X * 12 - (A * 4 + B) % 6 * 5 >= 7],
        [X * 16 + (A * 8 + B * 2 + C) % 16 < 144, X * 2 + (A * 4 + C) % 8 <= 17, X * 24 + (A * 6 + B + 1) % 12 * 5 > 9],
    ),
    "parts that say nothing about one another": (
        {X: Range(0, 3), Y: Range(0, 16), A: Range(0, 8), B: Range(0, 2), C: Range(0, 2)}, [],
        [(Y * 8 + A < 68) & (X * 16 + (A * 4 + B * 2 + C) % 16 < 33), (Y + B >= 3) | (X * 2 + B > 2)],
        [(Y * 8 + A < 68) & (A < 4), (Y * 8 + A < 6) & (X + A < 3), (Y + A < 5) & (A + B > 3)],
    ),
    "inequalities at the ends of sums": (
        {X: Range(0, 8), Y: Range(0, 3), Z: Range(0, 8), W: Range(0, 3)}, [],
        [(X + Y >= 1) & (X + Y < 9) & (Z - W > -2) & (Z - W < 7), X * 4 + Y + W >= 1, (X * 4 + Z < 1) | (Y + W >= 4)],
        [X * 3 + Y * 5 >= 1, X * 8 + Y - W <= -2, (X + Y >= 1) & (X + Y < 2)],
    ),
    "digits of sums with multiples of the divisor": (
        {X: Range(0, 12), Y: Range(0, 1024)}, [],
        [(X * 1024 + Y) % 768 // 64, (X * 128 + Y) % 768 // 64 * 3 + Z],
        [(X * 64 + Y) % 768 // 64, (X * 832 + Y) % 768 // 64, (X * 704 + Y) % 768 // 64],
    ),
    "truncated remainders of quotients": (
        {X: Range(0, 2), Y: Range(0, 1024)}, [X * 1024 + Y < 2016],
        [truncmod((X * 1024 + Y) // 42, 3)],
        [truncmod((X * 127 + Y) // 42, 3), (X * 1024 + Y) // 42 % 3],
    ),
    "dividends that facts bound": (
        {X: Range(0, 13), Y: Range(0, 1024)}, [X * 1024 + Y < 12_544],
        [(X * 64 + Y // 16) % 14, (X * 1024 + Y) % 600 < 50],
        [(X * 64 + Y // 16) // 784, (X * 1024 + Y) % 12_544 < 50, X * 1024 + Y < 12_000],
    ),
}  # fmt: skip


TILED = {X: Range(0, 13), Y: Range(0, 1024), Z: Range(0, 4), A: Range(0, 2), W: Range(0, 10)}


@pytest.mark.parametrize(
    ("e", "after"),
    [
        ((X * 1024 + Y) % 25 < 3, (Y - X) % 25 < 3),
        ((X * 1024 + Y) % 768 % 64, Y % 64),
        ((X * 4 + Y // 14) // 10, (X * 56 + Y) // 140),
        ((X * 1024 + Y) // 7 // 4, (X * 1024 + Y) // 28),
        (3 - (X * 2 + (Z * 2 + A) // 4) % 4, 3 - (X * 2 + Z // 2) % 4),
        (X * 16 + Y // 64 <= Y % 64, X * 16 + Y // 64 * 65 <= Y),
        ((X * 2 + W // 4 < 17) & (Z * 16 + (W * 4 + A) % 16 < 33), (X * 8 + W < 68) & (Z * 16 + (W * 4 + A) % 16 < 33)),
        (X * 2 + Y // 4 > 17, X * 8 + Y > 71),
        ((X * 1024 + Y) // 224 * 224 + (X * 64 + Y // 16) % 14 * 16 + Y % 16, X * 1024 + Y),
    ],
    ids=str,
)
def test_operands_are_replaced_before_a_scope_is_made(e: Any, after: Any) -> None:
    ctx = Context(TILED)
    assert ctx.simplify(e) is after and ctx._scope is None
    assert Context(TILED, assume=[X * 1024 + Y < 12_544]).simplify(e) is after
    price = walk().price
    assert price(after) <= price(simplified(e, Context(TILED).frame.known))


@pytest.mark.parametrize("d", [-6, -3, -2, -1, 1, 2, 3, 6])
def test_a_division_within_another_leaves_only_for_positive_divisors(d: int) -> None:
    ctx = Context({X: Range(-9, 20), Y: Range(0, 3)})
    for e in (
        *(X % 6 % d, (X + Y * 3) % 6 % d, (X // 2 + Y) // d, X // 2 // d, X // -2 // d),
        *(d > X // 2 + Y, d <= X // 2 + Y, d >= X // -2 + Y, d > X // 3 + Y, X % 3 + Y < X // 3),
    ):
        after: Any = ctx.simplify(e)
        for point in ({X: x, Y: y} for x in range(-9, 11) for y in range(3)):
            assert evaluate(after, point) == evaluate(e, point), (e, after)


def test_divisions_of_one_sum_are_not_replaced_one_by_one() -> None:
    e = (X * 8 + Y // 8) // 3 * 4 * 3 + (X * 8 + Y // 8) % 3 - 1
    ctx = Context({X: Range(0, 13), Y: Range(0, 64)})
    assert ctx.simplify(e) is X * 35 + (Y - X * 8) // 24 * 9 + Y // 8 - 1


@pytest.mark.parametrize("name", IRREDUCIBLE)
def test_what_is_settled_is_what_a_search_leaves(name: str) -> None:
    ranges, facts, irreducible, others = IRREDUCIBLE[name]
    known = Context(ranges, assume=facts).frame.known
    for e in irreducible:
        assert settled(e, known) is e is run(walk(), e, known)
    assert [settled(e, known) for e in others] == [None] * len(others)
