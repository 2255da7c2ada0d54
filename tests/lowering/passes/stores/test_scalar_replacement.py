"""`accumulate` keeps an element in a variable only where nothing else accesses the array meanwhile."""

from __future__ import annotations

import pytest

from lowering import parse_nest
from lowering.passes import accumulate

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
