"""Points of a scope that refute signs: they satisfy what the scope assumes, and no sign that is proved without them."""

from __future__ import annotations

import random

import pytest

from intset import Context, Range, ShapeVar, Var, ceildiv, evaluate, maximum, minimum, select
from intset.errors import IntSetError
from intset.expr.node import Cond, Expr, as_expr
from intset.linear.assumptions import Assumptions
from intset.linear.bounds import Interval
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from intset.linear.signs import FoundMembers, is_refuted, members_of
from tests.sweeps import daily


def drawn(rng: random.Random) -> tuple[Context, list[Var]]:
    """A scope with sizes, tiled loops over the sizes, and facts about both."""
    sizes: list[Var] = [
        ShapeVar(name, lower=rng.choice((None, 0, 1, 2)), upper=rng.choice((None, None, 9)), multiple_of=step)
        for name, step in zip("nmk", rng.choices((1, 1, 1, 4), k=3), strict=True)
    ]
    n, m, k = sizes
    t = rng.choice((3, 4))
    outer, inner, last, free = (Var(name) for name in ("o", "i", "j", "x"))
    tiled = ceildiv(rng.choice((n, n * m)), t)
    ranges = {outer: Range(0, tiled), inner: Range(0, t), last: Range(outer, rng.choice((m, k + 1))), free: Range(0, 6)}
    chosen = rng.sample(list(ranges), rng.randint(1, 4))
    ranges = {v: r for v, r in ranges.items() if v in chosen or v is outer}
    facts: list[Cond] = [
        outer * t + free < n, n >= m, n.eq(k + m), k.eq(m * 2), (n % 3).eq(0), (m % k).eq(1), n * m >= 4, n * m <= 12,
        minimum(n, m) >= 2, n // maximum(m, 1) <= 3, n.ne(4),
    ]  # fmt: skip
    chosen_facts = [f for f in rng.sample(facts, rng.randint(0, 3)) if free in ranges or free not in f.free_vars()]
    return Context(ranges).extended(facts=chosen_facts), [*sizes, *ranges]


def claim(rng: random.Random, variables: list[Var]) -> Expr:
    terms = [
        rng.choice((1, -1, 2, -4)) * rng.choice((v, v, v * w, v // 3, v // maximum(w, 1), minimum(v, w)))
        for v, w in (rng.choices(variables, k=2) for _ in range(rng.randint(1, 3)))
    ]
    total: Expr = terms[0]
    for term in terms[1:]:
        total = total + term
    return total + rng.randint(-5, 5)


@pytest.mark.parametrize("seed", daily(range(0, 600, 10), 30))
def test_members_satisfy_their_scope_and_refute_nothing_that_is_proved(seed: int) -> None:
    found = 0
    for number in range(seed, seed + 10):
        rng = random.Random(number)
        try:
            ctx, variables = drawn(rng)
        except IntSetError:  # facts that contradict one another
            continue
        known = ctx.frame.known
        members = members_of(known)
        found += bool(members)
        for member in members:
            point = {**dict.fromkeys(variables, 9), **member.point}
            for v in variables:
                low, high, step = v.declared()
                stated = v not in ctx.ranges
                assert not stated or v not in member.point or point[v] % step == 0
                assert low is None or not stated or point[v] >= low
                assert high is None or not stated or point[v] <= high
            for v, r in ctx.ranges.items():
                low_end = evaluate(r.min, point)
                assert low_end <= point[v] < low_end + evaluate(r.extent, point), (number, v)
            for fact in ctx.facts:
                if fact.condition.op.name not in ("ne", "or"):  # others are no assumption of the linear tier
                    assert evaluate(fact.condition, point), (number, fact)
        alone = Normalizer(known.ranges, known.assumptions, known.depth, known.empty)
        alone.members = FoundMembers((), (), (), {}, (), len(known.ranges))
        for _ in range(20):
            e = claim(rng, variables)
            form = known.form(e)
            proved = alone.is_nonneg(alone.form(e))
            assert known.is_nonneg(form) is proved, (number, str(e))
            assert not (proved and is_refuted(known, form)), (number, str(e))
    assert found >= 5


def test_a_sign_is_refuted_by_a_point() -> None:
    n, m, o, x = ShapeVar("n", lower=1), ShapeVar("m", lower=1), Var("o"), Var("x")
    ctx = Context({o: Range(0, ceildiv(n * m, 8)), x: Range(0, 8)}).extended(facts=[o * 8 + x < n * m])
    known = ctx.frame.known
    for e in (n - o * 8 - x - 1, n - n * m, x - m, n * m - o * 8 - 8, (1 << 63) - n):
        assert is_refuted(known, known.form(e)) and not known.is_nonneg(known.form(e))
    for e in (n * m - o * 8 - x - 1, n * m - n, o * 8 + x):
        assert not is_refuted(known, known.form(e)) and known.is_nonneg(known.form(e))


def test_members_of_a_table_of_ranges_that_grows() -> None:
    """A schedule's loops enter one normalizer in turn."""
    m, j = ShapeVar("m", lower=0), Var("j")
    numeric: dict[Var, Interval] = {}
    limits: dict[Var, tuple[Linear | None, Linear | None]] = {}
    known = Normalizer(numeric, Assumptions(limits=limits))
    claim = known.form(m - j - 1)
    assert not known.is_nonneg(known.form(m - 10))
    numeric[j], limits[j] = (0, None), (known.form(as_expr(0)), known.form(m - 1))
    assert not is_refuted(known, claim) and known.is_nonneg(claim)


@pytest.mark.parametrize("least", [-4, 0, 6])
def test_a_size_that_facts_equate_with_a_term_of_loops_has_members(least: int) -> None:
    """The value that a nest names: entered once its loops have values, before loops that it bounds."""
    o, i, named, t = Var("o"), Var("i"), Var("named"), ShapeVar("t", lower=1)
    start = select(o * t > 6, o * t % 5, 0)
    ctx = Context({o: Range(0, ceildiv(24, t)), i: Range(0, named + 3)})
    known = ctx.extended(facts=[named >= start, named <= start, o * t + i >= least]).frame.known
    members = members_of(known)
    assert len(members) > 2
    for member in members:
        assert evaluate(named.eq(start) & (i <= named + 2) & (o * t + i >= least), member.point)


def test_scopes_that_few_regular_points_satisfy_have_drawn_members() -> None:
    o, i, j, t = Var("o"), Var("i"), Var("j"), ShapeVar("t", lower=1)
    ctx = Context({o: Range(0, 40), i: Range(0, 12), j: Range(0, 12)})
    facts = [o * t >= 9, i >= j + 2, i + j <= 12, j >= 1]
    members = members_of(ctx.extended(facts=facts).frame.known)
    assert len(members) >= 5
    assert all(evaluate(fact, member.point) for fact in facts for member in members)
