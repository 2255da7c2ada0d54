"""The InferBound document's examples: the nests it shows, or tighter ones."""

from __future__ import annotations

from typing import Any

import pytest

from bound import te, tir
from lowering import lower
from tests.lowering.lowered import check, check_run, of_corpus


def nest(f: Any) -> str:
    """Print the body of a function, one level of indentation less."""
    return "\n".join(line[4:] for line in str(f).splitlines()[1:])


EXAMPLES = {
    "doc_ex1_root": """\
allocate C: int32[5, 16]
for i in [0, 5):
    for j in [0, 16):
        C[i, j] = 5
for i in [0, 5):
    for j in [0, 16):
        D[i, j] = C[i, j] * 2""",
    "doc_ex2_at_j": """\
for i in [0, 5):
    for j in [0, 16):
        allocate C: int32[1, 1] at [i, j]
        C[0, 0] = 5
        D[i, j] = C[0, 0] * 2""",
    "doc_ex3_at_i": """\
for i in [0, 5):
    allocate C: int32[1, 16] at [i, 0]
    for j in [0, 16):
        C[0, j] = 5
    for j in [0, 16):
        D[i, j] = C[0, j] * 2""",
    "doc_ex4_unused_outer": """\
for di in [0, 4):
    for dj in [0, 5):
        for dk in [0, 16):
            allocate C: int32[1, 1] at [dj, dk]
            C[0, 0] = 5
            D[di, dj, dk] = C[0, 0] * 2""",
    "doc_ex5_split": """\
for i in [0, 5):
    for j.outer in [0, 2):
        for j.inner in [0, 8):
            allocate C: int32[1, 1] at [i, j.outer * 8 + j.inner]
            C[0, 0] = 5
            D[i, j.outer * 8 + j.inner] = C[0, 0] * 2""",
    "doc_attach_path_nested": """\
for i in [0, 5):
    for j in [0, 16):
        allocate D: int32[1, 1] at [i, j]
        allocate C: int32[1, 1] at [i, j]
        C[0, 0] = 5
        D[0, 0] = C[0, 0] * 2
        E[i, j] = D[0, 0] * 4""",
    "doc_relax_set": """\
allocate C: int32[5, 16]
for i in [0, 5):
    for j in [0, 16):
        C[i, j] = 5
for i in [0, 5):
    for j in [0, 16):
        allocate D: int32[1, 1] at [i, j]
        D[0, 0] = C[i, j] * 2
        E[i, j] = D[0, 0] * 4""",
    "doc_ex6_fuse_split4": """\
for i.j.fused.outer in [0, 4):
    allocate B: float32[1, 4] at [i.j.fused.outer, 0]
    for j in [0, 4):
        B[0, j] = A[i.j.fused.outer, j] + 2.0
    for i.j.fused.inner in [0, 4):
        C[i.j.fused.outer, i.j.fused.inner] = B[0, i.j.fused.inner] * 3.0""",
    "doc_split_20_16": """\
for i.outer in [0, 2):
    allocate B: float32[16] at [i.outer * 16]
    for i in [0, minimum(20 - i.outer * 16, 16)):
        B[i] = A[i.outer * 16 + i] + 1.0
    for i.inner in [0, minimum(20 - i.outer * 16, 16)):
        C[i.outer * 16 + i.inner] = B[i.inner] * 2.0""",
    "doc_gather_disjoint": """\
allocate T: float32[4, 4]
for i in [0, 2):
    for j in [0, 2):
        T[i, j] = A[i, j] + 1.0
for i in [0, 2):
    for j in [0, 2):
        T[i + 2, j + 2] = A[i + 2, j + 2] + 1.0
for i in [0, 2):
    for j in [0, 2):
        X[i, j] = T[i, j] * 2.0
for i in [0, 2):
    for j in [0, 2):
        Y[i, j] = T[i + 2, j + 2] * 3.0""",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_documents_nests(name: str) -> None:
    s, f = of_corpus(name)
    check_run(f, s)
    assert nest(f) == EXAMPLES[name]


def test_a_reduction_starts_before_its_outermost_loop() -> None:
    a, b = te.placeholder((8, 16), name="A"), te.placeholder((16, 8), name="B")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    ko, ki = s[c].split(k, 4)
    s[c].reorder(c.op.axis[0], ko, c.op.axis[1], ki)
    assert (
        nest(check(s))
        == """\
for i in [0, 8):
    for j in [0, 8):
        C[i, j] = 0.0
    for k.outer in [0, 4):
        for j in [0, 8):
            for k.inner in [0, 4):
                k = k.outer * 4 + k.inner
                C[i, j] = C[i, j] + A[i, k] * B[k, j]"""
    )


def test_shapes_are_bound_by_assertions_and_the_division_below_needs_no_correction() -> None:
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    b = te.compute((n * n,), lambda i: a[tir.floormod(i, n), tir.floordiv(i, n)], name="B")
    f = check(te.create_schedule(b.op), {"n": 7})
    assert (
        nest(f)
        == """\
assert n >= 0, "n is at least 0"
assert A.shape[1] == n, "extent 1 of A is n"
assert B.shape[0] == n * n, "extent 0 of B is n * n"
for i in [0, n * n):
    B[i] = A[truncmod(i, n), truncdiv(i, n)]"""
    )


def test_declared_bounds_and_divisors_are_asserted() -> None:
    from intset import ShapeVar

    n = ShapeVar("n", lower=1, upper=64, multiple_of=8)
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], 8)
    text = nest(check(s, {"n": 24}))
    assert text.splitlines()[:3] == [
        'assert n >= 1, "n is at least 1"',
        'assert n <= 64, "n is at most 64"',
        'assert n & 7 == 0, "n is a multiple of 8"',
    ]
    assert "if" not in text


def test_the_docstring_of_lower_is_what_it_prints() -> None:
    import doctest
    import importlib

    module = importlib.import_module("lowering.lower")
    assert doctest.testmod(module).failed == 0
    assert lower.__doc__ is not None and ">>>" in lower.__doc__
