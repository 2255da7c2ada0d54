"""Relations of axes: loops as functions of roots, and roots as functions of loops, over every point."""

from __future__ import annotations

import itertools
import random

import pytest

from bound import te
from bound.schedule.relations import pass_down_domain, pass_down_index, pass_up_index
from intset import evaluate
from intset.expr.node import as_expr

TAILS = ("guard", "shrink", "shift_inwards", "round_up")


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("seed", range(25))
def test_the_place_of_an_element_holds_that_element(tail: str, seed: int) -> None:
    """Every point of the roots: its loop values lie in the ranges of the loops and lead back to it."""
    rng = random.Random(f"{tail} {seed}")
    n = te.size_var("n")
    extents = [rng.choice([n, 0, 1, 2, 3, 5, 7]) for _ in range(rng.choice([1, 2]))]
    A = te.placeholder(extents, "int32", name="A")
    B = te.compute(extents, lambda *i: A(*i) + 1, name="B")
    stage = te.create_schedule(B.op)[B]
    for _ in range(rng.choice([1, 2, 3])):
        leaves = list(stage.leaf_iter_vars)
        if len(leaves) > 1 and rng.random() < 0.4:
            k = rng.randrange(len(leaves) - 1)
            stage.fuse(leaves[k], leaves[k + 1])
        else:
            stage.split(rng.choice(leaves), tail=tail, **{rng.choice(["factor", "nparts"]): rng.randint(1, 4)})
    roots, leaves = B.op.axis, stage.leaf_iter_vars
    ranges = pass_down_domain(stage.relations, {iv: iv.dom for iv in roots if iv.dom is not None})
    down = pass_down_index(stage.relations, ranges, {iv: iv for iv in roots})
    up = pass_up_index(stage.relations, ranges, {iv: iv for iv in leaves})
    points = 0
    for size in range(5):
        lengths = [size if e is n else e for e in extents]
        for point in itertools.product(*map(range, lengths)):
            at = {n: size, **dict(zip(roots, point, strict=True))}
            places = {iv: evaluate(down[iv], at) for iv in leaves}
            assert [evaluate(up[iv], {n: size, **places}) for iv in roots] == list(point)
            assert all(0 <= x < evaluate(as_expr(ranges[iv].extent), {n: size}) for iv, x in places.items())
            points += 1
    assert points or 0 in extents
