"""Spaces against the enumeration of every candidate: early conditions, and expressions as functions of arrays."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from intset import (
    Cond,
    Space,
    Var,
    ceildiv,
    evaluate,
    logical_and,
    logical_not,
    logical_or,
    select,
)
from intset.errors import EvaluationError, InputError, UndefinedError
from intset.expr.build import NumericFunction, Opaque
from intset.expr.range import Range
from intset.frame import Frame
from intset.spaces.vectors import _deciding, ends_of, necessary, shortened, term_values, to_numpy
from tests.strategies.contexts import Expressions
from tests.sweeps import daily

Point = tuple[Any, ...]


class Drawn:
    """A random space, with its members by brute force."""

    def __init__(self, seed: int, most: int = 8, room: int = 3000) -> None:
        self.random = random.Random(seed)
        draw = self.random
        self.names = [Var(name) for name in "abcdefgh"[: draw.randint(1, most)]]
        self.values: dict[Var, list[int]] = {}
        for var in self.names:
            low = draw.choice((0, 1, 1, -3, 7))
            self.values[var] = draw.choice(
                (
                    list(range(low, low + draw.randint(1, 9))),
                    [1, 2, 4, 8, 16][: draw.randint(1, 5)],
                    [draw.randint(-9, 99)],
                )
            )
            draw.shuffle(self.values[var])
        while len(list(itertools.product(*self.values.values()))) > room:
            longest = max(self.values.values(), key=len)
            longest.pop()
        kinds = "sums multiples products quotients divisors choices"
        parts = Expressions(draw, self.names, kinds, constants=(0, 1, 2, -3, 5, 9, 20, 60))
        self.expression, self.condition = parts.integer, parts.condition
        self.where = [self.condition(draw.randint(1, 3)) for _ in range(draw.randint(0, 4))]
        self.space = Space(self.values, self.where)

    def members(self) -> list[Point]:
        return [point for point in itertools.product(*self.values.values()) if self.holds(point)]

    def holds(self, point: Point) -> bool:
        at = dict(zip(self.names, point, strict=True))
        try:
            return all(evaluate(cond, at) for cond in self.where)
        except EvaluationError:
            return False


def rows(space: Space) -> list[Point]:
    return [tuple(point.values()) for point in space]


def check(seed: int) -> None:
    drawn = Drawn(seed)
    expected = drawn.members()
    space = drawn.space
    listed = rows(space)
    assert listed == expected, seed  # in the order of nested loops
    assert space.count() == len(space) == len(expected), seed
    assert bool(space) is bool(expected)
    columns = space.columns()
    assert list(zip(*(columns[var.name].tolist() for var in drawn.names), strict=True)) == listed
    for point in drawn.random.sample(sorted(itertools.product(*drawn.values.values())), k=1):
        assert (point in space) is (point in set(expected)), (seed, point)


@pytest.mark.parametrize("first", daily(range(0, 6_000, 20), 100))
@pytest.mark.parametrize("block", [1, 7, 64])
def test_blocks_of_any_size_and_early_conditions(block: int, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, so that every step takes many and conditions are asked before all their names have values."""
    monkeypatch.setattr("intset.spaces.diagram.SPACE_BLOCK", block)
    monkeypatch.setattr("intset.spaces.diagram._FEW", 2)
    monkeypatch.setattr("intset.spaces.diagram._LARGE", 0)
    for seed in range(80_000 + block + first, 80_000 + block + first + 20):
        check(seed)


@pytest.mark.parametrize("first", daily(range(0, 5_300, 25), 40))
def test_drawn_spaces(first: int) -> None:
    for seed in range(first, first + 25):
        check(seed)


X, Y, Z = (Var(name) for name in "xyz")
ENDS = {X: (-20, 20), Y: (0, 3), Z: (-2, 2)}


def condition(draw: random.Random) -> Cond:
    side = draw.choice((draw.randint(-9, 9), Y, Z * 3))
    a = Expressions(draw, [X, X, Y, Z, Y + 1], "sums sums multiples products choices").sum(draw.randint(0, 2))
    return draw.choice((a < side, a <= side, a > side, side >= a, a.ne(side), a.eq(side)))


@pytest.mark.parametrize("first", daily(range(0, 3_000, 50), 20))
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
        holds, kept = (np.broadcast_to(to_numpy(c, NEAR)(COLUMNS), GRID[0].shape) for c in (cond, early))
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


def values_of(e: Any, columns: dict[Var, Any]) -> list[int]:
    return [int(v) for v in to_numpy(e, ends_of(columns)).checked(columns)]


def expected(e: Any, columns: dict[Var, Any]) -> list[int]:
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [int(evaluate(e, dict(zip(columns, row, strict=True)))) for row in rows]


def test_tables_of_one_variable_are_spread_over_long_columns() -> None:
    rng = random.Random(4)
    columns = {
        X: np.array([rng.randint(-3, 9) for _ in range(400)]),
        Y: np.array([rng.randint(5, 8) for _ in range(400)]),
    }
    compared, parts = 0, Expressions(rng, [X, Y], "sums sums products quotients choices")
    for e in [parts.integer(4) for _ in range(200)]:
        if len(e.free_vars()) == 2:
            compared += 1
            assert values_of(e, columns) == expected(e, columns), e
    assert compared > 60


def test_a_product_that_fits_is_no_object() -> None:
    factor = 56 // X * (X + 2) + (ceildiv(56, X) - 56 // X) * (58 - 56 // X * X)
    ends = {X: (1, 100), Y: (1, 100)}
    assert to_numpy(factor * factor * (Y * Y) * 64, ends).dtype == np.int64
    columns = {X: np.arange(1, 101), Y: np.full(100, 100)}
    assert values_of(factor * factor * (Y * Y) * 64, columns) == expected(factor * factor * (Y * Y) * 64, columns)
    assert to_numpy(X * Y * (1 << 50), ends).dtype == object


def test_large_values_do_not_overflow() -> None:
    rng, seen = random.Random(9), set()
    parts = Expressions(rng, [X, Y], "sums sums products quotients choices")
    for e in [one for _ in range(150) if (one := parts.integer(5)).free_vars()]:
        shift = rng.choice((1 << 8, 1 << 16, 1 << 29, 1 << 45))
        columns = {X: np.array([shift + rng.randint(0, 20) for _ in range(60)]), Y: np.arange(-30, 30)}
        columns = {v: columns[v] for v in e.free_vars()}
        seen.add(to_numpy(e, ends_of(columns)).dtype.name)
        assert values_of(e, columns) == expected(e, columns), e
    assert seen == {"int32", "int64", "object"}


def root(n: int) -> int:
    """The square root of a square; undefined elsewhere."""
    found = [k for k in range(n + 1) if k * k == n]
    if not found:
        raise ZeroDivisionError(f"{n} is no square")
    return found[0]


def test_numeric_functions_are_called_once_a_point() -> None:
    calls: list[tuple[int, int]] = []

    def area(x: int, y: int) -> int:
        calls.append((x, y))
        return x * y

    term = NumericFunction("area", 2, area)(X, Y)
    space = Space({X: range(1, 9), Y: range(1, 9), "z": range(10)}, where=[term <= 12])
    assert sorted({(row["x"], row["y"]) for row in space}) == [
        (x, y) for x in range(1, 9) for y in range(1, 9) if x * y <= 12
    ]
    assert (3, 4, 0) in space and (4, 4, 0) not in space
    table = space.table({"area": term, "twice": term * 2 + X})
    assert table["area"].tolist() == (table["x"] * table["y"]).tolist()
    assert table["twice"].tolist() == (2 * table["area"] + table["x"]).tolist()
    assert len(calls) == len(set(calls))


def test_points_without_a_value_are_no_members_unless_it_is_not_needed() -> None:
    square_root = NumericFunction("root", 1, root)(X)
    assert [row["x"] for row in Space({X: range(20)}, where=[square_root <= 3])] == [0, 1, 4, 9]
    lazy = Space({X: range(8)}, where=[logical_or((X % 2).eq(1), square_root >= 1)])
    assert [row["x"] for row in lazy] == [1, 3, 4, 5, 7]
    columns = {X: np.arange(8)}
    assert values_of(select((X % 2).eq(1), 0, select(X < 5, X, 9)), columns) == [0, 0, 2, 0, 4, 0, 9, 0]
    with pytest.raises(UndefinedError, match="2 is no square"):
        Space({X: range(8)}).table({"root": square_root})
    assert Space({X: [0, 1, 4]}).table({"root": square_root})["root"].tolist() == [0, 1, 2]


def test_an_unknown_term_is_refused() -> None:
    with pytest.raises(InputError, match="has the unknown"):
        Space({X: range(8)}, where=[Opaque("table", 1)(X) > 0])
