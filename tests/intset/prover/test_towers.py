"""Towers of shared levels: what a question does, in function calls, is bounded however many levels there are."""

from __future__ import annotations

import cProfile
import random
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from intset import Context, Expr, Range, Var, evaluate, maximum, minimum, select
from tests.sweeps import daily

i, j, k = Var("i"), Var("j"), Var("k")
CONTEXT = {i: Range(0, 1000), j: Range(0, 8), k: Range(0, 5)}
STEPS: dict[str, Callable[[Any, int], Expr]] = {
    "select": lambda e, q: select(e < k + q, e + j, e + 1),
    "select_square": lambda e, q: select(e < k + q, e * e, e + 1),
    "either": lambda e, q: select((e < k) | (e > j) & (e < q), e * 2, e - 1),
    "minimum": lambda e, q: minimum(e + j, e * 2 - k),
    "clamped": lambda e, q: maximum(minimum(e + j, 30), e - k),
    "quotient": lambda e, q: (e * 3 + j) // 2 + e,
    "remainder": lambda e, q: (e * 3 + j) % (q + 7),
    "bits": lambda e, q: (e ^ j) + (e & k),
}
QUESTIONS: dict[str, Callable[[Context, Expr], Any]] = {
    "bounds": lambda ctx, e: ctx.bounds(e),
    "value_set": lambda ctx, e: ctx.value_set(e).ends(),
    "prove": lambda ctx, e: ctx.prove(e < 5),
}
MOST = 3_000_000  # function calls; one of 40,000 points alone would take 20 million at 80 levels


def tower(name: str, levels: int) -> Expr:
    e: Expr = i
    for q in range(levels):
        e = STEPS[name](e, q)
    return e


@pytest.mark.parametrize(("name", "question"), daily(product(STEPS, QUESTIONS), 5))
def test_a_question_about_a_tower_takes_a_bounded_number_of_steps(name: str, question: str) -> None:
    e = tower(name, 80)
    profile = cProfile.Profile()
    profile.enable()
    QUESTIONS[question](Context(CONTEXT), e)
    profile.disable()
    assert sum(entry.callcount for entry in profile.getstats()) <= MOST


@pytest.mark.parametrize("name", daily(STEPS, 4))
def test_the_ends_of_a_tower_hold_every_value(name: str) -> None:
    rng = random.Random(name)
    for levels in (7, 14, 40):
        e = tower(name, levels)
        low, high = Context(CONTEXT).bounds(e)
        values = Context(CONTEXT).value_set(e)
        for _ in range(6):
            found = evaluate(e, {v: rng.randrange(r.extent.data) for v, r in CONTEXT.items()})
            assert low <= found <= high
            assert values.min <= found <= values.max


def test_a_long_sum_fits_in_a_number_of_steps_that_grows_with_it() -> None:
    def calls(terms: int) -> int:
        i = Var("i")
        e: Expr = i
        for _ in range(terms):
            e = e + i * 2
        profile = cProfile.Profile()
        assert profile.runcall(Context({i: Range(0, 1000)}).fits, e)
        return sum(entry.callcount for entry in profile.getstats())

    calls(10)
    assert calls(400) < 2.6 * calls(200)
