"""Contexts, configuration, symbolic ends, refusals, towers and long sums."""

from __future__ import annotations

import numpy as np
import pytest

import intset
from intset import (
    NEG_INF,
    POS_INF,
    Context,
    InputError,
    Range,
    ShapeVar,
    Var,
    evaluate,
    select,
)
from tests.intset.oracle import Claims
from tests.strategies.contexts import world

i, j, k = Var("i"), Var("j"), Var("k")
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


def test_symbolic_ends_with_facts_agree_with_enumeration():
    for size in (n, ShapeVar("large", lower=6, upper=12)):
        claims = Claims(world({i: Range(0, (size + 3) // 4), j: Range(0, 4)}, [i * 4 + j < size], [size]))
        for e in (i * 4 + j, i + 0, j + 0, (i * 4 + j) // 3, (i * 4 + j) % 5):
            assert claims.bounds(e, None).is_tight, e


def test_half_lines_and_everything():
    x = Var("x")
    ctx = Context({x: Range(0, POS_INF)})
    assert ctx.bounds(-x // 2) == (NEG_INF, intset.const(0)) or (
        ctx.bounds(-x // 2)[0] is NEG_INF and int(ctx.bounds(-x // 2)[1]) == 0
    )
    assert Context({x: None}).bounds(x) == (NEG_INF, POS_INF)
    assert tuple(map(int, Context({x: None}).bounds(x % 7))) == (0, 6)


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


def test_configuration_argument_block_environment_file(tmp_path, monkeypatch):
    ctx = Context({i: Range(0, 9), j: Range(0, 9)})
    e = (i * 3 + j) % 4 + i
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.intset]\ndomain = "stride"\n')
    assert ctx.bounds(e).by == "stride"
    monkeypatch.setenv("INTSET_DOMAIN", "modular")
    assert ctx.bounds(e).by == "modular"
    with intset.using(domain="isl"):
        assert ctx.bounds(e).by == "isl"
        assert ctx.bounds(e, domain="interval").by == "interval"
    assert ctx.bounds(e).by == "modular"
    with pytest.raises(InputError, match="known: auto, interval, stride"), intset.using(domain="octagon"):
        pass
    with pytest.raises(InputError, match="unknown setting"), intset.using(domian="isl"):
        pass
    monkeypatch.setenv("INTSET_DOMAIN", "nonsense")
    with pytest.raises(InputError, match="environment"):
        Context({k: Range(0, 3)}).bounds(k)


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
