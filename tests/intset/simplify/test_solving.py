"""`solve` against enumeration: all satisfying values, and the weakest sufficient condition."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from intset import Context, InputError, Range, ShapeVar, Var, evaluate
from tests.sweeps import daily

x, y, z = Var("x"), Var("y"), Var("z")
n = ShapeVar("n", lower=1)


def test_the_ends_of_the_others_stay_symbolic() -> None:
    ctx = Context({y: Range(0, n)})
    assert ctx.narrow(x + y < 10, [x, n]).cond is (x + n < 11)
    solved = ctx.solve(x + y < 10, x)
    assert solved.is_exact
    assert ctx.prove(solved.condition(9 - y)) and ctx.prove(~solved.condition(10 - y))


def test_false_at_worst() -> None:
    answer = Context({y: Range(0, n)}).narrow(x + y < 10, [x])
    assert answer.cond.data is False and not answer.is_exact and answer.notes


@pytest.mark.parametrize("keep", ["x", {x}, [3], 7])
def test_bad_variables_are_refused(keep: Any) -> None:
    with pytest.raises(InputError):
        Context().narrow(x < 3, keep)


# -- equations --------------------------------------------------------------------------------------------------------


def test_what_is_no_linear_equation_is_refused() -> None:
    for cond in (x < 3, (x * y).eq(3), (x // 2).eq(3)):
        with pytest.raises(InputError):
            Context().solve_equations([cond], [x, y])


@pytest.mark.parametrize("seed", daily(range(800), 100))
def test_equations_against_enumeration(seed: int) -> None:
    r = random.Random(seed)
    unknowns = [x, y, z]
    forms = [(r.randint(-4, 4), r.randint(-4, 4), r.randint(-4, 4), r.randint(-5, 5)) for _ in range(r.choice((1, 2)))]
    conds = [(x * a + y * b + z * c).eq(n + d) for a, b, c, d in forms]
    answer = Context().solve_equations(conds, unknowns)
    fresh = list(dict.fromkeys(v for e in answer.values.values() for v in e.free_vars() if v is not n))
    box = range(-4, 5)
    for size in (1, 2, 5, 6):
        exists = evaluate(answer.cond, {n: size})
        true = {
            p
            for p in product(box, box, box)
            if all(evaluate(c, {**dict(zip(unknowns, p, strict=True)), n: size}) for c in conds)
        }
        assert exists or not true
        if not exists:
            continue
        reach = range(-12, 13) if len(fresh) < 3 else range(-5, 6)
        found = set()
        for values in product(reach, repeat=len(fresh)):
            point = {**dict(zip(fresh, values, strict=True)), n: size}
            solution = {v: evaluate(e, point) for v, e in answer.values.items()}
            assert all(evaluate(c, {**solution, n: size}) for c in conds)
            found.add(tuple(solution.values()))
        assert len(found) == len(reach) ** len(fresh)  # each choice is a solution of its own


def test_ranges_speak_of_the_fresh_variables() -> None:
    ctx = Context({x: Range(0, 8), y: Range(0, 8)})
    answer = ctx.solve_equations([(x * 4 + y).eq(13)], [x, y])
    values = {v: answer.context.value_set(e) for v, e in answer.values.items()}
    assert sorted(p for p in range(-20, 20) if p in values[x]) == [2, 3]
    assert sorted(p for p in range(-20, 20) if p in values[y]) == [1, 5]
