"""Nests and the passes over them: hand-made functions, so that each pass is seen alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bound import infer_bound, te, tir
from intset import Context, Range, ShapeVar, Var, select
from lowering import (
    AccessError,
    CheckError,
    Function,
    drop_dead,
    lower,
    lower_divisions,
    narrow,
    parse_nest,
    rebase,
    run,
    simplify,
    strength_reduce,
    unique_names,
)
from lowering.build.function import nest_of
from lowering.nest.ir import Allocate, Assert, For, If, Let, LoopKind, Seq, Stmt, Store, seq
from lowering.nest.walk import children, free_variables, map_operands, operands, statements
from lowering.passes.loops.index_set_splitting import unroll
from tests.bound.corpus import CASES
from tests.lowering.lowered import of_corpus

N = ShapeVar("n")
A = te.placeholder((N,), name="A")
B = te.compute((N,), lambda i: A[i] + 1, name="B")
T = te.compute((N,), lambda i: A[i] * 2, name="T")
I, J = Var("i"), Var("j")


def function(body: Stmt, ctx: Context | None = None) -> Function:
    return Function("f", (A, B), (B,), (N,), (), body, ctx or Context())


def result(f: Function, n: int = 7) -> Any:
    a = np.arange(n, dtype=np.float32) + 1
    return run(f, {"A": a})["B"]


def test_printing_is_stable() -> None:
    body = seq(
        Assert(N >= 1, "n is at least 1"),
        Allocate(T, (Range(2, N - 2),), "local"),
        For(I, Range(2, N - 2), Store(T, (I,), A[I] * -1.5), LoopKind.PARALLEL),
        For(
            J,
            Range(0, N),
            If(J < 2, Store(B, (J,), tir.const(0.0)), Store(B, (J,), tir.Select(J > 3, T[J], T[J] - 1.0) / 2.0)),
        ),
    )
    f = function(body)
    assert (
        str(f)
        == """\
def f(A: float32[n], B: float32[n], n):
    assert n >= 1, "n is at least 1"
    allocate T: float32[2 : + n - 2] in local
    for i in [2, n) parallel:
        T[i] = A[i] * -1.5
    for j in [0, n):
        if j < 2:
            B[j] = 0.0
        else:
            B[j] = select(j > 3, T[j], T[j] - 1.0) / 2.0"""
    )
    expected = np.array([0, 0, -2.75, -3.5, -3.75, -4.5, -5.25])
    for g in (f, simplify(f), rebase(f), rebase(simplify(f)), unique_names(f), lower_divisions(f)):
        np.testing.assert_allclose(result(g), expected)
    assert "allocate T: float32[n - 2] in local at [2]" in str(rebase(f))
    assert repr(Seq()) == "pass" and repr(body.stmts[0]).startswith("assert")


def test_every_operand_is_mapped_and_every_statement_found() -> None:
    _, f = of_corpus("sym_matmul_cache")
    seen = list(statements(f.body))
    assert len(seen) > 15 and all(child in seen for stmt in seen for child in children(stmt))
    for stmt in seen:
        found: list[Any] = []
        map_operands(stmt, lambda e: found.append(e) or e)  # noqa: B023
        assert found == list(operands(stmt))
    assert set(free_variables(f.body)) == set(f.sizes)


def test_simplify_drops_what_never_runs_and_what_always_holds() -> None:
    store = Store(B, (I,), A[I])
    never = For(I, Range(0, N), If(I >= N, store))
    always = For(I, Range(0, N), If((I < N) & (I >= 0) & (A.shape[0] > I), store))
    nothing = For(I, Range(0, 0), store)
    once = For(I, Range(3, 1), If(I < N, store))
    assert str(simplify(function(never)).body) == "pass" and str(simplify(function(nothing)).body) == "pass"
    assert repr(simplify(function(always)).body) == "for i in [0, n):\n    B[i] = A[i]"
    assert repr(simplify(function(once)).body) == "if n > 3:\n    B[3] = A[3]"
    other = If(I >= N, store, Store(B, (I,), A[I] + 1.0))
    assert repr(simplify(function(For(I, Range(0, N), other))).body) == "for i in [0, n):\n    B[i] = A[i] + 1.0"


def test_an_assertion_is_not_simplified_by_what_it_checks() -> None:
    body = seq(Assert(N >= 0, "n"), Assert((N % 8).eq(0), "n is a multiple of 8"), Store(B, (0 * N,), A[0]))
    f = lower_divisions(simplify(function(body)))
    assert 'assert n >= 0, "n"' in str(f) and "assert n & 7 == 0" in str(f)
    with pytest.raises(CheckError, match="an assertion does not hold: n is a multiple of 8"):
        result(f, 7)
    result(f, 8)


def test_divisions_use_loops_guards_assertions_and_branches() -> None:
    d = Var("d")
    store = Store(B, (I,), A[(I - 3) // 2 + 1])
    bare = function(For(I, Range(0, N), store))
    assert "truncdiv(i - 3, 2)" not in str(lower_divisions(bare)) and ">> 1" in str(lower_divisions(bare))
    known = function(For(I, Range(0, N), If(I >= 3, Store(B, (I,), A[(I - 3) // 5]))))
    assert "truncdiv(i - 3, 5)" in str(lower_divisions(known))
    chosen = function(For(I, Range(0, N), Store(B, (I,), tir.Select(I >= 3, A[(I - 3) // 5], 0.0))))
    assert "A[truncdiv(i - 3, 5)]" in str(lower_divisions(chosen))
    asserted = function(seq(Assert(d >= 1, "d"), For(I, Range(0, N), Store(B, (I,), A[I // d]))))
    assert "A[truncdiv(i, d)]" in str(lower_divisions(asserted))
    unknown = function(For(I, Range(0, N), Store(B, (I,), A[I // d])))
    assert "A[truncdiv(i, d)]" not in str(lower_divisions(unknown))
    before = function(seq(For(I, Range(0, N), Store(B, (I,), A[I // d])), Assert(d >= 1, "d")))
    assert "A[truncdiv(i, d)]" not in str(lower_divisions(before))


def test_a_condition_on_what_the_nest_writes_is_no_fact() -> None:
    c = te.compute((4,), lambda i: i * 2, name="C")
    m = te.compute((4,), lambda i: c[i] // 3, name="M")
    body = If(c[0] >= 3, seq(Store(c, (Var("k") * 0,), -5 + 0 * I), Store(m, (I,), (c[0] - 3) // 5)))
    f = Function("f", (c, m), (c, m), (I,), (), body)
    assert "truncdiv(C[0] - 3, 5)\n" not in f"{lower_divisions(f)}\n"


def test_narrow_names_what_does_not_fit() -> None:
    small = ShapeVar("m", upper=1000)
    x = te.placeholder((small, small), name="X")
    y = te.compute((small, small), lambda i, j: x[j, i], name="Y")
    assert narrow(lower(te.create_schedule(y.op))).bits == 32
    large = ShapeVar("m", upper=100_000)
    x = te.placeholder((large, large), name="X")
    y = te.compute((large, large), lambda i, j: x[j, i], name="Y")
    width = narrow(lower(te.create_schedule(y.op)))
    assert width.bits == 64 and width.proof is not None and not width.proof
    assert str(width.forced_by) in ("j * m + i", "i * m + j") and "does not fit into 32 bits at" in str(width)
    big = te.placeholder((1 << 16, 1 << 15), name="X")
    z = te.compute((1 << 16, 1 << 15), lambda i, j: big[i, j], name="Z")
    assert narrow(lower(te.create_schedule(z.op))).bits == 32
    big = te.placeholder((1 << 16, 1 << 16), name="X")
    z = te.compute((1 << 16, 1 << 16), lambda i, j: big[i, j], name="Z")
    assert narrow(lower(te.create_schedule(z.op))).bits == 64


def test_strength_reduction_leaves_no_division() -> None:
    n = te.size_var("n")
    a = te.placeholder((n, n), name="A")
    b = te.compute((n * n,), lambda i: a[tir.floormod(i, n), tir.floordiv(i, n)], name="B")
    f = lower(te.create_schedule(b.op), strength=True)
    assert "div" not in str(f) and "mod" not in str(f) and "with q = 0, then" in str(f)
    x = np.arange(49, dtype=np.float32).reshape(7, 7)
    np.testing.assert_array_equal(run(f, {"A": x})["B"], x.T.ravel())
    run(f, {"A": np.zeros((0, 0), np.float32)})
    tiled = te.compute((n * n,), lambda i: a[(n * n - 1 - i) // n, (n * n - 1 - i) % n], name="B")
    s = te.create_schedule(tiled.op)
    s[tiled].split(tiled.op.axis[0], 4)
    g = strength_reduce(lower(s, strength=True))
    np.testing.assert_array_equal(run(g, {"A": x})["B"], x.ravel()[::-1])


def test_names_in_sight_are_different() -> None:
    store = Store(B, (I,), A[I])
    k1, k2 = Var("i"), Var("i")
    nested = For(k1, Range(0, 1), For(k2, Range(0, N), Store(B, (k2,), A[k2 + k1])))
    f = unique_names(function(seq(For(I, Range(0, N), store), nested)))
    assert str(f).count("for i in") == 2 and "for i_1 in [0, n):" in str(f) and "A[i_1 + i]" in str(f)


def test_long_minima_get_a_name() -> None:
    _, f = of_corpus("doc_ex6_fuse_split3")
    assert "B.min1 = maximum(maximum(" in str(f) and "allocate B: float32[2, 4] at [" in str(f)


def test_an_access_outside_its_storage_is_found() -> None:
    body = seq(Allocate(T, (Range(2, 3),)), For(I, Range(2, 4), Store(T, (I,), A[I])))
    with pytest.raises(AccessError, match=r"T\[5\] is written outside the storage T\[2:5\]"):
        result(function(body))
    with pytest.raises(AccessError, match=r"A\[7\] is read outside the storage A\[0:7\]"):
        result(function(For(I, Range(0, N), Store(B, (I,), A[I + 1]))))
    with pytest.raises(AccessError, match=r"A\[-1\] is read outside"):
        result(function(For(I, Range(0, N), Store(B, (I,), A[I - 1]))))
    lazy = Store(B, (I,), tir.Select(I >= 1, A[I - 1], 0.0))
    np.testing.assert_array_equal(result(function(For(I, Range(0, N), lazy)), 3), [0, 1, 2])


def test_what_nothing_depends_on_is_dropped() -> None:
    q = Var("q")
    filled = seq(Let(q, N + 1), For(I, Range(0, N), seq(Store(T, (I,), 0.0 * A[I]), Store(T, (I,), T[I] + A[I]))))
    body = seq(Allocate(T, (Range(0, N),)), filled, For(J, Range(0, N), Store(B, (J,), A[J])))
    assert repr(drop_dead(function(body)).body) == "for j in [0, n):\n    B[j] = A[j]"
    chosen = seq(
        Allocate(T, (Range(0, N),)),
        For(I, Range(0, N), Store(T, (I,), A[I])),
        For(J, Range(0, N), Store(B, (J,), tir.Select(J >= N, T[J], A[J]))),
    )
    assert repr(drop_dead(simplify(function(chosen))).body) == "for j in [0, n):\n    B[j] = A[j]"
    used = seq(Allocate(T, (Range(0, N),)), For(I, Range(0, N), seq(Store(T, (I,), A[I]), Store(B, (I,), T[I]))))
    assert str(drop_dead(function(used))) == str(function(used))


def test_a_let_is_known_below_it() -> None:
    q = Var("q")
    body = For(I, Range(0, N), seq(Let(q, I + 4), Store(B, (I,), A[(q - 4) // 3])))
    assert "truncdiv(q - 4, 3)" in str(lower_divisions(function(body)))
    np.testing.assert_array_equal(result(lower_divisions(function(body)), 4), [1, 1, 1, 2])


def test_selects_of_integers_and_shared_parts() -> None:
    e = select(I > 2, (I * 3 + 1) % 5, (I * 3 + 1) // 5)
    f = function(For(I, Range(0, N), Store(B, (I,), A[e] + A[(e + e) // 2])))
    reached = [(3 * i + 1) % 5 if i > 2 else (3 * i + 1) // 5 for i in range(7)]
    for g in (f, simplify(f), lower_divisions(f, 32)):
        np.testing.assert_array_equal(result(g), [2 * (k + 1) for k in reached])


def test_the_nest_before_the_passes_is_in_coordinates_of_the_tensors() -> None:
    s = CASES["doc_ex2_at_j"]["fn"]()
    text = str(nest_of(infer_bound(s)))
    assert "allocate C: int32[i : + 1, j : + 1]" in text and "D[i, j] = C[i, j] * 2" in text


def test_a_loop_that_is_empty_in_some_copy_of_an_unrolled_one() -> None:
    loop = "    for i in [1, 4) unrolled:\n        for k in [0, 8 - i * 4):\n            A[k] = A[k] + i\n"
    f = parse_nest(f"def F(A: int32[9]):\n{loop}")
    given = np.arange(9, dtype="int32")
    assert (run(unroll(f), {"A": given.copy()})["A"] == run(f, {"A": given.copy()})["A"]).all()
