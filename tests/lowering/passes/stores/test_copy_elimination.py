"""Copies are eliminated if no statement in between reads the destination."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bound import te
from lowering import parse_nest, run, to_c
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


@pytest.mark.parametrize(
    ("index", "between", "is_taken"),
    [
        ("base + k", "base = A[0] * 2", False),  # the place is data
        ("base + k", "base = n * 2", True),
        ("other + k", "base = n * 2\nother = base - n", True),
        ("A[k]", "A[3] = 0", False),  # data that changes in between
    ],
)
def test_names_between_a_loop_and_its_copy(index: str, between: str, is_taken: bool) -> None:
    """A place in terms of names that are defined after the loop is written without them."""
    lines = ["allocate T: int32[4]", "for i in [0, 4):", "    T[i] = i * 3 + 1", *between.splitlines()]
    lines += ["for k in [0, 4):", f"    S[{index}] = T[k]"]
    f = parse_nest("def F(A: int32[4], S: int32[9], n):\n" + "\n".join(f"    {line}" for line in lines))
    g = forward_copies(f)
    assert ("allocate" not in str(g)) is is_taken
    given = np.array([1, 2, 3, 4], "int32")
    expected, found = (run(h, {"A": given.copy(), "S": np.zeros(9, "int32")}, {"n": 2})["S"] for h in (f, g))
    assert (expected == found).all()
    if compilers():
        compiled = run(f, {"A": given.copy(), "S": np.zeros(9, "int32")}, {"n": 2}, backend="c")["S"]
        assert (compiled == expected).all()
