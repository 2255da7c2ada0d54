"""Copies, identity stores and scalar replacement: each goes only where no element changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bound import te, tir
from lowering import parse_nest, run, to_c
from lowering.passes import accumulate
from lowering.passes.stores.dead_code import drop_identities
from lowering.passes.stores.placement import forward_copies
from tests.compilers import compilers
from tests.lowering.lowered import check, check_c


def recurrence(n: Any, at: Any) -> Any:
    X, S = te.placeholder((5, n), name="X"), te.placeholder((5, n), name="S")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    update = te.compute((5, n), lambda t, i: S[t - 1, at(i)] * 0.5 + X[t, i], name="update")
    scan = te.scan(init, update, S, inputs=[X], name="scan")
    s = te.create_schedule(scan.op)
    s[update].vectorize(update.op.axis[1])
    return s


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_scan_goes_from_row_to_row(symbolic: bool) -> None:
    n = te.size_var("n") if symbolic else 6
    for at in (lambda i: i, lambda i: n - 1 - i):
        s = recurrence(n, at)
        f = check(s, {"n": 6})
        text = to_c(f)
        assert "update" not in text and "init" not in text and "malloc" not in text
    s = recurrence(n, lambda i: i)
    assert "#pragma omp simd" in to_c(check(s, {"n": 6}))
    check_c(check(s, {"n": 6}), s, {"n": 6}, sanitize=True)


NEST = """\
def F(A: float32[8], S: float32[3, 8]):
    for j in [0, 8):
        S[0, j] = A[j]
    for t in [0, 2):
        allocate T: float32[8]
        for i in [0, 8):
            T[i] = {}
        for k in [0, {}):
            {}"""


@pytest.mark.parametrize(
    ("value", "count", "copy", "is_taken"),
    [
        ("S[t, 7 - i] + A[i]", "8", "S[t + 1, k] = T[k]", True),
        ("S[t, 7 - i] + A[i]", "8", "S[t + 1, 7 - k] = T[k]", True),
        ("S[t, i] + A[i]", "8", "S[t + 1, k] = T[7 - k]", False),
        ("S[t, i] + A[i]", "7", "S[t + 1, k] = T[k]", False),  # less than all of it
        ("S[t, i] + A[i]", "8", "S[t + 1, k] = T[k] + 1.0", False),
        ("S[t, i] + S[t + 1, i]", "8", "S[t + 1, k] = T[k]", False),  # the row is read meanwhile
        ("S[t, 7 - i] + A[i]", "8", "S[t, k] = T[k]", False),
        ("S[0, i] + A[i]", "8", "S[t + 1, k] = T[k]", False),  # not a constant away
    ],
)
def test_which_copies_are_forwarded(value: str, count: str, copy: str, is_taken: bool) -> None:
    f = parse_nest(NEST.format(value, count, copy))
    g = forward_copies(f)
    assert ("allocate" not in str(g)) is is_taken
    A, S = np.arange(8, dtype="float32"), np.ones((3, 8), "float32")
    expected, found = (run(h, {"A": A, "S": S.copy()})["S"] for h in (f, g))
    assert (expected == found).all()
    if compilers():
        assert (run(f, {"A": A, "S": S.copy()}, backend="c")["S"] == expected).all()


@pytest.mark.parametrize(
    ("between", "head", "index"),
    [
        ("bump(S, 1)", "[0, 4)", "k"),  # a host call between stores to the destination
        ("A[0] = 1", "[0, 4) with q = 0, then q + 1", "q"),  # the place depends on an earlier iteration
    ],
)
def test_a_copy_stays_after_a_host_call_and_where_its_place_is_carried(between: str, head: str, index: str) -> None:
    lines = ["allocate T: int32[4]", "for i in [0, 4):", "    T[i] = i * 3 + 1", between]
    lines += [f"for k in {head}:", f"    S[{index}] = T[k]"]
    f = parse_nest("def F(A: int32[4], S: int32[4]):\n" + "\n".join(f"    {line}" for line in lines))
    assert str(forward_copies(f)) == str(f)


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


REDUCTION = """\
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
    f = parse_nest(REDUCTION.format(first, then, last))
    g = drop_identities(f)
    assert str(g).count("C[i] =") == left
    for a in (-0.0, 0.0, 1.0, float("nan"), float("inf")):
        A = np.full(4, a, "float32")
        assert run(f, {"A": A})["C"].tobytes() == run(g, {"A": A})["C"].tobytes(), a


HEAD = "def F(A: int32[n], S: int32[n], n):\n"


def kept(*lines: str) -> bool:
    """Whether the pass makes a variable."""
    return "allocate" in str(accumulate(parse_nest(HEAD + "\n".join(f"    {line}" for line in lines))))


def test_an_element_that_a_loop_updates_lives_in_a_variable() -> None:
    assert kept("for i in [0, 4):", "    S[0] = S[0] + A[i]")


@pytest.mark.parametrize(
    "lines",
    [
        ("for i in [0, n):", "    S[0] = S[0] + A[i]"),  # without an iteration, S may have no element
        ("for i in [0, 4):", "    S[0] = S[0] + A[i]", "    bump(S, i)"),  # a host call sees the array
        ("for i in [0, 4):", "    S[0] = S[0] + A[i]", "    S[i] = 1"),
        ("for i in [0, 4):", "    if A[i] < 3:", "        S[0] = S[0] + A[i]"),
        ("for i in [0, 4) parallel:", "    S[0] = A[0]"),
    ],
)
def test_it_stays_where_something_else_may_see_it(lines: tuple[str, ...]) -> None:
    assert not kept(*lines)
