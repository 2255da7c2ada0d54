"""Remainders of quotients by sizes: bounded by the divisor, also if common factors cancel."""

from __future__ import annotations

import itertools
import random

import pytest

from intset import NEG_INF, POS_INF, Context, Expr, Range, ShapeVar, Var, evaluate

i, j = Var("i"), Var("j")
n, m = ShapeVar("n", 1), ShapeVar("m", 1)
CTX = Context({i: Range(0, 5), j: Range(-3, 9)})


def quotient(rng: random.Random) -> Expr:
    """A quotient of a sum by a size or product of sizes, with coefficients that share factors with later divisors."""
    by = rng.choice((n, m, n * m, n * 2, m * 3))
    return (i * rng.choice((1, 2, 3, 4, 6)) + rng.choice((0, j, j * 2)) + rng.choice((0, 1, 2))) // by


@pytest.mark.parametrize("domain", ["interval", "auto"])
def test_a_remainder_by_a_number_is_within_it(domain: str) -> None:
    rng = random.Random(11)
    for _ in range(40):
        c = rng.choice((2, 3, 4, 6))
        e = (quotient(rng) * rng.choice((1, 1, 2, 3)) + rng.choice((0, 1, 4, j))) % c
        low, high = CTX.bounds(e, domain=domain)
        simple = CTX.simplify(e)
        for size, other in itertools.product((1, 2, 3, 7), repeat=2):
            at = {n: size, m: other}
            assert evaluate(low, at) >= 0 and evaluate(high, at) < c, e
            for first, second in itertools.product(range(5), range(-3, 6, 2)):
                value = evaluate(e, point := {**at, i: first, j: second})
                assert evaluate(low, at) <= value <= evaluate(high, at), (e, point)
                assert value == evaluate(simple, point), (e, simple, point)


def test_the_quotient_of_a_remainder_by_a_size_is_no_number() -> None:
    """`6*i // n % 3` is `6*i // n - 3*(2*i // n)`: the divisor stays n."""
    assert str(CTX.simplify(i * 6 // n % 3)) == "i * 6 // n % 3"
    assert CTX.prove(i * 6 // n % 3 <= 2)


def test_a_remainder_of_a_quotient_by_sizes_is_below_its_size() -> None:
    """`x // a % b` is `x // a - x // (a*b) * b` in linear form; regrouping restores the remainder."""
    a, b = ShapeVar("a", lower=1), ShapeVar("b", lower=1)
    x = Var("x")
    ctx = Context({x: None})
    for goal in (x // a % b >= 0, x // a % b < b, (x // a - x // (a * b) * b).eq(x // a % b)):
        proof = ctx.prove(goal)
        assert proof.status == "proved" and proof.by == "linear"
    assert not ctx.prove(x // a % b < b - 1)


def test_remainders_of_quotients_by_sizes_keep_their_values() -> None:
    rng = random.Random(12)
    for _ in range(40):
        inner, outer = rng.choice((n, m, n * m)), rng.choice((n, m))
        dividend = i * rng.choice((1, 2, 3)) + rng.choice((0, j, j * m))
        e = dividend // inner % outer * rng.choice((1, 2)) + rng.choice((0, j, dividend // inner))
        simple, (low, high) = CTX.simplify(e), CTX.bounds(e, domain="interval")
        for size, other, first, second in itertools.product((1, 2, 3), (1, 2, 5), range(5), range(-3, 6, 2)):
            point = {n: size, m: other, i: first, j: second}
            value = evaluate(e, point)
            assert value == evaluate(simple, point), (e, simple, point)
            assert low == NEG_INF or evaluate(low, point) <= value, (e, low, point)
            assert high == POS_INF or value <= evaluate(high, point), (e, high, point)
