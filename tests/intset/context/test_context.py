"""Contexts: symbolic ends, refusals, long sums, texts."""

from __future__ import annotations

import numpy as np
import pytest

import intset
from intset import (
    Context,
    Range,
    ShapeVar,
    Var,
    evaluate,
    select,
)

i, j = Var("i"), Var("j")
n, m = ShapeVar("n"), ShapeVar("m")


def test_symbolic_ends_use_the_signs_of_sizes():
    ctx = Context({i: Range(0, n), j: Range(0, m)})
    assert str(ctx.bounds(i * m + j)) == "(0, n * m - 1)"
    assert str(ctx.bounds((i * m + j) // m)) == "(0, n - 1)"
    assert str(ctx.bounds(i * m + j, keep=(i,))) == "(i * m, i * m + m - 1)"
    assert ctx.bounds(i * m + j).is_tight
    q = Var("q")
    low, high = Context({i: Range(0, 10)}).bounds(i * q)
    for value in (-3, 0, 4):
        assert (evaluate(low, {q: value}), evaluate(high, {q: value})) == (min(0, 9 * value), max(0, 9 * value))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Context({i: (0, 4)}), "must be a Range"),
        (lambda: Context({"i": Range(0, 4)}), "belongs to a variable"),
        (lambda: Range(0, -1), "must not be negative"),
        (lambda: Range(0, 2.5), "must be an integer"),
        (lambda: Context({i: Range(0, j), j: Range(0, i)}), "depends on"),
        (lambda: Context({}, assume=[True]), "must be a condition"),
        (lambda: Context({}, assume=[i]), "must be a condition"),
        (lambda: Context({}).prove(i), "must be a condition"),
        (lambda: Context({}).bounds(1.5), "must be an integer"),
        (lambda: Context({}).bounds(True), "truth value"),
        (lambda: Context({}).image(i), "takes a tuple"),
        (lambda: Context({}).bounds(i, keep=("i",)), "keep must be a variable"),
        (lambda: i + 1.5, "must be an integer"),
        (lambda: i + np.bool_(True), "truth value"),
        (lambda: select(True, i, j), "must be a condition"),
        (lambda: bool(i < 3), "truth value of the condition"),
        (lambda: ShapeVar("n", lower=5, upper=3), "has no value"),
        (lambda: Context({}).fits(i, bits=0), "at least 1"),
        (lambda: Context({}, domain="isll"), "did you mean 'isl'"),
    ],
)
def test_bad_input_gets_one_clear_error(call, message):
    with pytest.raises(intset.IntSetError) as caught:
        call()
    assert message in str(caught.value)


def test_a_sum_of_twenty_thousand_terms():
    total = j
    for term in range(20_000):
        total = total + i * (term % 3)
    ctx = Context({i: Range(0, 2), j: Range(0, 5)})
    assert tuple(map(int, ctx.bounds(total))) == (0, 4 + sum(term % 3 for term in range(20_000)))
    assert str(ctx.simplify(total - j)) == f"i * {sum(term % 3 for term in range(20_000))}"


def test_contexts_pickle_and_show_themselves():
    import pickle

    ctx = Context({i: Range(0, n)}, assume=[i < 9])
    again = pickle.loads(pickle.dumps(ctx))
    assert again.bounds(i * 2) == ctx.bounds(i * 2)
    assert repr(ctx) == "<Context i in [0, n - 1] | assumed: i < 9>"
