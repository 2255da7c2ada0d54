"""Ends of sums with quotients and remainders, against enumeration."""

from __future__ import annotations

import random
from itertools import product

import pytest

from bound.infer.footprints.box import SymbolicInterval, independent_terms, sum_of_intervals
from bound.infer.footprints.environment import LoopEnvironment, create_account
from intset import Context, Range, ShapeVar, Var, evaluate, minimum, parse
from intset.expr.node import Expr, as_expr

T, N = ShapeVar("t", lower=1), ShapeVar("n", lower=1)
O = Var("o")
I, J, K = Var("i"), Var("j"), Var("k")

ROWS = (
    "(o*t + i) // {c}",
    "(o*t + i) % {c}",
    "(o*t + i) // {c} % {d}",
    "(o*t + i) // {c} * 2 + j",
    "(o*t + i) % {c} * 3 - j + o",
    "(o*t + i + {d}) % {c} + o*t",
    "(o*t + i) % ({c}*{d}) // {c}",
    "({c}*j + k) // {d} - i",
    "({c}*j + k) % {d} + 5*(i // {c})",
    "(i - j) // {c}",
    "-i // {c}",
    "5 - (j + {c}*i) % {d}",
)


def environment() -> tuple[LoopEnvironment, dict[Var, SymbolicInterval]]:
    env = LoopEnvironment(Context({}), [T, N], "auto", create_account(1))
    env.add(O, Range(0, (N + T - 1) // T))
    form = env.form
    sides = {
        I: SymbolicInterval((form(0),), (form(T - 1), form(N - 1 - O * T))),
        J: SymbolicInterval((form(0),), (form(3),)),
        K: SymbolicInterval((form(O),), (form(O + 2),)),
    }
    return env, sides


@pytest.mark.parametrize("text", ROWS)
def test_ends_are_attained_in_every_instance(text: str) -> None:
    env, sides = environment()
    numbers = random.Random(text)
    decided = 0
    for c, d in {(numbers.randint(1, 7), numbers.randint(1, 7)) for _ in range(6)}:
        e = parse(text.format(c=c, d=d), {"o": O, "t": T, "i": I, "j": J, "k": K})
        assert isinstance(e, Expr)
        terms = independent_terms(env, env.form(e), sides)
        if terms is None:
            continue
        rest, own = terms
        image = sum_of_intervals(env, rest, [(term.side, term.factor) for term in own])
        assert image is not None
        decided += 1
        for t, n in product((1, 2, 3, 5, 8), (1, 6, 7, 12)):
            for o in range(-(-n // t)):
                point = {T: t, N: n, O: o}
                values = _values(e, {**point, J: 0}, min(t, n - o * t))
                low, high = (evaluate(end, point) for end in map(as_expr, (image.range().min, image.range().max)))
                assert (low, high) == (min(values), max(values)), (e, point)
                if all(term.is_contiguous for term in own) and len(own) == 1 and abs(own[0].factor) == 1:
                    assert len(set(values)) == high - low + 1, (e, point)
    assert decided or "//" in text


def _values(e: Expr, point: dict[Var, int], length: int) -> list[int]:
    o = point[O]
    spans = {I: range(length), J: range(4), K: range(o, o + 3)}
    used = [v for v in (I, J, K) if v in e.free_vars()]
    return [
        evaluate(e, {**point, **dict(zip(used, values, strict=True))}) for values in product(*(spans[v] for v in used))
    ]


def test_a_variable_in_two_terms_has_no_ends() -> None:
    env, sides = environment()
    for e in (I // 4 + I, (I + J) // 3 - J, I % 4 + I // 4, (O * T + I) // 3 * 3 + I, minimum(I, J)):
        assert independent_terms(env, env.form(e), sides) is None
