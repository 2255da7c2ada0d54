"""The prover: decided questions, checked counterexamples, facts used, scopes, towers of shared levels."""

import cProfile
import pickle
import random
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

import intset
from intset import Context, Expr, Range, ShapeVar, Var, evaluate, maximum, minimum, nonneg, select
from intset.errors import ContradictionWarning
from intset.linear.canonical import Normalizer
from intset.testing.contexts import question
from tests.sweeps import daily

i, j, k = (Var(name) for name in "ijk")
n, m, p = ShapeVar("n"), ShapeVar("m"), ShapeVar("p")


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


def test_facts_that_exclude_one_another_are_reported():
    with pytest.warns(ContradictionWarning, match="exclude one another"):
        ctx = Context({}, assume=[n >= 5, n <= 3, m >= 1])
    assert {str(fact.condition) for fact in ctx.contradiction} == {"n >= 5", "n <= 3"}
    assert ctx.prove(n.eq(1000)).vacuous
    assert Context({}, assume=[n >= 5]).contradiction == ()


def test_an_exhausted_budget_is_a_sound_answer_and_a_note():
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


def test_fits():
    ctx = Context({i: Range(0, 1 << 20), j: Range(0, 1 << 11)})
    assert ctx.fits(i * 2047 + j, bits=32)
    proof = ctx.fits(i * 2049 + j, bits=32)
    assert proof.status == "refuted"
    with pytest.raises(intset.MachineOverflowError):
        evaluate(i * 2049 + j, proof.counterexample, bits=32)
    assert ctx.fits(select(i < 1000, i * (1 << 20), 0), bits=32)
    assert not ctx.fits((i + (1 << 31)) - (1 << 31), bits=32)
    assert ctx.fits((i + (1 << 31)) - (1 << 31), bits=64)


def test_proofs_pickle_and_explain():
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


def test_sums_that_grow_with_each_level_are_not_written_out_at_each():
    def written(levels):
        total = i
        for _ in range(levels):
            total = total * total % (n + 1) + total
        ctx = Context({i: Range(0, n)})
        ctx.bounds(total)
        return sum(len(form.terms) for form in ctx.frame.known.forms.values() if form._expr is not None)

    assert written(160) < 3 * written(80)


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


def tower(name: str, levels: int) -> Expr:
    e: Expr = i
    for q in range(levels):
        e = STEPS[name](e, q)
    return e


@pytest.mark.parametrize(("name", "question"), daily(product(STEPS, QUESTIONS), 5))
def test_a_question_about_a_tower_takes_a_bounded_number_of_steps(name: str, question: str) -> None:
    e = tower(name, 80)
    profile = cProfile.Profile()
    profile.enable()
    QUESTIONS[question](Context(CONTEXT), e)
    profile.disable()
    assert sum(entry.callcount for entry in profile.getstats()) <= MOST


@pytest.mark.parametrize("name", daily(STEPS, 4))
def test_the_ends_of_a_tower_hold_every_value(name: str) -> None:
    rng = random.Random(name)
    for levels in (7, 14, 80):
        e = tower(name, levels)
        low, high = Context(CONTEXT).bounds(e)
        values = Context(CONTEXT).value_set(e)
        for _ in range(6):
            found = evaluate(e, {v: rng.randrange(r.extent.data) for v, r in CONTEXT.items()})
            assert low <= found <= high
            assert values.min <= found <= values.max


def test_a_long_sum_fits_in_a_number_of_steps_that_grows_with_it() -> None:
    def calls(terms: int) -> int:
        i = Var("i")
        e: Expr = i
        for _ in range(terms):
            e = e + i * 2
        profile = cProfile.Profile()
        assert profile.runcall(Context({i: Range(0, 1000)}).fits, e)
        return sum(entry.callcount for entry in profile.getstats())

    calls(10)
    assert calls(400) < 2.6 * calls(200)
