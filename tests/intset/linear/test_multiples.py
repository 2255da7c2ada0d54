"""Divisibility in the linear tier: the closure of stated remainders under sums, products, multiples and chains."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest

from intset import Context, Range, ShapeVar, Var, const, maximum, minimum, select, using
from intset.expr.evaluate import compiled
from intset.expr.node import Cond, Expr
from intset.linear.canonical import Normalizer
from intset.linear.multiples import step_of_sum
from tests.intset.oracle import Claims
from tests.strategies.contexts import world
from tests.sweeps import daily

a, b = Var("a"), Var("b")
k, m, s, t, c = (ShapeVar(name, lower=1) for name in "kmstc")
q = ShapeVar("q", multiple_of=8)


@pytest.mark.parametrize(
    ("facts", "goal"),
    [
        ([s % k, t % k], ((s + t) % k).eq(0)),
        ([s % k, t % k], (s * t % k).eq(0)),
        ([s % k], (s * t % k).eq(0)),
        ([s % k, t % k], ((c * s - m * t) % k).eq(0)),
        ([s % k], (s // k * k).eq(s)),
        ([s % k, t % k], ((s + t) // k).eq(s // k + t // k)),
        ([s % k], ((s + t) // k).eq(s // k + t // k)),
        ([m % k, s % m], (s % k).eq(0)),
        ([m % k, s % m, t % s], ((t + s) % k).eq(0)),
        ([m % k, s % m, t % s, c % t], (c % k).eq(0)),
        ([m % k, s % m], (s // k).eq(m // k * (s // m))),
        ([s % k, t % k], ((3 * s - 5 * t) // k).eq(s // k * 3 - t // k * 5)),
        ([s % k, t % k], (s * t // k).eq(s // k * t)),
        ([s % k, t % k], (s * t // k).eq(t // k * s)),
        ([s % k, t % k, c % k], (s // k * t * c).eq(s * t * c // k)),
        ([s % k, t % m], (s * t % (k * m)).eq(0)),
        ([a % 8], (a % 12).eq(0) | (a % 12).eq(4) | (a % 12).eq(8)),
        ([a % 8 - 3], (a % 12).eq(3) | (a % 12).eq(7) | (a % 12).eq(11)),
        ([a % 6], (a % 4).eq(0) | (a % 4).eq(2)),
        ([a % 8], (a % 4).eq(0)),
        ([a % 8], (a // 4).eq(a // 8 * 2)),
        ([a % 8], (a // 16).eq((a + 2) // 16)),
        ([a % 8], ((a + 3) // 8).eq(a // 8)),
        ([a % 8, b % 12], ((a + b) % 4).eq(0)),
        ([a % 8 - 3], (a % 4).eq(3)),
        ([a % 3 - 2, a % 5 - 4], (a % 15).eq(14)),
        ([(a + b) % 8], ((a + b * 9) % 8).eq(0)),
        ([(3 * a) % 8], (a % 8).eq(0)),
        ([s * t % k], (s * t * c % k).eq(0)),
        ([s % (k + 1)], ((s + t * k + t) % (k + 1)).eq(0)),
        ([a - 8 * b], (a // 8).eq(b)),
        ([], ((q + 3) % 8).eq(3)),
        ([], (q // 8 * 8 * s).eq(q * s)),
        ([q % 12], (q % 24).eq(0)),
    ],
    ids=str,
)
def test_divisibility_is_closed_in_the_linear_tier(facts: list[Expr], goal: Cond) -> None:
    ctx = Context({a: None, b: None}, assume=[fact.eq(0) for fact in facts])
    with using(tiers=("linear",)):
        proof = ctx.prove(goal)
        assert proof.status == "proved", proof
        assert ctx.prove(~goal).status != "proved"
    assert proof.certificate().check()


@pytest.mark.parametrize(
    ("e", "text"),
    [(a % 8, "0"), ((a + 3) % 8, "3"), (a // 8 * 8, "a"), (a * b % 8, "0"), (a % 4, "0"), (a // 4 * 4 + 1, "a + 1")],
    ids=str,
)
def test_simplify_writes_with_stated_remainders(e: Expr, text: str) -> None:
    ctx = Context({a: Range(0, 1000), b: Range(0, 100)}, assume=[(a % 8).eq(0)])
    assert str(ctx.simplify(e)) == text


def test_a_remainder_by_another_divisor_keeps_the_common_part() -> None:
    ctx = Context({a: None}, assume=[(a % 8).eq(0)])
    assert ctx.bounds(a % 12).is_tight and str(ctx.bounds(a % 12)) == "(0, 8)"
    assert [v in ctx.value_set(a % 12) for v in range(9)] == [v % 4 == 0 for v in range(9)]


def random_sum(rng: random.Random) -> Expr:
    terms = rng.sample([a, b, k, m, a * b, a * k, b * m], rng.choice((1, 1, 2, 3)))
    return sum((e * rng.choice((1, 1, 1, 2, 3, 4, -1, 6)) for e in terms[1:]), terms[0] * rng.choice((1, 1, 2, 3)))


def random_fact(rng: random.Random) -> Cond:
    d = rng.choice((2, 3, 4, 6, 8, k, m, k * 2, k + 1))
    e = rng.choice((a, b, m, a, b, random_sum(rng)))
    kind = rng.randrange(8)
    if kind == 0:
        return a.eq(rng.choice((2, 3, 4)) * rng.choice((b, b // 2, m)) + rng.choice((0, 0, 1, -2)))
    if kind == 1:
        return rng.choice((a // 2 <= b, a + b <= m * 4, a >= 3, b // 3 >= 1))
    return ((e + rng.choice((0, 0, 0, 1, -3, 5))) % d).eq(rng.choice((0, 0, 0, 1, 2)))


def random_question(rng: random.Random) -> Expr:
    d = rng.choice((2, 3, 4, 5, 6, 8, 12, k, m, k * m, k + 1))
    e = random_sum(rng) + rng.choice((0, 0, 1, -1, 3))
    e = rng.choice((e // d, e % d, e % d, e // d * d, e - e // d * d))
    return e if rng.random() < 0.6 else e * rng.choice((1, 2, 4, k)) - random_sum(rng) % rng.choice((2, 4, 6, k, m))


@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
@pytest.mark.parametrize("first", daily(range(0, 300, 25), 6))
def test_forms_bounds_and_simplified_expressions_hold_at_every_point(first: int) -> None:
    used = 0
    for seed in range(first, first + 25):
        rng = random.Random(seed)
        facts = [random_fact(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
        asked = [random_question(rng) for _ in range(4)]
        claims = Claims(world({a: Range(0, 13), b: Range(-5, 11), k: Range(1, 4), m: Range(1, 6)}, facts))
        known: Normalizer = claims.ctx.frame.known
        if not claims.rows or known.empty:
            assert not claims.rows or not known.empty, (seed, facts)
            continue
        used += bool(known.assumptions.multiples)
        for e in asked:
            claims.is_refined(e, claims.ctx.simplify(e))
            claims.is_refined(e, known.regroup(known.form(e)).expr())
            low, high = known.bounds(known.form(e))
            values = [x for x in claims.at_points(e) if x is not None]
            assert low is None or low <= min(values, default=low), (seed, facts, e, low)
            assert high is None or high >= max(values, default=high), (seed, facts, e, high)
            with using(tiers=("linear",)):
                claims.goal(e.eq(rng.choice((0, 1))))
    assert used >= 12


def test_sums_that_state_remainders_in_a_circle_end() -> None:
    ctx = Context({a: None, b: None}, assume=[((a + b) % k).eq(0), ((b + a + k) % k).eq(0), ((b * 3 + a) % k).eq(0)])
    assert ctx.prove(((a + b) % k).eq(0)) and ctx.simplify((a + b * 2) // k) is not None


def of_cases(r: random.Random, depth: int) -> tuple[Any, int, int]:
    """(an expression, m, rest): every value is `rest` modulo `m`, by what its cases and factors share."""
    if depth == 0:
        g, rest = r.choice((2, 4, 6, 8, 12)), r.randrange(6)
        return r.choice((a, b)) * g + rest, g, rest
    (e, m, p), (f, n, s) = of_cases(r, depth - 1), of_cases(r, depth - 1)
    kind = r.randrange(6)
    if kind == 0:
        return e + f, math.gcd(m, n), p + s
    if kind == 1:
        return e * f, math.gcd(m * n, m * s, n * p), p * s
    if kind == 2:
        return abs(e), math.gcd(m, 2 * p), p
    joined = (minimum(e, f), maximum(e, f), select(a < b, e, f))[kind - 3]
    return joined, math.gcd(m, n, p - s), p


@pytest.mark.parametrize("number", range(60))
def test_cases_and_products_share_a_remainder(number: int) -> None:
    r = random.Random(number)
    e, m, rest = of_cases(r, r.choice((1, 1, 2)))
    ctx = Context({a: None, b: None})
    assert ctx.prove((e % m).eq(rest % m)).by in ("linear", "") or m == 1
    simpler = ctx.simplify(e % m)
    assert str(simpler) == str(rest % m) if m > 1 else simpler is const(0)
    values = compiled(e, [a, b])
    assert all(values(x, y) % m == rest % m for x in range(-5, 6) for y in range(-5, 6))


@pytest.mark.parametrize("seed", range(4))
def test_a_step_that_is_claimed_is_one_of_every_value(seed: int) -> None:
    """Cases whose remainders differ among themselves, not only by what they share."""
    r, steps = random.Random(seed), 0
    known = Context({a: None, b: None}).frame.known
    for _ in range(60):
        e = drawn_cases(r, r.choice((1, 1, 2)))
        step, rest = step_of_sum(known, known.form(e))
        steps += step > 1
        value = compiled(e, [a, b])
        values = [value(x, y) for x in range(-5, 6) for y in range(-5, 6)]
        assert all((v - rest) % step == 0 if step else v == rest for v in values), (e, step, rest)
        if step > 1:
            assert Context({a: None, b: None}).prove((e % step).eq(rest % step)) and value(0, 0) % step == rest % step
    assert steps >= 10


@pytest.mark.parametrize("e", [a * b, a * a * b, a * b * 2 + a, a * (b + 1)], ids=str)
def test_the_step_of_a_product_is_one_of_all_residues(e: Expr) -> None:
    value = compiled(e, [a, b])
    for m, n in itertools.product((2, 3, 4, 6), repeat=2):
        for p, s in itertools.product(range(m), range(n)):
            known = Context({a: None, b: None}, assume=[(a % m).eq(p), (b % n).eq(s)]).frame.known
            step, rest = step_of_sum(known, known.form(e))
            values = {(value(p + m * x, s + n * y) - rest) % step for x in range(-3, 4) for y in range(-3, 4)}
            assert values == {0}, (e, m, p, n, s, step, rest)


def drawn_cases(r: random.Random, depth: int) -> Expr:
    """Choices among multiples with remainders, as they come."""
    if depth == 0:
        return r.choice((a, b)) * r.choice((2, 4, 6, -4, 8)) + r.choice((0, 0, 1, 2, 3, 4, -2))
    e, f = drawn_cases(r, depth - 1), drawn_cases(r, depth - 1)
    g, h, p, q = (r.randint(0, 6) for _ in "ghpq")
    factors = minimum(a * 2 * g + p, b * 3 * g + p) * maximum(a * 2 * h + q, b * 3 * h + q)
    joined = (minimum(e, f), maximum(e, f), select(a < b, e, f), abs(e), e * f, e + f, e - f * 3, factors)
    return r.choice(joined)
