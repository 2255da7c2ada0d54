"""Repeated squaring doubles the length of numbers; analyses stop with a note."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from intset import Context, Expr, Range, Var, const, evaluate, select
from intset.budgets import LONGEST_VALUE
from intset.expr.evaluate import may_be_long
from intset.infinity import POS_INF

STEPS: dict[str, Callable[[Expr, Var], Expr]] = {
    "squares": lambda e, i: e * e,
    "squares and a term": lambda e, i: e * e + i,
    "rounded": lambda e, i: e * e // 7,
    "neighbours": lambda e, i: e * (e + 1),
    "choices": lambda e, i: select(e > 3, e * e, e + 1),
}


@pytest.mark.parametrize("name", STEPS)
def test_towers_of_products_end_at_a_known_length(name: str) -> None:
    i = Var("i")
    e: Expr = i
    for _ in range(24):
        e = STEPS[name](e, i)
    ctx = Context({i: Range(0, 1000)})
    bounds = ctx.bounds(e)
    assert bounds[1] is POS_INF and not bounds.is_tight and bounds.notes
    assert not ctx.value_set(e).is_exact


def test_numbers_of_many_digits_are_still_exact() -> None:
    i = Var("i")
    ctx = Context({i: Range(1, 3)})
    for digits in (3, 300, 3000):
        low, high = ctx.bounds(i * i * const(10**digits) * i)
        assert (low.data, high.data) == (10**digits, 27 * 10**digits)


def test_the_length_is_never_underestimated() -> None:
    i = Var("i")
    for k, step in enumerate(STEPS.values()):
        e: Expr = i
        for _ in range(30):
            e = step(e, i)
            if may_be_long((e,), {i: 3}):
                break
            assert evaluate(e, {i: 5}).bit_length() <= LONGEST_VALUE
        else:
            raise AssertionError(f"step {k} was to become too long")


def test_a_certificate_of_a_tower_computes_no_long_numbers() -> None:
    """Checking all points of a box would compute numbers of millions of digits: another kind is found."""
    i = Var("i")
    e: Expr = i
    for _ in range(20):
        e = e * e
    found = Context({i: Range(0, 1000)}).bounds(e).certificate()
    assert found.lower is not None and found.lower.kind != "points"
    assert found.upper is None and found.at_upper is None and found.check()


def test_points_of_long_numbers_are_shown():
    big = 10**10000
    x = Var("x")
    proof = Context({x: None}).prove(x * 3 < const(big))
    assert proof.status == "refuted" and proof.counterexample == {x: proof.counterexample[x]}
    bounds = Context({x: Range(0, big)}).bounds(x * 3)
    certificate = bounds.certificate()
    for shown in (proof.counterexample, proof.certificate(), certificate):
        assert len(repr(shown)) < 400 and "\n" not in repr(shown)
    assert "bits" in repr(proof.counterexample) and str(certificate) and str(proof.certificate())
