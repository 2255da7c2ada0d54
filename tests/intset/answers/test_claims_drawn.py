"""Claims of every kind about drawn contexts, against enumeration.

A wrong side condition in the linear form, in derived signs or in the elimination of variables shows on few expressions,
hence the numbers. A family is a strategy, its questions, and the minimum its answers must show.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from intset import select, using
from intset.domains.sets.base import IntSet
from intset.domains.sets.region import Region
from intset.errors import IntSetError
from tests.intset.oracle import ALGEBRA, RELATIONS, Claims
from tests.strategies.contexts import AFFINE, EVERY, NONLINEAR, PARTIAL, PRESBURGER, Drawn, contexts
from tests.sweeps import daily

pytestmark = [
    pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning"),
    pytest.mark.usefixtures("asked_anew"),
]
Ask = Callable[[Claims, Drawn], None]
DOMAINS = ("auto", "interval", "stride", "points", "isl", "interval*modular")


def by_structure(claims: Claims, drawn: Drawn) -> None:
    """Bounds by the linear form, proofs without a search."""
    with using(tiers=("linear",)):
        for e, goal in zip(drawn.exprs, drawn.goals, strict=False):
            claims.bounds(e, "interval")
            claims.canonical(e)
            claims.is_refined(e, claims.ctx.simplify(e))
            claims.goal(goal)


def proofs(claims: Claims, drawn: Drawn) -> None:
    for tiers in (("linear",), ("linear", "isl", "points")):
        with using(tiers=tiers):
            claims.goals()


def sets(*domains: str) -> Ask:
    def ask(claims: Claims, drawn: Drawn) -> None:
        for e in drawn.exprs:
            for domain in domains:
                claims.about(e, domain)

    return ask


def contained(claims: Claims, drawn: Drawn) -> None:
    for e in drawn.exprs:
        for domain in ("interval", "stride", "modular"):
            claims.contains(e, domain)


def conditions(claims: Claims, drawn: Drawn) -> None:
    """All questions about a condition: as goal, as fact."""
    *_, cond = drawn.goals
    claims.narrow(cond)
    claims.solve(cond)
    claims.goal(cond)
    claims.simplified(cond)
    claims.simplified(select(cond, *drawn.exprs[:2]))
    if claims.rng.random() < 0.2:
        claims.never_raises(cond, drawn.exprs[0])
    under = Claims(drawn.setting.under(cond), tally=claims.tally)
    under.about(drawn.exprs[0])
    under.map(tuple(v // 2 for v in drawn.ranges))


def fast(claims: Claims, drawn: Drawn) -> None:
    with using(effort="fast"):
        for e in drawn.exprs:
            claims.about(e)
        claims.region(None)
        claims.goals()


def over_sizes(claims: Claims, drawn: Drawn) -> None:
    for e in drawn.exprs:
        claims.over(e)


def sizes(claims: Claims, drawn: Drawn) -> None:
    """Sets and regions at sizes that facts and declarations allow, and at those that they exclude."""
    keep, exprs = drawn.keep, (drawn.exprs[0], next(iter(drawn.ranges)) + 0)
    found: list[tuple[IntSet | Region, Mapping[Any, Any]]]
    found = [(claims.ctx.value_set(exprs[0], keep=keep), claims.truth(exprs[0]))]
    found.append((claims.ctx.image(exprs, keep=keep), claims.setting.values(*exprs)))
    for answer, truth in found:
        claims.excluded(answer, truth)


def membership(claims: Claims, drawn: Drawn) -> None:
    claims.total(region := claims.ctx.image(drawn.exprs))
    claims.region_of(region, claims.setting.values(*drawn.exprs), (drawn.exprs,))


def relations(claims: Claims, drawn: Drawn) -> None:
    """Extrema of the image, and two operations on a relation between its coordinates."""
    claims.algebra(drawn.exprs, ["itself"])
    first = claims.rng.randint(0, len(drawn.exprs))
    claims.relation(drawn.exprs, first, claims.rng.sample([*RELATIONS], 2))


def algebra(claims: Claims, drawn: Drawn) -> None:
    for domain in DOMAINS:
        claims.algebra(drawn.exprs, claims.rng.sample([*ALGEBRA], 3), domain)


@dataclass(frozen=True)
class Family:
    """So many contexts with these options, a question, and how often answers must claim something."""

    ask: Ask
    count: int
    shows: Mapping[str, int]
    options: Mapping[str, Any]


def family(ask: Ask, count: int, shows: Mapping[str, int] | None = None, **options: Any) -> Family:
    return Family(ask, count, shows or {}, options)


PROVED = {"proved": 10, "refuted": 5}
FAMILIES = {
    "sums over sizes": family(
        by_structure, 18, {"tight": 37, "proved": 15}, kinds=f"{AFFINE} divisors quotients choices products",
        ranges="sized sized dependent box", sizes=2, exprs=12, facts=20,
    ),
    "remainders of quotients by sizes": family(
        by_structure, 15, {"tight": 22}, kinds="multiples quotients divisors", sizes=2, exprs=6, facts=0, depth=3
    ),
    "every operation": family(
        by_structure, 45, {"tight": 150, "proved": 15}, kinds=EVERY, exprs=8, facts=15, depth=3, shared=20
    ),
    "sets of every operation": family(
        sets("stride", "modular"), 56, {"tight": 93, "exact": 56}, kinds=EVERY, exprs=4, facts=15, shared=20
    ),
    "open ranges": family(contained, 30, kinds=EVERY, ranges="open box", exprs=4, facts=15),
    "dependent ranges": family(
        sets("auto"), 18, {"exact": 7, "tight": 12}, ranges="dependent sized", sizes=1, variables=3, kept=20, facts=15
    ),
    "partial operations": family(
        sets("interval", "auto"), 45, {"exact": 45, "tight": 67}, kinds=PARTIAL, ranges="box empty", exprs=3,
        shared=20,
    ),
    "partial goals": family(proofs, 22, PROVED, kinds=PARTIAL, ranges="box empty dependent", exprs=3, shared=20),
    "partial ends": family(
        sets("auto", "isl"), 22, {"exact": 11}, kinds=PARTIAL, ranges="divided sized shifted", sizes=2, depth=1
    ),
    "conditions": family(conditions, 18, PROVED, kinds=PARTIAL, ranges="box empty", exprs=2, facts=20, shared=20),
    "excluded sizes": family(
        sizes, 15, ranges="sized divided dependent", sizes=2, kept=30, facts=60, depth=1, kinds=f"{AFFINE} divisors"
    ),
    "fast": family(
        fast, 30, {"tight": 37, "exact": 7, **PROVED}, kinds=EVERY, ranges="box sized dependent", sizes=1, exprs=3
    ),
    "over sizes": family(
        over_sizes, 30, {"tight over sizes": 45}, kinds=f"{NONLINEAR} multiples", ranges="sized box", sizes=2, exprs=3,
        facts=20, depth=1,
    ),
    "membership": family(
        membership, 18, {"exact region": 7}, kinds=PARTIAL, ranges="divided box", sizes=2, facts=60, exprs=2, depth=1
    ),
    "tuples": family(
        relations, 18, {"exact region": 15, "exact relation": 15}, kinds=f"{AFFINE} quotients quotients choices",
        ranges="box box sized dependent", sizes=1, facts=25, exprs=2, depth=1,
    ),
    "algebra": family(algebra, 6, {"exact region": 20}, kinds=AFFINE, ranges="box empty", exprs=2, depth=1),
    "facts for ranges": family(
        sets("auto"), 15, {"exact": 9, "tight": 15}, ranges="box sized", sizes=2, stated=True, depth=1, kinds=NONLINEAR
    ),
    "facts that narrow": family(
        sets("auto"), 18, {"exact": 3, "tight": 7}, ranges="box", sizes=2, facts=100, depth=1, kinds=AFFINE
    ),
    "goals under facts for ranges": family(proofs, 15, PROVED, ranges="box sized", sizes=1, stated=True, exprs=2),
}  # fmt: skip


PARTS = [(0, 0.35), *((part, 1.0) for part in range(106))]  # by day a share of the first part


@pytest.mark.parametrize(("part", "share"), daily(PARTS, len(PARTS)))
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_claimed_is_true(name: str, part: int, share: float) -> None:
    one, tally = FAMILIES[name], Counter[str]()
    for number in range(part * one.count, part * one.count + round(one.count * share)):
        drawn = Drawn(f"{name} {number}", **one.options)
        try:
            one.ask(Claims(drawn.setting, seed=number, tally=tally), drawn)
        except IntSetError:  # out of the budget, or not affine
            tally["refused"] += 1
    assert all(tally[kind] >= least * share / 2 for kind, least in one.shows.items()), tally  # parts vary
    assert tally["refused"] <= one.count * share // 3, tally


@given(contexts(kinds=PRESBURGER, ranges="box dependent sized", sizes=1, exprs=2))
@settings(max_examples=10, suppress_health_check=list(HealthCheck))
def test_a_false_claim_shrinks(drawn: Drawn) -> None:
    claims = Claims(drawn.setting)
    for e in drawn.exprs:
        claims.about(e)
    claims.region(None)
    claims.goals()
