"""Former slow cases: passes over short nests, options of a layout, many dimensions.

They took 4 to 36 s once; the limit lies far between that and their present time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bound import te
from intset import Var
from intset.expr.node import constant_value
from lowering import lower, parse_nest, remove_branching_through_overcompute, remove_no_op
from lowering.dataflow import account_of, dataflow
from lowering.forms.model import SHORT, written_out
from lowering.nest.ir import For
from lowering.nest.walk import range_ends, statements
from lowering.padding.partial_evaluation import Data, PartialEvaluator
from tests.strategies.nests import Nest, nests
from tests.sweeps import sampled

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


@pytest.mark.parametrize("dims", [12, 16, 18])
def test_many_dimensions(dims: int) -> None:
    a = te.placeholder((2,) * dims, name="A")
    b = te.compute((2,) * dims, lambda *i: a(*i) + 1, name="B")
    c = te.compute((2,) * dims, lambda *i: te.if_then_else(i[0] + i[-1] < 2, b(*i), 0.0), name="C")
    with soon():
        lower(te.create_schedule(c.op), [a, c])


def test_a_pass_spends_less_and_less() -> None:
    """Questions without an account are independent of earlier ones; a spent account refuses."""
    f = parse_nest("def f(A: int32[64]):\n    for i in [0, 64):\n        A[i % 4] = A[i % 5]\n")
    account = account_of(f)
    account.left = account.least = 1
    (spent,) = dataflow(f, account).sources(3)["A[i % 5]"]
    assert spent.kind == "unknown"
    assert all(source.kind != "unknown" for source in dataflow(f).sources(3)["A[i % 5]"])


# -- the work of nests ------------------------------------------------------------------------------------------------


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


def test_deep_nests_are_read_once() -> None:
    lines = [" " * 4 * (k + 1) + f"for i{k} in [0, 1):" for k in range(40)]
    f = parse_nest("\n".join(["def f(A: int32[1]):", *lines, " " * 4 * 41 + "A[0] = 1"]))
    with soon():
        assert set(written_out(f.body).values()) == {1}


# -- operands of paddings ---------------------------------------------------------------------------------------------


def test_steps_are_the_walk() -> None:
    """Operands without choices evaluated by steps, and by the walk, give the same."""
    i, j = Var("i"), Var("j")
    a = te.placeholder((8,), name="A", dtype="int32")
    x = te.placeholder((8,), name="X", dtype="float32")
    roots = [i * 3 + j, (i + 1) // (j - 2), a[i] + 2, a[i % 8] * 0, x[i] * 0.5 + x[j], i < j, -x[i], a[a[j]] % 7]
    for first, second in ((0, 1), (5, 2), (7, 2)):
        for root in roots:
            loads = lambda tensor, at: 3 if at[0] in (0, 3) and tensor is a else Data()  # noqa: E731
            steps, walk = PartialEvaluator(loads, named=True), PartialEvaluator(loads)
            env = {i: first, j: second}
            assert steps(root, env) == walk(root, env) == steps(root, env)
