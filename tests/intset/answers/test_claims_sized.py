"""Sums of two terms with sizes in coefficients and in ranges: exact and tight are held against enumeration at sizes.

Every pair of coefficients over every kind of range: such sums are called gap-free, and their ends attained, by
structure, and most of them only almost are.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from intset import Context, Range, ShapeVar, Var, const, evaluate, minimum, truncmod
from intset.expr.evaluate import compiled
from intset.expr.node import Cond, Expr
from intset.infinity import NEG_INF, POS_INF

pytestmark = pytest.mark.usefixtures("asked_anew")
i, j, x = Var("i"), Var("j"), Var("x")
n, m = ShapeVar("n", lower=1, upper=7), ShapeVar("m", lower=1, upper=7)
SIZES = ((1, 1), (1, 3), (2, 2), (4, 2), (3, 4))

RANGES: tuple[Callable[[], dict[Var, Range]], ...] = (
    lambda: {i: Range(0, n), j: Range(0, m)},
    lambda: {i: Range(0, n), j: Range(0, i + 1)},
    lambda: {j: Range(0, n), i: Range(j, m)},
    lambda: {i: Range(m, n), j: Range(-n, n)},
    lambda: {i: Range(0, n + 1), j: Range(0, m * 2)},
    lambda: {i: Range(2 - m, m), j: Range(0, minimum(n, m))},
    lambda: {i: Range(1, 2), j: Range(1 - n, n - i)},
    lambda: {j: Range(0, 2), i: Range(3, n)},
    lambda: {i: Range(0, n), j: Range(i * 5, 2)},
)
COEFFICIENTS: tuple[Expr, ...] = (*map(const, (1, -1, 2, 3)), n, -m, m + 1, n - 1, n * 2, n * m, m - n, 3 - n)


def sums() -> list[Expr]:
    found = [i * a + j * b for a, b in itertools.product(COEFFICIENTS, repeat=2)]
    found += [i * j, i * j + n, i * j + m, i + j + n, i * j - n, i * (i // 2) + n, i * (j % 2) + m, i * i * n + j]
    found += [(i + j) // n, (i * m + j) % m + n, i // n * m + j, minimum(i, j) * n + i, (n + i) // m + j * 2]
    found += [i * n + j + (i + j) // n, n // (i * i + 1), (i + n) // 2, (j * 2 + n) % 3 + i * 3, (j + n) // 2]
    return found


@pytest.mark.parametrize("which", range(len(RANGES)))
def test_sums(which: int) -> None:
    tally: Counter[str] = Counter()
    ranges = RANGES[which]()
    ctx = Context(ranges)
    points: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    variables = (n, m, *ranges)
    inside = compiled(_inside(ranges), variables)
    for a, b in SIZES:
        window = itertools.product((a,), (b,), range(-6, 10), range(-6, 18))
        points[a, b] = [point for point in window if inside(*point)]
    for number, e in enumerate(sums()):
        if (number + which) % 4 and number < len(COEFFICIENTS) ** 2:
            continue
        bounds, found = ctx.bounds(e), ctx.value_set(e)
        tally["tight"] += bounds.is_tight
        tally["exact"] += found.is_exact
        is_element, value = compiled(found.condition(x), (x, n, m)), compiled(e, variables)
        for (a, b), there in points.items():
            truth, at = {value(*point) for point in there}, {n: a, m: b}
            if not truth:
                continue
            for ends, tight in ((bounds, bounds.is_tight), (found.ends(), found.is_tight)):
                low, high = (evaluate(end, at) if isinstance(end, Expr) else end for end in ends)
                assert low is NEG_INF or low <= min(truth), (e, ranges, at, ends)
                assert high is POS_INF or high >= max(truth), (e, ranges, at, ends)
                assert not tight or (low, high) == (min(truth), max(truth)), (e, ranges, at, ends)
            taken = {v for v in range(min(truth) - 2, max(truth) + 3) if is_element(v, a, b)}
            assert truth <= taken and (taken == truth or not found.is_exact), (e, ranges, at, found, truth)
    assert tally["tight"] > 2 and tally["exact"] > 2, tally


def test_nested_steps_beside_a_size() -> None:
    """Membership conditions of nested strides that touch, overlap or leave gaps."""
    k = Var("k")
    for extents, (a, b, c) in itertools.product(
        ((2, 2, 2), (3, 2, 4)), itertools.product((1, 2), (3, 4, 5), (4, 7, 10, -6))
    ):
        ctx = Context(dict(zip((i, j, k), (Range(0, extent) for extent in extents), strict=True)))
        found = ctx.value_set(i * a + j * b + k * c + n)
        is_element = compiled(found.condition(x), (x, n))
        sums = {a * p + b * q + c * r for p, q, r in itertools.product(*map(range, extents))}
        for size in (1, 4):
            taken = {v for v in range(-25, 45) if is_element(v, size)}
            truth = {value + size for value in sums}
            assert truth <= taken and (taken == truth or not found.is_exact), (extents, a, b, c, found)


def test_remainders_by_what_has_no_sign_and_shifts() -> None:
    """Bounds from one operand; facts and additional terms invalidate some of them."""
    lower, whole, y = ShapeVar("lower", lower=-8), ShapeVar("whole", lower=None), ShapeVar("y", upper=3)
    tight = 0
    for facts in ((), ((x % 2).eq(0),), (x * x >= 9,), (i >= 1,)):
        ctx = Context({x: Range.everything(), i: Range(0, 3)}, assume=facts)
        held = [compiled(fact, (x, i)) for fact in facts]
        points = [at for at in itertools.product(range(-24, 25), range(3)) if all(hold(*at) for hold in held)]
        for size, values in ((lower, (-4, -1, 3, 4)), (whole, (-3, 2, 4)), (n, (1, 2, 4)), (y, (0, 2))):
            asked = (i << size, (i + 1) * size, i * size) if size is y else (i * size, (i - 1) * size)
            asked = asked if size is y else (*asked, x % size, truncmod(x, size), (x * 2) % size, (i + 2) % size)
            for e in asked:
                bounds, value = ctx.bounds(e), compiled(e, (size, x, i))
                tight += bounds.is_tight
                for at in values:
                    truth = {value(at, *point) for point in points}
                    low, high = (evaluate(end, {size: at}) if isinstance(end, Expr) else end for end in bounds)
                    assert low is NEG_INF or low <= min(truth), (facts, e, at, bounds)
                    assert high is POS_INF or high >= max(truth), (facts, e, at, bounds)
                    assert not bounds.is_tight or (low, high) == (min(truth), max(truth)), (facts, e, at, bounds)
    assert tight > 12


def test_values_of_sizes_that_a_fact_excludes() -> None:
    """Constraints among sizes survive substitution of one size."""
    for fact, at, there in (((n + m).eq(2), {n: 1}, {1}), ((n - m).ne(1), {n: 3}, {1, 3, 4}), (n <= m, {m: 2}, {1, 2})):
        left = Context({i: Range(0, 4)}, assume=[fact]).value_set(i).at(at)
        (other,) = {n, m} - set(at)
        assert {value for value in range(1, 5) if not left.at({other: value}).is_empty} == there, fact


def _inside(ranges: dict[Var, Range]) -> Cond:
    found: Cond = n >= 1
    for var, limits in ranges.items():
        found &= (var >= limits.min) & (var <= limits.max)
    return found
