"""Identity stores left of reductions are dropped exactly if they change no element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bound import te, tir
from lowering import parse_nest, run, to_c
from lowering.passes.stores.dead_code import drop_identities
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
    s = triangle(te.sum, 0.0, 9)  # the last row satisfies k <= i, but a single iteration pays no copy of the loop
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


START = """\
def F(n, C: float32[8, 4]):
    for i in [0, {}):
        for j in [0, 4):
            C[i, j] = 0.5
    for i in [{}):
        for j in [{}):
            C[{}] = max(C[{}], {})
"""


@pytest.mark.parametrize(
    ("start", "i", "j", "at", "number", "is_dropped"),
    [
        ("8", "0, 8", "0, 4", "i, j", "0.25", True),
        ("8", "2, 6", "1, 4", "i + 1, j", "0.25", True),
        ("n", "1, n", "0, 4", "i - 1, j", "0.25", True),
        ("8", "0, 8", "0, 4", "i, j", "0.75", False),
        ("7", "0, 8", "0, 4", "i, j", "0.25", False),  # the last row is as it was given
        ("7", "0, 7", "0, 4", "i + 1, j", "0.25", False),
        ("n", "0, n", "0, 4", "i + 1, j", "0.25", False),
        ("n", "0, 8", "0, 4", "i, j", "0.25", False),
        ("8", "0, 4", "0, 8", "j, i", "0.25", True),
    ],
)
def test_what_was_given_is_begun_before(start: str, i: str, j: str, at: str, number: str, is_dropped: bool) -> None:
    f = parse_nest(START.format(start, i, j, at, at, number))
    g = drop_identities(f)
    assert ("max" not in str(g)) is is_dropped
    for n in (0, 1, 7):
        C = np.arange(-16, 16, dtype="float32").reshape(8, 4)
        assert np.array_equal(run(f, {"C": C.copy()}, {"n": n})["C"], run(g, {"C": C.copy()}, {"n": n})["C"])


def test_a_start_behind_or_under_a_condition_is_none() -> None:
    loop = "for i in [0, 4):\n        C[i] = max(C[i], 1.0)"
    for lines in (
        [loop, "C[3] = 2.0"],
        ["C[3] = 2.0", loop],
        ["if n > 0:\n        C[1] = 1.0", loop.replace("i]", "1]")],
    ):
        f = parse_nest("\n    ".join(["def F(n, C: float32[4]):", *lines]))
        C = np.array([-5, 0, -3, 4], "float32")
        expected = run(f, {"C": C.copy()}, {"n": 0})["C"]
        assert np.array_equal(run(drop_identities(f), {"C": C.copy()}, {"n": 0})["C"], expected)
