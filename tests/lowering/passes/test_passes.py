"""Nests and the passes over them: hand-made functions, fresh names of copies, what has a value, former slow cases."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from bound import te, tir
from bound.errors import ScheduleError
from intset import Context, Range, ShapeVar, Var
from intset.errors import UndefinedError
from intset.expr.node import constant_value
from lowering import (
    AccessError,
    CheckError,
    Function,
    drop_dead,
    lower,
    lower_divisions,
    narrow,
    parse_nest,
    remove_branching_through_overcompute,
    remove_no_op,
    run,
    simplify,
    to_c,
    unique_names,
)
from lowering.dataflow import account_of, dataflow
from lowering.forms.model import SHORT, written_out
from lowering.nest.ir import Allocate, Assert, For, If, Let, Stmt, Store, seq
from lowering.nest.names import with_fresh_names
from lowering.nest.walk import range_ends, statements
from lowering.passes.definedness import with_total_ends
from tests.lowering.lowered import close, compile_c, of_corpus, problem, run_sanitized, text_of
from tests.strategies.nests import Nest, nests
from tests.strategies.schedules import Program, programs
from tests.sweeps import daily, sampled

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


def test_what_never_runs_and_what_nothing_depends_on_is_dropped() -> None:
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


def test_what_is_asserted_or_written_is_no_fact() -> None:
    body = seq(Assert(N >= 0, "n"), Assert((N % 8).eq(0), "n is a multiple of 8"), Store(B, (0 * N,), A[0]))
    f = lower_divisions(simplify(function(body)))
    assert 'assert n >= 0, "n"' in str(f) and "assert n & 7 == 0" in str(f)
    with pytest.raises(CheckError, match="an assertion does not hold: n is a multiple of 8"):
        result(f, 7)
    result(f, 8)
    c = te.compute((4,), lambda i: i * 2, name="C")
    m = te.compute((4,), lambda i: c[i] // 3, name="M")
    body = If(c[0] >= 3, seq(Store(c, (Var("k") * 0,), -5 + 0 * I), Store(m, (I,), (c[0] - 3) // 5)))
    f = Function("f", (c, m), (c, m), (I,), (), body)
    assert "truncdiv(C[0] - 3, 5)\n" not in f"{lower_divisions(f)}\n"


@pytest.mark.parametrize(
    ("extents", "bits"),
    [
        ((ShapeVar("m", upper=1000),) * 2, 32),
        ((ShapeVar("m", upper=100_000),) * 2, 64),
        ((1 << 16, 1 << 15), 32),
        ((1 << 16, 1 << 16), 64),
    ],
)
def test_narrow_names_what_does_not_fit(extents: tuple[Any, Any], bits: int) -> None:
    x = te.placeholder(extents, name="X")
    y = te.compute(extents, lambda i, j: x[i, j], name="Y")
    width = narrow(lower(te.create_schedule(y.op)))
    assert width.bits == bits
    if bits == 64:
        assert width.proof is not None and not width.proof and "does not fit into 32 bits at" in str(width)
        assert str(width.forced_by) in ("j * m + i", "i * m + j", "i * 65536 + j")


def test_names_in_sight_differ_long_minima_have_one_and_copies_share_none() -> None:
    store = Store(B, (I,), A[I])
    k1, k2 = Var("i"), Var("i")
    nested = For(k1, Range(0, 1), For(k2, Range(0, N), Store(B, (k2,), A[k2 + k1])))
    f = unique_names(function(seq(For(I, Range(0, N), store), nested)))
    assert str(f).count("for i in") == 2 and "for i_1 in [0, n):" in str(f) and "A[i_1 + i]" in str(f)
    _, f = of_corpus("doc_ex6_fuse_split3")
    assert "B.min1 = maximum(maximum(" in str(f) and "allocate B: float32[2, 4] at [" in str(f)
    f = parse_nest(NEST)
    copy = with_fresh_names(f.body)
    own, other = ({s.tensor for s in statements(root) if isinstance(s, Allocate)} for root in (f.body, copy))
    assert own and other and own.isdisjoint(other)
    assert str(copy) == str(f.body)


def test_an_access_outside_its_storage_is_found() -> None:
    body = seq(Allocate(T, (Range(2, 3),)), For(I, Range(2, 4), Store(T, (I,), A[I])))
    with pytest.raises(AccessError, match=r"T\[5\] is written outside the storage T\[2:5\]"):
        result(function(body))
    with pytest.raises(AccessError, match=r"A\[7\] is read outside the storage A\[0:7\]"):
        result(function(For(I, Range(0, N), Store(B, (I,), A[I + 1]))))
    lazy = Store(B, (I,), tir.Select(I >= 1, A[I - 1], 0.0))
    np.testing.assert_array_equal(result(function(For(I, Range(0, N), lazy)), 3), [0, 1, 2])


NESTS = ("auto", "guard", "ends", "split", "partition")
STRICT = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", "-pedantic", "-fsyntax-only")


def made_twice(root: Stmt) -> list[str]:
    """Tensors and variables that a nest defines twice."""
    binding = [stmt for stmt in statements(root) if isinstance(stmt, (Allocate, Let))]
    made = Counter[Any](stmt.tensor if isinstance(stmt, Allocate) else stmt.var for stmt in binding)
    return [str(thing) for thing, count in made.items() if count > 1]


@sampled(4, 4000, programs(also="copies"), st.sampled_from(NESTS), shows={True})
def test_random_schedules_of_copies(program: Program, nests: str) -> bool:
    try:
        f = lower(program.schedule, nests=nests)
    except ScheduleError:
        return False
    assert not made_twice(f.body)
    assert str(parse_nest(str(f))) == str(f)
    text = text_of(f)
    compile_c(text, flags=(*STRICT, "-c"))
    given, expected = problem(program.schedule, program.sizes)
    close(run_sanitized(f, text, given, expected, program.sizes), expected)
    return True


def test_c_of_an_array_with_elements_that_no_copy_stores() -> None:
    program = Program(586, also="copies")  # gcc may believe that a copy, never run, reads them
    text = to_c(lower(program.schedule, nests="guard"))
    assert "{0}" not in text  # no loop fills the array
    for level in ("-O0", "-O1", "-O2"):
        compile_c(text, flags=("-std=c99", level, "-Wall", "-Wextra", "-Werror", "-c"))


NEST = """
def f(A: int32[4], C: int32[4]):
    for i in [0, 4):
        allocate T: int32[2]
        x = A[i] * 3
        T[0] = x
        T[1] = T[0] + 1
        C[i] = T[1]
"""


UNDEFINED = {
    "an end": "for i in [0, 12 // n):\n    A[i] = A[i] + 1",
    "an inner end": "for i in [0, 3):\n    for j in [0, i + 4 // n):\n        A[i] = A[i] + j",
    "an end of two sizes": "for i in [0, 24 // (n * m)):\n    A[i % 12] = A[i % 12] + 1",
    "a first iteration": "for i in [6 // n, 12 // m):\n    A[i] = 7",
    "a condition": "if 8 // n > 3:\n    A[0] = 5",
    "a name": "for i in [0, 3):\n    q = 8 // n\n    for j in [0, n):\n        A[i] = A[i] + q",
    "an extent": "allocate T: int32[12 // n]\nfor i in [0, n):\n    T[0] = i\n    A[i] = T[0] + 1",
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_what_divides_by_a_size_of_0_is_not_evaluated(name: str) -> None:
    body = "\n".join("    " + line for line in UNDEFINED[name].split("\n"))
    f = parse_nest(f"def f(A: int32[12], n, m):\n    assert n >= 0\n    assert m >= 0\n{body}\n")
    total = with_total_ends(f)
    start = np.arange(12, dtype=np.int32)
    undefined = 0
    for n in range(5):
        for m in range(5):
            sizes = {"n": n, "m": m}
            result = run(total, {"A": start}, sizes)["A"]
            try:
                expected = run(f, {"A": start}, sizes)["A"]
            except UndefinedError:
                undefined += 1
                expected = start
            np.testing.assert_array_equal(result, expected)
    assert undefined >= 5
    assert str(with_total_ends(total)) == str(total)


def test_what_is_known_to_have_a_value_stays() -> None:
    f = parse_nest(
        "def f(A: int32[12], n, m):\n    assert n >= 1\n    for i in [0, 12 // n):\n        A[i] = 1\n"
        "    for j in [0, m):\n        if m <= 12:\n            for k in [0, 12 // m):\n                A[k] = 2\n"
    )
    assert with_total_ends(f) == f or str(with_total_ends(f)) == str(f)


LIMIT = 25  # processor seconds: only a time limit ends this search without a budget


@contextmanager
def soon() -> Iterator[None]:
    start = time.process_time()
    yield
    assert time.process_time() - start < LIMIT


@pytest.mark.parametrize(("modulus", "inner"), [(7, 4), (11, 5), (9, 4)])
def test_stores_by_chains_of_remainders(modulus: int, inner: int) -> None:
    nest = f"""
def f(M: int32[5, 5], n):
    for i in [0, n):
        M[i % {modulus} % {inner}, i % 2] = M[i % {modulus} % {inner}, i % 2]
"""
    with soon():
        assert "M[" not in str(remove_no_op(parse_nest(nest))).split(":", 1)[1].replace("int32[5, 5]", "")


def test_guards_of_many_statements() -> None:
    nest = """
def f(A: int32[n], B: int32[n], Q: int32[7], C: int32[1], n):
    for i in [0, n):
        assume (i >= 1) & (i < n - 1) | (A[i] == 5)
    for i0 in [0, n):
        if (i0 // 2 < 3) & (B[i0] == 1):
            Q[i0 % 7] = (i0 + 2) // 7 + i0
        if ~((Q[(i0 + 0) % 7] >= 2) & ((i0 + i0 > i0) & (i0 % 3 != 2))):
            Q[(i0 + 1) % 6 % 7] = minimum(Q[(i0 + 1) % 6 % 7], Q[i0 // 5 % 7] * 2)
    if n > 2:
        C[0] = 1
    for i1 in [0, n):
        if (i1 >= 1) & (i1 < n - 1):
            C[0] = C[0] * A[i1]
    C[0] = 0
"""
    with soon():
        remove_branching_through_overcompute(parse_nest(nest))


@pytest.mark.parametrize("dims", daily([12, 16, 18], 2))
def test_many_dimensions(dims: int) -> None:
    a = te.placeholder((2,) * dims, name="A")
    b = te.compute((2,) * dims, lambda *i: a(*i) + 1, name="B")
    c = te.compute((2,) * dims, lambda *i: te.if_then_else(i[0] + i[-1] < 2, b(*i), 0.0), name="C")
    with soon():
        lower(te.create_schedule(c.op), [a, c])


def test_deep_nests_are_read_once_and_a_pass_spends_less_and_less() -> None:
    # Questions without an account are independent of earlier ones; a spent account refuses.
    f = parse_nest("def f(A: int32[64]):\n    for i in [0, 64):\n        A[i % 4] = A[i % 5]\n")
    account = account_of(f)
    account.left = account.least = 1
    (spent,) = dataflow(f, account).sources(3)["A[i % 5]"]
    assert spent.kind == "unknown"
    assert all(source.kind != "unknown" for source in dataflow(f).sources(3)["A[i % 5]"])
    lines = [" " * 4 * (k + 1) + f"for i{k} in [0, 1):" for k in range(40)]
    f = parse_nest("\n".join(["def f(A: int32[1]):", *lines, " " * 4 * 41 + "A[0] = 1"]))
    with soon():
        assert set(written_out(f.body).values()) == {1}


def reference_written_out(loop: For) -> int | None:
    """The iterations that a compiler writes out, by the definition: every loop inside counts for itself."""
    count = constant_value(range_ends(loop.range)[1])
    if count is None or count > SHORT:
        return None
    for part in statements(loop.body):
        if isinstance(part, For):
            inner = reference_written_out(part)
            count = None if inner is None or count is None else max(count, count * inner)
    return count if count is not None and count <= SHORT else None


@sampled(80, 1000, nests(kinds=("loop", "guard")), shows=(None, 0, 1, 2, 4))
def test_loops_that_are_written_out(nest: Nest) -> frozenset[int | None]:
    f = parse_nest(nest.text)
    found = written_out(f.body)
    for stmt in statements(f.body):
        if isinstance(stmt, For):
            assert found[stmt] == reference_written_out(stmt)
    return frozenset(found.values())
