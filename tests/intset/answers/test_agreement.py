"""Powers, images and splits, sizes that are fixed before and after a question, ends as numbers, bounds over sizes."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intset import (
    NEG_INF,
    POS_INF,
    Bounds,
    Context,
    Expr,
    InputError,
    Range,
    ShapeVar,
    UndefinedError,
    Var,
    ceildiv,
    const,
    minimum,
    opaque,
)
from intset.expr.build import Opaque
from tests.intset.oracle import Claims
from tests.strategies.contexts import NONLINEAR, Drawn, contexts, world
from tests.sweeps import sampled

i, k, io, ii, jo, ji = (Var(name) for name in ("i", "k", "io", "ii", "jo", "ji"))
n, m = ShapeVar("n", lower=1), ShapeVar("m", lower=1)
RUN = Context({i: Range(0, n)})
POWERS = [
    i * i, i * i // n, (i * i + i) // n, i * i * i - i, i * i // (n + 1) * 2, 3 - i * i, i * i - i * m,
    (i + m) * (i + 1) // m, i * (i + 1) // 2 // n, i * i * m - i * 3,
]  # fmt: skip


@pytest.mark.parametrize("e", POWERS, ids=str)
def test_powers_of_a_variable_have_ends_over_sizes(e: Expr) -> None:
    low, high = ends = Claims(world({i: Range(0, n)}, sizes=[n, m])).bounds(e, None)
    assert RUN.prove(e <= high) and RUN.prove(e >= low) and (ends.is_tight or m in e.free_vars())
    for first in (-2, 1):
        shifted = Claims(world({i: Range(first, n), k: Range(0, i + 3)}, sizes=[n, m]))
        for one in (e, e - i * k, e + k * k):
            shifted.bounds(one, None)


FLAT_RANGE = {i: Range(0, n * m)}


def test_the_exact_image_of_a_split_and_fuse_map() -> None:
    ctx = Context(FLAT_RANGE)
    assert ctx.image((i // m, i % m)).count() == n * m
    assert ctx.value_set(i // m).is_exact and ctx.value_set(i % m).is_exact


TILES = [io * 4 + ii < n, jo * 32 + ji < m]
FLAT = (io * 4 + ii) * m + (jo * 32 + ji)


@pytest.mark.parametrize(
    "ctx",
    [
        Context.from_constraints([io, ii, jo, ji], [ii >= 0, ii < 4, ji >= 0, ji < 32, io >= 0, jo >= 0, *TILES]),
        Context({io: None, ii: Range(0, 4), jo: None, ji: Range(0, 32)}, assume=[io >= 0, jo >= 0, *TILES]),
        Context({io: Range(0, ceildiv(n, 4)), ii: Range(0, 4), jo: None, ji: Range(0, 32)}, assume=[jo >= 0, *TILES]),
    ],
    ids=["from_constraints", "open ends", "one open end"],
)
def test_guards_of_splits_are_ends_of_open_loops(ctx: Context) -> None:
    bounds = ctx.bounds(FLAT)
    assert bounds.is_tight and bounds[0] == 0 and ctx.prove(bounds[1].eq(n * m - 1))  # type: ignore[union-attr]
    assert ctx.bounds(FLAT, over={n: 6, m: 40}).ints() == (0, 239)


def test_a_mapping_fixes_sizes() -> None:
    t = ShapeVar("t", lower=1, upper=64)
    ctx = Context({i: Range(0, n)}, assume=[n <= t * 2])
    assert ctx.bounds(i * 3, over={n: 8}) == (0, 21) == ctx.bounds(i * 3, over={"n": 8, t: 9})
    assert ctx.value_set(i * 3, over={"n": 8}).count() == 8 and ctx.bounds(i * n, over={n: t}) == ctx.bounds(
        i * t, over={n: t}
    )
    for excluded in ({n: 0}, {t: 65}, {n: 8, t: 3}):
        assert ctx.bounds(i * 3, over=excluded).is_empty and ctx.value_set(i, over=excluded).is_empty
    for wrong in ({i: 3}, {"other": 3}, {n: "x"}):
        with pytest.raises(InputError):
            ctx.bounds(i, over=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        ctx.bounds(i, keep=[i], over={i: 3})


@sampled(25, 800, contexts(kinds=NONLINEAR, ranges="box sized", sizes=1, facts=20), shows={"sized"})
def test_sizes_fixed_before_and_after_agree(drawn: Drawn) -> str:
    ctx, (e,) = drawn.ctx, drawn.exprs
    truth: dict[Any, set[int]] = {params: {x for (x,) in taken} for params, taken in drawn.setting.values(e).items()}
    for params, taken in list(truth.items())[:3]:
        bounds = ctx.bounds(e, over=(at := drawn.setting.env(params)))
        assert bounds[0] <= min(taken) and bounds[1] >= max(taken)
        assert not bounds.is_tight or tuple(bounds) == (min(taken), max(taken))
        assert all(x in ctx.value_set(e, over=at) for x in taken)
    return "sized" if drawn.sizes and truth else ""


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


# -- bounds over all allowed sizes; drawn ones are in test_claims_drawn ------------------------------------------------

p, q, u = ShapeVar("n"), ShapeVar("m"), ShapeVar("u", lower=2, upper=128)
a, b = ShapeVar("a", lower=1), ShapeVar("b", lower=1)


@pytest.mark.parametrize(
    ("e", "facts", "ends"),
    [
        (p // (q + 1), [], (0, POS_INF)),
        (a - q % a, [], (1, POS_INF)),
        (u * 4 + 3, [], (11, 515)),
        (p * p - p, [], (0, POS_INF)),
        (p * (p - 1) // 2, [], (0, POS_INF)),
        (p * p - p * 4, [], (-4, POS_INF)),
        (minimum(p, u) - u, [], (-128, 0)),
        (p * q, [p * q <= 4096], (0, 4096)),
        (a * b - a - b, [], (-1, POS_INF)),
        (p // a - p, [], (NEG_INF, 0)),
        (p - p // a * a, [], (0, POS_INF)),
        (ceildiv(p, a) * a - p, [], (0, POS_INF)),
        (p - q, [p.eq(q * 3)], (0, POS_INF)),
        (p % 3, [p.eq(q * 3)], (0, 0)),
        (ShapeVar("q", lower=1, upper=100, multiple_of=8) * 3, [], (24, 288)),
        (ShapeVar("q", lower=-3, upper=9, multiple_of=4) // 3, [], (0, 2)),
        (ShapeVar("q", lower=2, upper=13, multiple_of=4) % 5, [], (2, 4)),
        (p * q - q * p, [], (0, 0)),
    ],
)
def test_ends_of_what_sizes_make(e, facts, ends):
    bounds = Context(assume=facts).bounds(e, over="sizes")
    assert tuple(map(str, bounds)) == tuple(map(str, ends)) and bounds.is_tight
    assert bounds.certificate().check()


def test_kept_variables_stay():
    ctx = Context({i: Range(0, 8)})
    assert str(ctx.bounds(i + u, keep=[i], over="sizes")) == "(i + 2, i + 128)"


@pytest.mark.parametrize(
    ("over", "keep", "message"),
    [
        ([i], (), "over takes sizes, variables without a range, not i"),
        ([p, i], [i], "over and keep both list i"),
        ([p], [p], "over and keep both list n"),
        ("size", (), 'over must be a list of sizes or "sizes", not "size"'),
        ([p + 1], (), None),
        (["n"], (), None),
        (3, (), None),
        ({p}, (), None),
    ],
)
def test_what_over_is_not(over, keep, message):
    with pytest.raises(InputError) as caught:
        Context({i: Range(0, p)}).bounds(i + p, keep=keep, over=over)
    assert "\n" not in str(caught.value)
    assert message is None or str(caught.value).replace("'", '"') == message
