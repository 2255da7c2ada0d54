"""Loops in pieces and elements in variables: every form of a nest computes what the nest computes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from bound import te, tir
from intset import Var, const, maximum, minimum
from intset.expr import ops
from intset.expr.node import Expr
from lowering import lower, parse_nest, run
from lowering.nest.ir import Assert, For, Function, Seq
from lowering.nest.walk import operands, statements
from lowering.passes.estimates import Loops
from lowering.passes.loops import index_set_splitting as partition
from lowering.passes.loops.index_set_splitting import partition_loops
from lowering.passes.simplify import decided
from lowering.passes.stores.placement import accumulate


def comparisons(f: Function) -> int:
    """The comparisons in a nest."""
    found = 0
    for stmt in statements(f.body):
        for operand in () if isinstance(stmt, Assert) else operands(stmt):
            stack: list[Any] = [operand]
            while stack:
                node = stack.pop()
                found += node.op in ops.COMPARISONS or str(node.op) in ("<", "<=", ">", ">=")
                stack.extend(node.args)
    return found


@pytest.mark.parametrize("ends", [("2", "5"), ("1", "A[0]")])
def test_a_nest_with_nothing_to_decide_is_itself(ends: tuple[str, str]) -> None:
    low, extent = ends
    lines = ["def F(A: int32[9], B: int32[99]):", f"for i in [{low}, {extent}):", "    for j in [0, 4):"]
    lines += ["        B[i * 4 + j] = select(A[j] < 3, 1, A[i])"]
    f = parse_nest("\n    ".join(lines))
    assert partition_loops(f).body is f.body


def padded(n: Any, kind: str = "") -> Any:
    a = te.placeholder((n, n), name="A")
    b = te.compute(
        (n + 2, n + 4),
        lambda y, x: tir.if_then_else(tir.all(y >= 1, y < n + 1, x >= 2, x < n + 2), a[y - 1, x - 2], 0.0),
        name="B",
    )
    s = te.create_schedule(b.op)
    if kind:
        getattr(s[b], kind)(b.op.axis[0 if kind == "parallel" else 1])
    return s


@pytest.mark.parametrize("kind", ["", "vectorize", "parallel"])
def test_the_interior_of_a_padded_image_has_no_condition(kind: str) -> None:
    for n in (20, te.size_var("n")):
        f = partition_loops(lower(padded(n, kind)))
        assert comparisons(f) == (2 if kind == "parallel" else 0), f
        given = np.arange(49, dtype="float32").reshape(7, 7) + 1
        if not isinstance(n, int):
            assert (run(f, {"A": given})["B"] == np.pad(given, ((1, 1), (2, 2)))).all()
            assert run(f, {"A": np.zeros((0, 0), "float32")})["B"].shape == (2, 4)


def test_what_a_variable_is_not_is_decided_by_what_it_is_between() -> None:
    i = Var("i")
    loops = Loops().inside(i, (const(1),), (const(7),))
    assert [loops.decided(i.ne(k)) for k in (0, 1, 4, 7, 8)] == [True, None, None, None, True]
    assert loops.decided((i * 0).ne(0)) is False


@pytest.mark.parametrize("seed", range(60))
def test_a_nest_decides_what_its_ends_alone_decide(seed: int) -> None:
    """Remembered answers about surrounding loops and operands change no answer."""
    draw = Random(seed)
    variables = [Var(f"v{k}") for k in range(5)]

    def expression(among: list[Var], depth: int = 2) -> Expr:
        if depth == 0 or not among or draw.random() < 0.2:
            return draw.choice([*among, const(draw.randint(-4, 9))])
        a, b = expression(among, depth - 1), expression(among, depth - 1)
        return draw.choice([a + b, a - b, a * draw.randint(-3, 3), minimum(a, b), maximum(a, b)])

    loops = Loops()
    conditions = [expression(variables) <= expression(variables) for _ in range(12)]
    for k, var in enumerate(variables):
        low, end = expression(variables[:k]), expression(variables[:k])
        loops = loops.inside(var, (low,), (end, low + draw.randint(0, 6))[: draw.randint(1, 2)])
        alone = Loops(loops.ends)
        for c in (*conditions, *(variables[k] >= low + d for d in (-1, 0, 1))):
            assert loops.decided(c) is alone.decided(c)


@pytest.mark.parametrize(("m", "text"), [(1, "n < 3"), (2, "(n < 3) | (k < 5)")])
def test_a_condition_loses_what_a_constant_decides(m: int, text: str) -> None:
    n, k, size = Var("n"), Var("k"), Var("m")
    cond = (n < 3) & (size < 3) | (k < 5) & (size >= 2)
    assert str(decided(cond.substitute({size: const(m)}))) == text


def minima(f: Function) -> int:
    found = [e for s in statements(f.body) if not isinstance(s, Assert) for e in operands(s)]
    return sum(str(e).count("minimum") + str(e).count("maximum") for e in found)


def test_short_loops_of_whole_tiles_have_a_constant_length() -> None:
    """Parts of a vector that are too many, a ragged tile of a matrix, and an index that is kept inside."""
    a = te.placeholder((100,), name="A")
    b = te.compute((100,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], nparts=40)
    assert (
        f"{partition_loops(lower(s, nests='ends'))}\n"
        == """\
def B(A: float32[100], B: float32[100]):
    for i.outer in [0, 33):
        for i.inner in [0, 3):
            B[i.outer * 3 + i.inner] = A[i.outer * 3 + i.inner] + 1.0
    B[33 * 3 + 0] = A[33 * 3 + 0] + 1.0
"""
    )
    n = te.size_var("n")
    a = te.placeholder((n, 37), name="A")
    c = te.compute((n, 37), lambda i, j: a[te.max(te.min(i - 2, n - 1), 0), j], name="C")
    s = te.create_schedule(c.op)
    s[c].tile(*c.op.axis, 4, 8)
    f = lower(s)
    inner = [s for s in statements(partition_loops(f).body) if isinstance(s, For) and "inner" in s.var.name]
    assert {(s.var.name, str(s.range.extent)) for s in inner} >= {("i.inner", "4"), ("j.inner", "8")}
    given = {"A": np.arange(11 * 37, dtype="float32").reshape(11, 37)}
    np.testing.assert_array_equal(run(partition_loops(f), given)["C"], run(f, given)["C"])
    g = partition_loops(lower(te.create_schedule(c.op)))
    assert minima(g) <= 4, g  # in the ends of the pieces alone


def test_code_grows_within_a_budget() -> None:
    a = te.placeholder((64,), name="A")

    def at(*axes: Any) -> Any:
        value: Any = 0.0
        for k, axis in enumerate(axes):
            for c in range(3):
                value = value + tir.if_then_else(axis >= c + k, a[axis], 1.0)
        return value

    s = te.create_schedule(te.compute((9, 9, 9, 9), at, name="B").op)
    f = lower(s)
    parted = partition_loops(f)
    before, after = (sum(not isinstance(s, Seq) for s in statements(g.body)) for g in (f, parted))
    most = sum(max(partition.FEWEST, times * before) for times in (partition.TIMES, partition.INNERMOST))
    assert before < after <= before + most
    given = {"A": np.arange(64, dtype="float32")}
    np.testing.assert_array_equal(run(parted, given)["B"], run(f, given)["B"])


def test_a_sum_stays_in_a_variable_only_while_nothing_else_reads_its_element() -> None:
    text = """\
def F(A: float32[8, 4], B: float32[8], C: float32[8]):
    for i in [0, 8):
        B[i] = 0.0
        for k in [0, 4):
            B[i] = B[i] + A[i, k]
        C[i] = {0}
        B[i] = B[i] * 2.0
"""
    given = {"A": np.arange(32, dtype="float32").reshape(8, 4), "C": np.ones(8, "float32"), "B": np.ones(8, "float32")}
    for read, loads in (("B[i]", 1), ("B[7 - i]", 2), ("1.0", 1)):
        f = parse_nest(text.format(read))
        g = accumulate(f)
        assert sum(isinstance(stmt, For) for stmt in statements(g.body)) == 2
        stores = [repr(stmt) for stmt in statements(g.body) if repr(stmt).startswith("B[")]
        assert len(stores) == loads, g
        for name, expected in run(f, given).items():
            np.testing.assert_array_equal(run(g, given)[name], expected)
