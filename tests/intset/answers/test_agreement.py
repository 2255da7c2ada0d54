"""What one question knows, all know: answers about one context, compared; what a user writes first with them."""

from __future__ import annotations

import itertools
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
    evaluate,
    opaque,
)
from intset.expr.build import Opaque
from intset.expr.node import as_expr
from tests.strategies.contexts import NONLINEAR, Drawn, contexts
from tests.sweeps import sampled

i, j, k, io, ii, jo, ji = (Var(name) for name in ("i", "j", "k", "io", "ii", "jo", "ji"))
n, m = ShapeVar("n", lower=1), ShapeVar("m", lower=1)
RUN = Context({i: Range(0, n)})
POWERS = [
    i * i, i * i // n, (i * i + i) // n, i * i * i - i, i * i // (n + 1) * 2, 3 - i * i, i * i - i * m,
    (i + m) * (i + 1) // m, i * (i + 1) // 2 // n, i * i * m - i * 3,
]  # fmt: skip


@pytest.mark.parametrize("e", POWERS, ids=str)
def test_powers_of_a_variable_have_ends_over_sizes(e: Expr) -> None:
    bounds = RUN.bounds(e)
    assert RUN.prove(e <= bounds[1]) and RUN.prove(e >= bounds[0])
    for size, other in itertools.product(range(1, 7), range(1, 5)):
        at = {n: size, m: other}
        taken = {evaluate(e, {**at, i: x}) for x in range(size)}
        low, high = (evaluate(end, at) for end in bounds)  # type: ignore[arg-type]
        assert (low, high) == (min(taken), max(taken)) if bounds.is_tight else low <= min(taken) and high >= max(taken)
    assert bounds.is_tight or m in e.free_vars()


def test_a_quotient_beside_its_terms_is_read_as_one() -> None:
    for e, last in (((n - 1 - i) * i // n, None), ((i * i - i) // n - i, 0), (i + i * i // n, None)):
        low, high = RUN.bounds(e)
        assert RUN.prove(e >= low) and RUN.prove(e <= high) and (last is None or high == last)
        for size in range(1, 9):
            taken = {evaluate(e, {n: size, i: x}) for x in range(size)}
            assert evaluate(as_expr(low), {n: size}) <= min(taken) and evaluate(as_expr(high), {n: size}) >= max(taken)
    assert RUN.bounds((n - 1 - i) * i // n)[0] == 0


@pytest.mark.parametrize("e", POWERS, ids=str)
@pytest.mark.parametrize("first", [-2, 1])
def test_powers_over_shifted_ranges_are_sound(e: Expr, first: int) -> None:
    ctx = Context({i: Range(first, n), k: Range(0, i + 3)})
    for one in (e, e - i * k, e + k * k):
        bounds = ctx.bounds(one)
        for size, other in itertools.product(range(1, 5), range(1, 4)):
            at = {n: size, m: other}
            points = [{**at, i: x, k: y} for x in range(first, first + size) for y in range(x + 3)]
            taken = {evaluate(one, point) for point in points}
            low, high = (end if not isinstance(end, Expr) else evaluate(end, at) for end in bounds)
            assert low <= min(taken) and high >= max(taken)
            assert not bounds.is_tight or (low, high) == (min(taken), max(taken))


@pytest.mark.parametrize(
    ("exprs", "ctx"),
    [
        ((i // m, i % m), Context({i: Range(0, n * m)})),
        ((i % m, i // m + 2), Context({i: Range(0, n * m), j: Range(0, 3)})),
        ((i // m,), Context({i: Range(0, n * m)})),
        ((i // m, j), Context({i: Range(0, n * m), j: Range(0, m)})),
        ((i // n, i % n, k), Context({i: Range(0, n * m), k: Range(1, 2)})),
        ((i // m, i % n), Context({i: Range(0, n * m)})),
        ((i // m, i % m), Context({i: Range(0, n * m)}, assume=[n >= 2])),
        ((i // m, i % m), Context({i: Range(0, n * m)}, assume=[i % 2 < 1])),
        ((i // m, i % m), Context({i: Range(1, n * m)})),
    ],
    ids=str,
)
def test_an_image_knows_what_its_map_knows(exprs: tuple[Expr, ...], ctx: Context) -> None:
    image, index = ctx.image(exprs), ctx.as_iter_map(exprs)
    if index.surjective.status == "proved" and index.found:
        assert image.is_exact and image.box == index.ranges
    variables = list(ctx.ranges)
    for at in ({n: a, m: b} for a, b in itertools.product(range(1, 4), repeat=2)):
        spans = [[int(evaluate(end, at)) for end in (r.min, r.extent)] for r in ctx.ranges.values()]  # type: ignore[arg-type]
        rows = [
            dict(zip(variables, row, strict=True)) for row in itertools.product(*(range(a, a + b) for a, b in spans))
        ]
        rows = [{**row, **at} for row in rows if all(evaluate(f.condition, {**row, **at}) for f in ctx.facts)]
        taken = {tuple(evaluate(e, row) for e in exprs) for row in rows}
        if image.is_exact:
            number = image.at(at).count()
            assert number == len(taken) and (not taken or evaluate(as_expr(image.count()), at) == number)


def test_the_exact_image_of_a_split_and_fuse_map() -> None:
    assert Context({i: Range(0, n * m)}).image((i // m, i % m)).count() == n * m
    assert Context({i: Range(0, n * m)}).value_set(i // m).is_exact
    assert Context({i: Range(0, n * m)}).value_set(i % m).is_exact


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


def test_open_loops_with_gaps_are_not_coalesced() -> None:
    gaps = Context.from_constraints([io, ii], [ii >= 0, ii < 3, io >= 0, io * 4 + ii < n])
    for e in (io * 4 + ii, (io * 4 + ii) * m):
        bounds, at = gaps.bounds(e), {n: 4, m: 5}
        high = evaluate(bounds[1], at) if isinstance(bounds[1], Expr) else bounds[1]
        assert high >= 2 * (5 if m in e.free_vars() else 1)
        assert not bounds.is_tight or high == 2 * (5 if m in e.free_vars() else 1)


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
        at = drawn.setting.env(params)
        low, high = ctx.bounds(e, over=at)
        assert low <= min(taken) and high >= max(taken)
        assert not ctx.bounds(e, over=at).is_tight or (low, high) == (min(taken), max(taken))
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
