"""What conditions demand of candidates before all their names have values, against all completions."""

from __future__ import annotations

import itertools
import random

import pytest

from intset import Cond, Expr, Var, evaluate, logical_and, logical_or, maximum, minimum, select
from intset.expr.range import Range
from intset.frame import Frame
from intset.spaces.early import _deciding, necessary

X, Y, Z = (Var(name) for name in "xyz")
ENDS = {X: (-20, 20), Y: (0, 3), Z: (-2, 2)}


def expression(draw: random.Random, depth: int) -> Expr:
    if depth == 0:
        return draw.choice((X, X, Y, Z, Y + 1))
    a, b = expression(draw, depth - 1), expression(draw, draw.randint(0, depth - 1))
    if draw.random() < 0.5:
        a, b = b, a
    kind = draw.randrange(8)
    if kind == 7:
        return select(Y < Z, a, b)
    return (a + b, a - b, a * b, -a, minimum(a, b), maximum(a, b), a + draw.randint(-3, 3))[kind]


def condition(draw: random.Random) -> Cond:
    side = draw.choice((draw.randint(-9, 9), Y, Z * 3))
    a = expression(draw, draw.randint(0, 3))
    return draw.choice((a < side, a <= side, a > side, side >= a, a.ne(side), a.eq(side)))


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_values_beyond_those_that_decide_are_as_good_as_the_nearest(first: int) -> None:
    narrower = 0
    for seed in range(first, first + 50):
        draw = random.Random(seed)
        conditions = [condition(draw) for _ in range(draw.randint(1, 2))]
        if draw.random() < 0.5:
            conditions = [draw.choice((logical_and, logical_or))(*conditions, condition(draw))]
        low, high = _deciding(conditions, ENDS).get(X, ENDS[X])
        narrower += (low, high) != ENDS[X]
        for x in range(-20, 21):
            nearest = min(max(x, low), high)
            if nearest == x:
                continue
            for y, z in itertools.product(range(4), range(-2, 3)):
                for cond in conditions:
                    same = evaluate(cond, {X: x, Y: y, Z: z}) == evaluate(cond, {X: nearest, Y: y, Z: z})
                    assert same, (seed, cond, x, nearest)
    assert narrower > 5


def test_a_closed_comparison_bounds_what_follows() -> None:
    known = Frame.of({var: Range(low, high - low + 1) for var, (low, high) in ENDS.items()}).known
    cond = X.ne(0) | (Y * Z > 9)
    early = necessary(known, cond, {X, Y})
    assert not evaluate(early, {X: 0, Y: 3}) and evaluate(early, {X: 1, Y: 3})
