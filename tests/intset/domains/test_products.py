"""Regions of product domains: no side of a box is looser than the bounds of its coordinate alone."""

from __future__ import annotations

import pytest

from intset import POS_INF, Context, Range, ShapeVar, Var
from intset.expr.evaluate import evaluate
from intset.expr.node import Expr

i, j = Var("i"), Var("j")
n = ShapeVar("n", 1)


@pytest.mark.parametrize("domain", ["interval*isl", "isl*interval", "auto"])
@pytest.mark.parametrize("e", [(n // 2) * i, (n // 3) * (i - 1), i * n - i])
def test_a_side_is_no_looser_than_the_bounds_of_its_coordinate(domain: str, e: Expr) -> None:
    ctx = Context({i: Range(0, n), j: Range(2, 5)}, domain=domain)
    low, high = ctx.bounds(e)
    assert high is not POS_INF
    side = ctx.image((e, j)).box[0]
    assert isinstance(side.extent, Expr) and isinstance(low, Expr) and isinstance(high, Expr)
    last = side.min + side.extent - 1
    for size in range(1, 9):
        values = {n: size}
        assert evaluate(low, values) <= evaluate(side.min, values) and evaluate(last, values) <= evaluate(high, values)
