"""Ends beside guards, certified by a point at an end: no engine is asked, and no size shows another end."""

from __future__ import annotations

import itertools

import pytest

from intset import Cond, Context, Expr, Range, ShapeVar, Var, evaluate

i, j, k, n, m = Var("i"), Var("j"), Var("k"), ShapeVar("n"), ShapeVar("m")
RANGES = {i: Range(0, n), j: Range(0, 16), k: Range(0, m)}
GUARDED: tuple[tuple[tuple[Cond, ...], Expr], ...] = (
    ((i < n,), i * 4 + j),  # follows from the range
    ((i < n, n >= 3), i * 4 - j),
    ((i + j < n,), i * 4 + j),  # the guard is 0 at the end
    ((i + k >= 3,), i + k),
    ((i <= k,), k - i),
    ((i * 2 < n + 5,), i * 4 + j),  # the guard bounds one variable
    ((j < m, i < n - 3), i * 2 - j),
    ((i * 16 + j < n,), i),  # the guard bounds i by j's least value
    ((j + 2 < m, k.eq(1)), j - i * 2 + k),
)


@pytest.mark.parametrize(("facts", "e"), GUARDED, ids=str)
def test_ends_beside_guards(facts: tuple[Cond, ...], e: Expr) -> None:
    b = Context(RANGES, assume=facts).bounds(e)
    assert b.is_tight
    assert b.by != "isl"
    assert b.certificate().check()
    for sizes in itertools.product(range(7), repeat=2):
        at = dict(zip((n, m), sizes, strict=True))
        points = itertools.product(range(at[n]), range(16), range(at[m]))
        boxes = [{**at, i: x, j: y, k: z} for x, y, z in points]
        values = [evaluate(e, p) for p in boxes if all(evaluate(fact, p) for fact in facts)]
        if values:
            assert (evaluate(b[0], at), evaluate(b[1], at)) == (min(values), max(values)), at


def test_steps_and_declared_ends_hold_at_the_point() -> None:
    even = ShapeVar("even", lower=1, multiple_of=2)
    low, high = Context({even: Range(-1, m)}).bounds(even)
    assert (evaluate(low, {m: 5}), evaluate(high, {m: 5})) == (2, 2)


def test_a_slope_has_its_sign_where_facts_exclude_values() -> None:
    """`x*x - 3*x` decreases below 2, which `x >= 1` does not exclude."""
    for ctx in (Context({i: Range(0, m)}, assume=[i >= 1]), Context({i: Range(0, m), j: Range(0, i)})):
        assert ctx.prove((i - 3) * i >= 0).status == "refuted"
        assert evaluate(ctx.bounds((i - 3) * i)[0], {m: 9}) <= -2
        e = (i * (i - 3)) // (i * (i - 3) + 1)
        assert evaluate(ctx.simplify(e), {i: 1, j: 0, m: 9}) == evaluate(e, {i: 1}) == 2


def test_an_empty_range_of_another_variable_excludes_values() -> None:
    ranges = {i: Range(0, 3), j: Range(i * 2, 2 - i)}
    assert tuple(map(int, Context(ranges).bounds(i))) == tuple(map(int, Context(ranges, assume=[]).bounds(i))) == (0, 1)
    assert Context({i: Range(0, 4), j: Range(0, 0)}).bounds(i).is_empty
