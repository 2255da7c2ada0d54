"""What passes know holds where it was established: reads that are not reached, ends of loops that read data, claims."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from intset import InputError
from lowering import (
    LayoutError,
    add_constraint,
    merge_adjacent_loops,
    parse_nest,
    remove_assume,
    remove_branching_through_overcompute,
    remove_no_op,
    sequential_buffer_access,
    simplify,
    undef,
)
from lowering.nest.ir import Assume, For, Function, Seq
from lowering.nest.walk import statements, substitute
from lowering.passes import Entry, partition_loops
from tests.lowering.equivalence import TrapError, ran

HEAD = "def f(A: int32[9], B: int32[9], G: int32[1], M: int32[4, 5], n):\n"
Pass = Callable[[Function], Function]


def nest(body: str) -> Function:
    return parse_nest(HEAD + "\n".join(f"    {line}" for line in body.split("\n")))


def check(before: Function, after: Function) -> None:
    """Fail unless two functions compute the same for random arrays, sizes from 0 to 5; some must be without a trap."""
    rng = random.Random(0)
    done = 0
    for draw in range(60):
        arrays = {"A": {(k,): rng.randint(-1, 4) for k in range(9)}, "B": {(k,): rng.randint(-1, 4) for k in range(9)}}
        arrays |= {
            "G": {(0,): rng.randint(0, 1)},
            "M": {(k, j): rng.randint(-1, 4) for k in range(4) for j in range(5)},
        }
        try:
            expected = ran(before, arrays, {"n": draw % 6})
        except TrapError:
            continue
        done += 1
        assert ran(after, arrays, {"n": draw % 6}) == expected, f"{arrays}\n{before}\n{after}"
    assert done > 10


UNREACHED = {
    "or": ("A[3] = 0\nfor k in [0, 5):\n    if (k != 2) | (A[3] < 0):\n        B[k] = 1", simplify),
    "and in or": ("A[3] = 0\nfor k in [0, 5):\n    if (k == 2 and A[3] == 0) or k == 0:\n        B[k] = 1", simplify),
    "select": ("for i in [0, 9):\n    A[i] = i\nfor i in [0, 9):\n    A[i] = select(i < 7, A[i], 1)", remove_no_op),
    "select of another array": (
        "for i in [0, 9):\n    A[i] = 1\n    B[i] = 1\nfor i in [0, 9):\n    B[i] = select(i < 7, A[i], 2)",
        remove_no_op,
    ),
    "a choice in a condition": (
        "A[0] = 0\nfor k in [0, 5):\n    if select(k < 2, A[0], k) == 0:\n        B[k] = 1",
        simplify,
    ),
    "an element by a division that has no value": (
        "for k in [0, 5):\n    A[k] = 2\nfor k in [0, 5):\n    if k == 0 or A[4 // k] == 3:\n        B[k] = 1",
        simplify,
    ),
    "an element outside": (
        "for k in [0, 9):\n    A[k] = 2\nfor k in [0, 9):\n    if k >= 5 or A[k + 4] == 3:\n        B[k] = 1",
        simplify,
    ),
    "an assumption": ("A[3] = 0\nfor k in [0, 5):\n    assume k >= 0 or A[3] < 0\n    B[k] = 1", simplify),
    "a part behind one that is dropped": (
        "for k in [0, 5):\n    if k != 0 and 6 // k == 6:\n        A[k] = 5",
        remove_branching_through_overcompute,
    ),
}


@pytest.mark.parametrize("what", UNREACHED)
def test_an_element_is_known_where_it_is_read(what: str) -> None:
    body, step = UNREACHED[what]
    f = nest(body)
    check(f, step(f))


def test_an_element_that_is_read_in_one_branch_decides_there() -> None:
    f = nest("A[3] = 0\nfor k in [0, 5):\n    B[k] = select(k < 3, select(A[3] == 0, 1, 2), 3)")
    assert "select(2 >= k, 1, 3)" in str(simplify(f))
    assert "if" not in str(simplify(nest("A[3] = 0\nfor k in [0, 5):\n    if k < 9 and A[3] == 0:\n        B[k] = 1")))


def test_an_assumption_is_refused_only_where_it_is_reached_and_false() -> None:
    f = nest("A[3] = 0\nfor k in [0, 5):\n    assume k != 2 or A[3] < 0\n    B[k] = 1")
    assert str(remove_no_op(f)) == str(f)  # it may hold in other iterations
    with pytest.raises(InputError, match="is false wherever it is reached"):
        remove_no_op(nest("A[3] = 0\nfor k in [0, 5):\n    assume k > 7 or A[3] < 0\n    B[k] = 1"))


def test_fused_loops_do_not_capture_a_variable_of_the_second() -> None:
    f = nest("for i in [0, 4):\n    A[i] = i\nfor j in [0, 4):\n    for k in [0, 5):\n        M[j, k] = j + k * 2")
    first, second = f.body.stmts if isinstance(f.body, Seq) else ()
    assert isinstance(first, For) and isinstance(second, For) and isinstance(second.body, For)
    inner = second.body
    shared = replace(inner, var=first.var, body=substitute(inner.body, {inner.var: first.var}))
    f = f.with_body(Seq((first, replace(second, body=shared))))
    g = merge_adjacent_loops(f)
    assert sum(isinstance(stmt, For) for stmt in statements(g.body)) == 2
    check(f, g)


# -- ends of loops that read data ---------------------------------------------------------------------------------

DATA_ENDS: dict[str, tuple[str, Pass]] = {
    "a guard": ("for i in [0, A[0]):\n    A[0] = 1\n    if i < A[0]:\n        B[i] = 7", simplify),
    "one iteration": ("for i in [A[0], A[0] + 1):\n    A[0] = 2\n    B[1] = i", simplify),
    "one iteration for C": (
        "for i in [A[0], A[0] + 1):\n    A[0] = 2\n    B[1] = select(i < 4, i, 0)",
        partition_loops,
    ),
    "pieces": ("for i in [0, A[0]):\n    A[0] = 2\n    if i < 2:\n        B[i] = 7", partition_loops),
    "two loops": (
        "for i in [0, A[0]):\n    A[0] = 1\n    for j in [A[0], 5):\n        if j > i:\n            B[j] = B[j] + 1",
        partition_loops,
    ),
    "an end that may change, beside one that does not": (
        "for i in [0, minimum(A[0], 4)):\n    A[0] = 9\n    if i < 4:\n        B[i] = A[0]",
        simplify,
    ),
}


@pytest.mark.parametrize("what", DATA_ENDS)
def test_ends_that_read_data_say_nothing_after_a_store(what: str) -> None:
    body, step = DATA_ENDS[what]
    f = nest(body)
    check(f, step(f))


def test_what_an_end_says_beside_data_is_kept() -> None:
    f = nest(DATA_ENDS["an end that may change, beside one that does not"][0])
    assert "if" not in str(simplify(f))


def test_a_loop_over_data_is_not_taken_apart_where_a_part_changes_them() -> None:
    f = nest("for i in [0, A[0]):\n    A[0] = 2\n    for j in [0, 2):\n        B[j] = 3")
    with pytest.raises(LayoutError, match="the range of a loop reads A"):
        sequential_buffer_access(f, "B")


def test_a_loop_over_data_that_change_is_not_brought_in_order() -> None:
    f = nest("G[0] = 1\nfor i in [0, minimum(G[0], 4)):\n    A[i] = 2")
    with pytest.raises(LayoutError, match="depends on data that change"):
        sequential_buffer_access(f, "A")


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
    f = nest(body)
    report: list[Entry] = []
    try:
        g = sequential_buffer_access(f, "M", report=report)
    except LayoutError as error:
        reason = str(error)
    else:
        check(f, g)
        reason = report[-1].reason
    assert "in some iterations only" in reason


# -- assumptions marked as proved ---------------------------------------------------------------------------------

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
    f = nest(body)
    assert ('"proved"' in str(f)) is CLAIMS[body]
    assert str(parse_nest(str(f))) == str(f)
    marked = body.count('"proved"') * CLAIMS[body]
    assert str(f).count('"proved"') == marked
    claims = [stmt.proved for stmt in statements(f.body) if isinstance(stmt, Assume)]
    assert sum(claims) == marked
    stays = "T[2]" in body  # a permission to read local storage stays
    if not stays:
        assert len(remove_assume(f).requires) == body.count("assume") - marked


def test_a_claim_made_by_hand_is_checked_where_it_would_be_dropped() -> None:
    f = nest("assume A[0] == 3\nB[0] = A[0]")
    assert isinstance(f.body, Seq)
    first, *rest = f.body.stmts
    assert isinstance(first, Assume)
    forged = f.with_body(Seq((replace(first, proved=True), *rest)))
    assert len(remove_assume(forged).requires) == 1 and str(forged) == str(f)


def test_what_follows_from_stores_is_marked_and_stays_so() -> None:
    f = nest("allocate T: int32[4]\nfor i in [0, 4):\n    T[i] = i * 2\nfor i in [0, 4):\n    B[i] = T[i]")
    for value, said in ((lambda i: i * 2, "T[t0] == t0 * 2"), (undef(), "T[t0] == undef()")):
        g = add_constraint(f, "T", lambda i: i >= 0, value)
        assert f'assume {said}, "proved"' in str(g) and str(parse_nest(str(g))) == str(g)
        assert not remove_assume(g).requires


def test_a_claim_that_is_refuted_is_not_marked() -> None:
    assert '"proved"' not in str(nest('A[0] = 2\nassume A[0] == 3, "proved"'))
