"""Sums of two terms with sizes in coefficients and in ranges: exact and tight are held against enumeration at sizes.

Every pair of coefficients over every kind of range: such sums are called gap-free, and their ends attained, by
structure, and most of them only almost are.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from intset import Context, Range, ShapeVar, Var, const, evaluate, minimum
from intset.expr.compiled import compiled
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
    found += [i * n + j + (i + j) // n, n // (i * i + 1)]
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


def _inside(ranges: dict[Var, Range]) -> Cond:
    found: Cond = n >= 1
    for var, limits in ranges.items():
        found &= (var >= limits.min) & (var <= limits.max)
    return found
