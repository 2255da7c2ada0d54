"""The checker's arithmetic: polynomials, conjunctions of bits, fractions, and texts for isl and z3 preserve values."""

from __future__ import annotations

import itertools
import random
import time
from contextlib import suppress
from math import prod

import pytest

from intset import (
    Cond,
    Context,
    EvaluationError,
    Expr,
    Fact,
    Var,
    cast,
    ceildiv,
    const,
    evaluate,
    maximum,
    minimum,
    select,
    truncdiv,
    truncmod,
)
from intset.check import Certificate
from intset.check.evidence import (
    Expander,
)
from intset.check.solvers import _is_unsat, emptiness_text, is_empty_text, unsat_text
from intset.expr import ops
from intset.facts import ASSUMED
from tests.strategies.contexts import EVERY, Expressions
from tests.sweeps import daily

a, i, j, x, y, z, h, d, t = (Var(name) for name in "aijxyzhdt")


def test_polynomials_have_the_values_of_what_they_are_written_for() -> None:
    """Random expressions over all operations, with atoms evaluated directly."""
    drawn, compared = Expressions(random.Random(5), [i, j], EVERY), 0
    for _ in range(250):
        e = drawn.rng.choice(
            (drawn.integer(2), drawn.sum(2), (a + 1) | 3, (a * 2) & 5, a ^ 4, a >> 1, minimum(a, 3) & 6)
        )
        expander = Expander()
        poly = expander.poly(e)
        variables = e.free_vars()
        for _ in range(4):
            at = {v: drawn.rng.randint(-9, 9) for v in variables}
            try:
                expected = evaluate(e, at)
                found = sum(
                    k * prod(evaluate(expander.nodes[atom], at) ** power for atom, power in monomial)
                    for monomial, k in poly.items()
                )
            except EvaluationError:
                continue
            compared += 1
            assert found == expected, (e, at)
    assert compared > 600


OPERATIONS: tuple[Expr, ...] = (
    i // 3, i // -3, i % 4, i % -4, ceildiv(i, 3), ceildiv(i, -3), truncdiv(i, 3), truncdiv(i, -3), truncmod(i, 3),
    truncmod(i, -3), abs(i), minimum(i, j), maximum(i, j), select(i < j, i, j + 1), cast(i, 3, False), cast(i, 3, True),
    i << 2, i >> 1, i & 5, i & -3, i | 4, i ^ 6, ~i, -i, i * 3 - j, i & j, i | j, i ^ j, i % (j * j + 2),
    i // (j * j + 2), (i + 9) << (j & 3), i >> (j & 3), i * j,
)  # fmt: skip


def test_texts_hold_at_every_point_where_the_conditions_do() -> None:
    """What isl finds empty, or z3 unsatisfiable, has no such point."""
    drawn = Expressions(random.Random(50), [i, j], EVERY)
    for number in range(28):
        ends = (-9, 9) if number % 6 else (128, 250)  # two that are signed, or not, in eight bits
        at = {i: drawn.rng.randint(*ends), j: drawn.rng.randint(*ends)}
        chosen = [drawn.integer(2) for _ in range(6)] if number % 2 else OPERATIONS[number // 2 % 2 :: 2]
        conds: list[Cond] = []
        for e in chosen:
            with suppress(EvaluationError):
                value = evaluate(e, at)
                says = (e.eq(value), e <= value, e.ne(value + 1), ~(e < value), (e > value) | e.eq(value))
                conds.append(says[0] if number % 2 == 0 else drawn.rng.choice(says))
        there = [v.eq(value) for v, value in at.items()]
        for holds, fails in (([*there, *conds], None), ([*there, *conds[:-1]], ~conds[-1])):
            text = emptiness_text(holds, fails)
            assert text is not None and not is_empty_text(text, 1_000_000), (at, conds)
        if number % 2 == 0:
            facts = tuple(Fact(cond, ASSUMED) for cond in (*there, *conds))
            formula = unsat_text(Certificate("z3", conds[0], vacuous=True, facts=facts))
            assert formula is not None and _is_unsat(formula, 10_000_000) is False, (at, conds)


def test_a_text_is_the_one_that_follows_from_the_statement() -> None:
    """Foreign texts are rejected, even unsatisfiable texts for true statements."""
    goal, other = a * a >= 0, a * a + 1 > 0
    texts = [unsat_text(Certificate("z3", cond)) for cond in (goal, other)]
    assert [Certificate("z3", goal, text=text).check() for text in (*texts, "(assert false)", "")] == [True] + [
        False
    ] * 3
    even = (a * 2) % 4 <= 2
    texts = [emptiness_text([], cond) for cond in (even, a % 4 <= 3)]
    assert [Certificate("isl", even, text=text).check() for text in (*texts, "{ : false }", "")] == [True] + [False] * 3


# -- bits --------------------------------------------------------------------------------------------------------------

WINDOW = [
    dict(zip((x, y, z), values, strict=True))
    for values in itertools.product((-7, -1, 0, 5, 6), (-4, 3, 9), (-3, 0, 11))
]


@pytest.mark.parametrize("seed", daily(range(3_000), 100))
def test_what_is_equal_is_equal_everywhere(seed: int) -> None:
    rnd = random.Random(seed)
    drawn = Expressions(rnd, [x, y, z, x + 1], "bits", constants=(5, 0, -1))
    a = drawn.integer(3)
    b = rnd.choice([drawn.integer(3), (a & x) | (a & ~x), (a ^ y) ^ y, ~(~a | (z & 0))])
    goal = a.eq(b)
    if goal.op is not ops.EQ:
        return
    difference, is_zero = Expander().sides(goal)
    if is_zero and not difference:
        assert all(evaluate(goal, point) for point in WINDOW)


@pytest.mark.parametrize(
    "goal",
    [
        (x & (x | y)).eq(x),
        ((x ^ y) ^ y).eq(x),
        ((x & y) | (x & z)).eq(x & (y | z)),
        (~(x & y)).eq(~x | ~y),
        ((x | y) + (x & y)).eq(x + y),
        (x ^ y).eq((x | y) - (x & y)),
        ((x + 1) & ~(x + 1)).eq(0),
    ],
)
def test_identities_are_proved_with_a_certificate(goal: Cond) -> None:
    proof = Context().prove(goal)
    assert proof and proof.certificate().check()


def test_too_many_conjunctions_are_left_as_they_are() -> None:
    many = const(0)
    for n in range(12):
        many = many | (Var(f"a{n}") & Var(f"b{n}"))
    assert Context().prove(many.eq(many))
    assert not Context().prove((many ^ x).eq(many ^ y))


def test_what_is_too_long_multiplied_out_is_left_to_others() -> None:
    e = (x & y) + x + y + 1
    for _ in range(8):
        e = e * e + (x | y)
    assert Context().prove(e.eq(x * 3)).status in ("unknown", "refuted")


# -- common factors ----------------------------------------------------------------------------------------------------

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
    assert time.process_time() - begin < 20


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
