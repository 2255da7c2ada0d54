"""Questions about partial conditions, against enumeration.

Exact sets must equal the truth; empty ranges and contradictory facts make answers vacuous.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from intset import Context, Range, Var, const, evaluate, select, using
from intset.expr.build import asserting
from intset.expr.node import Cond
from lowering import lower_division
from tests.intset.partial import Drawing, value
from tests.sweeps import daily

i, j, n, m = Var("i"), Var("j"), Var("n"), Var("m")
Point = dict[Var, int]
SMALL = range(-4, 7)


class Case:
    """A context, a condition, and the points of the context."""

    def __init__(self, seed: int) -> None:
        r = random.Random(seed)
        self.cond = Drawing(r, (i, j)).condition(r.choice((1, 2, 2, 3)))
        self.facts = [Drawing(r, (i, j)).condition(1)] if r.random() < 0.4 else []
        sides = [(r.randint(-2, 1), r.randint(0, 4)) for _ in range(2)]
        self.ctx = Context({v: Range(*side) for v, side in zip((i, j), sides, strict=True)}, assume=self.facts)
        box = [{i: a, j: b} for a in range(sides[0][0], sum(sides[0])) for b in range(sides[1][0], sum(sides[1]))]
        self.points = [point for point in box if all(value(fact, point) is True for fact in self.facts)]
        self.holding = [point for point in self.points if value(self.cond, point) is True]
        self.what = (sides, self.facts, self.cond)


def narrow(case: Case) -> None:
    kept: Sequence[list[Var]] = ([], [j], [i, j])
    for keep in kept:
        answer = case.ctx.narrow(case.cond, keep)
        for place in ({v: point[v] for v in keep} for point in case.points or [{i: 0, j: 0}]):
            there = [point for point in case.points if all(point[v] == k for v, k in place.items())]
            holds = all(point in case.holding for point in there)
            found = value(answer.cond, place)
            assert found is not None and (holds or not found), (case.what, keep, place)
            assert found or not holds or not answer.is_exact or not there, (case.what, keep, place)


def solve(case: Case) -> None:
    found = case.ctx.solve(case.cond, i)
    for b in {point[j] for point in case.points}:
        true = {point[i] for point in case.holding if point[j] == b}
        there = found.at({j: b})
        listed = {k for k in SMALL if k in there}
        assert true <= listed and (listed == true or not found.is_exact), (case.what, b)


def prove(case: Case) -> None:
    proof = case.ctx.prove(case.cond)
    failing = [point for point in case.points if value(case.cond, point) is False]
    assert proof.status != "proved" or not failing, case.what
    assert not proof.vacuous or all(value(case.cond, point) is None for point in case.points), case.what
    if proof.status == "refuted":
        assert {v: proof.counterexample[v] for v in (i, j)} in failing, case.what


def simplify(case: Case) -> None:
    for e in (case.cond, select(case.cond, i, j)):
        for new in (case.ctx.simplify(e), case.ctx.simplify(e, {"floordiv": 9}), case.ctx.simplify(e, steps=True).expr):
            for point in case.points:
                assert value(e, point) in (None, value(new, point)), (case.what, e, new, point)


def sets(case: Case) -> None:
    for ctx, points, e in (
        (case.ctx, case.points, select(case.cond, i * 2, j)),
        (case.ctx.extended(facts=[case.cond]), case.holding, i + j),
    ):
        found = ctx.value_set(e)
        true = {value(e, point) for point in points} - {None}
        listed = {k for k in range(-9, 15) if k in found}
        assert true <= listed, (case.what, e)
        if found.is_exact:
            assert listed == true and found.count() == len(true), (case.what, e)


def maps(case: Case) -> None:
    ctx = case.ctx.extended(facts=[case.cond])
    region = ctx.image((i, j))
    true = {(point[i], point[j]) for point in case.holding}
    listed = {(a, b) for a in SMALL for b in SMALL if (a, b) in region}
    assert true <= listed and (listed == true or not region.is_exact), case.what
    verdict = ctx.as_iter_map([i // 2 + j]).injective
    reached = [a // 2 + b for a, b in true]
    if verdict.status != "unknown":
        assert bool(verdict) is (len(set(reached)) == len(reached)), (case.what, verdict)
    assert set(verdict.points) <= true, (case.what, verdict)


def the_rest(case: Case) -> None:
    e = select(case.cond, i // 3, j % 3)
    case.ctx.explain(case.cond), case.ctx.explain(e), lower_division(e, case.ctx)
    fits = case.ctx.fits(e, 8)
    assert fits.status != "refuted" or case.points, case.what


@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
@pytest.mark.parametrize("asked", [narrow, solve, prove, simplify, sets, maps, the_rest])
@pytest.mark.parametrize("seed", daily(range(20_000), 400))
def test_against_enumeration(asked: Callable[[Case], None], seed: int) -> None:
    asked(Case(seed))


def test_conditions_are_joined_in_the_order_in_which_they_have_a_value() -> None:
    cond = (6 // j).ne(3) & (7 // j).ne(9)
    found = Context({j: Range(0, 5)}).narrow(cond, [j])
    assert found.is_exact and [bool(evaluate(found.cond, {j: k})) for k in range(5)] == [False, True, False, True, True]
    nothing_kept = Context({j: Range(0, 2)}).narrow(cond, [])
    assert nothing_kept.is_exact and nothing_kept.cond.data is False


def test_nothing_is_computed_where_nothing_runs() -> None:
    ctx, cond = Context({j: Range(0, 0)}), (i // -3 - j // 2).eq(-3)
    assert ctx.simplify(cond, steps=True).expr is cond
    assert ctx.simplify(cond, {"floordiv": 9}) is cond
    longer = (i * 4 + 8) // 4 - 2
    assert ctx.simplify(longer) is longer and ctx.simplify(longer, steps=True).expr is longer


CONTRADICTIONS: list[list[Cond]] = [
    [n >= 2, n <= 1],
    [(n % 2).eq(1), (n % 4).eq(0)],
    [n >= 2, m >= n, m <= 1],
    [i >= 2, i <= 1],
    [i + n >= 9, n <= 2],
    [const(3) < 1],
    [n // (m - m) >= 1],
    [asserting(n < 0, n) > 0],
]


@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
@pytest.mark.parametrize("facts", CONTRADICTIONS, ids=str)
def test_nothing_is_refuted_where_facts_contradict(facts: list[Cond]) -> None:
    ctx = Context({i: Range(0, 4)}, assume=facts)
    for exprs in ([i // 2], [i % 3], [i // 2, i % 3]):
        found = ctx.as_iter_map(exprs)
        assert found.injective and found.surjective and found.bijective
    assert ctx.prove(i > 9).vacuous and ctx.fits(i * 1000, 8)
    assert ctx.narrow(i > 9, []).cond.data is True
    assert ctx.value_set(i).is_empty and ctx.value_set(i).count() == 0
    region = ctx.image((i, i // 2))
    assert region.is_empty and region.at({n: 1, m: 1}).is_empty and region.sample() is None and region.lexmin() is None


def test_a_map_without_facts_that_may_contradict_is_refuted_by_points() -> None:
    assert Context({i: Range(0, 4)}, assume=[n >= 2]).as_iter_map([i // 2]).injective.points == ((0,), (1,))


def test_a_refutation_needs_a_point_that_is_known() -> None:
    facts = [(n * n % 4).eq(3)]
    with using(tiers=("linear",)):  # which does not see that they contradict
        verdict = Context({i: Range(0, 4)}, assume=facts).as_iter_map([i // 2]).injective
    assert verdict.status == "unknown" and not verdict.points
