"""What the checker adds up: polynomials have the values of what they stand for, and a premise says what it says."""

from __future__ import annotations

import random
from math import prod

from intset import EvaluationError, Fact, Var, evaluate, minimum
from intset.check import Certificate
from intset.check.evidence import FACT, GOAL, Combination, Premise, Term
from intset.check.linear import ways_to_fail
from intset.check.polynomials import Expander
from intset.facts import ASSUMED
from tests.intset.answers.test_claims_drawn import Operations

a = Var("a")


def test_polynomials_have_the_values_of_what_they_are_written_for() -> None:
    """Of every operation, whose atoms are taken as they are evaluated: masks and shifts among them."""
    drawn, compared = Operations(random.Random(5)), 0
    for _ in range(250):
        e = drawn.rng.choice((drawn.term(), drawn.sum(), (a + 1) | 3, (a * 2) & 5, a ^ 4, a >> 1, minimum(a, 3) & 6))
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
        terms = (Term(1, (Premise(GOAL, case[0]),)), Term(1, (Premise(FACT, cond),)))
        cert = Certificate("linear", a >= 3, facts=(Fact(cond, ASSUMED),), combinations=(Combination(case, terms),))
        assert cert.check() is is_right
