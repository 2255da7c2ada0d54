"""Compiled expressions, outlined into several functions or not, against `evaluate`."""

from __future__ import annotations

import random
from typing import Any

import pytest

from intset import select
from intset.errors import UndefinedError
from intset.expr import evaluate as module
from intset.expr.evaluate import INTERPRETED, applied, compiled, evaluate, repeatable
from intset.expr.node import Var
from tests.strategies.contexts import Expressions
from tests.sweeps import daily


def outcome(f: Any, *args: Any) -> Any:
    try:
        return f(*args)
    except (UndefinedError, ZeroDivisionError):
        return "undefined"


@pytest.mark.parametrize(("length", "depth"), [(60, 5), (200, 8), (4000, 60)])
@pytest.mark.parametrize("seeds", daily([range(120), range(120, 1500)], 2))
def test_parts_that_are_functions(length: int, depth: int, seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TEXT", length)
    monkeypatch.setattr(module, "MAX_DEPTH", depth)
    variables, undefined = [Var("a"), Var("b"), Var("c")], 0
    for seed in seeds:
        rng = random.Random(seed)
        drawn = Expressions(rng, variables, "sums sums divisors choices choices", shared=60)
        for node in [(drawn.integer(2), drawn.condition(2)) for _ in range(12)][-1]:
            function = compiled(node, variables)
            for _ in range(4):
                point = [rng.randint(-6, 6) for _ in variables]
                expected = outcome(evaluate, node, dict(zip(variables, point, strict=True)))
                assert outcome(function, *point) == expected, (node, point)
                undefined += expected == "undefined"
    assert undefined > 20


def test_repeated_evaluations_agree_before_and_after_the_translation() -> None:
    a, b = Var("a"), Var("b")
    function = repeatable((a // b).eq(2) & (a % b >= 1), [a, b])
    points = [(7, 3), (6, 3), (0, 0)] * (INTERPRETED + 2)
    for x, y in points:
        if y:
            assert function(x, y) is bool(x // y == 2 and x % y >= 1)
        else:
            with pytest.raises(ArithmeticError):
                function(x, y)


def test_an_operation_without_a_value_has_none() -> None:
    a, b = Var("a"), Var("b")
    assert applied(a // b, [7, 2]) == 3
    assert applied(a // b, [7, 0]) is None
    assert applied(a + b, [None, 1]) is None
    assert applied(select(a < b, a, b), [True, 4, None]) == 4
    assert applied((a < b) & (b < 9), [False, None]) is False


def test_long_conditions_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions of thousands of clauses are compiled, not interpreted, and stay lazy."""
    a, b = Var("a"), Var("b")
    cond = a < 0
    for k in range(1, 3000):
        cond = cond | ((a >= 7 * k) & (a * 3 + b // (a - 7 * k) <= k))
    function = compiled(cond, [a, b])
    monkeypatch.delattr(module, "evaluate")
    for point in ((-1, 0), (3, 5), (14, 2), (20_000, -90_000)):
        assert outcome(function, *point) == outcome(evaluate, cond, dict(zip((a, b), point, strict=True)))


def test_shared_parts_are_not_computed_over_and_over() -> None:
    a = Var("a")
    e = a // 3
    for k in range(200):
        e = (e + k) // 5 + e % 7
    assert compiled(e, [a])(1000) == evaluate(e, {a: 1000})
