"""Counterexamples and witnesses lie in the domain: small worlds with all their points, against every tier.

A world has variables with constant, dependent or symbolic ranges, declared sizes, loads and facts. A counterexample
assigns all of them, satisfies the world and violates the goal; "proved" holds at every point. Bounds, sets and
certificates are checked on the same points.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import pytest

from intset import Context, Opaque, Range, ShapeVar, Var, evaluate, maximum, minimum, select, using
from intset.domains.sets.base import Bounds, IntSet
from intset.errors import EvaluationError
from intset.expr.evaluate import compiled
from intset.expr.node import Cond, Expr
from intset.infinity import NEG_INF, POS_INF

pytestmark = [
    pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning"),
    pytest.mark.usefixtures("asked_anew"),
]
i, j, k = Var("i"), Var("j"), Var("k")
n, m = ShapeVar("n", lower=1, upper=5), ShapeVar("m", lower=1, upper=4)
even = ShapeVar("even", lower=2, upper=6, multiple_of=2)
above = ShapeVar("above", lower=2)
below = ShapeVar("below", lower=None, upper=3)
third = ShapeVar("third", lower=-4, upper=7, multiple_of=3)
WINDOW = range(-7, 10)  # holds every value of every world


@dataclass(frozen=True)
class World:
    ranges: dict[Var, Range]
    facts: tuple[Cond, ...] = ()
    sizes: tuple[Var, ...] = ()

    @property
    def variables(self) -> tuple[Var, ...]:
        return (*self.sizes, *self.ranges)

    def context(self) -> Context:
        """A fresh context without cached answers."""
        return Context(self.ranges, assume=self.facts)

    @cached_property
    def points(self) -> list[tuple[int, ...]]:
        """All points of the world, by enumeration."""
        said = [limits.min <= var for var, limits in self.ranges.items()]
        said += [var <= limits.max for var, limits in self.ranges.items()]
        holds = [compiled(cond, self.variables) for cond in (*said, *self.facts)]
        own = []
        for var in self.variables:
            low, high, step = var.declared()
            own.append(
                [v for v in WINDOW if (low is None or v >= low) and (high is None or v <= high) and not v % step]
            )
        return [point for point in itertools.product(*own) if all(_truth(hold, point) is True for hold in holds)]

    @cached_property
    def known(self) -> dict[Expr | Cond, dict[tuple[int, ...], int]]:
        return {}

    def values(self, e: Expr | Cond) -> dict[tuple[int, ...], int]:
        """Cached values of `e` at the points that define it."""
        if e not in self.known:
            value = compiled(e, self.variables)
            found = ((point, _truth(value, point)) for point in self.points)
            self.known[e] = {point: value for point, value in found if value is not None}
        return self.known[e]


def _truth(function: Callable[..., int], point: Iterable[int]) -> int | None:
    try:
        return function(*point)
    except (ZeroDivisionError, EvaluationError):
        return None


WORLDS = {
    "a box": World({i: Range(-1, 4), j: Range(2, 3)}),
    "a triangle": World({i: Range(0, 4), j: Range(0, i)}),
    "a triangle that is never empty": World({i: Range(0, 4), j: Range(0, i + 1)}),
    "a size with an upper end alone": World({below: Range(-3, 9), i: Range(0, 2)}),
    "a size with a lower end alone": World({above: Range(-3, 9), i: Range(0, 2)}),
    "a triangle on its head": World({i: Range(0, 4), j: Range(i, 3)}),
    "limits that cross": World({i: Range(0, 3), j: Range(i * 2, 2 - i)}),
    "a chain": World({i: Range(0, 5), j: Range(1, i - 1), k: Range(j, 4 - j)}),
    "sizes": World({i: Range(0, n), j: Range(0, m)}, sizes=(n, m)),
    "a range that few sizes fill": World({i: Range(n, 3 - n), j: Range(-2, m)}, sizes=(n, m)),
    "sizes and a fact": World({i: Range(0, n), j: Range(1, m - 1)}, (i + j < n,), (n, m)),
    "a declared size in a range": World({even: Range(0, 6), i: Range(0, 3)}),
    "a declared size in a range of another": World({i: Range(-2, 5), below: Range(i, 6)}),
    "a declared size below a size": World({even: Range(0, n), j: Range(0, 2)}, sizes=(n,)),
    "steps": World({third: Range(-7, 14), j: Range(0, 2)}),
    "steps from another": World({i: Range(0, 4), third: Range(i - 5, 6)}),
    "an even size": World({i: Range(0, even), j: Range(0, 2)}, sizes=(even,)),
    "a fact that cuts": World({i: Range(0, 5), j: Range(-2, 4)}, (i * 2 + j < 7, j >= i - 3)),
    "a fact on steps": World({i: Range(0, 6), j: Range(0, 3)}, (((i + j) % 3).eq(1),)),
    "a fact of sizes": World({i: Range(0, n), j: Range(0, 3)}, (n >= m + 2,), (n, m)),
    "one of two": World({i: Range(0, 4), j: Range(0, 4)}, ((i < 1) | (j.eq(2)),)),
    "a division": World({i: Range(-2, 5), j: Range(-2, 4)}, (i // j >= 1,)),
    "ranges by division": World({i: Range(0, 6), j: Range(i // 2, i % 3)}),
    "a declared size above a variable": World({i: Range(0, 6), below: Range(i, 4)}),
    "declared sizes in narrow ranges": World({above: Range(4, 3), third: Range(-2, 5)}),
    "a fact of a size that is no end": World({i: Range(0, 6), j: Range(0, 2)}, (i // 2 < n,), (n,)),
    "a range that starts at a quotient": World({j: Range(-2, 5), i: Range(6 // j, 2)}),
    "nothing": World({i: Range(0, 3), j: Range(3, i - 2)}),
}
"""Those that have the first of two variables first."""


def questions(world: World) -> list[Expr]:
    x, y = list(world.ranges)[:2]
    size = world.sizes[0] if world.sizes else y
    return [
        x + 0, y + 0, x + y, x - y, x * 2 + y, y - x * 3, x * y, (x + y * 2) % 3, (x * 3 - y) // 2, minimum(x, y + 1),
        select(x < y, x * 2, y), abs(x - y), x - size, y + size * 2, x * size + y, (x * y + 1) % 4, (x - 1) * (y - 2),
        x // (y + 1), x % 2 * 3 - y,
    ]  # fmt: skip


TIERS = [("linear", "points"), ("linear", "isl"), ("linear", "isl", "points", "z3")]
GOALS: list[Callable[[Expr, int], Cond]] = [lambda e, c: e <= c, lambda e, c: e >= c, lambda e, c: e.ne(c)]


def hold_proof(world: World, ctx: Context, goal: Cond, tally: Counter[str]) -> None:
    proof = ctx.prove(goal)
    tally[proof.status] += 1
    truth = world.values(goal)
    assert proof.status != "proved" or all(truth.values()), (world, goal, proof.by)
    assert not proof.vacuous or not world.points, (world, goal)
    if proof.status == "refuted":
        at = proof.counterexample
        assert set(at) >= set(world.ranges) and set(at) <= set(world.variables), (world, goal, at)
        given = [
            point
            for point in world.points
            if all(at.get(v, p) == p for v, p in zip(world.variables, point, strict=True))
        ]
        assert given and all(truth.get(point) is False for point in given), (world, goal, at)


@pytest.mark.parametrize("tiers", TIERS, ids="-".join)
@pytest.mark.parametrize("name", WORLDS)
def test_proofs(name: str, tiers: tuple[str, ...]) -> None:
    world, ctx, tally = WORLDS[name], WORLDS[name].context(), Counter[str]()
    with using(tiers=tiers):
        for number, e in enumerate(questions(world)):
            values = world.values(e).values()
            ends = sorted({min(values), max(values)}) if values else [0]
            for way, end, beyond in itertools.product(range(len(GOALS)), ends, (-1, 0, 1)):
                if (number + way + beyond) % 3 == 0:
                    hold_proof(world, ctx, GOALS[way](e, end + beyond), tally)
    assert tally["proved"] >= 15 and (tally["refuted"] > 20 or not world.points), tally


def hold(world: World, e: Expr, bounds: Bounds, found: IntSet, tally: Counter[str]) -> None:
    """Check bounds and set against the true values, per value of the sizes."""
    tally["tight"] += bounds.is_tight
    tally["exact"] += found.is_exact
    taken: dict[tuple[int, ...], set[int]] = {}
    for point, value in world.values(e).items():
        taken.setdefault(point[: len(world.sizes)], set()).add(value)
    for sizes, truth in taken.items():
        at = dict(zip(world.sizes, sizes, strict=True))
        for answer in (bounds, found.ends()):
            low, high = (evaluate(end, at) if isinstance(end, Expr) else end for end in answer)
            assert low is NEG_INF or low <= min(truth), (world, e, answer, at)
            assert high is POS_INF or high >= max(truth), (world, e, answer, at)
            if bounds.is_tight and answer is bounds:
                assert (low, high) == (min(truth), max(truth)), (world, e, answer, at)
        there = found.at(at)
        inside = {value for value in range(min(truth) - 2, max(truth) + 3) if value in there}
        assert truth <= inside and (inside == truth or not found.is_exact), (world, e, found, at, truth)


@pytest.mark.parametrize("domain", ["auto", "interval", "stride", "points"])
@pytest.mark.parametrize("name", WORLDS)
def test_bounds_and_sets(name: str, domain: str) -> None:
    world, ctx, tally = WORLDS[name], WORLDS[name].context(), Counter[str]()
    for e in questions(world):
        bounds, found = ctx.bounds(e, domain=domain), ctx.value_set(e, domain=domain)
        hold(world, e, bounds, found, tally)
    assert domain != "auto" or world.sizes or tally["exact"] == len(questions(world)), tally


def test_goals_that_fail_next_to_a_case_alone() -> None:
    """What the linear tier proves case by case: a case that is a little too narrow proves what fails beside it."""
    world, tally = World({i: Range(-3, 7), j: Range(-2, 4)}), Counter[str]()
    ctx = world.context()
    with using(tiers=("linear",)):
        for form, c, miss in itertools.product((i, i - j, i + j * 2), (-1, 0, 2), (-2, -1, 1, 2)):
            rest = form - c
            goals = [select(form.eq(c), 9, rest).ne(miss), select(form.ne(c), rest, 9).ne(miss)]
            goals += [select(form >= c, 9, rest).ne(miss), select(form < c, rest + 9, rest).ne(miss)]
            goals += [minimum(rest, 0).ne(miss), abs(rest).ne(abs(miss)), maximum(rest, 1).ne(miss)]
            goals += [
                select(form.eq(c) | (j > 0), 9, rest).ne(miss),
                select(form.eq(c), 0, 1) * (rest - miss) * (rest - miss) >= 0,
            ]
            goals += [
                select(form >= c, rest, 0) >= 0,
                select(form >= c, rest, -1) >= 0,
                select(form < c, 0, rest + 1).eq(0),
            ]
            goals += [select(form >= c, rest, 0).eq(0), select(form < c, miss, -1 - rest) <= -1, abs(rest).eq(rest)]
            for goal in goals:
                hold_proof(world, ctx, goal, tally)
    assert tally["proved"] > 60, tally


T, U = Opaque("T", 1, 0, 2), Opaque("U", 0, -1, 1)
LOADED: list[Callable[[int], Cond]] = [
    lambda c: T[i] < c,
    lambda c: T[i] - T[j] < c,
    lambda c: T[i] * 2 + U() >= c - 1,
    lambda c: (T[i] * T[j]).ne(c),
    lambda c: T[i + 1] - T[j] + i <= c,
    lambda c: (T[i] + U()) % 3 < c,
    lambda c: select(i < 1, T[j], U()) < c,
    lambda c: T[T[i]] + i < c + 1,
    lambda c: T[i] - T[0] + T[1] - T[j] <= c,
]


@pytest.mark.parametrize("tiers", TIERS, ids="-".join)
@pytest.mark.parametrize("facts", [(), (T[i] >= i,), (T[j] + U() <= 1, i <= j), (T[0] < T[1],)], ids=str)
def test_loads(facts: tuple[Cond, ...], tiers: tuple[str, ...]) -> None:
    """A counterexample is one table: loads at equal indices are equal, and within what the symbol declares."""
    ranges, tally = {i: Range(0, 2), j: Range(0, i + 1)}, Counter[str]()
    ctx = Context(ranges, assume=facts)
    tables = [
        {T: dict(zip(range(3), elements, strict=True)).__getitem__, U: lambda u=u: u}
        for elements in itertools.product(range(3), repeat=3)
        for u in (-1, 0, 1)
    ]
    worlds = [{i: a, j: b, **table} for a in range(2) for b in range(a + 1) for table in tables]
    worlds = [at for at in worlds if all(evaluate(fact, at) for fact in facts)]
    with using(tiers=tiers):
        for make, c in itertools.product(LOADED, range(-1, 4)):
            goal = make(c)
            proof = ctx.prove(goal)
            tally[proof.status] += 1
            truth = [(at, evaluate(goal, at)) for at in worlds]
            assert proof.status != "proved" or all(true for _, true in truth), (goal, facts)
            if proof.status == "refuted":
                chosen = {v: value for v, value in proof.counterexample.items() if v in ranges}
                assert any(not true and chosen.items() <= at.items() for at, true in truth), (goal, facts, chosen)
    assert tally["proved"] >= 5 and (tally["refuted"] >= 5 or tally["unknown"] >= 30), tally


READ: tuple[tuple[Expr, ...], ...] = (
    (T[i],), (T[i] * 2 + 1,), (T[i] - T[j],), (T[i] + T[j],), (T[i] - T[i],), (T[0] * 2 - T[1],), (T[i] + U(),),
    (U() * T[i],), ((T[0] + 2) * (T[1] + 2),), (T[i] * 3 + U() - T[j],), (T[T[i]],), (T[i], T[j]), (T[i], U()),
    (T[i], i), (U(), U() + j), (T[i] + j, i), (T[0], T[1] + U()), (U() * U(), j),
)  # fmt: skip
"""A symbol that is read once takes every value that it declares, and one that is read twice does not."""


@pytest.mark.parametrize("domain", ["auto", "interval", "stride", "isl"])
def test_sets_of_loads(domain: str) -> None:
    tables = [
        {T: dict(zip(range(3), elements, strict=True)).__getitem__, U: lambda u=u: u}
        for elements in itertools.product(range(3), repeat=3)
        for u in (-1, 0, 1)
    ]
    exact = 0
    for facts in (
        (),
        (T[i].ne(1),),
        (U().ne(0), T[1] + T[2] < 2),
        (T[0].ne(1), (U() + T[0]).eq(1)),
        (i >= j, i < U() * U()),
    ):
        ctx = Context({i: Range(0, 1), j: Range(0, 2)}, assume=facts)
        worlds = [{i: 0, j: b, **table} for b in (0, 1) for table in tables]
        worlds = [at for at in worlds if all(evaluate(fact, at) for fact in facts)]
        for read in READ:
            truth = {tuple(evaluate(e, at) for e in read) for at in worlds}
            region = ctx.image(read, domain=domain)
            window = range(-4, 18) if len(read) == 1 else range(-3, 5)
            inside = {point for point in itertools.product(window, repeat=len(read)) if point in region}
            assert truth <= inside and (inside == truth or not region.is_exact), (domain, facts, read, region, truth)
            exact += region.is_exact
            if len(read) == 1:
                found, bounds = ctx.value_set(*read, domain=domain), ctx.bounds(*read, domain=domain)
                inside = {(value,) for value in window if value in found}
                assert truth <= inside and (inside == truth or not found.is_exact), (domain, facts, read, found, truth)
                ends = (min(truth)[0], max(truth)[0])
                assert not bounds.is_tight or tuple(map(int, bounds)) == ends, (domain, facts, read, bounds, truth)
    assert exact >= (12 if domain in ("auto", "isl") else 0)


def test_ranges_that_are_read() -> None:
    """Ranges with loads in their ends imply that they are nonempty."""
    for facts in ((), (T[0].ne(2),), (T[1].ne(1), j >= 0), (U().ne(0),)):
        ctx = Context({i: Range(0, T[0]), j: Range(U() * 2, 1)}, assume=facts)
        worlds = [
            {i: a, j: u * 2, T: (t0, t1).__getitem__, U: lambda u=u: u}
            for t0, t1, u in itertools.product(range(3), range(3), (-1, 0, 1))
            for a in range(t0)
        ]
        worlds = [at for at in worlds if all(evaluate(fact, at) for fact in facts)]
        for e, domain in itertools.product(
            (i, j, T[0], T[0] + i, T[1] + 0, U() * 2, U() + T[0], j - U()), ("auto", "stride")
        ):
            truth = {evaluate(e, at) for at in worlds}
            found, bounds = ctx.value_set(e, domain=domain), ctx.bounds(e, domain=domain)
            inside = {value for value in range(-4, 8) if value in found}
            assert truth <= inside and (inside == truth or not found.is_exact), (domain, facts, e, found, truth)
            assert not bounds.is_tight or tuple(map(int, bounds)) == (min(truth), max(truth)), (facts, e, bounds, truth)

    kept = Context({i: Range(0, 2), j: Range(U() * 2, 1)}, assume=[U().ne(0)]).value_set(i + j, keep=[j])
    assert kept.is_exact and [v for v in range(-4, 8) if v in kept.at({j: -2})] == [-2, -1] and kept.at({j: 0}).is_empty


def test_gaps_of_sums_with_sizes() -> None:
    """Sums with symbolic extents whose coefficients leave gaps."""
    size, length = ShapeVar("size", lower=4), ShapeVar("length", lower=1)
    long = Context({i: Range(0, 2), j: Range(0, size), k: Range(0, 2)})
    assert {long.value_set(j - i * 2 + k * c).is_exact for c in (5, 6)} == {True}
    for e, at in (
        (j - i * 2 + k * 7, {size: 4}),
        (length - i * 2, {length: 3}),
        (length * 2 + j * 2, {size: 5, length: 1}),
    ):
        found = long.value_set(e)
        truth = {evaluate(e, {i: a, j: b, k: c, **at}) for a in (0, 1) for b in range(at.get(size, 4)) for c in (0, 1)}
        inside = {value for value in range(-9, 30) if value in found.at(at)}
        assert truth <= inside and (inside == truth or not found.is_exact), (e, found)
