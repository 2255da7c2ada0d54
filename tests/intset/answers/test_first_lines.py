"""What a user writes first with an answer: ends compared, sorted and made integers, as numbers are."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intset import NEG_INF, POS_INF, Bounds, Context, InputError, Range, ShapeVar, UndefinedError, Var, const, opaque
from intset.expr.build import Opaque

I, N = Var("i"), ShapeVar("n", lower=1)
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge)
EXTENDED = st.one_of(st.integers(-5, 5), st.integers(-(10**30), 10**30), st.sampled_from((NEG_INF, POS_INF)))


def as_float(value):
    return float(value) if value in (NEG_INF, POS_INF) else value


@given(EXTENDED, EXTENDED, st.booleans(), st.booleans())
def test_constants_and_infinities_compare_as_numbers(a, b, wrap_a, wrap_b):
    left = const(a) if wrap_a and isinstance(a, int) else a
    right = const(b) if wrap_b and isinstance(b, int) else b
    for compare in COMPARISONS:
        assert bool(compare(left, right)) is compare(as_float(a), as_float(b))
    assert bool(left == right) is (as_float(a) == as_float(b))


@given(st.lists(EXTENDED, min_size=1, max_size=6))
def test_ends_are_sorted_and_have_a_largest(values):
    ends = [const(v) if isinstance(v, int) else v for v in values]
    expected = sorted(values, key=as_float)
    assert [v if v in (NEG_INF, POS_INF) else int(v) for v in sorted(ends)] == expected
    assert as_float(max(values, key=as_float)) == max(float(v) if v in (NEG_INF, POS_INF) else int(v) for v in ends)


def test_the_ends_of_an_answer_are_such_numbers():
    lo, hi = Context({I: Range(2, 6)}).bounds(I * 3 - 10)
    assert lo >= -4 and hi <= 11 and lo < hi and not lo > hi
    assert max(lo, hi) is hi and min(lo, hi, 0) is lo and sorted((hi, 0, lo)) == [lo, 0, hi]
    assert -5 < lo <= hi < 100 and lo == -4 and lo != 4
    assert list(range(int(lo), int(hi) + 1)) == list(range(lo, hi + 1)) == list(range(-4, 12))
    assert bool((lo >= -4) & (hi < 12) | (lo > hi)) and not bool(~(lo >= -4))
    lo, hi = Context({I: Range(0, POS_INF)}).bounds(I)
    assert lo >= 0 and hi > 10**9 and max(lo, hi) is POS_INF and sorted((hi, lo)) == [lo, hi]


def test_what_is_not_constant_has_no_truth_value():
    table = Opaque("table", rank=1)
    for cond in (I < 3, N >= 1, const(3) < N, (const(1) < 2) & (I < 3), table[0] > 2, opaque("t", 0, 5) >= 0):
        with pytest.raises(InputError, match="truth value"):
            bool(cond)
    with pytest.raises(UndefinedError):
        bool(const(1) // (const(2) - 2) < 3)
    for other in ("3", None, [1]):
        for compare in COMPARISONS:
            with pytest.raises(TypeError):
                compare(POS_INF, other)


def test_ints_are_two_ints_or_name_the_end():
    assert Context({I: Range(2, 6)}).bounds(I).ints() == (2, 7)
    assert all(type(end) is int for end in Context({I: Range(2, 6)}).bounds(I).ints())
    assert Bounds(-const(3), const(2) + 2, True).ints() == (-3, 4)
    symbolic = Context({I: Range(0, N)})
    for bounds, words in (
        (symbolic.bounds(I), "upper end n - 1 depends on n"),
        (symbolic.bounds(-I), "lower end .* depends on n"),
        (Context({I: Range(0, POS_INF)}).bounds(I), "upper end is POS_INF"),
        (Context({I: Range(0, POS_INF)}).bounds(-I), "lower end is NEG_INF"),
        (Context({I: Range(0, 0)}).bounds(I), "empty"),
    ):
        with pytest.raises(InputError, match=words):
            bounds.ints()
