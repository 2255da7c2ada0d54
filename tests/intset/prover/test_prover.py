"""The prover: decided questions, checked counterexamples, facts used, towers; the search for certificates."""

import cProfile
import itertools
import pickle
import random
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any
from unittest.mock import patch

import pytest
import z3

import intset
from intset import (
    Cond,
    Context,
    Expr,
    InputError,
    Opaque,
    Range,
    ShapeVar,
    Var,
    asserting,
    bounded,
    evaluate,
    maximum,
    minimum,
    nonneg,
    select,
    truncmod,
)
from intset.check.certificate import Certificate
from intset.check.evidence import Expander
from intset.check.solvers import unsat_text
from intset.errors import ContradictionWarning
from intset.linear.canonical import Normalizer
from intset.prover import proof as prover_proof
from intset.prover.combination import RIGHT, SearchBudget, SearchSpentError, combinations, weights
from intset.prover.tiers import Basis
from intset.testing.contexts import question
from tests.sweeps import daily

i, j, k = (Var(name) for name in "ijk")
n, m, p = ShapeVar("n"), ShapeVar("m"), ShapeVar("p")
ROWS = Opaque("A", rank=1, lower=0)[0]


@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
def test_random_goals_are_decided_rightly_and_certified():
    kinds = Counter()
    for seed in range(400):
        q = question(seed)
        ctx = Context(q.ranges, assume=q.conds)
        proof = ctx.prove(q.goal)
        assert proof.status == ("proved" if q.goal_holds else "refuted"), (seed, proof)
        assert proof.vacuous <= (q.goal_points == 0), seed
        if proof.status == "refuted":
            assert evaluate(q.goal, proof.counterexample) is False
            assert all(evaluate(cond, proof.counterexample) for cond in q.conds)
        if seed < 150:
            certificate = proof.certificate()
            assert certificate.check(ctx) and (certificate.kind == "point") is not q.goal_holds, seed
            kinds[certificate.kind] += 1
    assert set(kinds) >= {"linear", "isl", "point"}


def test_contradictions_and_exhausted_budgets_are_told():
    with pytest.warns(ContradictionWarning, match="exclude one another"):
        ctx = Context({}, assume=[n >= 5, n <= 3, m >= 1])
    assert {str(fact.condition) for fact in ctx.contradiction} == {"n >= 5", "n <= 3"}
    assert ctx.prove(n.eq(1000)).vacuous
    assert Context({}, assume=[n >= 5]).contradiction == ()
    e = ((i // 3 + j) % 17 + (i * 5 + j) // 7) % 11
    ranges = {i: Range(0, 1000), j: Range(0, 1000)}
    with intset.using(isl_operations=50, points=0):
        found = Context(ranges).value_set(e)
        proof = Context(ranges).prove(e.ne(10) | (i < 5000))
    assert not found.is_exact and found.notes
    assert int(found.min) <= 0 and int(found.max) >= 10
    assert proof.status in ("proved", "unknown")
    with intset.using(tiers="linear"):
        unknown = Context({i: Range(0, n * n)}).prove((i * i + n) % 3 < 2 + (i * n) % 5)
    assert unknown.status in ("unknown", "refuted") and (unknown.reason or unknown.counterexample)


def test_values_fit_and_proofs_pickle_and_explain():
    ctx = Context({i: Range(0, 1 << 20), j: Range(0, 1 << 11)})
    assert ctx.fits(i * 2047 + j, bits=32)
    proof = ctx.fits(i * 2049 + j, bits=32)
    assert proof.status == "refuted"
    with pytest.raises(intset.MachineOverflowError):
        evaluate(i * 2049 + j, proof.counterexample, bits=32)
    assert ctx.fits(select(i < 1000, i * (1 << 20), 0), bits=32)
    assert not ctx.fits((i + (1 << 31)) - (1 << 31), bits=32)
    assert ctx.fits((i + (1 << 31)) - (1 << 31), bits=64)
    ctx = Context({i: Range(0, 8)}, assume=[i < 5])
    proof = pickle.loads(pickle.dumps(ctx.prove(i < 6)))
    assert proof.status == "proved" and [str(fact.condition) for fact in proof.used] == ["i < 5"]
    text = str(ctx.explain(i < 6))
    assert "Proved" in text and "i < 5 (assumed)" in text
    assert "It fails at i = 4" in str(ctx.explain(i < 4))
    assert "Both ends are attained" in str(ctx.explain(i * 2))


NESTED_ARMS = {
    "decided": (lambda s: select(j < 100, s + 1, 0), (1200, 1209)),
    "open": (lambda s: select(j < 2, s + 1, 0), (0, 1209)),
    "both": (lambda s: select(i < 2, s + 1, s - 1), (-1198, 1201)),
    "claims": (lambda s: nonneg(s + 1), (1200, 1209)),
}


@pytest.mark.parametrize("name", NESTED_ARMS)
def test_arms_nested_deeply_are_read_without_recursion(name):
    build, ends = NESTED_ARMS[name]
    s = i
    for _ in range(1200):
        s = build(s)
    ctx = Context({i: Range(0, 10), j: Range(0, 4)})
    low, high = ctx.bounds(s)
    assert (int(low), int(high)) == ends
    assert ctx.prove(s <= ends[1]) and ctx.value_set(s).ends() == (low, high)


BY_CASES = [
    ({i: Range(0, n)}, select(i < n, i, 0).eq(i)),
    ({i: Range(0, 128)}, select(i < 64, i, i - 64) < 64),
    ({i: Range(0, 128)}, select(i < 64, i, i - 64) // 4 < 16),
    ({i: Range(0, 2 * n)}, select(i < n, i, i - n) < n),
    ({i: Range(0, n + 4)}, select((i >= 2) & (i < n + 2), i - 2, 0) < n + 1),
    ({i: Range(0, 100)}, minimum(i, 99 - i) <= 49),
    ({i: None, j: None}, (minimum(i, j) + maximum(i, j)).eq(i + j)),
    ({i: Range(0, n)}, minimum(i + 4, n) - i <= 4),
    ({i: None}, abs(i) >= i),
    ({i: Range(0, 10)}, select(i.eq(5), 1, abs(i - 5)) >= 1),
    ({i: Range(-50, 100)}, i * select(i >= 0, 1, -1) >= 0),
    ({i: Range(0, 10)}, (i < 5) | (i >= 5)),
]


@pytest.mark.parametrize(("ranges", "goal"), BY_CASES)
def test_a_choice_of_arms_is_proved_case_by_case(ranges, goal):
    with intset.using(tiers="linear"):
        proof = Context(ranges).prove(goal)
    assert proof.status == "proved" and proof.certificate().check()


def test_a_goal_of_many_choices_is_not_split_without_end(monkeypatch):
    narrowings = []
    original = Normalizer.narrowed
    monkeypatch.setattr(Normalizer, "narrowed", lambda self, cond: narrowings.append(cond) or original(self, cond))
    many = [Var(f"v{number}") for number in range(12)]
    with intset.using(tiers="linear"):
        proof = Context({}).prove(sum(map(abs, many)) >= sum(many))  # it holds, in 2**12 cases
    assert proof.status == "unknown"
    assert 2 <= len(narrowings) < 40


# -- towers: what a question does, in calls, is bounded however many levels there are ----------------------------------

CONTEXT = {i: Range(0, 1000), j: Range(0, 8), k: Range(0, 5)}
STEPS: dict[str, Callable[[Any, int], Expr]] = {
    "select": lambda e, q: select(e < k + q, e + j, e + 1),
    "select_square": lambda e, q: select(e < k + q, e * e, e + 1),
    "either": lambda e, q: select((e < k) | (e > j) & (e < q), e * 2, e - 1),
    "minimum": lambda e, q: minimum(e + j, e * 2 - k),
    "clamped": lambda e, q: maximum(minimum(e + j, 30), e - k),
    "quotient": lambda e, q: (e * 3 + j) // 2 + e,
    "remainder": lambda e, q: (e * 3 + j) % (q + 7),
    "digits": lambda e, q: e // 2 + e % 3,
    "square": lambda e, q: e * e % 7 + e,
    "bits": lambda e, q: (e ^ j) + (e & k),
}
QUESTIONS: dict[str, Callable[[Context, Expr], Any]] = {
    "bounds": Context.bounds,
    "value_set": lambda ctx, e: ctx.value_set(e).ends(),
    "prove": lambda ctx, e: ctx.prove(e < 5),
}
MOST = 3_000_000  # function calls; one of 40,000 points alone would take 20 million at 80 levels


@pytest.mark.parametrize(("name", "question"), daily(product(STEPS, QUESTIONS), 5))
def test_a_question_about_a_tower_takes_a_bounded_number_of_steps(name: str, question: str) -> None:
    e = reduce(STEPS[name], range(80), i)
    profile = cProfile.Profile()
    profile.enable()
    QUESTIONS[question](Context(CONTEXT), e)
    profile.disable()
    assert sum(entry.callcount for entry in profile.getstats()) <= MOST


@pytest.mark.parametrize("name", daily(STEPS, 4))
def test_the_ends_of_a_tower_hold_every_value(name: str) -> None:
    rng = random.Random(name)
    for levels in (7, 14, 80):
        e = reduce(STEPS[name], range(levels), i)
        low, high = Context(CONTEXT).bounds(e)
        values = Context(CONTEXT).value_set(e)
        for _ in range(6):
            found = evaluate(e, {v: rng.randrange(r.extent.data) for v, r in CONTEXT.items()})
            assert low <= found <= high
            assert values.min <= found <= values.max


def test_long_sums_take_a_number_of_steps_that_grows_with_them() -> None:
    def calls(terms: int) -> int:
        i = Var("i")
        e: Expr = i
        for _ in range(terms):
            e = e + i * 2
        profile = cProfile.Profile()
        assert profile.runcall(Context({i: Range(0, 1000)}).fits, e)
        return sum(entry.callcount for entry in profile.getstats())

    calls(10)
    assert calls(100) < 2.6 * calls(50)

    def written(levels):
        total = i
        for _ in range(levels):
            total = total * total % (n + 1) + total
        ctx = Context({i: Range(0, n)})
        ctx.bounds(total)
        return sum(len(form.terms) for form in ctx.frame.known.forms.values() if form._expr is not None)

    assert written(60) < 3 * written(30)


# -- certificate search: its budgets, its simplex method, a certificate for every proof that uses facts ----------------

N, M = Var("n"), ShapeVar("m", 2, 14, 4)


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


def test_a_search_ends_with_its_budget() -> None:
    effort = SearchBudget(10)
    effort.charge(10)
    with pytest.raises(SearchSpentError, match="10 steps"):
        effort.charge(1)
    rows, free, _ = next(
        one for one in map(system, range(300)) if weights(one[0], one[1], SearchBudget(10**6)) and len(one[0]) > 3
    )
    with pytest.raises(SearchSpentError):
        weights(rows, free, SearchBudget(3))


@pytest.mark.parametrize(
    ("ctx", "e"),
    [
        (Context({i: Range(M * 7, 1)}, assume=[M <= 10]), truncmod(i * 7, 5) % 5),
        (Context({k: Range(i * 5, 3), i: Range(10 - N, 3)}, assume=[N >= -3, N <= 6]), (k % 8) // 5 + k - i * 8),
        (Context({i: Range(0, 56), j: Range(0, 3), k: Range(0, 7)}), ((i * 21 + j * 7 + k) % 13 * 5 + i) // 3 % 4),
    ],
)
def test_what_others_can_show_is_not_searched_for_long(charged: list[int], ctx: Context, e: Expr) -> None:
    found = ctx.bounds(e).certificate()
    assert found.check(ctx)
    assert sum(charged) < 6 * prover_proof.CERTIFY_SOON + prover_proof.CERTIFY_STEPS // 10


def test_a_search_ends(charged: list[int]) -> None:
    goal = (i * i * j + j * j * k + k * k * i) % 7 * (i - j) * (j - k) * (k - i) <= 6 * 20**3
    ctx = Context({i: Range(0, 20), j: Range(0, N), k: Range(0, 20)}, assume=[N <= 20, i + j <= k + N])
    proof = ctx.prove(goal)
    with patch.object(
        prover_proof,
        "_FINDERS",
        {**prover_proof._FINDERS, **dict.fromkeys(("isl", "points", "z3"), lambda *_: iter(()))},
    ):
        claims = [prover_proof.claim_of(goal, proof.basis, proof.basis.facts)] * 3
        prover_proof.first_accepted(claims, proof.basis, ("linear", "isl"), SearchBudget(2 * prover_proof.CERTIFY_SOON))
    assert 0 < sum(charged) < 4 * prover_proof.CERTIFY_SOON


@pytest.mark.parametrize(
    ("ctx", "goal"),
    [
        (Context({i: Range(0, N)}), N >= 1),
        (Context({i: Range(3, N - 3)}), N >= 4),
        (Context({i: Range(3, N // 2)}), N >= 2),
        (Context({i: Range(N, 7 - N), j: Range(0, 3)}), N <= 6),
        (Context({i: Range(0, N), j: Range(0, k)}), N + k >= 2),
        (Context({i: Range(0, ROWS)}), ROWS * 3 % 5 + ROWS // 2 >= 1),
        (Context({i: Range(2, ROWS - 2)}), ROWS * 7 % 8 + ROWS // 8 >= 1),
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


def test_weights_are_found_where_z3_finds_some() -> None:
    answers = []
    for seed in range(300):
        rows, free, count = system(seed)
        found = weights(rows, free, SearchBudget(10**6))
        assert (found is not None) == has_weights(rows, free, count), seed
        assert found is None or adds_up(rows, free, found), seed
        answers.append(found is not None)
    assert 60 < sum(answers) < 240
    # Beale's example, on which the rule of the steepest column walks in a circle.
    rows = [
        {0: 1, 3: 25, 4: -60 * 100, 5: -4, 6: 900},
        {1: 1, 3: 50, 4: -90 * 100, 5: -2, 6: 300},
        {2: 1, 5: 1, RIGHT: 1},
        {3: 75, 4: -15000, 5: 2, 6: -600, 7: -1, RIGHT: 5},
    ]
    found = weights(rows, (), SearchBudget(10**5))
    assert (found is not None) == has_weights(rows, (), 8)
    assert found is None or adds_up(rows, (), found)


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
    k, M = Var("k"), ShapeVar("m")
    tried: list[tuple[object, ...]] = []

    def nothing(claim: Certificate, basis: Basis, effort: SearchBudget) -> Iterator[Certificate]:
        tried.append((claim.goal, claim.vacuous, claim.facts, claim.ranges))
        return iter(())

    for ranges in ({k: Range(0, 9)}, {k: Range(0, M)}, {k: Range(0, M), Var("j"): Range(k, M)}):
        proof = Context(ranges).prove(k * k >= k)
        tried.clear()
        with (
            patch.object(prover_proof, "_FINDERS", dict.fromkeys(prover_proof._FINDERS, nothing)),
            pytest.raises(InputError, match="no certificate"),
        ):
            proof.certificate()
        assert tried and len(tried) == 4 * len({str(claim) for claim in tried})
