"""Partial conditions: answers where operands have no value, membership that always has one, facts that contradict.

Drawn ones are in `test_claims_drawn`.
"""

from __future__ import annotations

import pytest

from intset import Context, Range, Var, const, evaluate, floordiv, minimum, select, using
from intset.domains.stride import StrideSet
from intset.expr.build import asserting
from intset.expr.definedness import is_partial, total
from intset.expr.node import Cond, Expr
from intset.linear.canonical import Normalizer
from tests.strategies.contexts import value

i, j, n, m, y = Var("i"), Var("j"), Var("n"), Var("m"), Var("y")


def test_conditions_are_joined_in_the_order_in_which_they_have_a_value() -> None:
    cond = (6 // j).ne(3) & (7 // j).ne(9)
    found = Context({j: Range(0, 5)}).narrow(cond, [j])
    assert found.is_exact and [bool(evaluate(found.cond, {j: k})) for k in range(5)] == [False, True, False, True, True]
    nothing_kept = Context({j: Range(0, 2)}).narrow(cond, [])
    assert nothing_kept.is_exact and nothing_kept.cond.data is False


def test_nothing_is_computed_where_nothing_runs() -> None:
    ctx, cond = Context({j: Range(0, 0)}), (i // -3 - j // 2).eq(-3)
    assert ctx.simplify(cond, steps=True).expr is cond
    assert ctx.simplify(cond, {"floordiv": 9}) is cond
    longer = (i * 4 + 8) // 4 - 2
    assert ctx.simplify(longer) is longer and ctx.simplify(longer, steps=True).expr is longer


CONTRADICTIONS: list[list[Cond]] = [
    [n >= 2, n <= 1],
    [(n % 2).eq(1), (n % 4).eq(0)],
    [n >= 2, m >= n, m <= 1],
    [i >= 2, i <= 1],
    [i + n >= 9, n <= 2],
    [const(3) < 1],
    [n // (m - m) >= 1],
    [asserting(n < 0, n) > 0],
]


@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
@pytest.mark.parametrize("facts", CONTRADICTIONS, ids=str)
def test_nothing_is_refuted_where_facts_contradict(facts: list[Cond]) -> None:
    ctx = Context({i: Range(0, 4)}, assume=facts)
    for exprs in ([i // 2], [i % 3], [i // 2, i % 3]):
        found = ctx.as_iter_map(exprs)
        assert found.injective and found.surjective and found.bijective
    assert ctx.prove(i > 9).vacuous and ctx.fits(i * 1000, 8)
    assert ctx.narrow(i > 9, []).cond.data is True
    assert ctx.value_set(i).is_empty and ctx.value_set(i).count() == 0
    region = ctx.image((i, i // 2))
    assert region.is_empty and region.at({n: 1, m: 1}).is_empty and region.sample() is None and region.lexmin() is None


def test_a_map_without_facts_that_may_contradict_is_refuted_by_points() -> None:
    assert Context({i: Range(0, 4)}, assume=[n >= 2]).as_iter_map([i // 2]).injective.points == ((0,), (1,))


def test_a_refutation_needs_a_point_that_is_known() -> None:
    facts = [(n * n % 4).eq(3)]
    with using(tiers=("linear",)):  # which does not see that they contradict
        verdict = Context({i: Range(0, 4)}, assume=facts).as_iter_map([i // 2]).injective
    assert verdict.status == "unknown" and not verdict.points


# -- membership -------------------------------------------------------------------------------------------------------


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
