"""`padding A[i, j] where ...`: printed, read back, enforced, and known to passes."""

from __future__ import annotations

import numpy as np
import pytest

from intset import ParseError
from lowering import (
    AccessError,
    dataflow,
    hoist_expression,
    lower_divisions,
    parse_nest,
    rebase,
    remove_branching_through_overcompute,
    run,
    strength_reduce,
    unique_names,
)

SUM = """def f(A: int32[4, 4], B: int32[1]):
    padding A[i, j] where i * 4 + j >= 14
    B[0] = 0
    for i in [0, 4):
        for j in [0, 4):
            if i * 4 + j < {limit}:
                B[0] = B[0] + A[i, j]"""

LOCAL = """def f(A: int32[n], B: int32[n], n):
    for k in [0, 2):
        allocate T: int32[ceildiv(n, 4), 4]
        padding T[i, j] where i * 4 + j >= n
        for i in [0, n + {extra}):
            T[i // 4, i % 4] = A[minimum(i, n - 1)] + k
        for i in [0, n):
            B[i] = T[i // 4, i % 4]"""


def test_what_may_not_be_touched_is_refused_where_it_is_touched() -> None:
    a = np.ones((4, 4), "int32")
    assert run(parse_nest(SUM.format(limit=14)), {"A": a})["B"] == [14]
    with pytest.raises(AccessError) as error:
        run(parse_nest(SUM.format(limit=15)), {"A": a})
    assert str(error.value) == "A[3, 2] is read, and lies in the padding of A, which may not be touched"
    assert run(parse_nest(SUM.format(limit=15)), {"A": a}, checked=False)["B"] == [15]


def test_local_storage_and_sizes() -> None:
    b = run(parse_nest(LOCAL.format(extra=0)), {"A": np.arange(6, dtype="int32")})["B"]
    assert b.tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(AccessError, match=r"^T\[1, 2\] is written, and lies in the padding of T"):
        run(parse_nest(LOCAL.format(extra=1)), {"A": np.arange(6, dtype="int32")})


def test_the_elements_of_a_storage_that_begins_elsewhere() -> None:
    f = parse_nest(
        """def f(B: int32[6]):
    allocate T: int32[2 : + 8]
    padding T[i] where i >= 8
    for i in [2, 8):
        T[i] = i
    for i in [0, 6):
        B[i] = T[i + 2]"""
    )
    g = rebase(f)
    assert "padding T[i] where i + 2 >= 8" in str(g)
    for one in (f, g):
        assert run(one, {})["B"].tolist() == [2, 3, 4, 5, 6, 7]
    bad = parse_nest(str(f).replace("[2, 8)", "[2, 9)"))
    for one in (bad, rebase(bad)):
        with pytest.raises(AccessError, match="is written, and lies in the padding of T"):
            run(one, {})


@pytest.mark.parametrize("text", [SUM.format(limit=14), LOCAL.format(extra=0)])
def test_it_is_printed_and_read_back_and_kept(text: str) -> None:
    f = parse_nest(text)
    assert str(f) == text
    for change in (unique_names, lower_divisions, strength_reduce, rebase, hoist_expression):
        g = change(f)
        assert "padding" in str(g) and str(parse_nest(str(g))) == str(g)


def test_names_that_are_taken_are_changed() -> None:
    f = parse_nest("def f(A: int32[i], i):\n    padding A[j] where j > i - 3\n    pass")
    assert str(f) == "def f(A: int32[i], i):\n    padding A[j] where j > i - 3\n    pass"


def test_no_guard_is_dropped_before_it() -> None:
    report: list[object] = []
    f = parse_nest(SUM.format(limit=14))
    g = remove_branching_through_overcompute(f, report=report)
    assert str(g) == str(f)
    (entry,) = report
    assert (entry.line, entry.point) == (6, (3, 2)) and "may be in the padding of A" in entry.reason  # type: ignore[attr-defined]
    stores = """def f(A: int32[4, 4]):
    padding A[i, j] where i * 4 + j >= 14
    for i in [0, 4):
        for j in [0, 4):
            if i * 4 + j < 14:
                A[i, j] = 0"""
    g = remove_branching_through_overcompute(parse_nest(stores), report=report)
    assert str(g) == stores and "the padding of A may be stored to" in report[-1].reason  # type: ignore[attr-defined]


def test_a_condition_is_not_tested_before_a_loop_where_it_would_touch_it() -> None:
    text = """def f(A: int32[8], B: int32[8]):
    padding A[i] where i >= 6
    for i in [0, 8):
        for j in [0, 6 - i):
            if A[i] > 0:
                B[j] = 1"""
    f = parse_nest(text)
    assert str(hoist_expression(f)) == text
    assert "if A[i] > 0:\n            for j" in str(hoist_expression(parse_nest(text.replace("i >= 6", "i > 8"))))


def test_elements_that_depend_on_data_are_none_of_it() -> None:
    f = parse_nest(
        """def f(A: int32[16], idx: int32[4]):
    padding A[i] where i >= 14
    for i in [0, 4):
        A[idx[i]] = i"""
    )
    read, written = dataflow(f).touched("A")
    (side,) = written.box
    assert read.is_empty and side.ends == (0, 13) and not written.is_exact


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("padding C[i] where i > 2", "unknown name 'C'"),
        ("padding A[i] where i > 2", "A has 2 dimensions, its padding has 1"),
        ("padding A[A, i] where i > 2", "the name A is taken"),
        ("padding A[i, j] where i + 2", "a condition is expected"),
        ("padding A[i, j] where B[0] > 2", "one on indices and sizes"),
        ("padding A[i, j] were i > 2", "'where' is expected"),
        ("padding A[i, j] where i > 2\n    padding A[i, j] where i > 2", "told once"),
        ("B[0] = 1\n    padding A[i, j] where i > 2", "told once"),
    ],
)
def test_bad_lines(line: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as error:
        parse_nest(f"def f(A: int32[4, 4], B: int32[1]):\n    {line}\n    B[0] = A[0, 0]")
    assert error.value.line >= 2


def test_padding_is_still_a_name() -> None:
    f = parse_nest("def f(padding: int32[2]):\n    padding[0] = 1\n    padding[1] = padding[0]")
    assert run(f, {})["padding"].tolist() == [1, 1]
