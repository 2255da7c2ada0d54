"""Images that are no Presburger set, listed: counts, claims and the algebra against sets of Python."""

from __future__ import annotations

import itertools
import pickle
import random
from typing import Any

import pytest

import intset
from intset import Context, Range, Var, evaluate

i, j = Var("i"), Var("j")
EXPRS: list[tuple[Any, Any]] = [
    (i * i, j * j),
    (i * i, i * j),
    (i * i + j, j),
    (i * j % 7, i // (j + 1)),
    (i // (j - 2), i * j),
    ((i - j) * (i - j), i),
]


def _context(height: int, width: int) -> Context:
    return Context({i: Range(-1, height), j: Range(0, width)}, assume=[i + j < height])


def _truth(exprs: tuple[Any, Any], height: int, width: int) -> set[tuple[int, ...]]:
    points = [(x, y) for x in range(-1, height - 1) for y in range(width) if x + y < height]
    found = set()
    for x, y in points:
        try:
            found.add(tuple(evaluate(e, {i: x, j: y}) for e in exprs))
        except intset.EvaluationError:
            continue
    return found


def _held(region: Any, truth: set[tuple[int, ...]]) -> None:
    assert region.is_exact and region.count() == len(truth)
    around = itertools.product(*(range(int(r.min) - 1, int(r.max) + 2) for r in region.box))
    for point in itertools.islice(around, 4000):
        assert (point in region) is (point in truth)
    assert all(point in region for point in truth)
    for k, r in enumerate(region.box):
        values = [point[k] for point in truth]
        assert (int(r.min), int(r.max)) == (min(values), max(values))


@pytest.mark.parametrize("domain", ["auto", "isl"])
@pytest.mark.parametrize("exprs", EXPRS, ids=str)
def test_a_nonlinear_image_is_its_points(exprs: tuple[Any, Any], domain: str) -> None:
    for height, width in ((6, 5), (9, 4), (40, 40)):
        region = _context(height, width).image(exprs, domain=domain)
        truth = _truth(exprs, height, width)
        _held(region, truth)
        assert region.is_tight and not region.params and not region.is_empty
        assert [int(x) for x in region.lexmin()] == list(min(truth))
        assert [int(x) for x in region.lexmax()] == list(max(truth))
        assert region.sample() in truth
        copy = pickle.loads(pickle.dumps(region))
        assert copy.count() == len(truth) and copy.at({Var("n"): 3}).count() == len(truth)


def test_the_algebra_of_lists_and_of_others() -> None:
    rng = random.Random(5)
    for _ in range(12):
        first, second = rng.choice(EXPRS[:3]), rng.choice(EXPRS)
        one, other = (rng.randint(4, 8), rng.randint(3, 6)), (rng.randint(4, 8), rng.randint(3, 6))
        a, b = _context(*one).image(first), _context(*other).image(second)
        left, right = _truth(first, *one), _truth(second, *other)
        affine = _context(*other).image((i + j, i - j))
        shapes = _truth((i + j, i - j), *other)
        for x, y, mine, theirs in ((a, b, left, right), (a, affine, left, shapes), (affine, a, shapes, left)):
            for got, wanted in ((x | y, mine | theirs), (x & y, mine & theirs), (x - y, mine - theirs)):
                assert got.is_exact and got.count() == len(wanted)
                assert all(point in got for point in wanted)
                assert got.is_empty is (not wanted)
            assert (x <= y) is (mine <= theirs)
        assert a.project((1,)).count() == len({y for _, y in left})
        assert a.project((1, 0)).count() == len(left)


def test_the_budget_of_points_is_the_limit() -> None:
    ctx = Context({i: Range(0, 100), j: Range(0, 100)})
    assert ctx.image((i * i, j * j)).count() == 10_000
    assert ctx.image((i * i, j * j)).is_exact
    with intset.using(points=9_999):
        beyond = Context({i: Range(0, 100), j: Range(0, 100)}).image((i * i, j * j))
        assert not beyond.is_exact and beyond.notes
        assert (99 * 99, 98 * 98) in beyond
    n = intset.ShapeVar("n", lower=1)
    assert not Context({i: Range(0, n), j: Range(0, 4)}).image((i * i, j)).is_exact


def test_long_lists_refuse_what_would_be_written_out() -> None:
    region = Context({i: Range(0, 60), j: Range(0, 60)}).image((i * i, j * j))
    box = Context({i: Range(0, 10), j: Range(0, 10)}).image((i, j))
    both = region & box
    assert not both.is_exact or both.count() == 16  # a superset where it cannot be written out
    assert (4, 9) in both
    with pytest.raises(intset.UndecidedError):
        region.condition((i, j))
    assert repr(region)
