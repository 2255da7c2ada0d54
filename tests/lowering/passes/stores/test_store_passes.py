# ruff: noqa: E501  # nests on one line
"""Passes for padded layouts: samples, refusals, and reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from intset import InputError, evaluate
from lowering import (
    hoist_expression,
    merge_adjacent_loops,
    parse_nest,
    reduce_loop_extents,
    remove_assume,
    remove_branching_through_overcompute,
    remove_no_op,
    remove_overcompute_through_branching,
    remove_undef,
    run,
    sequential_buffer_access,
    simplify,
)
from lowering.errors import LayoutError
from lowering.nest.ir import Function

Pass = Callable[..., Function]
HEAD = "A: int32[16], B: int32[16], n"


def nest(body: str, head: str = HEAD) -> Function:
    lines = body.strip("\n").split("\n")
    return parse_nest(f"def f({head}):\n" + "\n".join(f"    {line}" for line in lines))


def done(p: Pass, before: str, after: str, head: str = HEAD) -> list[Any]:
    """Check that a pass turns `before` into `after`; return its report."""
    report: list[Any] = []
    assert str(p(nest(before, head), report=report)) == str(nest(after, head))
    return report


def stays(p: Pass, body: str, reason: str, head: str = HEAD, line: int | None = None, point: Any = None) -> None:
    """Check that a pass keeps the nest and reports a reason."""
    report = done(p, body, body, head)
    told = [entry for entry in report if not entry.done and (line is None or entry.line == line)]
    assert any(reason in entry.reason and (point is None or entry.point == point) for entry in told), report


NO_OP = {
    "S1": ("for i in [0, 16):\n    A[i] = 100\n    A[i] = 42", "for i in [0, 16):\n    A[i] = 42"),
    "S3": (
        "for i in [0, 16):\n    if i < 10:\n        A[i] = 100\nfor i in [0, 16):\n    if i // 4 < 3:\n        A[i] = 42",
        "for i in [0, 16):\n    if i // 4 < 3:\n        A[i] = 42",
    ),
    "S7": (
        "for i in [0, 16):\n    if i != 0:\n        A[i] = A[i - 1]\n    else:\n        A[i] = A[0]",
        "for i in [0, 16):\n    if i != 0:\n        A[i] = A[i - 1]",
    ),
    "an unused temporary": ("allocate T: int32[16]\nA[0] = 1", "A[0] = 1"),
    "an empty loop": ("for i in [0, 16):\n    pass\nA[0] = 1", "A[0] = 1"),
    "what an assumption says is there": ("assume A[3] == 7\nA[3] = 7\nB[0] = 1", "assume A[3] == 7\nB[0] = 1"),
}


@pytest.mark.parametrize("name", NO_OP)
def test_what_does_nothing_goes(name: str) -> None:
    report = done(remove_no_op, *NO_OP[name])
    assert name in ("an unused temporary", "an empty loop") or any(entry.done for entry in report)


def test_s4_a_smaller_second_loop_keeps_both() -> None:
    body = "for i in [0, 16):\n    A[i] = 100\nfor i in [0, 12):\n    A[i] = 42"
    stays(remove_no_op, body, "its value is read, or kept at the end", line=3)


OVERCOMPUTE = {
    "S10": (
        "for i in [0, 16):\n    if i < 14:\n        A[i] = 1\nfor i in [0, 16):\n    if i >= 14:\n        A[i] = 2",
        "for i in [0, 16):\n    A[i] = 1\nfor i in [0, 16):\n    if i >= 14:\n        A[i] = 2",
    ),
    "S13": (
        (
            "for i in [0, 16):\n    assume i < 14 or A[i] == 0\nB[0] = 0\n"
            "for i in [0, 16):\n    if i < 14:\n        B[0] = B[0] + A[i]"
        ),
        "for i in [0, 16):\n    assume i < 14 or A[i] == 0\nB[0] = 0\nfor i in [0, 16):\n    B[0] = B[0] + A[i]",
    ),
    "S14": (
        "for i in [0, 16):\n    if i > 0:\n        A[0] = A[0] + i * i",
        "for i in [0, 16):\n    A[0] = A[0] + i * i",
    ),
}
FLOATS = "A: int32[16], B: int32[16], F: float32[16], G: float32[1], n"


@pytest.mark.parametrize("name", OVERCOMPUTE)
def test_guards_that_make_no_difference_go(name: str) -> None:
    assert any(entry.done for entry in done(remove_branching_through_overcompute, *OVERCOMPUTE[name], FLOATS))


STAY: dict[str, tuple[str, str, str]] = {
    "S11": (
        HEAD,
        "for i in [0, 16):\n    if i < 14:\n        A[i] = 1\nfor i in [0, 16):\n    if i >= 14:\n        A[i] = A[i] + 1",
        "would be read, or kept at the end",
    ),
    "beyond A": (HEAD, "for i in [0, 20):\n    if i < 16:\n        B[0] = B[0] + A[i] * 0", "A[i] may be outside A"),
    "an unwritten element": (
        HEAD,
        (
            "allocate T: int32[16]\nallocate U: int32[16]\nfor i in [0, 14):\n    T[i] = 1\n"
            "for i in [0, 16):\n    if i < 14:\n        U[i] = T[i]"
        ),
        "T[i] may hold nothing yet",
    ),
}


@pytest.mark.parametrize("name", STAY)
def test_guards_that_stay(name: str) -> None:
    head, body, reason = STAY[name]
    stays(remove_branching_through_overcompute, body, reason, head)


def test_iterations_that_run_side_by_side_do_not_come_to_meet() -> None:
    said = "for i in [0, 16):\n    assume i == 2 or B[i] == 0\n"
    body = "for i in [0, 16) parallel:\n    if i == 2:\n        A[0] = A[0] + B[i]"
    stays(remove_branching_through_overcompute, said + body, "run side by side, might meet", line=5)
    done(
        remove_branching_through_overcompute,
        said + body.replace(" parallel", ""),
        said + "for i in [0, 16):\n    A[0] = A[0] + B[i]",
    )
    apart = "for i in [0, 16) parallel:\n    if i < 14:\n        A[i] = 1\nfor i in [14, 16):\n    A[i] = 2"
    done(remove_branching_through_overcompute, apart, apart.replace("    if i < 14:\n        A", "    A"))


SIMPLIFY = {
    "S15": (
        (
            "A[0] = 0\nif A[0] == 0:\n    B[0] = 1\nfor i in [0, 16):\n    A[i] = i\nfor j in [0, 16):\n"
            "    if A[j] == j:\n        B[j] = 2"
        ),
        "A[0] = 0\nB[0] = 1\nfor i in [0, 16):\n    A[i] = i\nfor j in [0, 16):\n    B[j] = 2",
    ),
    "S16": (
        "assume A[0] == 0\nA[0] = A[0] + 1\nA[0] = A[0] + 1\nA[0] = A[0] + 1\nif A[0] == 3:\n    B[0] = 1",
        "assume A[0] == 0\nA[0] = A[0] + 1\nA[0] = A[0] + 1\nA[0] = A[0] + 1\nB[0] = 1",
    ),
    "what was copied": (
        "for i in [0, 4):\n    A[i] = B[i]\nfor i in [0, 4):\n    if A[i] == B[i]:\n        A[i + 4] = 1",
        "for i in [0, 4):\n    A[i] = B[i]\nfor i in [0, 4):\n    A[i + 4] = 1",
    ),
    "a choice": ("A[3] = 1\nB[0] = select(A[3] == 1, 5, B[1])", "A[3] = 1\nB[0] = 5"),
    "equal branches": ("if A[3] > n:\n    B[0] = A[1]\nelse:\n    B[0] = A[1]", "B[0] = A[1]"),
    "equivalent conditions": (
        "for i in [0, 16):\n    if i < 8:\n        A[i] = 1\n    if i // 8 == 0:\n        B[i] = 1",
        "for i in [0, 16):\n    if i < 8:\n        A[i] = 1\n        B[i] = 1",
    ),
    "what an assumption on sizes says": ("assume 0 <= n and n < 8\nA[0] = n // 8", "assume 0 <= n and n < 8\nA[0] = 0"),
}


@pytest.mark.parametrize("name", SIMPLIFY)
def test_what_elements_hold_decides(name: str) -> None:
    done(simplify, *SIMPLIFY[name], FLOATS)


BOUNDS = {
    "until it is stored": (
        "assume A[0] > 0\nif A[0] > 0:\n    B[0] = 1\nA[0] = n\nif A[0] > 0:\n    B[1] = 2",
        "assume A[0] > 0\nB[0] = 1\nA[0] = n\nif A[0] > 0:\n    B[1] = 2",
    ),
    "in another loop": (
        "for i in [0, 16):\n    assume A[i] > i\nfor j in [0, 16):\n    if A[15 - j] >= 16 - j:\n        B[j] = 1\nA[3] = 0",
        "for i in [0, 16):\n    assume A[i] > i\nfor j in [0, 16):\n    B[j] = 1\nA[3] = 0",
    ),
    "where it is said": (
        "for i in [0, 16):\n    assume i < 14 or A[i] < 0\nfor j in [0, 16):\n    if j > 13 and A[j] > 3:\n        B[j] = 1\n    A[j] = 0",
        "for i in [0, 16):\n    assume i < 14 or A[i] < 0\nfor j in [0, 16):\n    A[j] = 0",
    ),
    "floats": (
        "assume F[0] < 1.0\nif F[0] < 1.0:\n    B[0] = 1\nF[0] = 2.0",
        "assume F[0] < 1.0\nB[0] = 1\nF[0] = 2.0",
    ),
    "not before it stands": (
        "if A[0] > 0:\n    B[0] = 1\nassume A[0] > 0\nA[0] = 2",
        "if A[0] > 0:\n    B[0] = 1\nassume A[0] > 0\nA[0] = 2",
    ),
    "not of other elements": (
        "assume A[n] > 0\nif A[0] > 0:\n    B[0] = 1\nA[0] = 2",
        "assume A[n] > 0\nif A[0] > 0:\n    B[0] = 1\nA[0] = 2",
    ),
    "not after an undef": (
        "allocate T: int32[1]\nT[0] = B[0]\nassume T[0] > 0\nT[0] = n + 1\nif T[0] > 0:\n    B[0] = 1",
        "allocate T: int32[1]\nT[0] = B[0]\nassume T[0] > 0\nT[0] = n + 1\nif T[0] > 0:\n    B[0] = 1",
    ),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_what_is_assumed_of_elements_holds_until_they_are_stored(name: str) -> None:
    done(simplify, *BOUNDS[name], FLOATS)


UNDECIDED = {
    "int8 wraps": (
        "A: int8[8], B: int32[8]",
        "for i in [0, 8):\n    A[i] = i * 40\nfor j in [0, 8):\n    if A[j] == j * 40:\n        B[j] = 1",
    ),
    "a temporary keeps nothing": (
        HEAD,
        (
            "for i in [0, 4):\n    allocate T: int32[1]\n    if i == 0:\n        T[0] = 1\n    else:\n        T[0] = A[i]\n"
            "    if T[0] == 1:\n        B[i] = 1"
        ),
    ),
    "S19": (HEAD, "for i in [0, 4):\n    if B[0] == 0:\n        A[i] = 1\n    B[0] = A[i] + B[0]"),
    "undef is forgotten": (HEAD, "A[0] = 1\nA[0] = undef()\nB[1] = 3\nif B[0] < A[1]:\n    B[1] = 2"),
    "data changes between": (HEAD, "if A[0] == 1:\n    A[0] = 2\nif A[0] == 1:\n    B[0] = 1"),
    "floats that may be no number": (FLOATS, "if F[0] < 0.5:\n    B[0] = 1\nif F[0] >= 0.5:\n    B[1] = 1"),
    "floats that are no number": (FLOATS, "if F[0] == F[0]:\n    B[0] = 1"),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_is_not_decided(name: str) -> None:
    head, body = UNDECIDED[name]
    done(simplify, body, body, head)


WHY = {
    "int8 wraps": ("A[j] may be what line 3 stores, of which it is not known that int8 holds it", (0,)),
    "a temporary keeps nothing": ("T[0] == 1 may hold, and may not", None),
    "S19": ("B[0] may be what", None),
    "data changes between": ("A[0] may be one of several values", None),
    "undef is forgotten": ("B[0] may be what it was given", None),
}


@pytest.mark.parametrize("name", WHY)
def test_why_it_is_not_decided(name: str) -> None:
    head, body = UNDECIDED[name]
    reason, point = WHY[name]
    stays(simplify, body, reason, head, point=point)


def test_what_is_merged_is_reported_at_its_own_line() -> None:
    body = "A[3] = 1\nif n < 3:\n    B[0] = 1\nif n < 3:\n    B[1] = 1\nif A[3] > 1:\n    B[2] = 1\nif A[4] > 1:\n    B[2] = 3"
    after = "A[3] = 1\nif n < 3:\n    B[0] = 1\n    B[1] = 1\nif A[4] > 1:\n    B[2] = 3"
    assert [(entry.line, entry.done) for entry in done(simplify, body, after)] == [
        (3, False),
        (5, True),
        (7, True),
        (9, False),
    ]


def test_e13_loop_carried_elements_are_not_replaced() -> None:
    body = "assume B[0] == 0\nif A[0] == B[0]:\n    B[1] = 1\nfor i in [0, 4):\n    if A[0] == B[0]:\n        B[0] = B[0] + 1"
    assert "if A[0] == B[0]" in str(simplify(nest(body)))


# -- loops -------------------------------------------------------------------------------------------------------

LOOPS = "for i in [0, 4):\n    for j in [0, 4):\n        for k in [0, 4):\n            if j < 3 and i < 2:\n                A[j] = A[j] + k"


def test_hoisting_part_by_part() -> None:
    done(
        hoist_expression,
        LOOPS,
        "for i in [0, 4):\n    if i < 2:\n        for j in [0, 4):\n            if j < 3:\n"
        "                for k in [0, 4):\n                    A[j] = A[j] + k",
    )


def test_hoisting_whole_conditions_only() -> None:
    done(
        lambda f, report: hoist_expression(f, conditions=("if",), report=report),
        LOOPS,
        "for i in [0, 4):\n    for j in [0, 4):\n        if j < 3 and i < 2:\n            for k in [0, 4):\n"
        "                A[j] = A[j] + k",
    )


HOIST = {
    "a choice": (
        "for i in [0, 4):\n    A[i] = select(n < 3, B[i], 2)",
        "if n < 3:\n    for i in [0, 4):\n        A[i] = B[i]\nelse:\n    for i in [0, 4):\n        A[i] = 2",
    ),
    "a name goes with its condition": (
        "for i in [0, 4):\n    x = n // 3\n    if x == 2:\n        A[i] = x",
        "x = n // 3\nif x == 2:\n    for i in [0, 4):\n        A[i] = x",
    ),
    "a name that is always computed": (
        "for i in [0, 4):\n    x = 7 // n\n    A[i] = x",
        "x = 7 // n\nfor i in [0, 4):\n    A[i] = x",
    ),
    "another branch": (
        "for i in [0, 4):\n    if n < 3:\n        A[i] = 1\n    else:\n        A[i] = 2",
        "if n < 3:\n    for i in [0, 4):\n        A[i] = 1\nelse:\n    for i in [0, 4):\n        A[i] = 2",
    ),
}


@pytest.mark.parametrize("name", HOIST)
def test_what_a_loop_does_not_change_goes_before_it(name: str) -> None:
    done(hoist_expression, *HOIST[name])


def test_names_that_go_before_a_loop_are_told() -> None:
    report = done(
        hoist_expression, "for i in [0, 4):\n    x = n + 1\n    A[i] = x", "x = n + 1\nfor i in [0, 4):\n    A[i] = x"
    )
    assert [(entry.line, entry.done) for entry in report] == [(2, True)] and "x is named" in report[0].reason


def test_what_stays_in_a_loop() -> None:
    stays(hoist_expression, "for i in [0, n):\n    if B[n] == 2:\n        A[0] = 1", "B[n] may be outside B")
    stays(hoist_expression, "for i in [0, 4):\n    if B[0] == 2:\n        B[0] = i", "the loop writes B")
    stays(hoist_expression, "for i in [0, 4) unrolled:\n    if n == 2:\n        B[0] = i", "unrolled stays as it is")
    stays(hoist_expression, "for i in [0, n):\n    if 7 // n == 2:\n        B[0] = i", "may divide by 0")


def test_bad_words_are_refused() -> None:
    f = nest("pass")
    with pytest.raises(InputError, match="conditions are some of if, select, boolean"):
        hoist_expression(f, conditions=("while",))
    with pytest.raises(InputError, match="lets are some of required, statement"):
        hoist_expression(f, lets=("needed",))
    with pytest.raises(InputError, match="lets must be a list of words, not 'required'"):
        hoist_expression(f, lets="required")


EXTENTS = {
    "grid": (
        "for i in [0, 4):\n    for j in [0, 4):\n        if i == 0 and j < 2:\n            A[j] = 1",
        "for i in [0, 1):\n    for j in [0, 2):\n        A[j] = 1",
    ),
    "the hull of two": (
        "for i in [0, 16):\n    if i == 3:\n        A[i] = 1\n    if i == 7:\n        B[i] = 1",
        "for i in [3, 8):\n    if i == 3:\n        A[i] = 1\n    if i == 7:\n        B[i] = 1",
    ),
    "nothing": ("for i in [0, 4):\n    if i > 5:\n        A[i] = 1\nB[0] = 1", "B[0] = 1"),
    "loops around it": (
        "for i in [0, 4):\n    for j in [0, 4):\n        if j <= i:\n            A[j] = 1",
        "for i in [0, 4):\n    for j in [0, i + 1):\n        A[j] = 1",
    ),
}


@pytest.mark.parametrize("name", EXTENTS)
def test_loops_run_over_what_does_something(name: str) -> None:
    assert any(entry.done for entry in done(reduce_loop_extents, *EXTENTS[name]))


def test_loops_that_keep_their_ends() -> None:
    stays(reduce_loop_extents, "for i in [0, 4) vectorized:\n    if i < 2:\n        A[i] = 1", "vectorized stays")
    stays(
        reduce_loop_extents,
        "for i in [0, 4):\n    x = B[i]\n    if i <= x:\n        A[i] = 1",
        "first and the last iteration",
    )
    stays(reduce_loop_extents, "for i in [0, 4):\n    if A[i] < 2:\n        B[i] = 1", "first and the last iteration")


MERGE = {
    "one after another": (
        "for i in [0, 16):\n    A[i] = 1\nfor j in [0, 16):\n    B[j] = A[j]",
        "for i in [0, 16):\n    A[i] = 1\n    B[i] = A[i]",
    ),
    "storage between": (
        "for i in [0, 4):\n    A[i] = 1\nallocate T: int32[4]\nfor j in [0, 4):\n    T[j] = 1\n    B[j] = T[j]",
        "allocate T: int32[4]\nfor i in [0, 4):\n    A[i] = 1\n    T[i] = 1\n    B[i] = T[i]",
    ),
}


@pytest.mark.parametrize("name", MERGE)
def test_loops_become_one(name: str) -> None:
    done(merge_adjacent_loops, *MERGE[name])


APART = {
    "it reads what comes later": (
        "for i in [0, 15):\n    A[i] = 1\nfor j in [0, 15):\n    B[j] = A[j + 1]",
        "a later one of the first does",
        (0,),
    ),
    "it writes what is read later": (
        "for i in [0, 14):\n    B[i] = A[i]\nfor j in [0, 14):\n    A[j + 2] = 1",
        "a later one of the first does",
        (0,),
    ),
    "it writes what is written later": (
        "for i in [0, 14):\n    A[i] = 2\nfor j in [0, 14):\n    A[j + 2] = 1",
        "a later one of the first does",
        (0,),
    ),
    "another range": ("for i in [0, 4):\n    A[i] = 2\nfor j in [0, 5):\n    B[j] = 1", "the same range", None),
    "another size": ("for i in [0, n):\n    A[i] = 2\nfor j in [0, n + 1):\n    B[j] = 1", "the same range", None),
    "data": (
        "for i in [0, 4):\n    A[i] = 2\nfor j in [0, 4):\n    B[j] = A[A[j]]",
        "depends on data that the loops write",
        None,
    ),
    "a host call": ("for i in [0, 4):\n    A[i] = 2\nfor j in [0, 4):\n    host(B)", "a host call", None),
}


@pytest.mark.parametrize("name", APART)
def test_loops_that_stay_apart(name: str) -> None:
    body, reason, point = APART[name]
    stays(merge_adjacent_loops, body, reason, point=point)


# -- branching ---------------------------------------------------------------------------------------------------

BRANCHING = {
    "what is overwritten": (
        "for i in [0, 16):\n    A[i] = 1\nfor i in [0, 16):\n    if i >= 14:\n        A[i] = 2",
        "for i in [0, 16):\n    if i < 14:\n        A[i] = 1\nfor i in [0, 16):\n    if i >= 14:\n        A[i] = 2",
    ),
    "what changes nothing": (
        "for i in [0, 16):\n    assume i < 14 or A[i] == 0\nfor i in [0, 16):\n    B[0] = B[0] + A[i]",
        (
            "for i in [0, 16):\n    assume i < 14 or A[i] == 0\nfor i in [0, 16):\n    if i < 14:\n"
            "        B[0] = B[0] + A[i]"
        ),
    ),
}


@pytest.mark.parametrize("name", BRANCHING)
def test_what_is_for_nothing_gets_a_guard(name: str) -> None:
    done(remove_overcompute_through_branching, *BRANCHING[name])


def test_what_matters_gets_no_guard() -> None:
    stays(remove_overcompute_through_branching, "for i in [0, 16):\n    A[i] = 1", "every instance matters")
    stays(remove_overcompute_through_branching, "for i in [0, n):\n    A[i] = 1", "every instance matters")


# -- undef and assumptions ---------------------------------------------------------------------------------------

UNDEF = {
    "nobody knows it": ("for i in [0, 16):\n    A[i] = undef()\nB[0] = 1", "B[0] = 1"),
    "it would be missing": (
        "allocate T: int32[4]\nfor i in [0, 4):\n    T[i] = undef()\nT[0] = 1\nfor i in [0, 4):\n    A[i] = T[i]",
        "allocate T: int32[4]\nfor i in [0, 4):\n    T[i] = 0\nT[0] = 1\nfor i in [0, 4):\n    A[i] = T[i]",
    ),
    "something else is there": (
        "allocate T: int32[1]\nT[0] = 5\nT[0] = undef() + 1\nA[0] = T[0]",
        "allocate T: int32[1]\nT[0] = 5\nA[0] = T[0]",
    ),
    "sometimes": ("A[0] = select(n < 3, undef(), 4)", "A[0] = select(n < 3, 0, 4)"),
}


@pytest.mark.parametrize("name", UNDEF)
def test_no_value_is_left_open(name: str) -> None:
    assert any(entry.done for entry in done(remove_undef, *UNDEF[name]))


def test_assumptions_move_to_the_requirements() -> None:
    body = 'for i in [0, 4):\n    assume A[i] > 0\n    if n < 3:\n        assume n < 4, "proved"\n        B[i] = A[i]'
    report: list[Any] = []
    f = remove_assume(nest(body), report=report)
    assert "assume" not in str(f) and [entry.line for entry in report] == [3, 5]
    (required,) = f.requires
    assert str(required) == "for i in [0, 4):\n    assume A[i] > 0" and str(required.cond) == "A[i] > 0"
    assert "assume" not in str(remove_assume(f)) and remove_assume(f).requires == f.requires


PASSES: tuple[Pass, ...] = (
    simplify, remove_no_op, hoist_expression, reduce_loop_extents, merge_adjacent_loops,
    remove_branching_through_overcompute, remove_overcompute_through_branching, remove_undef, remove_assume,
)  # fmt: skip


@pytest.mark.parametrize("p", PASSES)
@pytest.mark.parametrize(
    "body",
    [
        "for i in [0, 4):\n    assume i > 5",
        "A[0] = 1\nassume A[0] == 2",
        "assume 1 > n * 0 + 1",
        "assume A[0] > 3\nassume A[0] < 2\nA[0] = 1",
    ],
)
def test_an_assumption_that_is_proved_false_is_refused(p: Pass, body: str) -> None:
    with pytest.raises(InputError, match=r"the assumption .* is false"):
        p(nest(body))


def test_an_assumption_that_is_never_reached_is_fine() -> None:
    for p in PASSES:
        p(nest("for i in [0, 0):\n    assume i > 5\nB[0] = 1"))


# -- loops over an array ---------------------------------------------------------------------------------------------


def over_a(f: Function, report: list[Any] | None = None) -> Function:
    return sequential_buffer_access(f, "A", report=report)


SEQUENTIAL = {
    "a padded layout": (
        "A: int32[4, 4], B: int32[16]",
        "for i in [0, 14):\n    A[i // 4, i % 4] = B[i]",
        "for a0 in [0, 4):\n    for a1 in [0, 4):\n        if a0 * 4 + a1 < 14:\n            A[a0, a1] = B[a0 * 4 + a1]",
    ),
    "a reduction": (
        "A: int32[4], B: int32[16]",
        "for i in [0, 4):\n    A[i] = 0\n    for k in [0, 4):\n        A[i] = A[i] + B[i * 4 + k]",
        "for i in [0, 4):\n    A[i] = 0\nfor i in [0, 4):\n    for k in [0, 4):\n        A[i] = A[i] + B[i * 4 + k]",
    ),
    "a triangle of any size": (
        "A: int32[n, n], n",
        "for j in [0, n):\n    for i in [j, n):\n        A[i, j] = i - j",
        "for a0 in [0, n):\n    for a1 in [0, n):\n        if a0 >= a1:\n            A[a0, a1] = a0 - a1",
    ),
    "branches of their own": (
        "A: int32[16], B: int32[16]",
        "for i in [0, 16):\n    if i < 8:\n        A[i] = B[i]\n    else:\n        A[23 - i] = 1",
        "for a0 in [0, 16):\n    if a0 < 8:\n        A[a0] = B[a0]\nfor a0 in [0, 16):\n    if a0 >= 8:\n        A[a0] = 1",
    ),
    "storage that begins elsewhere": (
        "X: int32[8, 4], B: int32[8, 4]",
        "for i in [0, 8):\n    allocate A: int32[2 : + 4]\n    for j in [0, 4):\n        A[5 - j] = X[i, j]\n    for j in [0, 4):\n        B[i, j] = A[j + 2]",
        "for i in [0, 8):\n    allocate A: int32[2 : + 4]\n    for a0 in [2, 6):\n        A[a0] = X[i, 5 - a0]\n    for a0 in [2, 6):\n        B[i, a0 - 2] = A[a0]",
    ),
}


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_loops_over_an_array_whole_and_in_order(name: str) -> None:
    head, before, after = SEQUENTIAL[name]
    assert all(entry.done for entry in done(over_a, before, after, head))
    f = nest(before, head)
    for size in range(5):
        rng, sizes = np.random.default_rng(size), dict.fromkeys(f.sizes, size)
        given = {t.name: rng.integers(0, 9, [evaluate(e, sizes) for e in t.extents], t.dtype) for t in f.params}
        first, second = ({name: array.copy() for name, array in given.items()} for _ in range(2))
        for one, arrays in ((f, first), (over_a(f), second)):
            run(one, arrays, {v.name: size for v in f.sizes}, {"host": lambda *given: None})
        assert all((first[name] == second[name]).all() for name in given)


REFUSED = {
    "two iterations, one element": ("for i in [0, 4):\n    A[i // 2] = B[i]", "arrive at one place"),
    "another order": (
        "for i in [0, 15):\n    A[15 - i] = A[14 - i + 1] + A[14 - i]",
        "the order of iterations would change",
    ),
    "a product that is added to": (
        "for i in [0, 16):\n    B[0] = B[0] * 2 + A[15 - i]",
        "the order of iterations would change",
    ),
    "two elements of one iteration": (
        "for i in [0, 15):\n    B[i] = A[i] + A[i + 1]",
        "2 different indices in one loop nest",
    ),
    "what is stored in between": ("for i in [0, 14):\n    A[i] = B[i]\n    A[i + 2] = A[i] + 1", "cannot be split off"),
    "a host call": ("for i in [0, 4):\n    A[i] = 1\n    host(A)", "cannot be split off"),
    "two host calls": ("for i in [0, 4):\n    A[i] = 1\n    host(B)\n    A[i + 4] = 2\n    host(B)", "host calls"),
    "a branch on data": (
        "for i in [0, 4):\n    if A[i] < 2:\n        A[i] = 1\n    else:\n        A[i + 4] = 1",
        "on data",
    ),
    "an index from data": ("for i in [0, 4):\n    x = B[i]\n    A[x] = i", "the indices of A depend on data"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_loops_that_cannot_follow_an_array(name: str) -> None:
    body, reason = REFUSED[name]
    with pytest.raises(LayoutError, match=reason):
        over_a(nest(body))


def test_loops_of_other_kinds_stay() -> None:
    stays(over_a, "for i in [0, 4) unrolled:\n    A[3 - i] = 1", "unrolled, and stays")
    stays(
        over_a,
        "for i in [0, 4):\n    for j in [0, 4) vectorized:\n        A[15 - i * 4 - j] = 1",
        "vectorized, and stays",
    )


def test_an_array_that_is_none() -> None:
    with pytest.raises(InputError, match="'Q' must be one array of f: the arrays are A, B"):
        sequential_buffer_access(nest("A[0] = 1"), "Q")
