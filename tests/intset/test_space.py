"""Spaces, and questions to them, against the enumeration of every candidate."""

import itertools
import random
from collections import Counter
from math import comb
from typing import Any

import numpy as np
import pytest

from intset import (
    Cond,
    InputError,
    ShapeVar,
    Space,
    UndefinedError,
    Var,
    evaluate,
    logical_and,
    logical_not,
    logical_or,
    select,
)
from intset.errors import CountError, EvaluationError
from intset.expr.build import NumericFunction, Opaque
from intset.expr.range import Range
from intset.frame import Frame
from intset.spaces.vectors import _deciding, ends_of, necessary, shortened, term_values, to_numpy
from tests.strategies.contexts import Expressions
from tests.strategies.refusals import refused
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


@pytest.mark.parametrize("first", daily(range(0, 6_000, 20), 150))
@pytest.mark.parametrize("block", [1, 7, 64])
def test_blocks_of_any_size_and_early_conditions(block: int, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, so that every step takes many and conditions are asked before all their names have values."""
    monkeypatch.setattr("intset.spaces.diagram.SPACE_BLOCK", block)
    monkeypatch.setattr("intset.spaces.diagram._FEW", 2)
    monkeypatch.setattr("intset.spaces.diagram._LARGE", 0)
    for seed in range(80_000 + block + first, 80_000 + block + first + 20):
        check(seed)


@pytest.mark.parametrize("first", daily(range(0, 5_300, 25), 54))
def test_drawn_spaces(first: int) -> None:
    for seed in range(first, first + 25):
        check(seed)


X, Y, Z = (Var(name) for name in "xyz")
ENDS = {X: (-20, 20), Y: (0, 3), Z: (-2, 2)}


def condition(draw: random.Random) -> Cond:
    side = draw.choice((draw.randint(-9, 9), Y, Z * 3))
    a = Expressions(draw, [X, X, Y, Z, Y + 1], "sums sums multiples products choices").sum(draw.randint(0, 2))
    return draw.choice((a < side, a <= side, a > side, side >= a, a.ne(side), a.eq(side)))


@pytest.mark.parametrize("first", daily(range(0, 3_000, 50), 30))
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


def test_points_without_a_value_are_no_members_and_an_unknown_term_is_refused() -> None:
    square_root = NumericFunction("root", 1, root)(X)
    assert [row["x"] for row in Space({X: range(20)}, where=[square_root <= 3])] == [0, 1, 4, 9]
    lazy = Space({X: range(8)}, where=[logical_or((X % 2).eq(1), square_root >= 1)])
    assert [row["x"] for row in lazy] == [1, 3, 4, 5, 7]
    columns = {X: np.arange(8)}
    assert values_of(select((X % 2).eq(1), 0, select(X < 5, X, 9)), columns) == [0, 0, 2, 0, 4, 0, 9, 0]
    with pytest.raises(UndefinedError, match="2 is no square"):
        Space({X: range(8)}).table({"root": square_root})
    assert Space({X: [0, 1, 4]}).table({"root": square_root})["root"].tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="has the unknown"):
        Space({X: range(8)}, where=[Opaque("table", 1)(X) > 0])


MOST = 120  # spaces of each test


def drawn_spaces(first: int, most: int = 5) -> list[tuple[Drawn, list[Point]]]:
    found = [Drawn(seed, most, room=400) for seed in range(first, first + MOST)]
    return [(drawn, drawn.members()) for drawn in found]


def rows_of(found: list[dict[str, Any]]) -> list[Point]:
    return [tuple(point.values()) for point in found]


def apart(a: Point, b: Point) -> int:
    return sum(x != y for x, y in zip(a, b, strict=True))


def test_the_least_members_by_an_expression() -> None:
    for drawn, members in drawn_spaces(10_000):
        e = drawn.expression(2)
        order = rows(drawn.space)
        k = drawn.random.choice((1, 3, 10, 500))
        try:
            value = {point: evaluate(e, dict(zip(drawn.names, point, strict=True))) for point in members}
        except EvaluationError:
            with pytest.raises(UndefinedError):
                drawn.space.minimize(e, k)
            continue
        assert rows_of(drawn.space.minimize(e, k)) == sorted(order, key=value.__getitem__)[:k]
        table = drawn.space.table({"value": e})
        assert table["value"].tolist() == [value[point] for point in order]


def test_neighbours_and_the_nearest_member() -> None:
    for drawn, members in drawn_spaces(20_000):
        point = tuple(drawn.random.choice([*values, 77]) for values in drawn.values.values())
        for distance in (0, 1, 2, 9):
            found = rows_of(drawn.space.neighbours(point, distance))
            assert sorted(found) == sorted(m for m in members if 1 <= apart(m, point) <= distance)
            assert [apart(m, point) for m in found] == sorted(apart(m, point) for m in found)
        best = drawn.space.nearest(point)
        if best is None:
            assert not members
            continue
        assert apart(tuple(best.values()), point) == min(apart(m, point) for m in members)
        if point in members:
            assert tuple(best.values()) == point
    cube = Space({f"x{k}": range(1000) for k in range(5)})
    assert len(cube.neighbours((5,) * 5)) == 5 * 999
    with pytest.raises(CountError, match="a distance of 2 has 9,985,005 candidates"):
        cube.neighbours((5,) * 5, 2)
    thin = cube.restrict(["x0 == x1", "x1 == x2", "x2 == x3", "x3 == x4"])
    assert thin.neighbours((5,) * 5, 2) == [] and len(thin.neighbours((5,) * 5, 5)) == 999


def test_projections_and_joins_are_those_of_sets() -> None:
    for drawn, members in drawn_spaces(30_000):
        kept = drawn.random.sample(drawn.names, drawn.random.randint(1, len(drawn.names)))
        places = [drawn.names.index(var) for var in kept]
        small = drawn.space.project(kept)
        expected = {tuple(point[k] for k in places) for point in members}
        listed = rows(small)
        assert set(listed) == expected and len(listed) == len(expected) == small.count()
        assert all(point in small for point in listed)
        other = Drawn(drawn.random.randint(0, 10**6), 4, room=200)
        both = drawn.space & other.space
        assert Counter(map(frozenset, (d.items() for d in both))) == joined(drawn.space, other.space)
        again = small & drawn.space
        assert {frozenset(d.items()) for d in again} == {frozenset(d.items()) for d in drawn.space}


def joined(a: Space, b: Space) -> Counter[frozenset[Any]]:
    return Counter(
        frozenset({**p, **q}.items()) for p in a for q in b if all(p[name] == q[name] for name in p.keys() & q.keys())
    )


def test_ranges_contain_what_members_take_and_say_what_contradicts() -> None:
    empty = 0
    for drawn, members in drawn_spaces(50_000):
        ranges = drawn.space.ranges()
        for k, var in enumerate(drawn.names):
            assert {point[k] for point in members} <= set(ranges[var.name]) <= set(drawn.values[var])
        if not members:
            empty += 1
            core = drawn.space.contradiction
            assert core and Space(drawn.values, core).count() == 0
            for cond in core:
                assert Space(drawn.values, [other for other in core if other is not cond]).count() > 0
        else:
            assert drawn.space.contradiction == ()
    assert empty > 10


def test_a_sample_is_uniform() -> None:
    """Chi-squared, 63 degrees of freedom: beyond 110 once in 5,000 draws of a right sampler."""
    x, y = Var("x"), Var("y")
    space = Space({x: range(1, 40), y: range(40), "flag": [True, False]}, [(y % x).eq(3), x * y < 160])
    members = rows(space)
    k, draws = 5, 4000
    for memory in (1 << 28, 3000):
        space = Space({x: range(1, 40), y: range(40), "flag": [True, False]}, space.where, memory=memory)
        seen: Counter[Point] = Counter()
        for seed in range(draws):
            drawn = rows_of(space.sample(k, seed))
            assert len(set(drawn)) == k
            seen.update(drawn)
        expected = draws * k / len(members)
        assert set(seen) == set(members)
        statistic = sum((n - expected) ** 2 / expected for n in seen.values())
        freedom = len(members) - 1
        assert abs(statistic - freedom) < 5 * (2 * freedom) ** 0.5
        draws = 300


def test_large_products_are_counted_and_sampled_without_listing() -> None:
    names = {f"n{k}": range(1, 101) for k in range(12)}
    space = Space(names, [f"n{k} * n{k + 1} <= 1000" for k in range(0, 12, 2)])
    pairs = sum(a * b <= 1000 for a in range(1, 101) for b in range(1, 101))
    assert space.count() == pairs**6
    with pytest.raises(OverflowError, match=r"count\(\)"):
        len(space)
    drawn = space.sample(50, seed=3)
    assert len({tuple(point.values()) for point in drawn}) == 50 and all(point in space for point in drawn)
    assert drawn == space.sample(50, seed=3)
    chain = Space(names, [f"n{k} <= n{k + 1}" for k in range(11)])  # multisets
    assert chain.count() == comb(111, 12)
    assert all(point in chain for point in chain.sample(20, seed=0))
    # 10^12 candidates each; a join without bounds on open names would try more than 10^8.
    values = dict.fromkeys("abcdef", range(1, 101))
    assert Space(values, "a * b * c * d * e * f <= 24").count() == products(6, 24)
    assert Space(values, "a + b + c + d + e + f == 12").count() == comb(11, 5)
    sums = Space(dict.fromkeys("abcde", range(1, 61)), "a + b + c + d + e <= 200")
    assert sums.count() == 691_067_520 and all(point in sums for point in sums.sample(50, seed=1))


def products(factors: int, limit: int) -> int:
    """How many tuples of positive numbers have a product up to a limit."""
    return 1 if not factors else sum(products(factors - 1, limit // k) for k in range(1, limit + 1))


def test_what_needs_too_many_candidates_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that separates all candidates, so that no two are one state."""
    weights = (7919, 104729, 1299709, 15485863)
    text = "(" + " + ".join(f"{weight} * x{k}" for k, weight in enumerate(weights)) + ") % 1000003 != 5"
    space = Space({f"x{k}": range(60) for k in range(4)}, text, memory=1 << 16)
    assert next(iter(space)) == {f"x{k}": 0 for k in range(4)} and bool(space)
    monkeypatch.setattr("intset.spaces.diagram.SPACE_CANDIDATES", 1 << 18)
    with pytest.raises(CountError, match="candidates would be tried"):
        space.count()


def test_listing_is_in_the_order_of_names_whatever_the_memory() -> None:
    values = {"a": [3, 1, 2, 9], "b": [5, 4, 7, 6, 0], "c": range(7), "d": ["x", "y"], "e": [2, 1]}
    where = ["a * c <= 12 or c == 0", "b != e"]
    points = itertools.product(*values.values())
    expected = [p for p in points if (p[0] * p[2] <= 12 or p[2] == 0) and p[1] != p[4]]
    for memory in (1, 3000, 1 << 20):
        space = Space(values, where, memory=memory)
        assert rows(space) == expected
        least = sorted(expected, key=lambda p: p[1] % 3)
        for k in (1, 7, 150, len(expected), 5000):
            assert rows_of(space.minimize("b % 3", k)) == least[:k], (memory, k)
    space = Space({X: range(1, 50), "s": ["a", "b"]}, [X < 3, X > 5])
    assert repr(space) == "<Space x: [1, 2, …, 49] (49), s: ['a', 'b'] | x < 3, x > 5>"
    assert repr(space.ranges()) == "{} since x < 3 contradicts x > 5"
    assert space.ranges().contradiction == (X < 3, X > 5) and not space and space.nearest((1, "a")) is None
    assert space.minimize(X, 3) == [] == list(space) == space.sample(0) and space.columns()["x"].tolist() == []


def test_long_integers_stay_themselves() -> None:
    big = 1 << 62
    x, y = Var("x"), Var("y")
    values = [big - 1, big, big + 1, -big, (1 << 63) + 5, 3]
    expected = {(a, b) for a in values for b in (2, big, -3) if a * b > (1 << 64) or (a + a) // b == 7}
    space = Space({x: values, y: [2, big, -3]}, [(x * y > (1 << 64)) | ((x + x) // y).eq(7)])
    assert set(rows(space)) == expected and all(point in space for point in expected)
    product = Var("p")
    wide = Space(
        {x: range(1 << 31, (1 << 31) + 40), product: range(1 << 32, (1 << 32) + 40)}, [x * product * 2 > (1 << 64)]
    )
    assert wide.count() == sum(
        a * b * 2 > (1 << 64) for a in range(1 << 31, (1 << 31) + 40) for b in range(1 << 32, (1 << 32) + 40)
    )
    assert space.minimize(x * y * x, 1) == [min(map(dict, space), key=lambda d: d["x"] * d["y"] * d["x"])]
    values = {"a": [3, 2**63, -(2**63)], "b": [2, 1], "c": [2**63 - 1, 5]}
    expected = [p for p in itertools.product(*values.values()) if p[0] + p[1] != 5]
    for memory in (1, 1 << 20):
        space = Space(values, "a + b != 5", memory=memory)
        assert sorted(rows(space)) == sorted(expected)
        near = space.neighbours((2**63, 1, 2**63 - 1), 3)
        assert sorted(tuple(row.values()) for row in near) == sorted(set(expected) - {(2**63, 1, 2**63 - 1)})
        nearest = space.nearest((2**63, 1, 2**63))
        assert nearest is not None and (nearest["a"], nearest["b"]) == (2**63, 1)
    projected = Space(values, "a + b != 5").project("a")
    assert (2**63,) in projected and {a for (a,) in rows(projected)} == {3, 2**63, -(2**63)}


def test_categories_and_truth_values() -> None:
    tile = ShapeVar("tile", 1, 64, multiple_of=4)
    space = Space(
        {tile: [4, 8, 16], "layout": ["NCHW", "NHWC"], "pad": [False, True]}, ["pad or tile == 8", "1 < tile <= 8"]
    )
    assert rows(space) and {type(v) for v in next(iter(space)).values()} == {int, str, bool}
    assert set(rows(space)) == {
        (t, s, p) for t in (4, 8) for s in ("NCHW", "NHWC") for p in (False, True) if p or t == 8
    }
    assert {"tile": 8, "layout": "NHWC", "pad": False} in space and (8, "other", False) not in space
    assert (8, "NHWC", 0) not in space and (True, "NHWC", False) not in space
    columns = space.columns()
    assert [column.dtype.kind for column in columns.values()] == ["i", "U", "b"]
    both = space & Space({"layout": ["NHWC", "blocked"], "pad": [True]})
    assert {d["layout"] for d in both} == {"NHWC"} and both.count() == 2
    assert Space({"a": [True, False], "b": [3, 4]}, "a == True and b + a > 4").count() == 1
    assert space.project(["layout", "pad"]).count() == 4 and space.project("tile").count() == 2
    picked = space.project(["pad", "tile"]) & Space({"pad": [True]})
    assert set(rows(picked)) == {(True, 4), (True, 8)}
    flag = Var("flag")
    assert list(Space({flag: [False, True]}, [~flag])) == [{"flag": False}]
    space = Space({"flag": [False, True], "y": [1, 2]}, ["~flag and y > 1 or flag and y < 2"])
    assert list(space) == [{"flag": False, "y": 2}, {"flag": True, "y": 1}]
    with pytest.raises(InputError, match="not the integer"):
        Space({X: [1, 2]}, [~X])


N = ShapeVar("n", 1, 16, multiple_of=4)
WRONG = {
    "two of one name": lambda: Space({X: [1], "x": [2]}),
    "two variables": lambda: Space({X: [1], Var("x"): [2]}),
    "unknown name": lambda: Space({X: [1]}, ["y > 1"]),
    "unknown variable": lambda: Space({X: [1]}, [Var("y") > 1]),
    "outside a size's bounds": lambda: Space({N: [4, 20]}),
    "no multiple": lambda: Space({N: [4, 6]}),
    "size of strings": lambda: Space({N: ["a"]}),
    "no values": lambda: Space({X: []}),
    "no names": lambda: Space({}),
    "mixed": lambda: Space({X: [1, "a"]}),
    "mixed with truth values": lambda: Space({X: [1, True]}),
    "floats": lambda: Space({X: [1.5]}),
    "over a string": lambda: Space({X: ["a"]}, [X > 1]),
    "over a string in a text": lambda: Space({"s": ["a", "b"]}, ["s == 'a'"]),
    "an integer as a condition": lambda: Space({X: [1]}, [X + 1]),
    "an integer text as a condition": lambda: Space({X: [1]}, "x + 1"),
    "a truth value as a condition": lambda: Space({X: [1]}, [True]),
    "no text of a condition": lambda: Space({X: [1]}, "x >"),
    "a key": lambda: Space({3: [1]}),
    "values without end": lambda: Space({X: itertools.count()}),
    "too many values": lambda: Space({X: range(10**12)}),
    "a short tuple": lambda: (1, 2) in Space({X: [1]}),
    "a dict without a name": lambda: {} in Space({X: [1]}),
    "a dict with another name": lambda: {"x": 1, "y": 2} in Space({X: [1]}),
    "no configuration": lambda: 3 in Space({X: [1]}),
    "a sample too large": lambda: Space({X: [1]}).sample(2),
    "a column twice": lambda: Space({X: [1]}).table({"x": X}),
    "an unknown name of a projection": lambda: Space({X: [1]}).project("y"),
    "kinds that differ": lambda: Space({X: [1]}) & Space({"x": [True]}),
    "no space": lambda: Space({X: [1]}) & 3,
    "a condition to minimize": lambda: Space({X: [1]}).minimize(X > 1),
}


test_bad_inputs_are_refused_in_one_line = refused(WRONG)


def test_sums_and_products_over_independent_names_are_minimized_operand_by_operand() -> None:
    """The order among equals included; oracle: all members, sorted."""
    for seed in range(40):
        pick = random.Random(seed)
        number = pick.randint(2, 5)
        values = {f"k{n}": pick.sample(range(-3 if seed % 2 else 1, 9), pick.randint(1, 4)) for n in range(number)}
        where = [f"k0 + k{pick.randrange(number)} <= 9"] if seed % 4 == 0 else []
        kinds = ("k{0}", "3*k{0}", "-k{0}", "k{0}*k{1}", "max(k{0}, 2)")
        terms = [f"({pick.choice(kinds).format(n, (n + 1) % number)})" for n in range(number)]
        text, k = (" * ", " + ", " - ")[seed % 3].join(terms), pick.randint(1, 6)
        space = Space(values, where)
        wanted = sorted(space, key=lambda row, text=text: eval(text, {"max": max}, row))[:k]  # type: ignore[misc]
        assert space.minimize(text, k) == wanted, (seed, text)
    for factor in (-2, 0, 3):
        scaled = Space({"a": [1, 2, 3], "b": [1, 2]})
        assert scaled.minimize(f"(a * {factor}) * b") == [min(scaled, key=lambda m, k=factor: m["a"] * k * m["b"])]  # type: ignore[misc]
    names = [f"k{n}" for n in range(40)]  # 6**40 members
    huge = Space({name: [1, 2, 4, 8, 16, 32] for name in names})
    for sign in "+*":
        least, next_one = huge.minimize(f" {sign} ".join(names), 2)
        assert {*least.values()} == {1} and next_one == least | {"k39": 2}
