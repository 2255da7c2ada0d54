# ruff: noqa: E501  # nests on one line
"""Passes over stores: what goes, what stays and why; what is known holds where it was established."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bound import te
from intset import InputError
from lowering import (
    add_constraint,
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
    to_c,
    undef,
)
from lowering.errors import LayoutError
from lowering.nest.ir import Assume, For, Function, Seq
from lowering.nest.walk import statements, substitute
from lowering.passes import Entry, accumulate, partition_loops
from lowering.passes.stores.dead_code import drop_identities
from lowering.passes.stores.placement import forward_copies
from tests.compilers import compilers
from tests.lowering.equivalence import same_results
from tests.lowering.lowered import check, check_c
from tests.strategies.refusals import refused_by, refused_with_words
from tests.strategies.written import Written

Pass = Callable[..., Function]
HEAD = "A: int32[16], B: int32[16], n"
FLOATS = "A: int32[16], B: int32[16], F: float32[16], G: float32[1], n"
FOR = "for i in [0, 16):\n    "
MEETING = (
    "for i in [0, 16):\n    assume i == 2 or B[i] == 0\nfor i in [0, 16):\n    if i == 2:\n        A[0] = A[0] + B[i]"
)


def nest(body: str, head: str = HEAD) -> Function:
    lines = body.strip("\n").split("\n")
    return parse_nest(f"def f({head}):\n" + "\n".join(f"    {line}" for line in lines))


def done(p: Pass, before: str, after: str, head: str = HEAD) -> list[Any]:
    """Check that a pass turns `before` into `after`; return its report."""
    report: list[Any] = []
    assert str(p(nest(before, head), report=report)) == str(nest(after, head))
    return report


def over_a(f: Function, report: list[Any] | None = None) -> Function:
    return sequential_buffer_access(f, "A", report=report)


LOOPS = "for i in [0, 4):\n    for j in [0, 4):\n        for k in [0, 4):\n            if j < 3 and i < 2:\n                A[j] = A[j] + k"
REWRITTEN: dict[Pass, dict[str, str]] = {  # by pass: nests, and what becomes of them
    remove_no_op: {
        f"{FOR}A[i] = 100\n    A[i] = 42": f"{FOR}A[i] = 42",
        f"{FOR}if i < 10:\n        A[i] = 100\n{FOR}if i // 4 < 3:\n        A[i] = 42": f"{FOR}if i // 4 < 3:\n        A[i] = 42",
        f"{FOR}if i != 0:\n        A[i] = A[i - 1]\n    else:\n        A[i] = A[0]": f"{FOR}if i != 0:\n        A[i] = A[i - 1]",
        "allocate T: int32[16]\nA[0] = 1": "A[0] = 1",
        f"{FOR}pass\nA[0] = 1": "A[0] = 1",
        "assume A[3] == 7\nA[3] = 7\nB[0] = 1": "assume A[3] == 7\nB[0] = 1",
    },
    remove_branching_through_overcompute: {
        f"{FOR}if i < 14:\n        A[i] = 1\n{FOR}if i >= 14:\n        A[i] = 2": f"{FOR}A[i] = 1\n{FOR}if i >= 14:\n        A[i] = 2",
        f"{FOR}assume i < 14 or A[i] == 0\nB[0] = 0\n{FOR}if i < 14:\n        B[0] = B[0] + A[i]": f"{FOR}assume i < 14 or A[i] == 0\nB[0] = 0\n{FOR}B[0] = B[0] + A[i]",
        f"{FOR}if i > 0:\n        A[0] = A[0] + i * i": f"{FOR}A[0] = A[0] + i * i",
    },
    simplify: {
        f"A[0] = 0\nif A[0] == 0:\n    B[0] = 1\n{FOR}A[i] = i\nfor j in [0, 16):\n    if A[j] == j:\n        B[j] = 2": f"A[0] = 0\nB[0] = 1\n{FOR}A[i] = i\nfor j in [0, 16):\n    B[j] = 2",
        "assume A[0] == 0\nA[0] = A[0] + 1\nA[0] = A[0] + 1\nA[0] = A[0] + 1\nif A[0] == 3:\n    B[0] = 1": "assume A[0] == 0\nA[0] = A[0] + 1\nA[0] = A[0] + 1\nA[0] = A[0] + 1\nB[0] = 1",
        "for i in [0, 4):\n    A[i] = B[i]\nfor i in [0, 4):\n    if A[i] == B[i]:\n        A[i + 4] = 1": "for i in [0, 4):\n    A[i] = B[i]\nfor i in [0, 4):\n    A[i + 4] = 1",
        "A[3] = 1\nB[0] = select(A[3] == 1, 5, B[1])": "A[3] = 1\nB[0] = 5",
        "if A[3] > n:\n    B[0] = A[1]\nelse:\n    B[0] = A[1]": "B[0] = A[1]",
        f"{FOR}if i < 8:\n        A[i] = 1\n    if i // 8 == 0:\n        B[i] = 1": f"{FOR}if i < 8:\n        A[i] = 1\n        B[i] = 1",
        "assume 0 <= n and n < 8\nA[0] = n // 8": "assume 0 <= n and n < 8\nA[0] = 0",
        "assume A[0] > 0\nif A[0] > 0:\n    B[0] = 1\nA[0] = n\nif A[0] > 0:\n    B[1] = 2": "assume A[0] > 0\nB[0] = 1\nA[0] = n\nif A[0] > 0:\n    B[1] = 2",
        f"{FOR}assume A[i] > i\nfor j in [0, 16):\n    if A[15 - j] >= 16 - j:\n        B[j] = 1\nA[3] = 0": f"{FOR}assume A[i] > i\nfor j in [0, 16):\n    B[j] = 1\nA[3] = 0",
        f"{FOR}assume i < 14 or A[i] < 0\nfor j in [0, 16):\n    if j > 13 and A[j] > 3:\n        B[j] = 1\n    A[j] = 0": f"{FOR}assume i < 14 or A[i] < 0\nfor j in [0, 16):\n    A[j] = 0",
        "assume F[0] < 1.0\nif F[0] < 1.0:\n    B[0] = 1\nF[0] = 2.0": "assume F[0] < 1.0\nB[0] = 1\nF[0] = 2.0",
    },
    hoist_expression: {
        "for i in [0, 4):\n    A[i] = select(n < 3, B[i], 2)": "if n < 3:\n    for i in [0, 4):\n        A[i] = B[i]\nelse:\n    for i in [0, 4):\n        A[i] = 2",
        "for i in [0, 4):\n    x = n // 3\n    if x == 2:\n        A[i] = x": "x = n // 3\nif x == 2:\n    for i in [0, 4):\n        A[i] = x",
        "for i in [0, 4):\n    x = 7 // n\n    A[i] = x": "x = 7 // n\nfor i in [0, 4):\n    A[i] = x",
        "for i in [0, 4):\n    if n < 3:\n        A[i] = 1\n    else:\n        A[i] = 2": "if n < 3:\n    for i in [0, 4):\n        A[i] = 1\nelse:\n    for i in [0, 4):\n        A[i] = 2",
        LOOPS: "for i in [0, 4):\n    if i < 2:\n        for j in [0, 4):\n            if j < 3:\n                for k in [0, 4):\n                    A[j] = A[j] + k",
    },
    reduce_loop_extents: {
        "for i in [0, 4):\n    for j in [0, 4):\n        if i == 0 and j < 2:\n            A[j] = 1": "for i in [0, 1):\n    for j in [0, 2):\n        A[j] = 1",
        f"{FOR}if i == 3:\n        A[i] = 1\n    if i == 7:\n        B[i] = 1": "for i in [3, 8):\n    if i == 3:\n        A[i] = 1\n    if i == 7:\n        B[i] = 1",
        "for i in [0, 4):\n    if i > 5:\n        A[i] = 1\nB[0] = 1": "B[0] = 1",
        "for i in [0, 4):\n    for j in [0, 4):\n        if j <= i:\n            A[j] = 1": "for i in [0, 4):\n    for j in [0, i + 1):\n        A[j] = 1",
    },
    merge_adjacent_loops: {
        f"{FOR}A[i] = 1\nfor j in [0, 16):\n    B[j] = A[j]": f"{FOR}A[i] = 1\n    B[i] = A[i]",
        "for i in [0, 4):\n    A[i] = 1\nallocate T: int32[4]\nfor j in [0, 4):\n    T[j] = 1\n    B[j] = T[j]": "allocate T: int32[4]\nfor i in [0, 4):\n    A[i] = 1\n    T[i] = 1\n    B[i] = T[i]",
    },
    remove_overcompute_through_branching: {
        f"{FOR}A[i] = 1\n{FOR}if i >= 14:\n        A[i] = 2": f"{FOR}if i < 14:\n        A[i] = 1\n{FOR}if i >= 14:\n        A[i] = 2",
        f"{FOR}assume i < 14 or A[i] == 0\n{FOR}B[0] = B[0] + A[i]": f"{FOR}assume i < 14 or A[i] == 0\n{FOR}if i < 14:\n        B[0] = B[0] + A[i]",
    },
    remove_undef: {
        f"{FOR}A[i] = undef()\nB[0] = 1": "B[0] = 1",
        "allocate T: int32[4]\nfor i in [0, 4):\n    T[i] = undef()\nT[0] = 1\nfor i in [0, 4):\n    A[i] = T[i]": "allocate T: int32[4]\nfor i in [0, 4):\n    T[i] = 0\nT[0] = 1\nfor i in [0, 4):\n    A[i] = T[i]",
        "allocate T: int32[1]\nT[0] = 5\nT[0] = undef() + 1\nA[0] = T[0]": "allocate T: int32[1]\nT[0] = 5\nA[0] = T[0]",
        "A[0] = select(n < 3, undef(), 4)": "A[0] = select(n < 3, 0, 4)",
    },
}


UNTOLD = (
    "allocate T: int32[16]\nA[0] = 1",
    f"{FOR}pass\nA[0] = 1",
    "assume 0 <= n and n < 8\nA[0] = n // 8",
)  # no entry of the report


@pytest.mark.parametrize(("p", "body"), [(p, body) for p, rows in REWRITTEN.items() for body in rows])
def test_what_a_pass_rewrites(p: Pass, body: str) -> None:
    report = done(p, body, REWRITTEN[p][body], FLOATS)
    assert any(entry.done for entry in report) or body in UNTOLD


STAYS: dict[Pass, dict[str, str | None]] = {  # by pass: nests that stay, and the reason that is told
    remove_no_op: {f"{FOR}A[i] = 100\nfor i in [0, 12):\n    A[i] = 42": "its value is read, or kept at the end"},
    remove_branching_through_overcompute: {
        f"{FOR}if i < 14:\n        A[i] = 1\n{FOR}if i >= 14:\n        A[i] = A[i] + 1": "would be read, or kept at the end",
        "for i in [0, 20):\n    if i < 16:\n        B[0] = B[0] + A[i] * 0": "A[i] may be outside A",
        f"allocate T: int32[16]\nallocate U: int32[16]\nfor i in [0, 14):\n    T[i] = 1\n{FOR}if i < 14:\n        U[i] = T[i]": "T[i] may hold nothing yet",
        MEETING.replace(
            "for i in [0, 16):\n    if", "for i in [0, 16) parallel:\n    if"
        ): "run side by side, might meet",
    },
    hoist_expression: {
        "for i in [0, n):\n    if B[n] == 2:\n        A[0] = 1": "B[n] may be outside B",
        "for i in [0, 4):\n    if B[0] == 2:\n        B[0] = i": "the loop writes B",
        "for i in [0, 4) unrolled:\n    if n == 2:\n        B[0] = i": "unrolled stays as it is",
        "for i in [0, n):\n    if 7 // n == 2:\n        B[0] = i": "may divide by 0",
    },
    reduce_loop_extents: {
        "for i in [0, 4) vectorized:\n    if i < 2:\n        A[i] = 1": "vectorized stays",
        "for i in [0, 4):\n    x = B[i]\n    if i <= x:\n        A[i] = 1": "first and the last iteration",
        "for i in [0, 4):\n    if A[i] < 2:\n        B[i] = 1": "first and the last iteration",
    },
    merge_adjacent_loops: {
        "for i in [0, 15):\n    A[i] = 1\nfor j in [0, 15):\n    B[j] = A[j + 1]": "a later one of the first does",
        "for i in [0, 14):\n    B[i] = A[i]\nfor j in [0, 14):\n    A[j + 2] = 1": "a later one of the first does",
        "for i in [0, 14):\n    A[i] = 2\nfor j in [0, 14):\n    A[j + 2] = 1": "a later one of the first does",
        "for i in [0, 4):\n    A[i] = 2\nfor j in [0, 5):\n    B[j] = 1": "the same range",
        "for i in [0, n):\n    A[i] = 2\nfor j in [0, n + 1):\n    B[j] = 1": "the same range",
        "for i in [0, 4):\n    A[i] = 2\nfor j in [0, 4):\n    B[j] = A[A[j]]": "depends on data that the loops write",
        "for i in [0, 4):\n    A[i] = 2\nfor j in [0, 4):\n    host(B)": "a host call",
    },
    remove_overcompute_through_branching: {
        f"{FOR}A[i] = 1": "every instance matters",
        "for i in [0, n):\n    A[i] = 1": "every instance matters",
    },
    over_a: {
        "for i in [0, 4) unrolled:\n    A[3 - i] = 1": "unrolled, and stays",
        "for i in [0, 4):\n    for j in [0, 4) vectorized:\n        A[15 - i * 4 - j] = 1": "vectorized, and stays",
    },
    simplify: {
        "for i in [0, 4):\n    allocate T: int32[1]\n    if i == 0:\n        T[0] = 1\n    else:\n        T[0] = A[i]\n    if T[0] == 1:\n        B[i] = 1": "T[0] == 1 may hold, and may not",
        "for i in [0, 4):\n    if B[0] == 0:\n        A[i] = 1\n    B[0] = A[i] + B[0]": "B[0] may be what",
        "if A[0] == 1:\n    A[0] = 2\nif A[0] == 1:\n    B[0] = 1": "A[0] may be one of several values",
        "A[0] = 1\nA[0] = undef()\nB[1] = 3\nif B[0] < A[1]:\n    B[1] = 2": "B[0] may be what it was given",
        "if F[0] < 0.5:\n    B[0] = 1\nif F[0] >= 0.5:\n    B[1] = 1": None,  # both may be false of floats
        "if F[0] == F[0]:\n    B[0] = 1": None,
        "if A[0] > 0:\n    B[0] = 1\nassume A[0] > 0\nA[0] = 2": None,
        "assume A[n] > 0\nif A[0] > 0:\n    B[0] = 1\nA[0] = 2": None,
        "allocate T: int32[1]\nT[0] = B[0]\nassume T[0] > 0\nT[0] = n + 1\nif T[0] > 0:\n    B[0] = 1": None,
        "assume B[0] == 0\nif A[0] == B[0]:\n    B[1] = 1\nfor i in [0, 4):\n    if A[0] == B[0]:\n        B[0] = B[0] + 1": None,
    },
}


@pytest.mark.parametrize(("p", "body"), [(p, body) for p, rows in STAYS.items() for body in rows])
def test_what_a_pass_leaves_and_why(p: Pass, body: str) -> None:
    reason = STAYS[p][body]
    told = [entry for entry in done(p, body, body, FLOATS) if not entry.done and reason and reason in entry.reason]
    assert reason is None or told and ("a later one" not in reason or any(entry.point == (0,) for entry in told))


def test_elements_of_int8_wrap_and_iterations_may_meet() -> None:
    head = "A: int8[8], B: int32[8]"
    body = "for i in [0, 8):\n    A[i] = i * 40\nfor j in [0, 8):\n    if A[j] == j * 40:\n        B[j] = 1"
    (told,) = done(simplify, body, body, head)
    assert "A[j] may be what line 3 stores, of which it is not known that int8 holds it" in told.reason
    assert told.point == (0,)
    done(remove_branching_through_overcompute, MEETING, MEETING.replace("    if i == 2:\n    ", ""))
    apart = "for i in [0, 16) parallel:\n    if i < 14:\n        A[i] = 1\nfor i in [14, 16):\n    A[i] = 2"
    done(remove_branching_through_overcompute, apart, apart.replace("    if i < 14:\n        A", "    A"))


def test_what_is_reported_has_its_line() -> None:
    body = "A[3] = 1\nif n < 3:\n    B[0] = 1\nif n < 3:\n    B[1] = 1\nif A[3] > 1:\n    B[2] = 1\nif A[4] > 1:\n    B[2] = 3"
    after = "A[3] = 1\nif n < 3:\n    B[0] = 1\n    B[1] = 1\nif A[4] > 1:\n    B[2] = 3"
    report = done(simplify, body, after)
    assert [(entry.line, entry.done) for entry in report] == [(3, False), (5, True), (7, True), (9, False)]
    before, after = "for i in [0, 4):\n    x = n + 1\n    A[i] = x", "x = n + 1\nfor i in [0, 4):\n    A[i] = x"
    (entry,) = done(hoist_expression, before, after)
    assert (entry.line, entry.done) == (2, True) and "x is named" in entry.reason


def test_hoisting_whole_conditions_only() -> None:
    done(
        lambda f, report: hoist_expression(f, conditions=("if",), report=report),
        LOOPS,
        "for i in [0, 4):\n    for j in [0, 4):\n        if j < 3 and i < 2:\n            for k in [0, 4):\n"
        "                A[j] = A[j] + k",
    )


test_bad_words_are_refused = refused_with_words(
    [
        ("conditions are some of if, select, boolean", lambda: hoist_expression(nest("pass"), conditions=("while",))),
        ("lets are some of required, statement", lambda: hoist_expression(nest("pass"), lets=("needed",))),
        ("lets must be a list of words, not 'required'", lambda: hoist_expression(nest("pass"), lets="required")),
        ("'Q' must be one array of f: the arrays are A, B", lambda: sequential_buffer_access(nest("A[0] = 1"), "Q")),
    ]
)


def test_assumptions_move_or_are_refused_only_where_they_are_reached() -> None:
    body = 'for i in [0, 4):\n    assume A[i] > 0\n    if n < 3:\n        assume n < 4, "proved"\n        B[i] = A[i]'
    report: list[Any] = []
    f = remove_assume(nest(body), report=report)
    assert "assume" not in str(f) and [entry.line for entry in report] == [3, 5]
    (required,) = f.requires
    assert str(required) == "for i in [0, 4):\n    assume A[i] > 0" and str(required.cond) == "A[i] > 0"
    assert "assume" not in str(remove_assume(f)) and remove_assume(f).requires == f.requires
    for p in PASSES:
        p(nest("for i in [0, 0):\n    assume i > 5\nB[0] = 1"))
    f = known("A[3] = 0\nfor k in [0, 5):\n    assume k != 2 or A[3] < 0\n    B[k] = 1")
    assert str(remove_no_op(f)) == str(f)  # it may hold in other iterations
    with pytest.raises(InputError, match="is false wherever it is reached"):
        remove_no_op(known("A[3] = 0\nfor k in [0, 5):\n    assume k > 7 or A[3] < 0\n    B[k] = 1"))


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
    same_results(f, over_a(f))


REFUSED = {  # loops that cannot follow an array
    "B[0] = 1\nfor i in [0, minimum(B[0], 4)):\n    A[i] = 2": "depends on data that change",
    "for i in [0, B[0]):\n    B[0] = 2\n    for j in [0, 2):\n        A[j] = 3": "the range of a loop reads B",
    "for i in [0, 4):\n    A[i // 2] = B[i]": "arrive at one place",
    "for i in [0, 15):\n    A[15 - i] = A[14 - i + 1] + A[14 - i]": "the order of iterations would change",
    f"{FOR}B[0] = B[0] * 2 + A[15 - i]": "the order of iterations would change",
    "for i in [0, 15):\n    B[i] = A[i] + A[i + 1]": "2 different indices in one loop nest",
    "for i in [0, 14):\n    A[i] = B[i]\n    A[i + 2] = A[i] + 1": "cannot be split off",
    "for i in [0, 4):\n    A[i] = 1\n    host(A)": "cannot be split off",
    "for i in [0, 4):\n    A[i] = 1\n    host(B)\n    A[i + 4] = 2\n    host(B)": "host calls",
    "for i in [0, 4):\n    if A[i] < 2:\n        A[i] = 1\n    else:\n        A[i + 4] = 1": "on data",
    "for i in [0, 4):\n    x = B[i]\n    A[x] = i": "the indices of A depend on data",
}


test_loops_that_cannot_follow_an_array = refused_by(lambda body: over_a(nest(body)), REFUSED, LayoutError)


# -- knowledge -----------------------------------------------------------------------------------------------------


KNOWN = "A: int32[9], B: int32[9], G: int32[1], M: int32[4, 5], n"


def known(body: str) -> Function:
    return nest(body, KNOWN)


END = "for i in [0, minimum(A[0], 4)):\n    A[0] = 9\n    if i < 4:\n        B[i] = A[0]"  # one end of the loop reads data
UNCHANGED: dict[Pass, list[str]] = {  # elements that are not reached, and ends of loops that read data
    simplify: [
        "A[3] = 0\nfor k in [0, 5):\n    if (k != 2) | (A[3] < 0):\n        B[k] = 1",
        "A[3] = 0\nfor k in [0, 5):\n    if (k == 2 and A[3] == 0) or k == 0:\n        B[k] = 1",
        "A[0] = 0\nfor k in [0, 5):\n    if select(k < 2, A[0], k) == 0:\n        B[k] = 1",
        "for k in [0, 5):\n    A[k] = 2\nfor k in [0, 5):\n    if k == 0 or A[4 // k] == 3:\n        B[k] = 1",
        "for k in [0, 9):\n    A[k] = 2\nfor k in [0, 9):\n    if k >= 5 or A[k + 4] == 3:\n        B[k] = 1",
        "A[3] = 0\nfor k in [0, 5):\n    assume k >= 0 or A[3] < 0\n    B[k] = 1",
        "for i in [0, A[0]):\n    A[0] = 1\n    if i < A[0]:\n        B[i] = 7",
        "for i in [A[0], A[0] + 1):\n    A[0] = 2\n    B[1] = i",
        END,
    ],
    remove_no_op: [
        "for i in [0, 9):\n    A[i] = i\nfor i in [0, 9):\n    A[i] = select(i < 7, A[i], 1)",
        "for i in [0, 9):\n    A[i] = 1\n    B[i] = 1\nfor i in [0, 9):\n    B[i] = select(i < 7, A[i], 2)",
    ],
    remove_branching_through_overcompute: ["for k in [0, 5):\n    if k != 0 and 6 // k == 6:\n        A[k] = 5"],
    partition_loops: [
        "for i in [A[0], A[0] + 1):\n    A[0] = 2\n    B[1] = select(i < 4, i, 0)",
        "for i in [0, A[0]):\n    A[0] = 2\n    if i < 2:\n        B[i] = 7",
        "for i in [0, A[0]):\n    A[0] = 1\n    for j in [A[0], 5):\n        if j > i:\n            B[j] = B[j] + 1",
    ],
}


@pytest.mark.parametrize(("p", "body"), [(p, body) for p, rows in UNCHANGED.items() for body in rows])
def test_what_is_known_holds_where_it_was_established(p: Pass, body: str) -> None:
    f = known(body)
    same_results(f, p(f))


def test_an_element_that_is_read_in_one_branch_decides_there() -> None:
    f = known("A[3] = 0\nfor k in [0, 5):\n    B[k] = select(k < 3, select(A[3] == 0, 1, 2), 3)")
    assert "select(2 >= k, 1, 3)" in str(simplify(f))
    assert "if" not in str(simplify(known("A[3] = 0\nfor k in [0, 5):\n    if k < 9 and A[3] == 0:\n        B[k] = 1")))
    assert "if" not in str(simplify(known(END)))


def test_fused_loops_do_not_capture_a_variable_of_the_second() -> None:
    f = known("for i in [0, 4):\n    A[i] = i\nfor j in [0, 4):\n    for k in [0, 5):\n        M[j, k] = j + k * 2")
    first, second = f.body.stmts if isinstance(f.body, Seq) else ()
    assert isinstance(first, For) and isinstance(second, For) and isinstance(second.body, For)
    inner = second.body
    shared = replace(inner, var=first.var, body=substitute(inner.body, {inner.var: first.var}))
    f = f.with_body(Seq((first, replace(second, body=shared))))
    g = merge_adjacent_loops(f)
    assert sum(isinstance(stmt, For) for stmt in statements(g.body)) == 2
    same_results(f, g)


# -- loops over an array ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "for i in [1, 6):\n    B[i] = -1\n    if G[0] == 1:\n        M[0, i] = 2",
        "for i in [0, 9):\n    B[i] = select(n > 2, M[n - 3, 0], 2)",
        "for i in [0, 9):\n    B[i] = 1\n    if i < 4:\n        M[0, i] = B[i]",
        "for i in [0, 9):\n    if i < 4 and M[0, i] > 1:\n        B[i] = 1\n    else:\n        B[i] = 2",
    ],
)
def test_iterations_beyond_the_axes_are_not_lost(body: str) -> None:
    f = known(body)
    report: list[Entry] = []
    try:
        g = sequential_buffer_access(f, "M", report=report)
    except LayoutError as error:
        reason = str(error)
    else:
        same_results(f, g)
        reason = report[-1].reason
    assert "in some iterations only" in reason


CLAIMS = {
    'assume A[0] == 3, "proved"': False,
    'A[0] = 3\nassume A[0] == 3, "proved"': True,
    'A[0] = 2\nassume A[0] != 3, "proved"\nassume A[0] + 1 == 3, "proved"': True,
    'for i in [0, 4):\n    assume A[0] == 3, "proved"': False,
    'assume A[0] == 3\nassume A[0] >= 1, "proved"\nA[1] = 0': True,
    'assume n < 3, "proved"': False,
    'if n < 3:\n    assume n < 4, "proved"': True,
    'A[3] = 0\nfor k in [0, 5):\n    assume k != 2 or A[3] == 0, "proved"': True,
    'A[3] = 0\nfor k in [0, 5):\n    assume k == 2 or A[2] == 0, "proved"': False,
    'for i in [0, 4):\n    A[i] = i\nfor i in [0, 5):\n    assume i >= 4 or A[i] == i, "proved"': True,
    'for i in [0, 4):\n    A[i] = i\nfor i in [0, 5):\n    assume A[i] == i, "proved"': False,
    'allocate T: int32[4]\nfor i in [0, 4):\n    T[i] = 0\nassume T[2] == undef(), "proved"': True,
    'allocate T: int32[4]\nfor i in [0, 2):\n    T[i] = 0\nassume T[2] == undef(), "proved"': False,
}


@pytest.mark.parametrize("body", CLAIMS)
def test_a_claim_counts_where_it_is_proved(body: str) -> None:
    f = known(body)
    assert ('"proved"' in str(f)) is CLAIMS[body]
    assert str(parse_nest(str(f))) == str(f)
    marked = body.count('"proved"') * CLAIMS[body]
    assert str(f).count('"proved"') == marked
    claims = [stmt.proved for stmt in statements(f.body) if isinstance(stmt, Assume)]
    assert sum(claims) == marked
    stays = "T[2]" in body  # a permission to read local storage stays
    if not stays:
        assert len(remove_assume(f).requires) == body.count("assume") - marked


def test_claims_that_follow_from_stores_are_marked_and_those_made_by_hand_checked() -> None:
    assert '"proved"' not in str(known('A[0] = 2\nassume A[0] == 3, "proved"'))
    f = known("assume A[0] == 3\nB[0] = A[0]")
    assert isinstance(f.body, Seq)
    first, *rest = f.body.stmts
    assert isinstance(first, Assume)
    forged = f.with_body(Seq((replace(first, proved=True), *rest)))
    assert len(remove_assume(forged).requires) == 1 and str(forged) == str(f)
    f = known("allocate T: int32[4]\nfor i in [0, 4):\n    T[i] = i * 2\nfor i in [0, 4):\n    B[i] = T[i]")
    for value, said in ((lambda i: i * 2, "T[t0] == t0 * 2"), (undef(), "T[t0] == undef()")):
        g = add_constraint(f, "T", lambda i: i >= 0, value)
        assert f'assume {said}, "proved"' in str(g) and str(parse_nest(str(g))) == str(g)
        assert not remove_assume(g).requires


# -- copies and identities -----------------------------------------------------------------------------------------


def recurrence(n: Any, at: str) -> Any:
    return Written(
        f"""
        X = given(5, n); S = given(5, n)
        init[_:1, i:n] = X[0, i]
        update[t:5, i:n] = S[t - 1, {at}] * 0.5 + X[t, i]
        SCAN = te.scan(init, update, S, inputs=[X], name="scan")
        schedule SCAN
        update vectorize i""",
        n=n,
    ).s


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_scan_goes_from_row_to_row(symbolic: bool) -> None:
    n = te.size_var("n") if symbolic else 6
    for at in ("i", "n - 1 - i"):
        s = recurrence(n, at)
        f = check(s, {"n": 6})
        text = to_c(f)
        assert "update" not in text and "init" not in text and "malloc" not in text
    s = recurrence(n, "i")
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


@pytest.mark.parametrize(("reduced", "otherwise"), [("sum", "0.0"), ("max", "float('-inf')"), ("prod", "1.0")])
def test_a_triangular_reduction_ends_at_the_diagonal(reduced: str, otherwise: str) -> None:
    s = Written(f"""
        A = given(36, 36); B = given(36, 36); k = axis(0, 36)
        OTHERWISE = tir.const({otherwise}, "float32")
        C[i:36, j:36] = te.{reduced}(where(k <= i, A[i, k] * B[k, j], OTHERWISE), axis=k)
        C reorder i k j""").s
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


def kept(*lines: str) -> bool:
    """Whether the pass makes a variable of an element that a loop updates."""
    return "allocate" in str(accumulate(nest("\n".join(lines), "A: int32[n], S: int32[n], n")))


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
    assert not kept(*lines) and kept("for i in [0, 4):", "    S[0] = S[0] + A[i]")
