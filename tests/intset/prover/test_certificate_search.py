"""Certificate search: its budgets, its simplex method, and a certificate for every proof that uses facts."""

import itertools
import random
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from unittest.mock import patch

import pytest
import z3

from intset import Cond, Context, Expr, InputError, Range, ShapeVar, Var, asserting, bounded, nonneg, truncmod
from intset.check.certificate import Certificate
from intset.check.evidence import Expander
from intset.check.solvers import unsat_text
from intset.prover import certify
from intset.prover.combination import RIGHT, SearchBudget, SearchSpentError, combinations, weights
from intset.prover.tiers import Basis

i, j, k, n = Var("i"), Var("j"), Var("k"), Var("n")
m = ShapeVar("m", 2, 14, 4)


@pytest.fixture
def charged(asked_anew: None) -> Iterator[list[int]]:
    """The steps that searches take meanwhile."""
    steps: list[int] = []
    charge = SearchBudget.charge

    def counted(effort: SearchBudget, more: int) -> None:
        steps.append(min(more, effort.left))
        charge(effort, more)

    with patch.object(SearchBudget, "charge", counted):
        yield steps


def test_steps_run_out() -> None:
    effort = SearchBudget(10)
    effort.charge(10)
    with pytest.raises(SearchSpentError, match="10 steps"):
        effort.charge(1)


@pytest.mark.parametrize(
    ("ctx", "e"),
    [
        (Context({i: Range(m * 7, 1)}, assume=[m <= 10]), truncmod(i * 7, 5) % 5),
        (Context({k: Range(i * 5, 3), i: Range(10 - n, 3)}, assume=[n >= -3, n <= 6]), (k % 8) // 5 + k - i * 8),
        (Context({i: Range(0, 56), j: Range(0, 3), k: Range(0, 7)}), ((i * 21 + j * 7 + k) % 13 * 5 + i) // 3 % 4),
    ],
)
def test_what_others_can_show_is_not_searched_for_long(charged: list[int], ctx: Context, e: Expr) -> None:
    found = ctx.bounds(e).certificate()
    assert found.check(ctx)
    assert sum(charged) < 6 * certify.CERTIFY_SOON + certify.CERTIFY_STEPS // 10


def test_a_search_ends(charged: list[int]) -> None:
    goal = (i * i * j + j * j * k + k * k * i) % 7 * (i - j) * (j - k) * (k - i) <= 6 * 20**3
    ctx = Context({i: Range(0, 20), j: Range(0, n), k: Range(0, 20)}, assume=[n <= 20, i + j <= k + n])
    proof = ctx.prove(goal)
    with patch.object(
        certify, "_FINDERS", {**certify._FINDERS, **dict.fromkeys(("isl", "points", "z3"), lambda *_: iter(()))}
    ):
        claims = [certify.claim_of(goal, proof.basis, proof.basis.facts)] * 3
        certify.first_accepted(claims, proof.basis, ("linear", "isl"), SearchBudget(2 * certify.CERTIFY_SOON))
    assert 0 < sum(charged) < 4 * certify.CERTIFY_SOON


@pytest.mark.parametrize(
    ("ctx", "goal"),
    [
        (Context({i: Range(0, n)}), n >= 1),
        (Context({i: Range(3, n - 3)}), n >= 4),
        (Context({i: Range(3, n // 2)}), n >= 2),
        (Context({i: Range(n, 7 - n), j: Range(0, 3)}), n <= 6),
        (Context({i: Range(0, n), j: Range(0, k)}), n + k >= 2),
    ],
)
def test_that_no_range_is_empty_is_a_premise(ctx: Context, goal: Cond) -> None:
    proof = ctx.prove(goal)
    assert proof and proof.certificate().check(ctx) and not proof.certificate().check(Context({}))


@pytest.mark.parametrize(
    "goal",
    [
        asserting(i <= 2, asserting(j <= 3, i + j)) <= 5,
        asserting(i <= 2, asserting(i.ne(j), j)) <= 5,
        nonneg(nonneg(i) - j) <= 3,
        bounded(nonneg(i) - 1, 0, 2) + j <= 7,
        asserting((i <= 1) & (j <= 2), asserting(i >= 0, asserting(j >= i, i * 3 + j))) <= 5,
    ],
)
def test_what_is_asserted_inside_of_an_assertion_belongs_to_the_goal(goal: Cond) -> None:
    ctx = Context({i: Range(-2, 6), j: Range(0, 7)})
    proof = ctx.prove(goal)
    assert proof.status != "unknown" and proof.certificate().check(ctx)
    for side in goal.args:
        if not side.is_const:
            assert ctx.bounds(side).certificate().check(ctx)


@pytest.mark.parametrize("squarings", [5, 20])
def test_z3_is_not_handed_products_of_a_high_degree(squarings: int) -> None:
    """z3 expands products outside its unit count."""
    e: Expr = i
    for _ in range(squarings):
        e = e * e
    asked = [Certificate("z3", goal) for goal in (e >= -1, (j // e).eq(j), e % j >= 0)]
    assert [unsat_text(cert) is None for cert in asked] == [squarings > 5] * 3


def test_conjunctions_are_written_in_the_order_in_which_operands_were_met() -> None:
    written = set()
    for _ in range(40):  # where variables lie, and so how a set of them is ordered, differs
        a, b, c = (Var(name) for name in "abc")
        expander = Expander()
        expander.poly((a ^ b) & (b | c) ^ c & a)
        written.add(tuple(str(node) for node in expander.nodes.values()))
    assert len(written) == 1


Rows = Sequence[Mapping[int, int]]


def adds_up(rows: Rows, free: Collection[int], found: Mapping[int, Fraction]) -> bool:
    held = all(weight >= 0 for key, weight in found.items() if key not in free)
    return held and all(
        sum(k * found.get(key, 0) for key, k in row.items() if key >= 0) == row.get(RIGHT, 0) for row in rows
    )


def has_weights(rows: Rows, free: Collection[int], count: int) -> bool:
    """What z3 says."""
    solver, unknown = z3.SolverFor("QF_LRA"), [z3.Real(f"w{number}") for number in range(count)]
    solver.add([weight >= 0 for number, weight in enumerate(unknown) if number not in free])
    for row in rows:
        solver.add(z3.Sum([unknown[key] * k for key, k in row.items() if key >= 0]) == row.get(RIGHT, 0))
    return bool(solver.check() == z3.sat)


def system(seed: int) -> tuple[Rows, set[int], int]:
    rng = random.Random(seed)
    count, most = rng.randint(1, 9), rng.choice((1, 2, 7, 10**9))
    rows = []
    for number in range(rng.randint(1, 7)):
        row = {key: rng.randint(-most, most) for key in rng.sample(range(count), rng.randint(1, count))}
        row[RIGHT] = -1 if number == 0 else rng.choice((0, 0, 0, rng.randint(-most, most)))
        rows.append({key: k for key, k in row.items() if k})
    return rows, {key for key in range(count) if rng.random() < 0.2}, count


def test_as_z3_says() -> None:
    answers = []
    for seed in range(300):
        rows, free, count = system(seed)
        found = weights(rows, free, SearchBudget(10**6))
        assert (found is not None) == has_weights(rows, free, count), seed
        assert found is None or adds_up(rows, free, found), seed
        answers.append(found is not None)
    assert 60 < sum(answers) < 240


def test_degenerate_pivots_come_to_an_end() -> None:
    """Beale's example, on which the rule of the steepest column walks in a circle."""
    rows = [
        {0: 1, 3: 25, 4: -60 * 100, 5: -4, 6: 900},
        {1: 1, 3: 50, 4: -90 * 100, 5: -2, 6: 300},
        {2: 1, 5: 1, RIGHT: 1},
        {3: 75, 4: -15000, 5: 2, 6: -600, 7: -1, RIGHT: 5},
    ]
    found = weights(rows, (), SearchBudget(10**5))
    assert (found is not None) == has_weights(rows, (), 8)
    assert found is None or adds_up(rows, (), found)


def test_a_budget_ends_it() -> None:
    rows, free, _ = next(
        one for one in map(system, range(300)) if weights(one[0], one[1], SearchBudget(10**6)) and len(one[0]) > 3
    )
    with pytest.raises(SearchSpentError):
        weights(rows, free, SearchBudget(3))


def test_cases_are_split_on_a_fractional_coordinate_by_the_same_method() -> None:
    """Splits use no z3 object, whose destructor could lose an interrupt."""
    i, j, k = Var("i"), Var("j"), Var("k")
    ranges = ((i, Range(0, 4)), (j, Range(0, 4)), (k, Range(0, 4)))
    split = 0
    with patch.dict(sys.modules, {"z3": None}):
        for a, b, c in ((2, 3, 5), (5, 3, 4), (4, 5, 3)):
            e = i * a + j * b - k * c
            values = {x * a + y * b - z * c for x, y, z in itertools.product(range(4), repeat=3)}
            for gap in [v for v in range(min(values), max(values)) if v not in values][:3]:
                found = combinations(Certificate("", e.ne(gap), ranges=ranges), SearchBudget(10**6))
                if found is not None:
                    assert Certificate("linear", e.ne(gap), ranges=ranges, combinations=found).check()
                    split += any(one.on is not None for one in found)
    assert split > 2


def test_a_search_that_fails_tries_each_claim_once(asked_anew: None) -> None:
    k, m = Var("k"), ShapeVar("m")
    tried: list[tuple[object, ...]] = []

    def nothing(claim: Certificate, basis: Basis, effort: SearchBudget) -> Iterator[Certificate]:
        tried.append((claim.goal, claim.vacuous, claim.facts, claim.ranges))
        return iter(())

    for ranges in ({k: Range(0, 9)}, {k: Range(0, m)}, {k: Range(0, m), Var("j"): Range(k, m)}):
        proof = Context(ranges).prove(k * k >= k)
        tried.clear()
        with (
            patch.object(certify, "_FINDERS", dict.fromkeys(certify._FINDERS, nothing)),
            pytest.raises(InputError, match="no certificate"),
        ):
            proof.certificate()
        assert tried and len(tried) == 4 * len({str(claim) for claim in tried})
