"""Affine cases and elimination of variables, against enumeration."""

from __future__ import annotations

import itertools
import random

import pytest

from examples.boxes.intset_boxes.elimination import WORK, System, also, cases_of, is_feasible, tidy, without
from intset import (
    Var,
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
from intset.linear.form import Linear
from tests.sweeps import daily

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
