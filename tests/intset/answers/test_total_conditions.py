"""Conditions that sets and regions give for membership have a value everywhere, so that they may be negated.

The sizes divide in ranges, in facts and in the expressions, so that ends and parameters such as `6 // n` have no value
at some sizes. Enumeration is the oracle.
"""

from __future__ import annotations

import random

import pytest

from intset import Context, Range, Var, floordiv, minimum, select
from intset.domains.stride import StrideSet
from intset.errors import IntSetError
from intset.expr.definedness import is_partial, total
from intset.expr.node import Cond, Expr, as_cond, as_expr
from intset.expr.walk import conjuncts
from intset.linear.canonical import Normalizer
from tests.intset.partial import value
from tests.sweeps import daily

i, j, n, m, y, z = (Var(name) for name in "ijnmyz")
SIZES = [{n: a, m: b} for a in range(-1, 4) for b in range(-1, 4)]


class Case:
    """A context of `i` and `j`, whose range and facts divide by sizes, and an expression."""

    def __init__(self, seed: int) -> None:
        r = self.r = random.Random(seed)
        ends = [4, n, 6 // n, n // m, select(n.ne(0), 6 // n, 2), minimum(4, floordiv(7, n - m))]
        self.low, self.end, self.width = r.choice((0, -1, 1)), as_expr(r.choice(ends)), r.choice((1, 3))
        self.facts = [self.fact() for _ in range(r.randint(0, 2))]
        self.ctx = Context({i: Range(self.low, self.end), j: Range(0, self.width)}, assume=self.facts)
        shifts = [as_expr(0), 6 // n, select(n.ne(0), 6 // n, 1), j]
        self.e = r.choice((i, i * 2, i % 2)) + r.choice(shifts)

    def fact(self) -> Cond:
        r = self.r
        divisor, k = r.choice((n, n - m, i, j - 1, m % 2)), r.choice((*range(4), j))
        quotient = as_expr(r.choice((6, 7, -5, m))) // divisor
        test = as_cond(r.choice((quotient.eq(k), quotient.ne(k), quotient < i + k)))
        lazy = select(divisor.ne(0), quotient, 1) < i + 1
        return r.choice((test, divisor.ne(0) & test, divisor.eq(0) | test, ~(divisor.eq(0) | test), lazy))

    def points(self, sizes: dict[Var, int]) -> set[tuple[int, int]]:
        extent = value(self.end, sizes)
        stop = self.low if extent is None else self.low + extent
        points = [{**sizes, i: a, j: b} for a in range(self.low, stop) for b in range(self.width)]
        alive = [p for p in points if all(value(fact, p) is True for fact in self.facts)]
        return {(place, p[j]) for p in alive if (place := value(self.e, p)) is not None}

    def allows(self, sizes: dict[Var, int]) -> bool:
        parts = [part for fact in self.facts for part in conjuncts(fact)]
        return all(value(part, sizes) is True for part in parts if set(part.free_vars()) <= {n, m})


def check(case: Case) -> int:
    """How many memberships were asked."""
    asked = 0
    region = case.ctx.image((case.e, j))
    condition, opposite = region.condition((y, z)), ~region.condition((y, z))
    for sizes in filter(case.allows, SIZES):
        true = case.points(sizes)
        for a in range(-4, 10):
            for b in range(-1, 4):
                said = value(condition, {**sizes, y: a, z: b})
                assert said is not None and value(opposite, {**sizes, y: a, z: b}) is (not said), (condition, sizes)
                assert said or (a, b) not in true, (condition, sizes, a, b)
                assert not said or (a, b) in true or not region.is_exact, (condition, sizes, a, b)
                asked += 1
    return asked


@pytest.mark.parametrize("seed", daily(range(2_000), 40))
@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
def test_against_enumeration(seed: int) -> None:
    try:
        check(Case(seed))
    except IntSetError:  # out of the budget, or not affine
        return


def test_a_parameter_that_a_range_keeps_from_trapping() -> None:
    """The range of `i` implies `n != 0`, so isl's parameter is `5 // n` itself; at n = 0 nothing is left."""
    ctx = Context({i: Range(-1, n)}, assume=[select(n.ne(0), 5 // n, 1) < i + 1])
    condition = ctx.image((i,)).condition((y,))
    assert value(condition, {n: 0, y: -2}) is False
    assert value(condition, {n: 9, y: 0}) is True and value(condition, {n: 3, y: 0}) is False


def test_an_interval_without_ends_has_no_elements() -> None:
    ctx = Context({i: Range(1, minimum(4, floordiv(7, n - m)))})
    condition = ctx.value_set(i).condition(y)
    assert value(condition, {n: 1, m: 1, y: 1}) is False and value(condition, {n: 2, m: 1, y: 1}) is True
    steps = Context({i: Range(0, 3)}).value_set(i * 2 + 6 // n)
    assert value(steps.condition(y), {n: 0, y: 2}) is False and value(steps.condition(y), {n: 3, y: 4}) is True
    bare = StrideSet(Normalizer({}).form(6 // n), (0, ((2, 3),)), "stride")
    assert value(bare.condition(y), {n: 0, y: 2}) is False and value(bare.condition(y), {n: 3, y: 4}) is True


def test_total() -> None:
    e: Expr = 6 // n
    assert is_partial(e) and total(i + n) is i + n
    assert [value(total(e), {n: k}) for k in (-1, 0, 4)] == [-6, 0, 1]
    assert total(select(n.ne(0), e, 1)) is select(n.ne(0), e, 1)  # its own guard is its need
