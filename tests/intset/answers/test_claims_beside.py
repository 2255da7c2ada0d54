"""Claims that depend on unmentioned facts and on kept variables, against enumeration.

Unmentioned facts of unknown consistency may exclude all points, so domains must not claim exactness. Kept variables
still constrain others through their ranges.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from intset import Context, Opaque, Range, ShapeVar, Var, evaluate, register, using
from intset.domains.isl.engine import Isl
from intset.domains.query import Query
from intset.domains.registry import unregister
from intset.domains.sets.answers import set_of_points
from intset.domains.sets.base import Bounds, IntSet
from intset.errors import CountError
from intset.expr.node import Cond, Expr
from intset.infinity import NEG_INF, POS_INF
from tests.intset.answers.test_claims_points import WORLDS, World, i, j, questions

pytestmark = [
    pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning"),
    pytest.mark.usefixtures("asked_anew"),
]
k, p, q = Var("k"), Var("p"), Var("q")
DOMAINS = ["auto", "interval", "stride", "points", "isl", "modular"]

UNSEEN: dict[str, Callable[[], tuple[Cond, ...]]] = {
    "no square": lambda: ((p * p).eq(2),),
    "no square of a product": lambda: ((p * p * q * q).eq(3),),
    "a product of neighbours": lambda: ((p * (p + 1) % 2).eq(1),),
    "three in a row": lambda: (((p * p * p - p) % 6).ne(0),),
    "units that are large": lambda: ((p * q).eq(1), p + q > 2),
}
"""Facts that no point satisfies, and no domain sees it."""


@pytest.mark.parametrize("name", UNSEEN)
def test_nothing_is_claimed_beside_facts_that_exclude_every_point_unseen(name: str) -> None:
    endless = Range.everything()
    ctx = Context({i: Range(0, 4), j: Range(-1, 3), p: endless, q: endless}, assume=UNSEEN[name]())
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


endless = Range.everything()
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
            other, found = Context({j: Range(8, 2)}), ctx.value_set(i)
            joined = (found | other.value_set(j), other.value_set(j) | found)
            whole, part = Context({j: Range(0, 6)}).image((j,)), ctx.image((i,))
            aside = Context({j: Range(8, 2)}).image((j,))
            taken, united = (whole - part, (whole - part) & whole), (aside | part, part | aside)
            number = None
            with contextlib.suppress(CountError):
                number = found.count()
            for at in (0, 2, 3, 6):
                counted = evaluate(number, {size: at}) if isinstance(number, Expr) else number
                assert counted in (None, 4 if at in left else 0), (at, fact, number)
                for union in joined:
                    own = {0, 1, 2, 3, 8, 9} if at in left else {8, 9}
                    inside = {value for value in range(12) if value in union.at({size: at})}
                    assert own <= inside and (inside == own or not union.is_exact), (at, fact, union)
                for region in (*taken, *united):
                    own = {0, 1, 2, 3, 8, 9} if at in left else {8, 9}
                    if any(region is one for one in taken):
                        own = {4, 5} if at in left else set(range(6))
                    inside = {value for value in range(12) if (value,) in region.at({size: at})}
                    assert own <= inside and (inside == own or not region.is_exact), (at, fact, region)
                for there in (ctx.value_set(i).at({size: at}), ctx.image((i, j * 0)).at({size: at})):
                    claimed = there.is_exact or there.is_tight
                    assert not there.is_empty if at in left else there.is_empty or not claimed, (at, fact, there)


def held(world: World, keep: tuple[Var, ...], e: Expr, domain: str, ctx: Context, tally: Counter[str]) -> None:
    bounds, found = ctx.bounds(e, keep=keep, domain=domain), ctx.value_set(e, keep=keep, domain=domain)
    what = (domain, world, keep, e, bounds, found)
    tally["tight"] += bounds.is_tight
    tally["exact"] += found.is_exact
    fixed = [*world.sizes, *keep]
    places = [world.variables.index(v) for v in fixed]
    taken: dict[tuple[int, ...], set[int]] = {}
    for point, value in world.values(e).items():
        taken.setdefault(tuple(point[k] for k in places), set()).add(value)
    for values, truth in [*taken.items()][:: max(1, len(taken) // 6)]:
        at: dict[Var, int] = dict(zip(fixed, values, strict=True))
        _hold_ends(what, bounds, bounds.is_tight, truth, at)
        _hold_ends(what, Bounds(*found.ends(), found.is_tight, ""), found.is_tight, truth, at)
        there = found.at(at)
        inside = {value for value in range(min(truth) - 2, max(truth) + 3) if value in there}
        assert truth <= inside and (inside == truth or not found.is_exact), (*what, at, truth, there)
    if found.is_exact and taken:  # where nothing runs, nothing is there
        spans = [range(min(own) - 1, max(own) + 2) for own in zip(*taken, strict=True)]
        beside = [values for values in itertools.product(*spans) if values not in taken]
        for values in beside[:: max(1, len(beside) // 4)]:
            there = found.at(dict(zip(fixed, values, strict=True)))
            assert not any(value in there for value in range(-6, 12)), (*what, values, there)


def _hold_ends(what: tuple[object, ...], bounds: Bounds, tight: bool, truth: set[int], at: dict[Var, int]) -> None:
    low, high = (evaluate(end, at) if isinstance(end, Expr) else end for end in bounds)
    assert low is NEG_INF or low <= min(truth), (*what, at, truth)
    assert high is POS_INF or high >= max(truth), (*what, at, truth)
    assert not tight or (low, high) == (min(truth), max(truth)), (*what, at, truth)


@pytest.mark.parametrize("name", WORLDS)
def test_kept_variables(name: str) -> None:
    world, tally = WORLDS[name], Counter[str]()
    ctx = world.context()
    asked = questions(world)
    for number, keep in enumerate(list(world.ranges)[:2]):
        for turn, domain in enumerate(DOMAINS[:5]):
            for e in asked[(number + turn) % 11 :: 11]:
                held(world, (keep,), e, domain, ctx, tally)
    assert tally["exact"] > (2 if "quotient" in name else 5) or name == "a division" or not world.points


def test_two_kept_variables_that_speak_of_different_ones() -> None:
    """Two kept variables constrain different variables; each question involves one of them."""
    world, tally = World({i: Range(0, 4), k: Range(0, 3), j: Range(0, i + 1), p: Range(k, 2)}), Counter[str]()
    ctx = world.context()
    for keep, e in itertools.product(((j, p), (p, j), (p,)), (i + 0, k + 0, i * 2, i + k, k - j, i * 3 + k)):
        for domain in ("auto", "interval", "stride"):
            held(world, keep, e, domain, ctx, tally)
    assert tally["exact"] >= 18


class SetsAlone:
    """A domain with exact sets of single expressions and without regions."""

    name = "sets alone"

    def image(self, query: Query) -> IntSet:
        return set_of_points(query, Isl())


JOINED: dict[str, tuple[World, tuple[Var, ...]]] = {
    "nothing": (World({i: Range(0, 3), j: Range(0, 2), k: Range(0, 3)}), ()),
    "a fact": (World({i: Range(0, 3), j: Range(0, 3), k: Range(0, 2)}, (i <= j,)), ()),
    "a fact of another": (World({i: Range(0, 3), j: Range(0, 3), k: Range(0, 3)}, (i <= k, k <= j)), ()),
    "a range": (World({i: Range(0, 3), j: Range(0, i + 1), k: Range(0, 2)}), ()),
    "a range between": (World({i: Range(0, 3), k: Range(0, i + 1), j: Range(0, k + 1)}), ()),
    "a range of another": (World({i: Range(0, 3), j: Range(0, 3), k: Range(i, j - i + 1)}), ()),
    "one outer variable": (World({k: Range(0, 3), i: Range(0, k + 1), j: Range(k, 2)}), ()),
    "what is kept": (World({i: Range(0, 3), j: Range(0, 3), k: Range(i + j, 2)}), (k,)),
    "what is kept, for each": (World({k: Range(0, 2), i: Range(k, 3), j: Range(0, 2)}), (k,)),
}


def test_a_product_of_exact_sets_is_exact_where_nothing_joins_them() -> None:
    register(SetsAlone)
    exact = Counter[str]()
    try:
        for (name, (world, keep)), pair in itertools.product(
            JOINED.items(), ((i, j), (i + k, j), (i, i), (j, k), (i * 0 + 2, j))
        ):
            region = world.context().image(pair, keep=keep, domain="sets alone")
            exact[name] += region.is_exact
            if not region.is_exact:
                continue
            taken: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
            for point in world.points:
                at = dict(zip(world.variables, point, strict=True))
                taken.setdefault(tuple(at[v] for v in keep), set()).add(tuple(evaluate(e, at) for e in pair))
            for values, truth in taken.items():
                there = region.at(dict(zip(keep, values, strict=True)))
                window = itertools.product(range(-1, 6), repeat=2)
                assert {point for point in window if point in there} == truth, (name, pair, region, truth)
        held_loads()
    finally:
        unregister("sets alone")
    assert exact["nothing"] == exact["what is kept, for each"] == 4, exact


def held_loads() -> None:
    """Loads of one symbol are joined, whatever their indices are; those of two are not."""
    first, second = Opaque("A", 1, 0, 1), Opaque("B", 0, 0, 2)
    ctx = Context({i: Range(0, 1), j: Range(0, 1), k: Range(0, 2)})
    for pair in ((first[i], first[j]), (first[i] + 1, first[0]), (first[i], k + first[j] * 2)):
        assert not ctx.image(pair, domain="sets alone").is_exact, pair
    assert ctx.image((first[i], k), domain="sets alone").is_exact
    assert ctx.image((k, second() + i), domain="sets alone").is_exact
