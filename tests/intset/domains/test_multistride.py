"""Multi-stride sets against enumeration of the boxes they are made from."""

from __future__ import annotations

import random
import time
from itertools import pairwise, product

import pytest

from intset.arithmetic import multistride, strided
from intset.arithmetic.multistride import BOTTOM, MultiStride, StrideTerm, make
from tests.intset.domains.elements import contains


def gamma(base: int, terms: tuple[StrideTerm, ...] | list[StrideTerm]) -> set[int]:
    return {base + sum(t) for t in product(*([s * t for t in range(e)] for s, e in terms))}


def small_sets() -> list[tuple[MultiStride, set[int]]]:
    """Every two-term set with small strides, and random ones with up to four terms."""
    rng = random.Random(11)
    spaces: list[tuple[int, list[StrideTerm]]] = [
        (base, [(s, e), (t, f)])
        for base in (-3, 0)
        for s, t in product((1, 2, 3, 4, 6), (-4, 0, 2, 3, 5, 8, 12))
        for e, f in product((1, 2, 3, 4), (2, 3, 6))
    ]
    for _ in range(2400):
        strides = rng.sample((1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 32, 48, 80, 120, -1, -4, 0), rng.randint(0, 4))
        spaces.append((rng.randint(-30, 30), [(s, rng.choice((1, 2, 2, 3, 4, 5))) for s in strides]))
    return [(make(base, terms), gamma(base, terms)) for base, terms in spaces]


SETS = small_sets()


def test_make_keeps_the_set_and_is_normal() -> None:
    for a, points in SETS:
        base, terms = a
        assert gamma(base, terms) == points
        assert make(base, terms) == a and make(base, terms[::-1]) == a
        strides = [s for s, _ in terms]
        assert strides == sorted(set(strides)) and all(s > 0 and e >= 2 for s, e in terms)
        assert not any(t % s == 0 and t // s <= e for (s, e), (t, _) in product(terms, terms) if s < t)


def test_make() -> None:
    assert make(5) == (5, ()) == make(5, [(3, 1), (0, 7)])
    assert make(0, [(2, 3), (2, 4)]) == (0, ((2, 6),))
    assert make(0, [(-2, 4), (8, 3)]) == (-6, ((2, 12),))  # contiguous runs
    assert make(0, [(1, 3), (100, 2), (3, 2)]) == (0, ((1, 6), (100, 2)))
    assert make(0, [(1, 8), (8, 4), (64, 4)]) == (0, ((1, 32), (64, 4)))
    assert make(0, [(1, 8), (9, 4)]) == (0, ((1, 8), (9, 4)))
    assert make(0, [(1, 2), (5, 0)]) == make(0, [(1, -3)]) == BOTTOM


def test_shape() -> None:
    for a, points in SETS:
        assert (multistride.lowest(a), multistride.highest(a)) == (min(points), max(points))
        around = multistride.enclosing(a)
        assert all(contains(around, x) for x in points) and around == strided.make(*(around or ()))
        assert around is not None and (len(a[1]) > 1) == (strided.count(around) != len(points))


def test_elements() -> None:
    for a, points in SETS:
        assert multistride.count(a) == len(points), a
        for x in range(min(points) - 3, max(points) + 4):
            assert multistride.contains(a, x) == (x in points), (a, x)


def test_products() -> None:
    for a, xs in SETS[:840]:
        for c in (-5, -1, 0, 3):
            assert gamma(*multistride.scale(a, c)) == {c * x for x in xs}


DIVISORS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, -1, -3, -4, -8)


def test_divisions_are_exact_or_refused() -> None:
    answered = cases = 0
    for a, points in SETS:
        for c in DIVISORS:
            quotient, remainder = multistride.floordiv(a, c), multistride.floormod(a, c)
            assert quotient is None or gamma(*quotient) == {x // c for x in points}, (a, c, quotient)
            assert remainder is None or gamma(*remainder) == {x % c for x in points}, (a, c, remainder)
            answered += (quotient is not None) + (remainder is not None)
            cases += 2
    assert cases == len(SETS) * len(DIVISORS) * 2
    assert answered > 0.85 * cases


@pytest.mark.parametrize("c", [1, 2, 3, 5, 8, -3])
def test_a_single_run_is_never_refused_its_progression(c: int) -> None:
    """One stride: the answer is there exactly when the image is a progression (or two)."""
    for base, s, e in product(range(-4, 5), range(1, 10), range(2, 9)):
        a, points = make(base, [(s, e)]), gamma(base, [(s, e)])
        for answer, image in (
            (multistride.floordiv(a, c), sorted({x // c for x in points})),
            (multistride.floormod(a, c), sorted({x % c for x in points})),
        ):
            assert answer is not None or len({y - x for x, y in pairwise(image)}) > 1, (a, c)


def test_tiles() -> None:
    tile = make(3, [(64, 10), (1, 8), (1024, 5)])
    assert tile == (3, ((1, 8), (64, 10), (1024, 5)))
    assert multistride.floordiv(tile, 64) == (0, ((1, 10), (16, 5)))
    assert multistride.floormod(tile, 64) == (3, ((1, 8),))
    assert multistride.floormod(tile, 1024) == (3, ((1, 8), (64, 10)))
    assert multistride.floordiv(make(0, [(12, 9), (1, 4)]), 4) == (0, ((3, 9),))
    assert multistride.floordiv(make(0, [(12, 8), (1, 4)]), 8) == (0, ((1, 2), (3, 4)))  # (3*i) // 2
    assert multistride.floormod(make(7, [(3, 16), (16, 9)]), 16) == (0, ((1, 16),))
    assert multistride.floordiv(make(0, [(1, 10), (7, 10)]), 0) == BOTTOM == multistride.floormod(tile, 0)


def test_large_sets_cost_nothing() -> None:
    start = time.perf_counter()
    big = make(1 << 90, [(1, 1 << 20), (1 << 30, 1 << 20), (1 << 60, 1 << 25)])
    assert multistride.count(big) == 1 << 65
    assert multistride.contains(big, (1 << 90) + (5 << 60) + (7 << 30) + 9)
    assert not multistride.contains(big, (1 << 90) + (5 << 60) + (7 << 30) + (1 << 20))
    two = make(0, [(10**20 + 39, 10**30), (10**20 + 129, 10**30)])  # two terms: no search, though they overlap
    collisions = (10**30 - 10**20 - 39) * (10**30 - 10**20 - 129)
    assert multistride.count(two) == 10**60 - collisions
    assert multistride.contains(two, 77 * (10**20 + 39) + 10**25 * (10**20 + 129))
    assert multistride.contains(two, 10**20 + 40) is False
    assert multistride.floordiv(big, 1 << 30) == (1 << 60, ((1, 1 << 20), (1 << 30, 1 << 25)))
    assert time.perf_counter() - start < 20


def test_budgets_end_in_none() -> None:
    loose = make(0, [(10**12 + 39, 50), (10**12 + 61, 50), (10**12 + 63, 50), (10**12 + 91, 50)])
    assert multistride.count(loose) is None
    assert multistride.contains(loose, 60 * 10**12 + 1, steps=5) is None
    assert multistride.contains(loose, sum((10**12 + p) * t for p, t in ((39, 3), (61, 49), (63, 7), (91, 20)))) is True
