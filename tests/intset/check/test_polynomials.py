"""Semantics of the checker's translations: polynomials, texts and premises preserve values."""

from __future__ import annotations

import random
from contextlib import suppress
from math import prod

from intset import EvaluationError, Fact, Var, cast, ceildiv, evaluate, maximum, minimum, select, truncdiv, truncmod
from intset.check import Certificate
from intset.check.evidence import DEFINED, FACT, GOAL, Combination, Premise, WeightedProduct, ways_to_fail
from intset.check.isl_text import emptiness_text, is_empty_text
from intset.check.polynomials import Expander
from intset.check.smt_text import _is_unsat, unsat_text
from intset.expr.node import Cond, Expr
from intset.facts import ASSUMED
from tests.strategies.contexts import EVERY, Expressions

a, i, j = Var("a"), Var("i"), Var("j")


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
                value = evaluate(e, at)
                found = sum(
                    k * prod(evaluate(expander.nodes[atom], at) ** power for atom, power in monomial)
                    for monomial, k in poly.items()
                )
            except EvaluationError:
                continue
            compared += 1
            assert found == value, (e, at)
    assert compared > 600


def test_what_is_not_equal_is_not_at_least() -> None:
    ((case, _),) = ways_to_fail(Certificate("linear", a >= 3, facts=(Fact(a.ne(3), ASSUMED),)))
    assert case is not None
    for cond, is_right in ((a.ne(3), False), (a >= 3, True)):
        terms = (WeightedProduct(1, (Premise(GOAL, case[0]),)), WeightedProduct(1, (Premise(FACT, cond),)))
        cert = Certificate("linear", a >= 3, facts=(Fact(cond, ASSUMED),), combinations=(Combination(case, terms),))
        assert cert.check() is is_right


def test_what_has_a_value_is_no_reason_for_anything_else() -> None:
    shifted = Fact((a << j) >= 0, ASSUMED)
    for goal, facts, reason, is_right in (
        (j >= 0, (shifted,), j >= 0, True),
        (j >= 1, (shifted,), j >= 1, False),
        (a // j <= 3, (), a // j <= 3, False),
    ):
        ((case, _),) = ways_to_fail(Certificate("linear", goal, facts=facts))
        assert case is not None
        terms = (WeightedProduct(1, (Premise(GOAL, case[0]),)), WeightedProduct(1, (Premise(DEFINED, reason),)))
        cert = Certificate("linear", goal, facts=facts, combinations=(Combination(case, terms),))
        assert cert.check() is is_right, goal


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
