"""Definedness conditions: defined in evaluation order, and equivalent to definedness of the roots."""

from __future__ import annotations

import itertools
import random

import pytest

from intset import Var, select
from intset.expr.definedness import definedness, where_it_holds
from intset.expr.node import Cond
from tests.strategies.contexts import PARTIAL, Expressions, value
from tests.sweeps import daily

i, j = Var("i"), Var("j")
POINTS = [{i: a, j: b} for a, b in itertools.product(range(-3, 4), repeat=2)]


def check(cond: Cond) -> None:
    needs, holds = definedness((cond,)), where_it_holds(cond)
    for point in POINTS:
        read = itertools.takewhile(lambda found: found is True, (value(need, point) for need in needs))
        met = len(list(read))
        defined = value(cond, point) is not None
        assert defined is (met == len(needs)), (cond, needs, point)
        assert defined or value(needs[met], point) is False, (cond, needs, point)
        assert value(holds, point) is (value(cond, point) is True), (cond, holds, point)


@pytest.mark.parametrize("seed", daily(range(40_000), 400))
def test_drawn_conditions(seed: int) -> None:
    check(Expressions(random.Random(seed), (i, j), PARTIAL, shared=20).condition(3))


def test_needs_of_operands_stand_first() -> None:
    cond = 6 // (7 // j) > 1
    assert definedness((cond,)) == (j.ne(0), (7 // j).ne(0))
    check(cond)


def test_needs_stand_behind_those_of_their_guards() -> None:
    cond = (6 // j).ne(3) & (7 // j).ne(9)
    assert definedness((cond,))[0] is j.ne(0)
    check(cond)


def test_a_quotient_reached_early_and_behind_a_condition_without_a_value() -> None:
    """The guard of the second path to a quotient is undefined where the first path is taken."""
    quotient = i // (i - 1)
    early = as_selected(j > 0, quotient > 0)
    late = as_selected((6 // j) > 1, quotient > 1)
    check(early & late)


def as_selected(cond: Cond, then: Cond) -> Cond:
    """`then` where `cond` holds, else true."""
    return ~cond | then


def test_many_ways_to_one_quotient_are_no_larger_than_the_expression() -> None:
    """Two paths from each level to the next, 2^60 in total."""
    e = i // j
    for k in range(60):
        e = select(i // (j - k) > k, e, e + 1)
    assert len(definedness((e,))) <= 200
