"""Contexts without a point: contradictory facts are no error, and answers are empty; conditions without a value.

Drawn ones are in `test_claims_drawn`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from intset import (
    NEG_INF,
    POS_INF,
    Cond,
    Context,
    Range,
    ShapeVar,
    Var,
    select,
)
from intset.expr.definedness import is_partial, total
from intset.expr.node import Expr, truth
from tests.strategies.contexts import PRESBURGER, Drawn, contexts, value
from tests.sweeps import sampled

pytestmark = pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")

i, j, n = Var("i"), Var("j"), ShapeVar("n")
QUESTIONS: dict[str, Callable[[Context, Any, Cond], bool]] = {
    "bounds": lambda ctx, e, cond: ctx.bounds(e) == (POS_INF, NEG_INF),
    "value_set": lambda ctx, e, cond: ctx.value_set(e).is_empty and ctx.value_set(e).count() == 0,
    "image": lambda ctx, e, cond: ctx.image((e, i)).is_empty and ctx.image((e, i)).count() == 0,
    "prove": lambda ctx, e, cond: all(ctx.prove(goal).vacuous for goal in (cond, ~cond, truth(False))),
    "explain": lambda ctx, e, cond: bool(str(ctx.explain(cond))),
    "fits": lambda ctx, e, cond: bool(ctx.fits(e, 2)),
    "simplify": lambda ctx, e, cond: ctx.simplify(e) is not None and ctx.simplify(cond) is not None,
    "contradiction": lambda ctx, e, cond: set(ctx.contradiction) <= set(ctx.facts),
    "solve": lambda ctx, e, cond: ctx.solve(cond, i) is not None,
    "narrow": lambda ctx, e, cond: ctx.narrow(cond, [i]) is not None,
    "as_iter_map": lambda ctx, e, cond: ctx.as_iter_map([e, i % -3]).injective.status == "proved",
    "ranges of a map": lambda ctx, e, cond: len(ctx.as_iter_map([e, i % 4, i % -3]).ranges) == 3,
    "extended": lambda ctx, e, cond: ctx.extended({Var("k"): Range(0, 4)}).bounds(e).is_empty,
    "renamed": lambda ctx, e, cond: ctx.renamed({j: j + 1}).bounds(i).is_empty,
}


def asked(ctx: Context, e: Any, cond: Cond) -> None:
    for name, answered in QUESTIONS.items():
        assert answered(ctx, e, cond), (name, ctx, e, cond)


@pytest.mark.parametrize(
    "ctx",
    [
        Context({i: Range(0, 5), j: Range(3, 4)}, assume=[(i % 4).eq(3), j > i + 5]),
        Context({i: Range(0, 5), j: Range(3, 4)}, assume=[j > i + 5, i >= 3]),
        Context.from_constraints([i, j], [i >= 0, i < 3, j >= i - 1, j < i + 1, (j - 6).eq(i + i)]),
        Context({i: Range(0, n), j: Range(0, 4)}, assume=[i * 4 + j >= n * 4]),
        Context({i: Range(0, n), j: Range(0, 4)}, assume=[j >= 7]),
        Context({i: Range(0, 4), j: Range(0, 4)}, assume=[n < 3, n > 5]),
    ],
    ids=str,
)
def test_facts_that_contradict_are_no_error(ctx: Context) -> None:
    asked(ctx, i * 2 + j, i + j < 4)


@sampled(60, 1500, contexts(kinds=PRESBURGER, ranges="box dependent", facts=60), shows={"empty"})
def test_a_drawn_context_without_points_answers_as_an_empty_one(drawn: Drawn) -> str:
    variables = list(drawn.ranges)
    limits = [drawn.ranges[v] for v in variables]
    far = variables[0] * 3 + variables[-1] >= 40 + sum(int(end) for r in limits for end in r.ends or ())
    ctx = Context(drawn.ranges, assume=[*drawn.facts, far])
    if any(drawn.setting.under(far).points.values()):
        return "points"
    e, cond = drawn.exprs[0], drawn.goals[-1]
    assert ctx.bounds(e).is_empty and ctx.value_set(e).is_empty and ctx.image((e, variables[0])).is_empty
    assert ctx.prove(cond).vacuous and ctx.prove(~cond).vacuous
    assert ctx.simplify(e) is not None and ctx.as_iter_map([e, variables[0] % -3]).ranges
    return "empty"


@pytest.mark.parametrize("size", [-4, 0, 3])
def test_a_range_whose_extent_is_computed_is_empty_below_0(size: int) -> None:
    ctx = Context({i: Range(0, n)}, assume=[i < n]).renamed({n: size})
    assert ctx.bounds(i).is_empty is (size <= 0) and ctx.value_set(i).count() == max(size, 0)
    assert Range.of_extent(2, size).ends == (2, 1 + max(size, 0))


# -- partial conditions, and facts that contradict ---------------------------------------------------------------------

N = Var("n")


def test_a_map_without_facts_that_may_contradict_is_refuted_by_points() -> None:
    assert Context({i: Range(0, 4)}, assume=[N >= 2]).as_iter_map([i // 2]).injective.points == ((0,), (1,))


def test_total() -> None:
    e: Expr = 6 // N
    assert is_partial(e) and total(i + N) is i + N
    assert [value(total(e), {N: k}) for k in (-1, 0, 4)] == [-6, 0, 1]
    assert total(select(N.ne(0), e, 1)) is select(N.ne(0), e, 1)  # its own guard is its need
