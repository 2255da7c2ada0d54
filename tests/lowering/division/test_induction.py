"""Carried quotients and remainders: a loop without divisions computes what the divisions did, also at a fixed width."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intset import Context, Expr, Range, ShapeVar, Var, evaluate, nonneg
from intset.errors import InputError
from intset.expr import ops
from intset.expr.dag import postorder
from lowering import lower_division
from lowering.passes.values.divisions import CarriedDivision, induction

i, x, n, s = Var("i"), Var("x"), Var("n"), Var("s")
N = ShapeVar("N")
P = ShapeVar("P", lower=1)


@cache
def lowered(e: Expr, bits: int) -> Expr:
    expr: Expr = lower_division(e, bits=bits).expr
    return expr


def run(carried: CarriedDivision, var: Var, limits: Range, point: dict[Any, int], bits: int = 32) -> int:
    """Run a loop with carried values at a width, compare with the divisions, and return the iteration count."""
    before = dict(point)
    for fresh, value in carried.invariants.items():
        before[fresh] = evaluate(lowered(value, bits), point, bits=bits)
    q = evaluate(lowered(carried.first_quotient, bits), point, bits=bits)
    r = evaluate(lowered(carried.first_remainder, bits), point, bits=bits)
    first, extent = evaluate(limits.min, point), evaluate(limits.extent, point)
    for k in range(first, first + extent):
        here = {**point, var: k}
        dividend, divisor = evaluate(carried.dividend, here), evaluate(carried.divisor, here)
        if divisor:
            assert (q, r) == divmod(dividend, divisor), (k, carried.next_quotient)
        if k + 1 < first + extent:
            state = {**before, carried.quotient: q, carried.remainder: r}
            q = evaluate(carried.next_quotient, state, bits=bits)
            r = evaluate(carried.next_remainder, state, bits=bits)
    return int(max(extent, 0))


def divides(e: Expr) -> bool:
    return any(node.op in ops.DIVISIONS for node in postorder((e,)))


def test_the_flatten_needs_no_division_at_all() -> None:
    limits = Range(0, N * N)
    for e in (i // N, i % N):
        carried = induction(e, i, limits)
        assert carried is not None
        pieces = (carried.first_quotient, carried.first_remainder, carried.next_quotient, carried.next_remainder)
        assert not any(divides(piece) for piece in pieces) and not carried.invariants
        iterations = [run(carried, i, limits, {N: size}, bits=8) for size in range(12)]
        assert iterations == [size * size for size in range(12)]
        assert carried.replacements[i // N] is carried.quotient and carried.replacements[i % N] is carried.remainder
        assert carried.update_after_last and carried.requires == ()


def test_a_symbolic_step_is_divided_once_before_the_loop() -> None:
    limits = Range(0, N)
    carried = induction((i * s + x) % nonneg(n), i, limits)
    assert carried is not None and set(carried.invariants) and not divides(carried.next_remainder)
    for step, start, size, count in product((-5, -1, 0, 1, 4), (-3, 0, 8), (0, 1, 2, 7), (0, 1, 9)):
        run(carried, i, limits, {s: step, x: start, n: size, N: count})


def test_nothing_overflows_near_the_ends_of_the_width() -> None:
    for start, step, size in product((-128, -127, -3, 0), (1, 2, 5, 100), (1, 2, 3, 64, 126, 127)):
        count = (127 - start) // step + 1
        limits = Range(0, count)
        carried = induction((i * step + start) // size, i, limits, bits=8)
        assert carried is not None
        assert run(carried, i, limits, {}, bits=8) == count
        last = start + step * count
        assert not carried.update_after_last or last <= 127


def test_what_cannot_be_carried() -> None:
    limits = Range(0, 10)
    assert induction(i * i // 3, i, limits) is None
    assert induction(i // n, i, limits) is None  # n may be negative
    assert induction(i // n, i, limits, Context(assume=[n > 0])) is not None
    assert induction(x // i, i, limits) is None
    assert induction(i // 3, i, Range.everything()) is None
    assert induction(i // -3, i, limits) is None
    with pytest.raises(InputError):
        induction(i + 3, i, limits)


def test_an_assumed_sign_shows_in_requires() -> None:
    carried = induction(i // n, i, Range(0, 10), Context(assume=[n >= 0, x > 3]))
    assert carried is not None and carried.requires == (n >= 0,)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_generated_loops(data: st.DataObject) -> None:
    small = st.integers(-12, 12)
    coefficient = data.draw(st.one_of(small, st.just(s)))
    divisor = data.draw(st.one_of(st.integers(1, 9), st.just(N)))
    limits = Range(data.draw(st.one_of(small, st.just(x))), data.draw(st.one_of(st.integers(0, 12), st.just(P))))
    e = (i * coefficient + x * data.draw(small) + data.draw(small)) // divisor
    carried = induction(e, i, limits)
    assert carried is not None
    for _ in range(3):
        run(carried, i, limits, {x: data.draw(small), s: data.draw(small), N: data.draw(st.integers(0, 9)), P: 7})
