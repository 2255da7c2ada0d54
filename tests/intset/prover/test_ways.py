"""The flatten of TVM's RFC with each way to state a fact alone, and with none: shapes, assertions, explanations."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import intset
from bound import infer_bound, te
from bound.itervar import IterVar
from intset import (
    Context,
    InputError,
    Range,
    ShapeVar,
    ShapeWarning,
    Var,
    annotate_shapes,
    asserting,
    bounded,
    evaluate,
    floordiv,
    floormod,
    nonneg,
)
from intset.prover.explain import missing_for, ways_to_state
from lowering import CheckError, lower, lower_division, run, to_c
from lowering.nest.ir import Assert, For
from lowering.nest.walk import statements

i, j, x = Var("i"), Var("j"), Var("x")
N, M = ShapeVar("N"), ShapeVar("M")


def is_machine(e: Any, size: Any, axis: Any) -> bool:
    """Whether the remainder and the quotient, bare and in a fresh context, are C's own."""
    plain = size.args[1] if size.args else size
    found = [(lower_division(f(e, size), ctx), f) for f in (floormod, floordiv) for ctx in (None, Context())]
    return all(
        lowered.expr.op.name == {floormod: "truncmod", floordiv: "truncdiv"}[f]
        and lowered.expr.args[0] is axis
        and lowered.expr.args[1].op.name == "var"
        and lowered.requires in ((), (size.ne(0),), (plain.ne(0),))
        for lowered, f in found
    )


def axis_over(size: Any) -> IterVar:
    return IterVar(Range(0, size * size), "i")


# -- each way alone ---------------------------------------------------------------------------------------------------


def test_ways_2_and_3_alone() -> None:
    n = Var("n")
    for size in (nonneg(n), bounded(n, 0), bounded(n, 1, 4096), asserting(n > 2, n)):
        axis = axis_over(n)
        assert is_machine(axis, size, axis)
    assert lower_division(floormod(nonneg(x), nonneg(j))).expr.op.name == "truncmod"
    inside = axis_over(nonneg(n))  # fact embedded in the axis range alone
    assert is_machine(inside, n, inside)
    for size in (ShapeVar("n"), ShapeVar("n", lower=4, upper=64, multiple_of=4)):
        axis = axis_over(size)
        assert is_machine(axis, size, axis)


def flatten(n: Any, more: int = 0) -> tuple[Any, Any]:
    """The flatten of an n by n array, and the array."""
    a = te.placeholder((n, n), name="A")
    return a, te.compute((n * n,), lambda i: a[i % n, i // n] + more if more else a[i % n, i // n], name="B")


def test_ways_1_and_4_need_a_function_or_a_shape() -> None:
    n = te.var("n")
    a, b = flatten(n)
    assert is_machine(b.op.axis[0], n, b.op.axis[0])
    assert pickle.loads(pickle.dumps(b.op.axis[0])).sizes == (n,)
    read = te.compute((64,), lambda i: a[i % n, i], name="B")  # the shape of a tensor that is read counts
    assert lower_division(floormod(read.op.axis[0], n)).expr.op.name == "truncmod"
    own = axis_over(n)  # user-defined axis with the tensor's extent
    assert is_machine(own, a.shape[0], own) and is_machine(own, a.shape[1], own)
    assert is_machine(i, a.shape[0], i) is False  # the sign of i is not known
    assert lower_division(i % a.shape[0], Context({i: Range(0, n * n)})).expr.op.name == "truncmod"
    noted = annotate_shapes(floormod(own, n), (n, n))
    assert lower_division(noted).expr.op.name == "truncmod"
    assert not is_machine(own, n, own)
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


# -- shapes -----------------------------------------------------------------------------------------------------------


def test_a_shape_carries_the_fact_is_wrapped_once_and_prints_like_the_extent() -> None:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, n * m + 1, 8, N), name="A")
    assert [str(e) for e in a.shape] == ["n", "n * m + 1", "8", "N"] and a.shape[3] is N
    assert Context().prove(a.shape[0] >= 0) and Context().prove(a.shape[1] >= 1)
    assert not Context().prove(n >= 0) and a.extents[:2] == (n, n * m + 1)
    assert evaluate(a.shape[1], {n: 2, m: 3}) == 7
    assert pickle.loads(pickle.dumps(a.shape[1])) is a.shape[1]
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        k = te.reduce_axis((0, a.shape[1]), "k")
        b = te.compute((a.shape[0],), lambda i: te.sum(a[i, k], axis=k), name="B")
        te.placeholder((nonneg(Var("told")),))
    assert b.extents == (n,) and b.shape[0] is a.shape[0]
    assert k.dom == Range(0, n) and k.sizes == (n,)
    s = te.create_schedule(b.op)
    assert infer_bound(s)[b.op.axis[0]] == Range(0, n)
    f = lower(s, [a, b])
    np.testing.assert_array_equal(run(f, {"A": np.ones((3, 3), "float32")})["B"], [3, 3, 3])


def test_loops_that_a_schedule_makes_know_the_sizes() -> None:
    n = te.var("n")
    _, b = flatten(n, 1)
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n,), lambda i: te.sum(b[i * n + k], axis=k), name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[b].split(b.op.axis[0], 4)
    assert outer.sizes == inner.sizes == (n,)
    assert "select" not in str(lower_division((outer * 4 + inner) % n).expr)
    fused = s[b].fuse(outer, inner)
    assert fused.sizes == (n,)
    cached = s.cache_write(c, "local")
    assert all(n in axis.sizes for axis in cached.op.axis)
    ko, _ = s[cached].split(s[cached].op.reduce_axis[0], nparts=4)
    assert all(n in axis.sizes for axis in s.rfactor(cached, ko).op.axis)


def test_a_plain_variable_is_told_once_and_can_be_silenced() -> None:
    n = Var("n")
    with pytest.warns(ShapeWarning) as told:
        te.placeholder((n, n + 1), name="A")
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        te.compute((n,), lambda i: i)
        warnings.simplefilter("ignore", ShapeWarning)
        te.placeholder((Var("other"),))


# -- the assertions say what the analysis relies on -------------------------------------------------------------------


def checks(f: Any) -> list[str]:
    return [stmt.message for stmt in statements(f.body) if isinstance(stmt, Assert)]


def test_sizes_and_facts_of_extents_are_asserted() -> None:
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
    t = te.var("t")
    a = te.placeholder((100,), name="A")
    inner = te.compute((t + 7,), lambda i: a[i % 100] + 1, name="M")
    b = te.compute((4,), lambda i: inner[(i + t) % (t + 7)], name="B")
    for inline in (False, True):
        s = te.create_schedule(b.op)
        if inline:
            s[inner].compute_inline()
        f = lower(s)
        assert checks(f) == ["t is at least 0"]
        with pytest.raises(CheckError):
            run(f, {"A": np.zeros(100, "float32")}, {"t": -2})
    n = te.var("n")
    a = te.placeholder((asserting((n >= 2) & (n % 2).eq(0), n),), name="A")
    b = te.compute((10,), lambda i: a[i % n], name="B")
    f = lower(te.create_schedule(b.op))
    assert {"n >= 2", "n % 2 == 0"} <= set(checks(f)) and "truncmod(i, n)" in str(f)
    assert run(f, {"A": np.arange(4, dtype="float32")})["B"][5] == 1
    for size in (1, 3):
        with pytest.raises(CheckError):
            run(f, {"A": np.zeros(size, "float32")})


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


def test_what_is_proposed_suffices() -> None:
    # Each text is run: with the fact stated that way, the goal is proved.
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
    ctx = Context({i: Range(0, N)})
    assert missing_for(ctx, i * i > 5) is None
    assert missing_for(ctx, i < N) is None  # it is proved
    assert "To state" not in str(ctx.explain(i * i > 5))
    assert missing_for(Context({x: Range(-5, 3)}), x >= 0) is None  # no point would be left
