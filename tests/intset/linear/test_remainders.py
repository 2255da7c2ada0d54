"""Remainders of quotients by sizes: bounded by the divisor, also if common factors cancel."""

from __future__ import annotations

from typing import Any

import pytest

from intset import Context, Range, ShapeVar, Var, evaluate

i, j = Var("i"), Var("j")
n, m = ShapeVar("n", 1), ShapeVar("m", 1)
CTX = Context({i: Range(0, 5), j: Range(-3, 9)})


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


PRODUCTS = [
    (lambda a, b: (a % 3) * (b % 3), 0, 4),
    (lambda a, b: (a % 3 + 1) * (b % 4), 0, 9),
    (lambda a, b: 5 - (a % 3) * (b % 3) * 2, -3, 5),
    (lambda a, b: ((a * b) % 4) * (a % 2), 0, 3),
]


@pytest.mark.parametrize(("product", "low", "high"), PRODUCTS)
def test_products_of_remainders_of_unbounded_variables_have_bounds(product: Any, low: int, high: int) -> None:
    a, b = Var("a"), Var("b")
    e = product(a, b)
    bounds = Context({a: None, b: None}).bounds(e)
    values = [evaluate(e, {a: x, b: y}) for x in range(-12, 13) for y in range(-12, 13)]
    first, last = (end.value for end in bounds)
    assert low <= first <= min(values) and max(values) <= last <= high, bounds
    assert not bounds.is_tight or (first, last) == (min(values), max(values))
    assert Context().prove((e >= low) & (e <= high)).status == "proved"
