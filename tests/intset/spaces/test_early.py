"""What conditions demand of candidates before all their names have values, against all completions."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from intset import Cond, Expr, Var, evaluate, logical_and, logical_not, logical_or, maximum, minimum, select
from intset.expr.range import Range
from intset.frame import Frame
from intset.spaces.vectors import _deciding, necessary, shortened, term_values, to_numpy

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


def combined(draw: random.Random) -> Cond:
    """Comparisons under `and`, `or` and `not`, of which some are over bound names alone."""
    conditions = [condition(draw) for _ in range(draw.randint(1, 3))]
    while len(conditions) > 1:
        pair = conditions.pop(), conditions.pop()
        conditions.append(draw.choice((logical_and, logical_or))(*pair))
        if draw.random() < 0.4:
            conditions[-1] = logical_not(conditions[-1])
    return conditions[0]


GRID = [np.array(column) for column in zip(*itertools.product(range(-6, 7), range(4), range(-2, 3)), strict=True)]
COLUMNS = dict(zip((X, Y, Z), GRID, strict=True))
NEAR = ENDS | {X: (-6, 6)}


@pytest.mark.parametrize("bound", [{X, Y}, {X}, {Y, Z}, {Z}], ids=lambda bound: "".join(sorted(map(str, bound))))
def test_a_candidate_is_rejected_only_where_nothing_completes_it(bound: set[Var]) -> None:
    known = Frame.of({var: Range(low, high - low + 1) for var, (low, high) in NEAR.items()}).known
    rejected = sharp = 0
    for seed in range(40):
        cond = combined(random.Random(seed))
        early = necessary(known, cond, bound)
        assert {*early.free_vars()} <= bound
        holds, kept = to_numpy(cond, NEAR)(COLUMNS), np.broadcast_to(to_numpy(early, NEAR)(COLUMNS), GRID[0].shape)
        candidates = list(zip(*(COLUMNS[var].tolist() for var in sorted(bound, key=str)), strict=True))
        completed = {one for one, is_member in zip(candidates, holds.tolist(), strict=True) if is_member}
        left = {one for one, is_kept in zip(candidates, kept.tolist(), strict=True) if is_kept}
        assert completed <= left, (seed, cond, early)
        rejected += left < {*candidates}
        sharp += completed == left < {*candidates}
    assert rejected >= 12 and sharp >= 8


@pytest.mark.parametrize(
    "cond", [X + Z < Y, X - Z <= Y, X + Z * 2 > Y, X >= Y - Z, (X + Z).eq(Y), ~(X < Y + Z)], ids=str
)
def test_of_one_comparison_nothing_is_left_that_nothing_completes(cond: Cond) -> None:
    known = Frame.of({var: Range(low, high - low + 1) for var, (low, high) in NEAR.items()}).known
    early = necessary(known, cond, {X, Y})
    for x, y in itertools.product(range(-6, 7), range(4)):
        completed = any(evaluate(cond, {X: x, Y: y, Z: z}) for z in range(-2, 3))
        assert completed or not evaluate(early, {X: x, Y: y}), (x, y, early)
        assert not completed or evaluate(early, {X: x, Y: y}), (x, y, early)


@pytest.mark.parametrize("bound", [{X, Y}, {X}, {Y, Z}], ids=lambda bound: "".join(sorted(map(str, bound))))
def test_conditions_over_their_largest_bound_parts_say_the_same(bound: set[Var]) -> None:
    merged = 0
    for seed in range(40):
        draw = random.Random(seed)
        conditions = [to_numpy(combined(draw), NEAR) for _ in range(draw.randint(1, 2))]
        ends = dict(NEAR)
        short = shortened(conditions, bound, ends, most=4)
        if short is None:
            continue
        columns = COLUMNS | {var: term_values(term, COLUMNS) for var, term in short.terms.items()}
        merged += any(high - low < 12 for low, high in (ends[var] for var in short.terms))
        for var, term in short.terms.items():
            assert {*term.variables} <= bound and ends[var] == term.ends
            assert ((columns[var] >= ends[var][0]) & (columns[var] <= ends[var][1])).all()
        for before, after in zip(conditions, short.conditions, strict=True):
            assert not {*after.variables} & {v for v in bound if v not in COLUMNS}
            same = np.broadcast_to(before(COLUMNS), GRID[0].shape) == np.broadcast_to(after(columns), GRID[0].shape)
            assert same.all(), (seed, before.node, after.node)
    assert merged >= 3
