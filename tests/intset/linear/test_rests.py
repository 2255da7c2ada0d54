"""Sums of facts that signs are derived from: few are tried, and those that a member refutes are not."""

from __future__ import annotations

import random
from itertools import pairwise, product

import pytest

from intset import Context, Range, ShapeVar, Var, ceildiv, evaluate
from intset.expr.node import Cond, Expr
from intset.linear import division, signs, symbolic
from intset.linear.form import Linear
from tests.intset.linear.test_sizes import drawn
from tests.sweeps import daily


def drawn_form(ctx: Context, rng: random.Random, variables: list[Var]) -> Linear:
    a, b, c = (rng.choice(variables) for _ in range(3))
    quotient = (a * rng.choice((1, 2, 6)) + rng.choice((0, 1, 7))) // rng.choice((*variables[:3], 3))
    e: Expr = (
        a * rng.choice((1, 2)) - b * rng.choice((1, c, 3)) + quotient * rng.choice((0, 1, -2, c)) + rng.randint(-3, 3)
    )
    return ctx.frame.known.form(e)


@pytest.mark.parametrize("seed", daily(range(60), 4))
def test_a_sign_from_few_sums_of_facts_is_one_from_many(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller budget proves less, never something else, and leaves nothing in caches that a subquestion reads."""
    answers = []
    for most in (1, 3, 40, 100_000):
        monkeypatch.setattr(symbolic, "TRIED_RESTS", most)
        rng = random.Random(seed)
        ctx, variables = drawn(rng)
        known = ctx.frame.known
        forms = [drawn_form(ctx, rng, variables) for _ in range(12)]
        answers.append([not known.empty and known.is_nonneg(form) for form in forms])
        assert symbolic.is_outermost() and not symbolic.SPENT.consulting and not symbolic.SPENT.proofs
        for form, holds in zip(forms, answers[-1], strict=True):
            assert not holds or not any((member.value(form) or 0) < 0 for member in signs.members_of(known))
    for few, more in pairwise(answers):
        assert all(b or not a for a, b in zip(few, more, strict=True))


@pytest.mark.parametrize("seed", [20, 23, 43, 37])
def test_a_question_that_facts_do_not_answer_ends(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts about quotients by sizes: each sum of them asks for forms, whose signs ask for sums of facts again."""
    rng, m = random.Random(seed), ShapeVar("m", lower=0)
    outer, inner, a, b = (Var(name) for name in "oiab")
    x = outer * 8 + inner
    q = x // (m * m)
    terms = [q, q * m, x, a, b, b * m, m, m * m, q // 2, x // m, a * m]
    facts: list[Cond] = []
    for _ in range(9):
        left, right = rng.choice(terms) * rng.choice((1, 2)), rng.choice(terms)
        facts.append(left <= right + rng.choice(terms) * rng.choice((0, 1)) + rng.randint(0, 2))
    ranges = {outer: Range(0, ceildiv(m * m * 3, 8)), inner: Range(0, 8), a: Range(0, m + 1), b: Range(a, m * 2)}
    known = Context(ranges).extended(facts=facts).frame.known
    tried: list[int] = []
    try_rests = symbolic.try_rests

    def counted(number: int) -> None:
        tried.append(symbolic.SPENT.rests)
        try_rests(number)

    monkeypatch.setattr(signs, "try_rests", counted)
    for e in (q * m * m + q + m * 2 - x - a, m * m * 3 - q * m - b):
        known.is_nonneg(known.form(e))
    assert symbolic.TRIED_RESTS - 2 <= max(tried) <= symbolic.TRIED_RESTS and len(tried) < 2_000


@pytest.mark.parametrize("seed", daily(range(150), 3))
def test_a_quotient_without_a_term_is_not_asked_for(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remainders of quotients are the same as where every quotient is written out, and equal the form at all points."""
    texts = []
    for may_have in (division._may_have, lambda *_: True):
        monkeypatch.setattr(division, "_may_have", may_have)
        rng = random.Random(seed)
        x, y = Var("x"), Var("y")
        n, m = ShapeVar("n", lower=1), ShapeVar("m", lower=1, multiple_of=rng.choice((1, 4)))
        ctx = Context({x: Range(0, n * m), y: Range(0, m)} if rng.random() < 0.5 else {x: None, y: None})
        d = rng.choice((n, m, n * m, n * 3, m + 1))
        c, outer = rng.choice((2, 3, 4)), rng.choice((2, 3, m))
        base = x * rng.choice((1, 2, n, 4)) + rng.choice((0, 1, 5)) + y * rng.choice((0, 1, d))
        others = [base * c // d, x, y * m, x * y, n, base // d, (x * c) // d, base // (d * outer) * d]
        e = base // (d if rng.random() < 0.5 else d * outer) * rng.choice((-c, c, -outer))
        for other in rng.sample(others, rng.randint(1, 3)):
            e = e + other * rng.choice((1, -1, 2))
        form = ctx.frame.known.form(e)
        regrouped = ctx.frame.known.regroup(form)
        texts.append(str(regrouped))
        step = 4 if m.declared()[2] == 4 else 1
        for point in product(range(-4, 5, 2), range(-3, 4, 3), (1, 2, 3), (step, 3 * step)):
            values = dict(zip((x, y, n, m), point, strict=True))
            inside = not ctx.ranges.get(x) or 0 <= point[0] < point[2] * point[3] and 0 <= point[1] < point[3]
            if inside:
                assert evaluate(e, values) == evaluate(regrouped.expr(), values), (e, regrouped, values)
    assert texts[0] == texts[1]
