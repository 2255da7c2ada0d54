"""Bounds where an operand is open: a divisor, an amount, a factor that stays symbolic; congruences of several facts."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from intset import Context, EvaluationError, Range, ShapeVar, Var, evaluate, maximum, minimum, sum_of, truncmod

x, tile, a, b = Var("x"), Var("tile"), Var("a"), Var("b")
y = ShapeVar("y")
OPEN = Context({x: None})


def test_a_remainder_is_bounded_by_its_divisor() -> None:
    ends = OPEN.bounds(x % tile)
    assert tuple(ends) == (minimum(tile + 1, 0), maximum(tile - 1, 0)) and ends.is_tight
    ends = OPEN.bounds(truncmod(x, tile))
    assert tuple(ends) == (1 - abs(tile), abs(tile) - 1) and ends.is_tight


@pytest.mark.parametrize("e", [x % tile, truncmod(x, tile)], ids=str)
def test_the_ends_are_attained_at_every_divisor(e: Any) -> None:
    low, high = OPEN.bounds(e)
    for t in range(-9, 10):
        if t:
            values = {evaluate(e, {x: v, tile: t}) for v in range(-40, 40)}
            assert (min(values), max(values)) == (evaluate(low, {tile: t}), evaluate(high, {tile: t}))


def test_a_shift_is_bounded_as_a_product_is() -> None:
    ends = Context({x: Range(0, 4)}).bounds(x << y)
    assert str(tuple(ends)) == "(0, 3 << y)" and ends.is_tight


def test_a_factor_of_a_bounded_product_is_bounded() -> None:
    ctx = Context({b: Range(1, 4), a: None}, assume=[b * a <= 7])
    assert ctx.bounds(a)[1] == 7
    tried = 0
    for low, high in product(range(-9, 10), repeat=2):
        if low > high:
            continue
        within = Context({b: Range(2, 3), a: Range(-20, 41)}, assume=[b * a >= low, b * a <= high])
        values = [v for v in range(-20, 21) for f in (2, 3, 4) if low <= v * f <= high]
        if values:
            first, last = within.bounds(a, domain="interval")
            assert int(first) <= min(values) and max(values) <= int(last)
            tried += 1
    assert tried > 100


def test_a_sum_is_a_factor_like_a_variable() -> None:
    t = sum_of([ShapeVar(f"s{k}", lower=2) for k in range(64)])
    assert Context().bounds(t * 8 * t % t) == (0, 0)
    assert Context().prove((t * 8 * t % t).eq(0))
    low, high = Context({x: Range(0, t * 128)}).bounds((x // t) * t)
    assert int(low) == 0 and high is t * 127


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([(a % 3).eq(2), (a % 5).eq(3), (a % 7).eq(2)], "105*Z + 23"),
        ([truncmod(a, 3).eq(2)], "3*Z + 2"),
        ([(-a % 3).eq(2), (a % 2).eq(1)], "6*Z + 1"),
        ([(a % 4).eq(1), (a % 6).eq(3)], "12*Z + 9"),
    ],
)
def test_congruences_meet(facts: list[Any], expected: str) -> None:
    assert expected in repr(Context({a: None}, assume=facts).value_set(a, domain="modular"))
    m, r = (int(text) for text in expected.split("*Z + "))
    for v in range(-200, 200):
        try:
            if all(evaluate(fact, {a: v}) for fact in facts):
                assert v % m == r
        except EvaluationError:
            continue
