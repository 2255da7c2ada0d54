"""Claims about contexts that are written down, with all their points, against every tier and domain.

Ranges that are constant, dependent, symbolic, declared, stepped, empty for some sizes or by a fact; facts that no
domain understands; kept variables; loads; sums whose coefficients are sizes. Then all expressions of a few shapes over
all small boxes, to kill every mutant that falsifies a structural claim: sums whose coefficients leave gaps, overlap or
fit exactly; quotients, remainders and minima of such sums; sums of terms with and without shared variables.
"""

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from intset import (
    Cond,
    Context,
    Expr,
    IntSet,
    Opaque,
    Range,
    ShapeVar,
    Var,
    const,
    evaluate,
    maximum,
    minimum,
    select,
    using,
)
from intset.domains.isl.presburger import Isl
from intset.domains.query import Query
from intset.domains.sets.answers import set_of_points
from intset.errors import CountError
from intset.testing import Setting
from tests.intset.domains.outside import registered
from tests.intset.oracle import ALGEBRA, Claims, answered
from tests.strategies.contexts import world
from tests.sweeps import daily, turned

pytestmark = [
    pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning"),
    pytest.mark.usefixtures("asked_anew"),
]
i, j, k, p, q = (Var(name) for name in "ijkpq")
n, m = ShapeVar("n", lower=1, upper=5), ShapeVar("m", lower=1, upper=4)
N, M = Var("N"), ShapeVar("M")
even = ShapeVar("even", lower=2, upper=6, multiple_of=2)
above = ShapeVar("above", lower=2)
below = ShapeVar("below", lower=None, upper=3)
third = ShapeVar("third", lower=-4, upper=7, multiple_of=3)
few = ShapeVar("few", lower=-2, upper=3)
wide = ShapeVar("wide", lower=3, upper=8, multiple_of=2)
DOMAINS = ["auto", "interval", "stride", "points", "isl", "modular"]

# ranges (of two variables the first comes first), facts, sizes
WORLDS: dict[str, tuple[Any, ...]] = {
    "a box": ({i: Range(-1, 4), j: Range(2, 3)},),
    "a triangle": ({i: Range(0, 4), j: Range(0, i)},),
    "a triangle that is never empty": ({i: Range(0, 4), j: Range(0, i + 1)},),
    "a size with an upper end alone": ({below: Range(-3, 9), i: Range(0, 2)},),
    "a size with a lower end alone": ({above: Range(-3, 9), i: Range(0, 2)},),
    "a triangle on its head": ({i: Range(0, 4), j: Range(i, 3)},),
    "limits that cross": ({i: Range(0, 3), j: Range(i * 2, 2 - i)},),
    "a chain": ({i: Range(0, 5), j: Range(1, i - 1), k: Range(j, 4 - j)},),
    "a range that narrows what is before it": ({i: Range(0, 8), j: Range(i, 3)}, (j <= 0,)),
    "a negative minimum": ({i: Range(-3, 6), j: Range(i, -i)},),
    "a declared bound": ({i: Range(0, 9), ShapeVar("s", lower=5): Range(0, i)},),
    "sizes": ({i: Range(0, n), j: Range(0, m)}, (), (n, m)),
    "a range that few sizes fill": ({i: Range(n, 3 - n), j: Range(-2, m)}, (), (n, m)),
    "sizes and a fact": ({i: Range(0, n), j: Range(1, m - 1)}, (i + j < n,), (n, m)),
    "a declared size in a range": ({even: Range(0, 6), i: Range(0, 3)},),
    "a declared size in a range of another": ({i: Range(-2, 5), below: Range(i, 6)},),
    "a declared size below a size": ({even: Range(0, n), j: Range(0, 2)}, (), (n,)),
    "steps": ({third: Range(-7, 14), j: Range(0, 2)},),
    "steps from another": ({i: Range(0, 4), third: Range(i - 5, 6)},),
    "an even size": ({i: Range(0, even), j: Range(0, 2)}, (), (even,)),
    "a fact that cuts": ({i: Range(0, 5), j: Range(-2, 4)}, (i * 2 + j < 7, j >= i - 3)),
    "a fact on steps": ({i: Range(0, 6), j: Range(0, 3)}, (((i + j) % 3).eq(1),)),
    "a fact of sizes": ({i: Range(0, n), j: Range(0, 3)}, (n >= m + 2,), (n, m)),
    "one of two": ({i: Range(0, 4), j: Range(0, 4)}, ((i < 1) | (j.eq(2)),)),
    "a division": ({i: Range(-2, 5), j: Range(-2, 4)}, (i // j >= 1,)),
    "ranges by division": ({i: Range(0, 6), j: Range(i // 2, i % 3)},),
    "a declared size above a variable": ({i: Range(0, 6), below: Range(i, 4)},),
    "declared sizes in narrow ranges": ({above: Range(4, 3), third: Range(-2, 5)},),
    "a fact of a size that is no end": ({i: Range(0, 6), j: Range(0, 2)}, (i // 2 < n,), (n,)),
    "a range that starts at a quotient": ({j: Range(-2, 5), i: Range(6 // j, 2)},),
    "nothing": ({i: Range(0, 3), j: Range(3, i - 2)},),
    "a size that may leave nothing": ({i: Range(0, few), j: Range(0, 2)}, (), (few,)),
    "one that leaves nothing where the other is large": ({i: Range(0, 4 - n), j: Range(0, n)}, (), (n,)),
    "facts of sizes alone": ({i: Range(0, 3), j: Range(0, n)}, (n.ne(2), n + few <= 4), (n, few)),
    "a range that starts at a quotient of a size": ({i: Range(4 // few, 2), j: Range(0, 2)}, (), (few,)),
    "a size far from 0": ({i: Range(wide, 2), j: Range(0, 2)}, (), (wide,)),
    "a chain over a size": ({j: Range(0, 4), i: Range(0, N), k: Range(0, i)}, (), (N,)),
    "a range that reaches beyond one of a size": ({i: Range(0, N), j: Range(i, 3), k: Range(0, 4)}, (), (N,)),
    "a chain through a fact": ({i: Range(0, 4), j: Range(0, 5), k: Range(0, 5)}, (k > j, k < N), (N,)),
    "a fact on a size": ({i: Range(0, 4), j: Range(0, 2)}, (N >= 3,), (N,)),
    "two sizes": ({j: Range(0, 3), i: Range(0, N), k: Range(N, M - N)}, (), (N, M)),
    "every other size": ({i: Range(0, 2), j: Range(0, 6)}, ((j * 2).eq(N),), (N,)),
    "a product of a size": ({j: Range(0, 2), i: Range(0, N * N - 4)}, (), (N,)),
    "a square": ({i: Range(0, 2), j: Range(0, 6), k: Range(0, 4)}, ((j * j).eq(N + k * 3),), (N,)),
    "a divisor": ({j: Range(0, 4), i: Range(0, 4)}, ((i % N).eq(1),), (N,)),
}


@cache
def setting(name: str, keep: tuple[Var, ...] = ()) -> Setting:
    ranges, *more = WORLDS[name]
    facts, sizes = [*more, (), ()][:2]
    return world(ranges, facts, sizes, keep)


def questions(of: Setting) -> list[Expr]:
    x, y = list(of.ranges)[:2]
    size = next(iter(of.sizes), y)
    return [
        x + 0, y + 0, x + y, x - y, x * 2 + y, y - x * 3, x * y, (x + y * 2) % 3, (x * 3 - y) // 2, minimum(x, y + 1),
        select(x < y, x * 2, y), abs(x - y), x - size, y + size * 2, x * size + y, (x * y + 1) % 4, (x - 1) * (y - 2),
        x // (y + 1), x % 2 * 3 - y, y * 0 + 5,
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "domain"), turned(WORLDS, DOMAINS[:4], 4))
def test_bounds_and_sets(name: str, domain: str) -> None:
    claims = Claims(setting(name), places=2)
    step = 3 if claims.setting.sizes or domain != "auto" else 1  # with sizes, a third of the questions to each domain
    for turn, e in enumerate(questions(claims.setting)[len(name + domain) % step :: step]):
        claims.about(e, domain)
        if turn % 7 == 0:
            claims.joined(e, domain)
    assert step > 1 or not claims.rows or claims.tally["exact"] == claims.tally["asked"], claims.tally


@pytest.mark.parametrize("name", daily(WORLDS, 5))
def test_kept_variables(name: str) -> None:
    """They still constrain other variables through their ranges, and an empty loop leaves no point."""
    tally = Counter[str]()
    for number, keep in enumerate(list(setting(name).ranges)[:2]):
        claims = Claims(setting(name, (keep,)), places=2, tally=tally)
        for turn, domain in enumerate(DOMAINS[:5]):
            claims.about(questions(claims.setting)[(len(name) + 7 * number + turn) % 20], domain)
    assert tally["exact"] >= 1 or not setting(name).points, tally


TIERS = [("linear", "points"), ("linear", "isl"), ("linear", "isl", "points", "z3")]
GOALS: list[Callable[[Expr, int], Cond]] = [lambda e, c: e <= c, lambda e, c: e >= c, lambda e, c: e.ne(c)]


@pytest.mark.parametrize(("tiers", "name"), daily(itertools.product(TIERS, list(WORLDS)[:31]), 10))
def test_proofs(tiers: tuple[str, ...], name: str) -> None:
    """Claims at the boundary of truth, and beside the boundary."""
    claims = Claims(setting(name))
    with using(tiers=tiers):
        for number, e in enumerate(questions(claims.setting)):
            values = [x for own in claims.truth(e).values() for x in own] or [0]
            for way, end, beyond in itertools.product(range(3), {min(values), max(values)}, (-1, 0, 1)):
                if (number + way + beyond) % 4 == 0:
                    claims.goal(GOALS[way](e, end + beyond))
    assert claims.tally["proved"] >= 9 and (claims.tally["refuted"] > 8 or not claims.rows), claims.tally


@pytest.mark.parametrize("name", daily(WORLDS, 5))
def test_regions(name: str) -> None:
    """The algebra of images, a part of it under a budget that permits refusals but no wrong answers."""
    x, y = list(setting(name).ranges)[:2]
    size = next(iter(setting(name).sizes), x)
    pairs = [(x + 0, y + 0), (x + y * 2, y - x), (x + size, y % 2), (y * 0 + 3, x * 2), (x + 0, x * size)]
    tally = Counter[str]()
    for number, (keep, domain) in enumerate((((), "auto"), ((x,), "auto"), ((), "stride"))):
        claims = Claims(setting(name, keep), places=2, tally=tally)
        exprs, turn = pairs[(len(name) + number) % 5], len(name) // 3 + number
        claims.algebra(exprs, ["itself", *list(ALGEBRA)[1 + turn % 3 :: 3]], domain)
        with using(isl_operations=1):
            claims.algebra(exprs, list(ALGEBRA)[turn % 5 :: 5], domain)
    assert tally["exact region"] == 0 or tally["counted"], tally


# -- facts that nobody sees through ------------------------------------------------------------------------------------

endless = Range.everything()
UNSEEN: dict[str, tuple[Cond, ...]] = {
    "no square": ((p * p).eq(2),),
    "no square of a product": ((p * p * q * q).eq(3),),
    "a product of neighbours": ((p * (p + 1) % 2).eq(1),),
    "three in a row": (((p * p * p - p) % 6).ne(0),),
    "units that are large": ((p * q).eq(1), p + q > 2),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_nothing_is_claimed_beside_facts_that_exclude_every_point_unseen(name: str) -> None:
    ctx = Context({i: Range(0, 4), j: Range(-1, 3), p: endless, q: endless}, assume=UNSEEN[name])
    for domain, e in itertools.product(DOMAINS, (i + 0, i + j * 4, (i + j) % 3, i * j, j * 0 + 5)):
        bounds, found = ctx.bounds(e, domain=domain), ctx.value_set(e, domain=domain)
        assert bounds.is_empty or not bounds.is_tight, (domain, e, bounds)
        assert found.is_empty or not (found.is_tight or found.is_exact), (domain, e, found)
    for domain, pair in itertools.product(DOMAINS, ((i, j), (i + j, i - j), (j * 0, i * 0 + 1))):
        region = ctx.image(pair, domain=domain)
        assert region.is_empty or not region.is_exact, (domain, pair, region)
    for tiers in (("linear",), ("linear", "points"), ("linear", "isl", "points")):
        with using(tiers=tiers):
            assert {ctx.prove(goal).status for goal in (i < 2, i + j > 9, (i * j).eq(1))} <= {"unknown", "proved"}


LEFT: tuple[tuple[Callable[[Var], tuple[Range, Range, Cond]], set[int]], ...] = (
    (lambda size: (endless, endless, (p * p).eq(q * q * 2 + size)), {0, 1, 2, 4, 7, 8, 9}),
    (lambda size: (endless, endless, (p * p).eq(size)), {0, 1, 4, 9}),
    (lambda size: (endless, endless, (p * p + p).eq(size * 2 + 1)), set()),
    (lambda size: (endless, endless, (p * 2 - q * 4).eq(size)), {0, 2, 4, 6, 8}),
    (lambda size: (Range(0, size), Range(0, 3), p >= q + 5), {6, 7, 8, 9}),
    (lambda size: (Range(0, size), Range(0, 3), (p % 3).eq(2)), {3, 4, 5, 6, 7, 8, 9}),
)
"""Ranges and a fact that leave points at some sizes only, which these tiers and budgets hardly see."""


@pytest.mark.parametrize("operations", [1, 300, 500, 100_000])
def test_nothing_is_claimed_at_sizes_that_leave_nothing_unseen(operations: int) -> None:
    size = ShapeVar("size", lower=0, upper=9)
    for make, left in LEFT:
        first, second, fact = make(size)
        with using(tiers=("linear",), isl_operations=operations):
            ctx = Context({i: Range(0, 4), p: first, q: second}, assume=[fact])
            other, found, part = Context({j: Range(8, 2)}), ctx.value_set(i), ctx.image((i,))
            whole, aside, number = Context({j: Range(0, 6)}).image((j,)), other.image((j,)), None
            with contextlib.suppress(CountError):
                number = found.count()
            both, rest = {0, 1, 2, 3, 8, 9}, {4, 5}
            made = [(found | other.value_set(j), both, {8, 9}), (other.value_set(j) | found, both, {8, 9})]
            made += [(aside | part, both, {8, 9}), (part | aside, both, {8, 9})]
            made += [(whole - part, rest, set(range(6))), ((whole - part) & whole, rest, set(range(6)))]
            for at in (0, 2, 3, 6):
                counted = evaluate(number, {size: at}) if isinstance(number, Expr) else number
                assert counted in (None, 4 if at in left else 0), (at, fact, number)
                for answer, filled, empty in made:
                    own, there = filled if at in left else empty, answer.at({size: at})
                    inside = {x for x in range(12) if (x if isinstance(there, IntSet) else (x,)) in there}
                    assert own <= inside and (inside == own or not answer.is_exact), (at, fact, answer)
                for there in (ctx.value_set(i).at({size: at}), ctx.image((i, j * 0)).at({size: at})):
                    claimed = there.is_exact or there.is_tight
                    assert not there.is_empty if at in left else there.is_empty or not claimed, (at, fact, there)


# -- several variables that are kept, products of sets -----------------------------------------------------------------


class SetsAlone:
    """A domain with exact sets of single expressions and without regions."""

    name = "sets alone"

    def image(self, query: Query) -> IntSet:
        return set_of_points(query, Isl())


JOINED: dict[str, tuple[Any, ...]] = {
    "nothing": ({i: Range(0, 3), j: Range(0, 2), k: Range(0, 3)}, ()),
    "a fact": ({i: Range(0, 3), j: Range(0, 3), k: Range(0, 2)}, (i <= j,)),
    "a fact of another": ({i: Range(0, 3), j: Range(0, 3), k: Range(0, 3)}, (i <= k, k <= j)),
    "a range": ({i: Range(0, 3), j: Range(0, i + 1), k: Range(0, 2)}, ()),
    "a range between": ({i: Range(0, 3), k: Range(0, i + 1), j: Range(0, k + 1)}, ()),
    "a range of another": ({i: Range(0, 3), j: Range(0, 3), k: Range(i, j - i + 1)}, ()),
    "one outer variable": ({k: Range(0, 3), i: Range(0, k + 1), j: Range(k, 2)}, ()),
    "what is kept": ({i: Range(0, 3), j: Range(0, 3), k: Range(i + j, 2)}, (), (), (k,)),
    "what is kept, for each": ({k: Range(0, 2), i: Range(k, 3), j: Range(0, 2)}, (), (), (k,)),
}


def test_a_product_of_exact_sets_is_exact_where_nothing_joins_them() -> None:
    exact = {}
    with registered(SetsAlone) as alone:
        for name, args in JOINED.items():
            claims = Claims(world(*args), places=4)
            for pair in ((i, j), (i + k, j), (i, i), (j, k), (i * 0 + 2, j)):
                claims.algebra(pair, ["itself"], alone)
            exact[name] = claims.tally["exact region"]
        first, second = Opaque("A", 1, 0, 1), Opaque("B", 0, 0, 2)
        ctx = Context({i: Range(0, 1), j: Range(0, 1), k: Range(0, 2)})
        for pair in ((first[i], first[j]), (first[i] + 1, first[0]), (first[i], k + first[j] * 2)):
            assert not ctx.image(pair, domain=alone).is_exact, "loads of one symbol are joined"
        assert ctx.image((first[i], k), domain=alone).is_exact
        assert ctx.image((k, second() + i), domain=alone).is_exact
    assert exact["nothing"] == exact["what is kept, for each"] == 4, exact


# -- loads -------------------------------------------------------------------------------------------------------------

T, U, A = Opaque("T", 1, 0, 2), Opaque("U", 0, -1, 1), Opaque("A", 1, 0, 1)


def loaded(ranges: dict[Var, Range], facts: tuple[Cond, ...]) -> Iterator[dict[Any, Any]]:
    """All points with all tables."""
    for *elements, u in itertools.product(*[range(3)] * 3, (-1, 0, 1)):
        tables = {T: dict(enumerate(elements)).__getitem__, U: lambda u=u: u, A: lambda at, e=elements: e[at] % 2}
        rows = [tables]
        for v, limits in ranges.items():
            rows = [{**at, v: x} for at in rows for x in range(evaluate(limits.min, at), evaluate(limits.max, at) + 1)]
        yield from (at for at in rows if all(evaluate(fact, at) for fact in facts))


LOADED: list[Callable[[int], Cond]] = [
    lambda c: T[i] < c, lambda c: T[i] - T[j] < c, lambda c: T[i] * 2 + U() >= c - 1, lambda c: (T[i] * T[j]).ne(c),
    lambda c: T[i + 1] - T[j] + i <= c, lambda c: (T[i] + U()) % 3 < c, lambda c: select(i < 1, T[j], U()) < c,
    lambda c: T[T[i]] + i < c + 1, lambda c: T[i] - T[0] + T[1] - T[j] <= c,
]  # fmt: skip


UNDER: list[tuple[Cond, ...]] = [(), (T[i] >= i,), (T[j] + U() <= 1, i <= j), (T[0] < T[1],)]


@pytest.mark.parametrize(("facts", "tiers"), daily(itertools.product(UNDER, TIERS), 2))
def test_goals_about_loads(facts: tuple[Cond, ...], tiers: tuple[str, ...]) -> None:
    """A counterexample is one table: loads at equal indices are equal, and within what the symbol declares."""
    ranges, tally = {i: Range(0, 2), j: Range(0, i + 1)}, Counter[str]()
    ctx, rows = Context(ranges, assume=facts), list(loaded(ranges, facts))
    with using(tiers=tiers):
        for make, c in itertools.product(LOADED, range(-1, 4)):
            goal = make(c)
            proof = ctx.prove(goal)
            tally[proof.status] += 1
            truth = [(at, evaluate(goal, at)) for at in rows]
            assert proof.status != "proved" or all(true for _, true in truth), (goal, facts)
            if proof.status == "refuted":
                chosen = {v: x for v, x in proof.counterexample.items() if v in ranges}
                assert any(not true and chosen.items() <= at.items() for at, true in truth), (goal, facts, chosen)
    assert tally["proved"] >= 5 and (tally["refuted"] >= 5 or tally["unknown"] >= 30), tally


# ranges, expressions of one coordinate or two, facts, how many images are exact at least. A symbol that is read once
# takes every value that it declares, and one that is read twice does not.
READ: list[tuple[dict[Var, Range], list[tuple[Expr, ...]], list[tuple[Cond, ...]], int]] = [
    (
        {i: Range(0, 1), j: Range(0, 2)},
        [
            (T[i],), (T[i] * 2 + 1,), (T[i] - T[j],), (T[i] + T[j],), (T[i] - T[i],), (T[0] * 2 - T[1],), (T[i] + U(),),
            (U() * T[i],), ((T[0] + 2) * (T[1] + 2),), (T[i] * 3 + U() - T[j],), (T[T[i]],), (T[i], T[j]), (T[i], U()),
            (T[i], i), (U(), U() + j), (T[i] + j, i), (T[0], T[1] + U()), (U() * U(), j),
        ],
        [(), (T[i].ne(1),), (U().ne(0), T[1] + T[2] < 2), (T[0].ne(1), (U() + T[0]).eq(1)), (i >= j, i < U() * U())],
        12,
    ),
    (
        {i: Range(0, T[0]), j: Range(U() * 2, 1)},
        [(i,), (j,), (T[0] + 0,), (T[0] + i,), (T[1] + 0,), (U() * 2,), (U() + T[0],), (j - U(),)],
        [(), (T[0].ne(2),), (T[1].ne(1), j >= 0), (U().ne(0),)],
        0,
    ),
    (
        {i: Range(0, 2), j: Range(0, 2)},
        [(A[i] + A[j],), (A[i] - A[i],), (A[i] + i,), (A[i] * 2 - A[j],), (minimum(A[i], A[0]),), (A[i] % 2 - A[j],)],
        [(), (A[i].eq(j),), (A[0] < 1,), (i + j < 2,)],
        8,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("number", "domain"), turned(range(len(READ)), ["auto", "interval", "stride", "isl"], 4))
def test_sets_of_loads(number: int, domain: str) -> None:
    ranges, reads, given, least = READ[number]
    exact = 0
    for facts in given:
        ctx, rows = Context(ranges, assume=facts), list(loaded(ranges, facts))
        for read in reads:
            truth = {tuple(evaluate(e, at) for e in read) for at in rows}
            region, what = ctx.image(read, domain=domain), (domain, facts, read)
            window = range(-4, 18) if len(read) == 1 else range(-3, 5)
            inside = {point for point in itertools.product(window, repeat=len(read)) if point in region}
            assert truth <= inside and (inside == truth or not region.is_exact), (*what, region, truth)
            exact += region.is_exact
            if len(read) == 1:
                found, bounds = ctx.value_set(*read, domain=domain), ctx.bounds(*read, domain=domain)
                inside = {(x,) for x in window if x in found}
                assert truth <= inside and (inside == truth or not found.is_exact), (*what, found, truth)
                ends = (min(truth)[0], max(truth)[0])
                assert not bounds.is_tight or tuple(map(int, bounds)) == ends, (*what, bounds, truth)
    assert exact >= (least if domain in ("auto", "isl") else 0)


# -- goals by cases ----------------------------------------------------------------------------------------------------

CASES: tuple[Callable[[Expr, int, int], Cond], ...] = (
    lambda e, c, miss: select(e.eq(c), 9, e - c).ne(miss),
    lambda e, c, miss: select(e.ne(c), e - c, 9).ne(miss),
    lambda e, c, miss: select(e >= c, 9, e - c).ne(miss),
    lambda e, c, miss: select(e < c, e - c + 9, e - c).ne(miss),
    lambda e, c, miss: minimum(e - c, 0).ne(miss),
    lambda e, c, miss: abs(e - c).ne(abs(miss)),
    lambda e, c, miss: maximum(e - c, 1).ne(miss),
    lambda e, c, miss: select(e.eq(c) | (j > 0), 9, e - c).ne(miss),
    lambda e, c, miss: select(e.eq(c), 0, 1) * (e - c - miss) * (e - c - miss) >= 0,
    lambda e, c, miss: select(e >= c, e - c, 0) >= 0,
    lambda e, c, miss: select(e >= c, e - c, -1) >= 0,
    lambda e, c, miss: select(e < c, 0, e - c + 1).eq(0),
    lambda e, c, miss: select(e >= c, e - c, 0).eq(0),
    lambda e, c, miss: select(e < c, miss, c - e - 1) <= -1,
    lambda e, c, miss: abs(e - c).eq(e - c),
    lambda e, c, miss: maximum(e, c).eq(select(e < c, c, e)),
    lambda e, c, miss: select((e < c) & (j > 0), 1, 0) + select((e >= c) | (j <= 0), 1, 0) <= 1,
    lambda e, c, miss: select((e < c) | (j.eq(c)), e, c).eq(minimum(e, c)),
    lambda e, c, miss: (maximum(e, j) >= c) | (minimum(e, j) < c - 1),
    lambda e, c, miss: maximum(minimum(e, c), j - c) <= select(e + j > c, 2, 1),
)


@pytest.mark.parametrize("facts", [(), (i <= j,)], ids=str)
def test_goals_that_fail_next_to_a_case_alone(facts: tuple[Cond, ...]) -> None:
    """What the linear tier proves case by case: a case that is a little too narrow proves what fails beside it."""
    claims = Claims(world({i: Range(-3, 7), j: Range(-2, 4)}, facts))
    with using(tiers=("linear",)):
        for e, c, miss in itertools.product((i, i - j, i + j * 2), (-1, 0, 2), (-2, 1)):
            for goal in CASES:
                claims.goal(goal(e, c, miss))
    assert claims.tally["proved"] > 60, claims.tally


# -- sums of terms with sizes ------------------------------------------------------------------------------------------

SIZED: tuple[dict[Var, Range], ...] = (
    {i: Range(0, n), j: Range(0, m)},
    {i: Range(0, n), j: Range(0, i + 1)},
    {j: Range(0, n), i: Range(j, m)},
    {i: Range(m, n), j: Range(-n, n)},
    {i: Range(0, n + 1), j: Range(0, m * 2)},
    {i: Range(2 - m, m), j: Range(0, minimum(n, m))},
    {i: Range(1, 2), j: Range(1 - n, n - i)},
    {j: Range(0, 2), i: Range(3, n)},
    {i: Range(0, n), j: Range(i * 5, 2)},
)
COEFFICIENTS: tuple[Expr, ...] = (*map(const, (1, -1, 2, 3)), n, -m, m + 1, n - 1, n * 2, n * m, m - n, 3 - n)


def sums() -> list[Expr]:
    found = [i * a + j * b for a, b in itertools.product(COEFFICIENTS, repeat=2)]
    found += [i * j, i * j + n, i * j + m, i + j + n, i * j - n, i * (i // 2) + n, i * (j % 2) + m, i * i * n + j]
    found += [(i + j) // n, (i * m + j) % m + n, i // n * m + j, minimum(i, j) * n + i, (n + i) // m + j * 2]
    found += [i * n + j + (i + j) // n, n // (i * i + 1), (i + n) // 2, (j * 2 + n) % 3 + i * 3, (j + n) // 2]
    return [*found, (i * m + j) // m, minimum(i, j), n - i, i * m + j + n, i * i, maximum(i, j) + 1]


@pytest.mark.parametrize("which", daily(range(len(SIZED)), 3))
def test_sums_over_sizes(which: int) -> None:
    """Every pair of coefficients over every kind of range: most such sums are contiguous, or only almost."""
    claims = Claims(world(SIZED[which], sizes=(n, m)), places=2)
    for number, e in enumerate(sums()):
        if (number + which) % 6 == 0 or number >= len(COEFFICIENTS) ** 2 and (number + which) % 2:
            claims.about(e)
    assert claims.tally["tight bounds"] > 2 and claims.tally["exact"] > 2, claims.tally


PARTS: tuple[Callable[[Var], Expr], ...] = (
    lambda v: v % 8 + minimum(2, v), lambda v: (v & 7) % 3, lambda v: v // 3 * 2 + v % 3 * 5, lambda v: v % 5 * (v % 3),
    lambda v: maximum(v % 5, 3 - v), lambda v: -(v // 2) + v % 2 * 7,
)  # fmt: skip


@pytest.mark.parametrize("tie", [None, lambda rows, columns: (rows % 2).eq(0), lambda rows, columns: i + j < columns])
def test_parts_that_share_no_variable_are_bounded_one_by_one_unless_a_fact_ties_them(tie: Any) -> None:
    rows, columns = ShapeVar("rows", lower=10, upper=16), ShapeVar("columns", lower=1)
    facts = [] if tie is None else [tie(rows, columns)]
    claims = Claims(world({i: Range(0, rows), j: Range(0, columns)}, facts, (rows, columns)))
    for number, (own, other) in enumerate(itertools.product(PARTS, repeat=2)):
        if number % 3 == 0:
            claims.bounds(own(i) * (1, -2)[number % 2] + other(j) + (0, rows // 4, 3 - columns)[number // 3 % 3], None)
    for c in (2, 3, 4, 6) if tie is None else ():  # a constant that moves out of a remainder counts once
        assert claims.bounds(i * 2 + (j * 2 + 3) % c, None).is_tight


# -- samples, extrema, boxes -------------------------------------------------------------------------------------------


def test_a_sample_is_at_values_that_sizes_have() -> None:
    """Samples respect declarations, also for substituted parameters and nonlinear terms of sizes."""
    v, two = Var("v"), ShapeVar("two", lower=2, upper=3)
    moved = Context({i: Range(0, 1)}).image((i + v,))
    assert moved.at({v: wide}).sample() in {(4,), (6,), (8,)}
    for e, truth in ((n * two + i, {a * b for a in range(1, 6) for b in (2, 3)}), (n * n + i, {1, 4, 9, 16, 25})):
        for first in range(0, 30, 3):
            region = Context({i: Range(0, 1)}, assume=[e - i >= first]).image((e,))
            sample = answered(region.sample)
            assert sample is None or sample[0] in truth and sample[0] >= first, (e, first, sample)


# -- all expressions of a few shapes over all small boxes --------------------------------------------------------------


BOXES = [
    (Range(0, 2), Range(0, 2)),
    (Range(0, 2), Range(-2, 4)),
    (Range(-1, 3), Range(0, 3)),
    (Range(0, 3), Range(-2, 3)),
    (Range(2, 1), Range(1, 4)),
]


def shapes() -> Iterator[Expr]:
    """Every shape of a sum, over one or two variables."""
    for p, q, k in itertools.product((1, 2, -3), (1, -2, 3, 4), (0, 2)):
        yield (e := i * p + j * q + k)
        for c in (2, 3, 5, 6):
            yield e // c
            yield e % c
        yield e % 3 + i
        yield e // 2 - j
        yield e % 4 + e // 4
        yield minimum(e, j + 1)
        yield maximum(e, i * 2)
        yield (e // 2) % 3
        yield (e % 6) // 2
        yield minimum(e % 3, i) * 2 + j
    for c, d in itertools.product((2, 3, 4, 5), (1, 2, 3)):
        yield (i * d) % c + (j * 3 + 1) % c
        yield (i * c) // d + j // c
        yield (i % c) * d + j % d
        yield (i * c + j) // c * d
        yield (i // c) * c + i % c + j * d
        yield minimum(i * c, 4) - maximum(j, d)
        yield minimum(i, d) * c + j
        yield maximum(minimum(i + j, c), d - i)
        yield (i * j) % c + d
        yield i * j * c - d
        yield (i * i + j) % c
        yield (i * i * d + i) % c
        yield (j * j * d + j) % c
        yield (i * j * d + j) % c
        yield (i + 9) % (j + c + d)
        yield abs(i * c - d) + j
        yield i % (j + c + 2) * d
        yield (i * c + 1) // (j * j + d)
        yield select(i < 1, j * c, i + d)
        yield select(j < d, i * c, j) + i
        yield (i + j * c) % -d
        yield (i + j) // -c
        yield (i + j * d) % c + j % 2
        yield (j * j * d + j * d + i) % c


SHAPES = tuple(shapes())


@pytest.mark.parametrize(("first", "second"), daily(BOXES, 2), ids=str)
def test_boxes(first: Range, second: Range) -> None:
    """By the domains that claim by structure alone."""
    claims = Claims(world({i: first, j: second}))
    for e, domain in itertools.product(SHAPES, ("interval", "stride")):
        claims.about(e, domain)
    assert claims.tally["asked"] > 1_200 and claims.tally["tight"] > 800 and claims.tally["exact"] > 200, claims.tally


FACTS: dict[str, list[Cond]] = {
    "a sum": [i + j <= 2],
    "a hole": [i.ne(1)],
    "a stride": [((i + j) % 2).eq(0)],
    "a choice": [(i < 1) | (j > 0)],
    "a tie": [(j - i * 2).eq(0)],
    "a division": [6 // i > 1],
    "a division without a value at a corner": [6 // (i * i + j * j - 2) >= -4],
    "ends that are not reached": [i * 2 + j * 2 <= 3, i + j >= -1],
    "one of another variable": [k <= 2, k >= i],
}
QUESTIONS = (
    i, j, i + j, i - j, i * 2 + j, j - i * 3, i * j, (i + j) % 3, (i * 3 + j) // 2, minimum(i, j), maximum(i * 2, j),
    abs(j), abs(i - j), (i + 3 * j + 2) % 5, i % 2 + j, select(i < 1, j, i * 4), (i + j) // 2 - j % 2, j * j, i * 4 + 1,
    minimum(i + j, 2) * 2 - j, (i * 2 + j * 3) % 4, i // 2 + j // 2, maximum(i, 1) - minimum(j, 1), (i - 1) * (j + 1),
)  # fmt: skip


@pytest.mark.parametrize(("name", "domain"), turned(FACTS, DOMAINS[:4], 2))
def test_facts(name: str, domain: str) -> None:
    """Under facts, attained ends need a witness that satisfies the facts."""
    for first, second in (BOXES[0], BOXES[3], BOXES[4]):
        claims = Claims(world({i: first, j: second, k: Range(0, 3)}, FACTS[name]))
        for e in QUESTIONS:
            claims.about(e, domain)
        exact = claims.tally["exact"] == claims.tally["asked"] or not claims.rows
        assert domain not in ("auto", "points") or exact, claims.tally


PAIRS = [
    (i, j), (i + j, j), (i, i), (i * 2, j + 1), (i + j, i - j), (i % 2, j), (i // 2, i % 2), (i * 3 + j, j % 2), (j, i),
    (minimum(i, j), i), (i * j, j),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "domain"), turned([(), (i + j <= 2,), (k <= 1,), (i.eq(j),)], DOMAINS[:4], 2))
def test_products_of_sets(facts: tuple[Cond, ...], domain: str) -> None:
    """A product of sets is exact only where the coordinates are independent."""
    exact = 0
    for first, second in (BOXES[0], BOXES[3], BOXES[4]):
        claims = Claims(world({i: first, j: second, k: Range(0, 3)}, facts))
        for pair in PAIRS:
            claims.algebra(pair, ["itself"], domain)
        exact += claims.tally["exact region"]
    assert exact > 0 or facts or domain == "interval"


SMALL_GOALS: tuple[Callable[[int], Cond], ...] = (
    lambda c: i + j < c, lambda c: i * 2 - j >= c, lambda c: (i * 3 + j) % 4 <= c, lambda c: minimum(i, j) < c,
    lambda c: select(i < 1, j, i * 2) <= c, lambda c: maximum(i, j) - minimum(i, j) < c, lambda c: (i * j).ne(c),
    lambda c: (i < c) | (j < c), lambda c: select(i < j, select(j < c, i, j), i + c) >= c - 1, lambda c: abs(i - j) < c,
)  # fmt: skip


@pytest.mark.parametrize("tiers", [("linear",), ("linear", "points"), ("linear", "isl")], ids=str)
def test_proofs_over_small_boxes(tiers: tuple[str, ...]) -> None:
    """Proved is true at every point; refuted fails at the counterexample; what is certified passes its check."""
    tally: Counter[str] = Counter()
    with using(tiers=tiers):
        for (first, second), facts in itertools.product((BOXES[0], BOXES[3], BOXES[4]), ((), (i + j <= 2,), (i <= j,))):
            claims = Claims(world({i: first, j: second}, facts), tally=tally)
            for goal, c in itertools.product(SMALL_GOALS, range(-3, 6)):
                claims.goal(goal(c))
    assert min(tally["proved"], tally["refuted"]) > 60, tally
