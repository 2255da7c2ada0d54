"""Sums whose parts share no variable: their ends are those of the parts, added up."""

import random

import pytest

from intset import Context, Range, ShapeVar, Var, evaluate, maximum, minimum

I, J, N, M = Var("i"), Var("j"), ShapeVar("n"), ShapeVar("m")
PARTS = (
    lambda x: x % 8 + minimum(2, x),
    lambda x: (x & 7) % 3,
    lambda x: x // 3 * 2 + x % 3 * 5,
    lambda x: maximum(x % 5, 3 - x),
    lambda x: x % 5 * (x % 3),
    lambda x: -(x // 2) + x % 2 * 7,
)
SIZES = [(n, m) for n in (1, 2, 4, 7, 16) for m in (1, 3, 8, 12)]


def true_ends(e, n, m, holds=lambda i, j: True):
    points = [(i, j) for i in range(n) for j in range(m) if holds(i, j)]
    values = [int(evaluate(e, {I: i, J: j, N: n, M: m})) for i, j in points]
    return (min(values), max(values)) if values else None


@pytest.mark.parametrize("seed", range(12))
def test_ends_of_a_sum_over_two_sizes_are_attained_where_those_of_its_parts_are(seed):
    r = random.Random(seed)
    own, other = r.choice(PARTS)(I), r.choice(PARTS)(J)
    e = own * r.choice((1, -2)) + other + r.choice((0, N // 4, 3 - M))
    ends = Context({I: Range(0, N), J: Range(0, M)}, assume=[(N % 2).eq(0)]).bounds(e)
    for n, m in SIZES:
        if n % 2 == 0:
            found = tuple(int(evaluate(end, {N: n, M: m})) for end in ends)
            low, high = true_ends(e, n, m)
            assert found[0] <= low and high <= found[1]
            assert not ends.is_tight or found == (low, high)


def test_what_takes_isl_long_together_is_quick_in_parts():
    e = 14 + J % 8 + (I & 7) % 3 + abs(minimum(18, minimum(2, J)))
    ends = Context({I: Range(0, N), J: Range(0, M)}, assume=[(N % 4).eq(0)]).bounds(e)
    assert ends.is_tight and ends.by == "isl" and not ends.notes
    assert [int(evaluate(ends[1], {N: 4, M: m})) for m in (1, 2, 4, 20)] == [
        true_ends(e, 4, m)[1] for m in (1, 2, 4, 20)
    ]


def test_parts_that_a_fact_ties_are_one_question():
    e, fact = I % 5 + J % 7, I + J < M
    ends = Context({I: Range(0, N), J: Range(0, M)}, assume=[fact]).bounds(e)
    for n, m in SIZES:
        low, high = true_ends(e, n, m, lambda i, j, m=m: i + j < m)
        found = [int(evaluate(end, {N: n, M: m})) for end in ends]
        assert found[0] <= low and high <= found[1] and (not ends.is_tight or found == [low, high])


@pytest.mark.parametrize("c", [2, 3, 4, 6])
def test_a_constant_that_moves_out_of_a_remainder_counts_once(c):
    e = I * 2 + (J * 2 + 3) % c
    ends = Context({I: Range(0, N), J: Range(0, M)}).bounds(e)
    assert ends.is_tight
    for n, m in SIZES:
        assert tuple(int(evaluate(end, {N: n, M: m})) for end in ends) == true_ends(e, n, m)
