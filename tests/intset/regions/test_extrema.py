"""Lexicographic extrema, and images that are no Presburger set. Drawn regions are in `test_claims_drawn`."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest

import intset
from intset import Context, Range, Region, ShapeVar, Var, ceildiv, evaluate
from intset.domains.isl.session import isl
from intset.expr.node import Expr
from tests.intset.oracle import Claims
from tests.strategies.contexts import world

b, x, y = Var("b"), Var("x"), Var("y")


def image(extent: Expr | int, scale: int, e: Expr) -> Region:
    return Context({b: Range(0, extent)}).image((b * scale, e))


def test_the_largest_point_of_an_image() -> None:
    region = image(8, 4, ceildiv(b, 4))
    end = region.lexmax()
    assert end is not None and tuple(map(int, end)) == (28, 2) and (28, 2) in region and not region.notes


def test_the_largest_target_of_a_relation() -> None:
    relation = Context({b: Range(0, 8)}).relation((), (b * 4, ceildiv(b, 4)))
    assert relation.lexmax().contains((), (28, 2)) and relation.lexmax().pairs.count() == 1


@pytest.mark.parametrize("scale", [2, 3, 4, 8])
def test_both_ends_of_images(scale: int) -> None:
    for d in (2, 3, 4, 8):
        for e in (ceildiv(b, d), b // d, b % d, -b // d):
            region = image(7, scale, e)
            points = [(scale * k, evaluate(e, {b: k})) for k in range(7)]
            for ask, expected in ((region.lexmin, min(points)), (region.lexmax, max(points))):
                assert tuple(map(int, ask() or ())) == expected, (scale, e)


@pytest.mark.parametrize("scale", [2, 4])
def test_ends_of_symbolic_size(scale: int) -> None:
    n = ShapeVar("n", lower=1, upper=9)
    region = image(n, scale, ceildiv(b, 4))
    end = region.lexmax()
    assert end is not None
    for size in range(1, 10):
        assert [evaluate(e, {n: size}) for e in end] == [scale * (size - 1), -(-(size - 1) // 4)]


def test_constraints_are_ordered_before_isl_is_asked() -> None:
    """No way but the first is needed: else every extremum of such a set is computed twice."""
    from intset.domains.isl.engine import of

    points = of(image(8, 4, ceildiv(b, 4)).shape)
    assert str(isl().ordered(points.shared()).lexmax()) == "{ [28, 2] }"


# -- listed images -----------------------------------------------------------------------------------------------------

i, j = Var("i"), Var("j")
EXPRS: list[tuple[Any, Any]] = [
    (i * i, j * j),
    (i * i, i * j),
    (i * i + j, j),
    (i * j % 7, i // (j + 1)),
    (i // (j - 2), i * j),
    ((i - j) * (i - j), i),
]


def _claims(height: int, width: int) -> Claims:
    return Claims(world({i: Range(-1, height), j: Range(0, width)}, [i + j < height]))


def _truth(claims: Claims, exprs: tuple[Any, Any]) -> set[tuple[int, ...]]:
    return claims.setting.values(*exprs)[()]


@pytest.mark.parametrize("domain", ["auto", "isl"])
@pytest.mark.parametrize("exprs", EXPRS, ids=str)
def test_a_nonlinear_image_is_its_points(exprs: tuple[Any, Any], domain: str) -> None:
    for height, width in ((6, 5), (9, 4), (40, 40)):
        claims = _claims(height, width)
        region, truth = claims.ctx.image(exprs, domain=domain), _truth(claims, exprs)
        assert region.is_exact and region.is_tight and not region.params and region.count() == len(truth)
        if len(truth) < 100:
            claims.region_of(region, {(): truth}, (exprs, domain))
        assert (region.lexmin(), region.lexmax()) == (min(truth), max(truth)) and region.sample() in truth
        assert all(point in region for point in truth) and (-99, -99) not in region
        copy = pickle.loads(pickle.dumps(region))
        assert copy.count() == len(truth) and copy.at({Var("n"): 3}).count() == len(truth)


def test_the_algebra_of_lists_and_of_others() -> None:
    rng = random.Random(5)
    for _ in range(12):
        first, second = rng.choice(EXPRS[:3]), rng.choice(EXPRS)
        one, other = (rng.randint(4, 8), rng.randint(3, 6)), (rng.randint(4, 8), rng.randint(3, 6))
        one_, other_ = _claims(*one), _claims(*other)
        a, b, affine = one_.ctx.image(first), other_.ctx.image(second), other_.ctx.image((i + j, i - j))
        left, right, shapes = _truth(one_, first), _truth(other_, second), _truth(other_, (i + j, i - j))
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
