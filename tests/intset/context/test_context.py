"""Contexts, configuration, symbolic ends, refusals, towers and long sums."""

from __future__ import annotations

import subprocess
import sys
import time

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
    maximum,
    minimum,
    parse,
    select,
)

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
    tile = Context({i: Range(0, (n + 3) // 4), j: Range(0, 4)}, assume=[i * 4 + j < n])
    for e in (i * 4 + j, i, j, (i * 4 + j) // 3, (i * 4 + j) % 5):
        low, high = tile.bounds(e)
        for size in range(1, 12):
            values = [evaluate(e, {i: a, j: b}) for a in range((size + 3) // 4) for b in range(4) if a * 4 + b < size]
            assert evaluate(low, {n: size}) == min(values), (e, size)
            assert evaluate(high, {n: size}) == max(values), (e, size)


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
        (lambda: i // 0, "constant 0"),
        (lambda: i / 2, "not an integer operation"),
        (lambda: select(True, i, j), "must be a condition"),
        (lambda: bool(i < 3), "truth value of the condition"),
        (lambda: parse("i +", {"i": i}), ""),
        (lambda: parse("i + q", {"i": i}), "q"),
        (lambda: evaluate(i + j, {i: 1}), "j has no value"),
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


def test_import_is_light():
    code = "import sys, intset; print([m for m in ('z3', 'islpy', 'numpy') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


TOWERS = {
    "sums and products": lambda s: s + s,
    "remainders": lambda s: s // 2 + s % 3,
    "selects": lambda s: select(s % 3 > 0, s // 2, s + 1),
    "minima": lambda s: minimum(s + 1, intset.maximum(s, 5)),
    "squares": lambda s: s * s % 7 + s,
    "bits": lambda s: (s ^ 5) + (s & 3),
}


@pytest.mark.parametrize("name", TOWERS)
def test_a_tower_of_shared_subexpressions_is_walked_once(name):
    tower = i
    for _ in range(200):
        tower = TOWERS[name](tower)
    ctx = Context({i: Range(0, 10)})
    started = time.perf_counter()
    low, high = ctx.bounds(tower)
    assert time.perf_counter() - started < 20  # not a measurement: exponential time would not end at all
    values = [evaluate(tower, {i: v}) for v in range(10)]
    assert low <= min(values) if low is NEG_INF else int(low) <= min(values)
    assert high >= max(values) if high is POS_INF else int(high) >= max(values)


def test_a_sum_of_twenty_thousand_terms():
    total = j
    for term in range(20_000):
        total = total + i * (term % 3)
    ctx = Context({i: Range(0, 2), j: Range(0, 5)})
    assert tuple(map(int, ctx.bounds(total))) == (0, 4 + sum(term % 3 for term in range(20_000)))
    assert str(ctx.simplify(total - j)) == f"i * {sum(term % 3 for term in range(20_000))}"


def test_the_linear_form_cancels():
    ctx = Context({})
    x, y = Var("x"), Var("y")
    assert str(ctx.simplify(x - x)) == "0"
    assert ctx.simplify((i * 4 + j) - i * 4) is j
    assert ctx.simplify((x // 5) * 5 + x % 5) is x
    assert str(ctx.simplify((x + y) - (x // 5) * 5)) == "x % 5 + y"
    assert str(Context({x: Range(0, 4)}).canonical((y * 4 + x) % 16)) in ("x + y % 4 * 4", "y % 4 * 4 + x")


def test_contexts_pickle_and_show_themselves():
    import pickle

    ctx = Context({i: Range(0, n)}, assume=[i < 9])
    again = pickle.loads(pickle.dumps(ctx))
    assert again.bounds(i * 2) == ctx.bounds(i * 2)
    assert repr(ctx) == "<Context i in [0, n - 1] | assumed: i < 9>"


def test_what_was_made_before_changes_no_answer() -> None:
    def answers() -> list[str]:
        i, j = Var("i"), Var("j")
        n, m = ShapeVar("n"), ShapeVar("m")
        ctx = Context({i: Range(0, n), j: Range(0, m)})
        e = maximum(i * 4 + j, minimum(n * 3 - i, m * 7 - j) // 2, i * j + n % 3, (m // 5) * 2)
        return [str(ctx.simplify(e)), str(ctx.bounds(e)), str(ctx.simplify(e * 2 + (i * j) // (n + 1) + i % (m + 3)))]

    first = answers()
    for others in (1, 7, 100):
        made = [Var("other") for _ in range(others)]
        assert answers() == first, len(made)
