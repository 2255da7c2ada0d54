"""What is left of a reduction where its condition fails changes nothing, and is not done: exactly where that is so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bound import te, tir
from lowering import parse_nest, run, to_c
from lowering.passes.identities import drop_identities
from tests.lowering.lowered import check, check_c

N = 36


def triangle(reduced: Any, otherwise: Any, N: int = N) -> Any:
    A, B = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), "k")
    otherwise = tir.const(otherwise, "float32")
    C = te.compute(
        (N, N), lambda i, j: reduced(tir.if_then_else(k <= i, A[i, k] * B[k, j], otherwise), axis=k), name="C"
    )
    s = te.create_schedule(C.op)
    s[C].reorder(C.op.axis[0], k, C.op.axis[1])
    return s


@pytest.mark.parametrize(("reduced", "otherwise"), [(te.sum, 0.0), (te.max, float("-inf")), (te.prod, 1.0)])
def test_a_triangular_reduction_ends_at_the_diagonal(reduced: Any, otherwise: float) -> None:
    s = triangle(reduced, otherwise)
    f = check(s)
    check_c(f, s)
    text = to_c(f)
    assert text.count("for (int32_t k = ") == 1 and "k < i + 1" in text


@pytest.mark.parametrize(("reduced", "otherwise"), [(te.sum, 1.0), (te.max, 0.0), (te.min, 0.0), (te.sum, -0.5)])
def test_what_changes_an_element_is_done(reduced: Any, otherwise: float) -> None:
    s = triangle(reduced, otherwise)
    f = check(s)
    check_c(f, s)
    assert to_c(f).count("for (int32_t k = ") == 2


def test_a_loop_is_not_copied_for_one_of_its_iterations() -> None:
    s = triangle(te.sum, 0.0, 9)  # k <= i holds in all of the last row, in which it is not worth a row of its own
    f = check(s)
    check_c(f, s)
    assert to_c(f).count("for (int32_t i = ") == 1


NEST = """\
def F(A: float32[4], C: float32[4]):
    for i in [0, 4):
        C[i] = {}
        C[i] = {}
        C[i] = {}"""


@pytest.mark.parametrize(
    ("first", "then", "last", "left"),
    [
        ("0.0", "C[i] + A[i]", "C[i] + 0.0", 2),
        ("0.0", "C[i] + A[i]", "C[i] - 0.0", 2),
        ("A[i]", "C[i] * 1.0", "C[i] - 0.0", 1),
        ("-0.0", "C[i] + A[i]", "C[i] + 0.0", 3),  # the sum of -0.0 and -0.0 is -0.0, and becomes 0.0
        ("A[i]", "C[i] + 1.0", "C[i] + 0.0", 3),  # A[i] may be -0.0
        ("0.0", "C[i] - A[i]", "C[i] + 0.0", 3),
        ("0.0", "C[i] * A[i]", "C[i] + 0.0", 3),
        ("0.0", "C[i] * 0.0", "C[i] * A[i]", 3),
    ],
)
def test_signs_of_zero_stay(first: str, then: str, last: str, left: int) -> None:
    f = parse_nest(NEST.format(first, then, last))
    g = drop_identities(f)
    assert str(g).count("C[i] =") == left
    for a in (-0.0, 0.0, 1.0, float("nan"), float("inf")):
        A = np.full(4, a, "float32")
        assert run(f, {"A": A})["C"].tobytes() == run(g, {"A": A})["C"].tobytes(), a
