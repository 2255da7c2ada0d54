"""Remainders of quotients by sizes: bounded by the divisor, also if common factors cancel."""

from __future__ import annotations

import itertools
import random

import pytest

from intset import Context, Expr, Range, ShapeVar, Var, evaluate

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
