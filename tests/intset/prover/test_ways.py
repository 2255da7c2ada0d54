"""The flatten of TVM's RFC with each way to state a fact alone, and with none: shapes, assertions, explanations."""

from typing import Any

import numpy as np
import pytest

import intset
from bound import te
from bound.itervar import IterVar
from intset import Context, InputError, Range, ShapeVar, Var, annotate_shapes, evaluate, floordiv, floormod
from intset.prover.explain import missing_for, ways_to_state
from lowering import CheckError, lower, lower_division, run, to_c
from lowering.nest.ir import Assert, For
from lowering.nest.walk import statements

i, j, x = Var("i"), Var("j"), Var("x")
N, M = ShapeVar("N"), ShapeVar("M")


def axis_over(size: Any) -> IterVar:
    return IterVar(Range(0, size * size), "i")


# -- each way alone ---------------------------------------------------------------------------------------------------


def flatten(n: Any, more: int = 0) -> tuple[Any, Any]:
    """The flatten of an n by n array, and the array."""
    a = te.placeholder((n, n), name="A")
    return a, te.compute((n * n,), lambda i: a[i % n, i // n] + more if more else a[i % n, i // n], name="B")


def test_way_1_needs_the_whole_function() -> None:
    a, b = flatten(n := te.var("n"))
    f = lower(te.create_schedule(b.op), [a, b])
    order = [stmt for stmt in statements(f.body) if isinstance(stmt, (Assert, For))]
    assert any(isinstance(stmt, Assert) and stmt.cond is (n >= 0) for stmt in order)
    assert isinstance(order[-1], For) and not any(isinstance(stmt, For) for stmt in order[:-1])
    assert "truncmod(i, n)" in str(f) and "truncdiv(i, n)" in str(f) and "select" not in str(f)
    grid = np.arange(16, dtype="float32").reshape(4, 4)
    np.testing.assert_array_equal(run(f, {"A": grid})["B"], grid.T.ravel())
    assert "i % n" in to_c(f) and "if (!(n >= 0)) return 1;" in to_c(f)


def test_no_way_is_corrected_and_explained() -> None:
    n = Var("n")
    axis = axis_over(n)
    for divide in (floormod, floordiv):
        lowered = lower_division(divide(axis, n))
        assert lowered.expr.op.name not in ("truncmod", "truncdiv")
        for value in (-4, -1, 3):
            for at in range(value * value):
                point = {axis: at, n: value}
                assert evaluate(lowered.expr, point, bits=32) == evaluate(divide(at, value), {})
        (missing,) = lowered.missing
        assert missing.fact is (n >= 0) and set(missing.ways) >= {"asserted", "embedded", "declared", "annotated"}
        text = lowered.explain()
        for way in ("n >= 0 is missing", "nonneg(n)", "ShapeVar('n')", "annotate_shapes(e, n)", "assert n >= 0"):
            assert way in text
        explained = str(Context({axis: Range(0, n * n)}).explain(divide(axis, n)))
        assert "n >= 0 is not known" in explained and "ShapeVar('n')" in explained
        known = lower_division(divide(axis, n), Context(assume=[missing.fact]))
        assert known.expr.op.name in ("truncmod", "truncdiv") and missing.fact in known.requires


# -- the assertions say what the analysis relies on -------------------------------------------------------------------


def checks(f: Any) -> list[str]:
    return [stmt.message for stmt in statements(f.body) if isinstance(stmt, Assert)]


def test_a_size_in_a_compound_extent_is_asserted() -> None:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n * m + 1,), name="A")
    b = te.compute((n * m + 1,), lambda i: a[i], name="B")
    assert {"n is at least 0", "m is at least 0"} <= set(checks(lower(te.create_schedule(b.op))))
    shifted = te.placeholder((n + 5,), name="A")
    c = te.compute((n + 5,), lambda i: shifted[i] + 1, name="C")
    s = te.create_schedule(c.op)
    f = lower(s)
    np.testing.assert_array_equal(run(f, {"A": np.ones(5, "float32")})["C"], [2] * 5)
    with pytest.raises(CheckError, match="n is at least 0"):
        run(f, {"A": np.ones(3, "float32")})
    trusted = lower(s, ctx=Context({n: Range(-3, 9)}))  # the analysis took this range instead
    assert "n is at least 0" not in checks(trusted)
    np.testing.assert_array_equal(run(trusted, {"A": np.ones(3, "float32")})["C"], [2] * 3)


# -- what is missing --------------------------------------------------------------------------------------------------

MISSING: list[tuple[dict[Var, Any], Any, tuple[Any, ...]]] = [
    ({i: Range(0, 100)}, i % x < x, (x >= 0,)),
    ({i: Range(0, 100)}, i // x >= 0, (x >= 0,)),
    ({}, (i * N + j) // N >= 0, (i >= 0, j >= 0)),
    ({i: Range(0, N)}, (N // 8 * 8).eq(N), ((N % 8).eq(0),)),
    ({i: Range(0, N)}, i < M, (N <= M,)),
    ({}, x >= 0, (x >= 0,)),
    ({i: Range(0, 9)}, (i * x).ne(0) | i.eq(0), (x >= 1,)),
]


@pytest.mark.parametrize(("ranges", "goal", "facts"), MISSING)
def test_explain_names_the_missing_fact(ranges: Any, goal: Any, facts: Any) -> None:
    ctx = Context(ranges)
    missing = missing_for(ctx, goal)
    assert missing is not None and missing.facts == facts
    proof = ctx.extended(facts=facts).prove(goal)
    assert proof and not proof.vacuous
    text = str(ctx.explain(goal))
    for fact in facts:
        assert f"To state {fact}" in text
        for way in ways_to_state(fact).values():
            assert way in text


def test_the_ways_that_are_proposed_work() -> None:
    """Each text is run: with the fact stated that way, the goal is proved."""
    for fact in (x >= 0, x >= 3, x <= 9, (x % 8).eq(0)):
        ways = ways_to_state(fact)
        names = {**vars(intset), "x": x}
        embedded = eval(ways["embedded"], names)
        assert Context().prove(fact.substitute({x: embedded}))
        declared = eval(ways["declared"], names)
        assert Context().prove(fact.substitute({x: declared}))
        claim = ways["annotated"].removeprefix("annotate_shapes(e, ").removesuffix(")")
        assert Context().prove(fact.substitute({x: annotate_shapes(x, eval(claim, names))}))
    with pytest.raises(InputError):
        annotate_shapes(x, "x")
