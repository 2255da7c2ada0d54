"""Affine cases and elimination of variables, breakpoints of minima and maxima, against enumeration."""

from __future__ import annotations

import itertools
import random
from itertools import product

import pytest
from hypothesis import strategies as st

from intset import (
    Context,
    Range,
    ShapeVar,
    Var,
    ceildiv,
    evaluate,
    logical_and,
    logical_or,
    maximum,
    minimum,
    parse,
    select,
)
from intset.errors import BudgetError
from intset.expr.node import Cond, Expr
from intset.linear.elimination import WORK, System, also, cases_of, is_feasible, tidy, without
from intset.linear.form import Linear
from intset.linear.symbolic import greatest_of_pieces, minimum_pieces, sum_of_pieces, value_at
from tests.sweeps import daily, sampled

WINDOW = range(-4, 5)
X, Y, Z = Var("x"), Var("y"), Var("z")


def holds_at(system: System, point: dict[Expr, int]) -> bool:
    def value(form: Linear) -> int:
        return form.const + sum(c * point[t] for t, c in form.terms.items())

    return all(value(f) >= 0 for f in system.least) and all(value(f) % m == 0 for m, f in system.steps)


def drawn(rng: random.Random) -> System | None:
    """A system with all points inside the window."""

    def form() -> Linear:
        return Linear(rng.randint(-5, 5), {v: c for v in (X, Y, Z) if (c := rng.randint(-3, 3))})

    inside = [Linear(4, {v: sign}) for v in (X, Y, Z) for sign in (1, -1)]
    steps = [(rng.randint(2, 4), form()) for _ in range(rng.randint(0, 2))]
    return tidy([*inside, *(form() for _ in range(rng.randint(0, 3)))], steps)


@pytest.mark.parametrize("seed", daily(range(400), 100))
def test_what_is_left_of_a_system_without_a_variable(seed: int) -> None:
    system = drawn(random.Random(seed))
    if system is None:
        return
    points = [p for p in itertools.product(WINDOW, repeat=3) if holds_at(system, dict(zip((X, Y, Z), p, strict=True)))]
    assert is_feasible(system) == bool(points)
    wanted = {p[:2] for p in points}
    cases = without(system, Z)
    assert all(Z not in case.variables() for case in cases)
    found = {p for p in itertools.product(WINDOW, repeat=2) if any(holds_at(c, {X: p[0], Y: p[1]}) for c in cases)}
    assert found == wanted


CONDITIONS: list[Cond] = [
    (X // 3).eq(Y) & (X % 2).eq(1), (X - Y).ne(0), minimum(X, Y * 2) >= maximum(Y, -1), select(X > Y, X, Y - 3).eq(1),
    logical_or(X > 2, logical_and(Y < -1, X.ne(0))), parse("(x + 2*y) % 5 >= 3", {"x": X, "y": Y}),
    (X % -5 % 3).eq(Y % 2), (X % 4 + X // 4 % 3) % 2 >= (X - Y) % 4 % 3,
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_a_condition_is_its_cases(condition: Cond) -> None:
    split = cases_of(condition, {X, Y})
    assert all(t in (X, Y, *case.quotients) for case in split for form in case.forms for t in form.terms)
    cases = [tidy(case.forms) for case in split]
    for x, y in itertools.product(WINDOW, repeat=2):
        here = [Linear(-x, {X: 1}), Linear(x, {X: -1}), Linear(-y, {Y: 1}), Linear(y, {Y: -1})]
        reached = [s for case in cases if (s := also(case, here)) is not None and is_feasible(s)]
        assert bool(reached) == evaluate(condition, {X: x, Y: y}), (x, y)


def test_what_takes_too_many_steps_is_refused() -> None:
    least = [Linear(40, {X: 7, Y: -5}), Linear(40, {X: -7, Y: 3}), Linear(9, {Z: 1, X: 2})]
    system = tidy(least, [(6, Linear(1, {X: 1}))])
    assert system is not None
    with pytest.raises(BudgetError, match="elimination gave up"), WORK.budget(10):
        without(system, X)
    assert without(system, X)


T, U = ShapeVar("t", lower=1), ShapeVar("u", lower=1)
O = Var("o")


@st.composite
def sums(draw: st.DrawFn) -> tuple[object, list[object]]:
    total, more = draw(st.integers(1, 20)), draw(st.integers(0, 4))
    forms = [T + more, total + more - T * O, draw(st.integers(-3, 12)) + 0 * T, draw(st.integers(-6, 6)) + U * O]
    forms += [draw(st.integers(-4, 20)) - U * O, T * O + T - draw(st.integers(0, 9)), U + draw(st.integers(-3, 3))]
    chosen = draw(st.lists(st.sampled_from(forms), min_size=1, max_size=3, unique_by=str))
    return draw(st.sampled_from([ceildiv(total, T), total + 0 * T, U + 1])), chosen


@sampled(60, 800, sums(), shows={"closed"})
def test_the_sum_and_the_maximum_are_those_of_all_iterations(case: tuple[object, list[object]]) -> str:
    number, exprs = case
    known = Context({O: Range(0, number)}).frame.known  # type: ignore[arg-type]
    forms = [known.form(e) for e in exprs]  # type: ignore[arg-type]
    pieces = minimum_pieces(known, forms, O, known.form(O * 0), known.form(number))  # type: ignore[arg-type]
    if pieces is None:
        return "open"
    total = sum_of_pieces(known, pieces)
    for t, u in product(range(1, 8), range(1, 5)):
        at = {T: t, U: u}
        count = evaluate(known.form(number).expr(), at)  # type: ignore[arg-type]
        values = [max(0, min(evaluate(f.expr(), {**at, O: o}) for f in forms)) for o in range(count)]
        assert evaluate(total, at) == sum(values)
        tops = [
            evaluate(value_at(known, line, place).expr(), at)
            for length, line, place in greatest_of_pieces(pieces)
            if evaluate(length.expr(), at) > 0
        ]
        assert max([0, *tops]) == max([0, *values])
    return "closed"


@sampled(
    80, 1500, st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 7)), min_size=1, max_size=3), st.integers(-9, 9)
)
def test_signs_of_quotients_and_products_are_true(terms: list[tuple[int, int]], rest: int) -> None:
    n = ShapeVar("n", upper=9)
    atoms = [T * O, T * (n // T), n // T, (n + 3) // T, ceildiv(n, T), n % T, T, U * (O // U)]
    e = sum((k * atoms[which] for k, which in terms), n * 0 + rest)
    known = Context({O: Range(0, ceildiv(n, T))}).frame.known
    if known.is_nonneg(known.form(e)):
        for t, u, size in product(range(1, 7), range(1, 4), range(10)):
            for o in range(-(-size // t)):
                assert evaluate(e, {T: t, U: u, n: size, O: o}) >= 0


def test_tiles_end_where_their_axis_ends() -> None:
    n = ShapeVar("n")
    for size in (56, n):
        known = Context({O: Range(0, ceildiv(size, T))}).frame.known
        assert known.is_nonneg(known.form(size - 1 - T * O))
        assert not known.is_nonneg(known.form(size - 2 - T * O))
    assert known.is_nonneg(known.form(ceildiv(56, T) - 56 // T))
    assert known.is_nonneg(known.form(1 - 56 // T + 55 // T))
