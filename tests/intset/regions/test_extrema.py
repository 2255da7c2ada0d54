"""Lexicographic extrema of regions and relations: regressions. Drawn ones are in `test_claims_drawn`."""

from __future__ import annotations

import pytest

from intset import Context, Range, Region, ShapeVar, Var, ceildiv, evaluate
from intset.domains.isl.session import isl
from intset.expr.node import Expr

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
    from intset.domains.isl.shape import of

    points = of(image(8, 4, ceildiv(b, 4)).shape)
    assert str(isl().ordered(points.shared()).lexmax()) == "{ [28, 2] }"
