"""Bitwise expressions have equal sums of conjunctions exactly if they are equal functions of their operands."""

from __future__ import annotations

import itertools
import random

import pytest

from intset import Cond, Context, Expr, Var, const
from intset.check.polynomials import Expander
from intset.expr import ops
from intset.expr.evaluate import evaluate
from tests.sweeps import daily

x, y, z = Var("x"), Var("y"), Var("z")
WINDOW = [
    dict(zip((x, y, z), values, strict=True))
    for values in itertools.product((-7, -1, 0, 5, 6), (-4, 3, 9), (-3, 0, 11))
]


def bitwise(rnd: random.Random, depth: int) -> Expr:
    if depth == 0 or rnd.random() < 0.15:
        return rnd.choice([x, y, z, x + 1, const(5), const(0), const(-1)])
    kind = rnd.randrange(4)
    if kind == 3:
        return ~bitwise(rnd, depth - 1)
    a, b = bitwise(rnd, depth - 1), bitwise(rnd, depth - 1)
    return (a & b, a | b, a ^ b)[kind]


@pytest.mark.parametrize("seed", daily(range(3_000), 100))
def test_what_is_equal_is_equal_everywhere(seed: int) -> None:
    rnd = random.Random(seed)
    a = bitwise(rnd, 3)
    b = rnd.choice([bitwise(rnd, 3), (a & x) | (a & ~x), (a ^ y) ^ y, ~(~a | (z & 0))])
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


@pytest.mark.parametrize("goal", [(x & y).eq(x), (x | y).eq(x + y), ((x & y) | z).eq(x & (y | z)), (~x).eq(-x)])
def test_others_are_not(goal: Cond) -> None:
    assert not Context().prove(goal)


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
