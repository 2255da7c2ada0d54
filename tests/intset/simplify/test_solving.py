"""Conditions narrowed to kept variables, equations solved. Drawn ones are in `test_claims_drawn`."""

import random
from itertools import product
from typing import Any

import pytest

from intset import Context, InputError, Range, ShapeVar, Var, evaluate, parse
from intset.expr.build import opaque
from tests.sweeps import daily

PAIRS = {
    "i < 14": "i < 14",
    "i > n": "i > 7",
    "i >= n": "i >= 7",
    "i < n": "i < 0",
    "i <= n": "i <= 0",
    "n > i": "i < 0",
    "n >= i": "i <= 0",
    "n < i": "i > 7",
    "n <= i": "i >= 7",
    "i == n": "False",
    "n == i": "False",
    "i != n": "i < 0 or i > 7",
    "n != i": "i < 0 or i > 7",
    "i // 4 > n": "i // 4 > 7",
    "n < i // 4": "i // 4 > 7",
    "(i + n) // 4 > 0": "i // 4 > 0",
    "(i + n) // 4 == 0": "(i + 7) // 4 <= 0 and 0 <= i // 4",
    "(i + n) // 4 != 1": "(i + 7) // 4 < 1 or i // 4 > 1",
    "i + n < 10": "i + 7 < 10",
    "i - n < 10": "i < 10",
    "i + n * (-2) <= 5": "i <= 5",  # not i - 14 <= 5
    "not (i < n)": "i >= 7",
    "not (i <= n)": "i > 7",
    "not (i > n)": "i <= 0",
    "not (i == n)": "i < 0 or i > 7",
    "not (i > n and i < n + 4)": "i <= 0 or i > 10",
    "i % 8 == n": "False",
    "i // 8 == n": "False",
    "i > n and i < 12": "i > 7 and i < 12",
    "i > n or i < 3": "i > 7 or i < 3",
    "i > n or n > 4": "i > 4",
    "i < n or i > n": "i < 0 or i > 7",
    "minimum(i, n) < 4": "i < 4",
    "maximum(i, n) < 9": "i < 9",
}
BEYOND = ("i // (n + 1) <= 2", "i // (n + 1) == 0", "i % (n + 1) == 0", "n * i < 20")  # no sets: what is said is enough


@pytest.mark.parametrize("text", [*PAIRS, *BEYOND])
def test_what_holds_for_all_values(text: str) -> None:
    i, n = Var("i"), Var("n")
    cond = parse(text, {"i": i, "n": n})
    answer = Context({n: Range(0, 8)}).narrow(cond, [i])
    assert answer.is_exact or text in BEYOND
    assert not any(v is n for v in answer.cond.free_vars())
    for x in range(-40, 60):
        always = all(evaluate(cond, {i: x, n: k}) for k in range(8))
        found = bool(evaluate(answer.cond, dict.fromkeys(answer.cond.free_vars(), x)))
        assert found is always if answer.is_exact else not found or always
        if text in PAIRS:
            assert found is bool(evaluate(parse(PAIRS[text], {"i": i}), {i: x} if "i" in PAIRS[text] else {}))


def test_data_stay() -> None:
    i, n = Var("i"), Var("n")
    held = opaque("buf[i]")
    answer = Context({n: Range(0, 8)}).narrow((held > 0) | (i <= n), [i])
    for x in range(-3, 10):
        found = evaluate(answer.cond, dict.fromkeys(answer.cond.free_vars(), x))
        assert found <= (x <= 0)  # whatever is in the buffer


# -- solve and narrow --------------------------------------------------------------------------------------------------

x, y, z = Var("x"), Var("y"), Var("z")
n = ShapeVar("n", lower=1)


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
