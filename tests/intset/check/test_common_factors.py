"""Quotients without common factors: `(x*h) // (x*d)` is `h // d` wherever it has a value, and nowhere else."""

from __future__ import annotations

import itertools
import random
import time

import pytest

from intset import Context, ShapeVar, Var, ceildiv, evaluate, floordiv, floormod, select, truncdiv, truncmod
from intset.check.certificate import Certificate
from intset.check.polynomials import Expander, without_common_factors
from intset.errors import EvaluationError
from intset.expr.node import Cond, Expr, const

x, y, h, d, t = (Var(name) for name in "xyhdt")
VARIABLES = (x, y, h, d)
OPERATIONS = (floordiv, floormod, truncdiv, truncmod, ceildiv)
QUESTIONS = [
    truncmod(y * x * 32 * x * y, x * y).eq(0),
    (y * x * 32 * (x * y) % (6 * x * y)).eq(x * y * 16 % 3 * (x * y * 2)),
    (x * 32 * x % (x * y)).eq(x * 32 % y * x),
    (t * 8 * t % t).eq(0),
    truncdiv(x * h * 6, x * d * 4).eq(truncdiv(h * 3, d * 2)),
    ceildiv(x * h + x * d, x * y).eq(-((-h - d) // y)),
    (-(x * h) // (x * x * d)).eq(-h // (x * d)),
    ((x * h + x) % (x * d) - x * ((h + 1) % d)).eq(0),
]


@pytest.mark.parametrize("goal", QUESTIONS, ids=str)
def test_what_a_common_factor_decides_has_a_certificate_that_is_checked_by_arithmetic(goal: Cond) -> None:
    proof = Context().prove(goal)
    assert proof and proof.by == "linear"
    certificate = proof.certificate()
    begin = time.process_time()
    assert certificate.kind == "linear" and certificate.check(Context())
    assert Certificate.from_text(certificate.to_text()).check()
    assert time.process_time() - begin < 2


def terms(rng: random.Random) -> Expr:
    """A sum of one or two products of small powers."""
    found = const(0)
    for _ in range(rng.choice((1, 1, 2))):
        part = const(rng.choice((-6, -2, 1, 2, 3, 4)))
        for v in rng.choices(VARIABLES, k=rng.choice((0, 1, 1, 2))):
            part = part * v
        found = found + part
    return found


def test_quotients_equal_their_canonical_form_wherever_they_have_a_value() -> None:
    rng, ctx, tried, shorter = random.Random(0), Context(), 0, 0
    for _ in range(150):
        common, op = terms(rng), rng.choice(OPERATIONS)
        e = op(common * terms(rng), common * terms(rng))
        form = ctx.canonical(e)
        shorter += str(form) != str(e)
        for values in rng.sample([*itertools.product((-7, -3, -1, 0, 1, 2, 5), repeat=4)], 25):
            env = dict(zip(VARIABLES, values, strict=True))
            try:
                value = evaluate(e, env)
            except EvaluationError:
                continue
            tried += 1
            assert evaluate(form, env) == value, (e, form, env)
    assert tried > 2000 and shorter > 100


def test_the_checker_divides_by_what_is_not_0_alone() -> None:
    quotient, simple = (x * h) // (x * d), h // d
    for nonzero, same in (((), False), ((x,), False), ((x * d,), True)):
        expander = Expander(nonzero)
        assert (expander.poly(quotient) == expander.poly(simple)) is same
    goal = select(x.ne(0), quotient, simple).eq(simple)  # lazily skipped at x == 0
    proof = Context().prove(goal)
    assert proof.status != "refuted" and (not proof or proof.certificate().check())
    false = select(d.ne(0), quotient, 0).eq(select(d.ne(0), simple + 1, 0))
    assert not Context().prove(false)


def test_fractions_are_those_that_they_were() -> None:
    rng, found = random.Random(1), 0
    for _ in range(200):
        common, expander = terms(rng), Expander()
        a, b = (expander.poly(common * terms(rng)) for _ in range(2))
        if not b:
            continue
        short_a, short_b = without_common_factors(a, b)
        found += short_b != b
        for values in itertools.product((-3, 2, 5), repeat=4):
            env = dict(zip(VARIABLES, values, strict=True))
            whole = [
                sum(k * _product(monomial, env) for monomial, k in poly.items()) for poly in (a, b, short_a, short_b)
            ]
            assert whole[0] * whole[3] == whole[1] * whole[2] and (whole[3] == 0) == (whole[1] == 0)
            assert whole[1] == 0 or (whole[0] // whole[1] == whole[2] // whole[3])
    assert found > 100


def _product(monomial: frozenset[tuple[Var, int]], env: dict[Var, int]) -> int:
    product = 1
    for v, power in monomial:
        product *= env[v] ** power
    return product


@pytest.mark.parametrize("r", range(4))
def test_a_number_that_is_less_than_the_factor_goes_with_it(r: int) -> None:
    d = ShapeVar("d", 1)
    ctx = Context()
    proof = ctx.prove(((x * 4 + r) // (d * 4)).eq(x // d))
    assert proof and proof.by == "linear" and proof.certificate().check()
    for divisor in (-3, -1, 1, 2, 5):  # only where the divisor is positive
        for value in range(-9, 10):
            assert (((value * 4 + r) // (divisor * 4)) == value // divisor) or divisor < 0
    e = Var("e")
    for value, divisor in ((-5, -2), (4, -3), (7, -1)):
        point = {x: value, e: divisor}
        form = ctx.canonical((x * 4 + r) // (e * 4))
        assert evaluate(form, point) == (value * 4 + r) // (divisor * 4)
