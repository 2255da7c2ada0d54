"""The width of indices by the intervals of their parts, and integer parts of operands."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from intset import Context, Expr, Range, ShapeVar, Var, evaluate, maximum, minimum, select, truncdiv, truncmod
from intset.errors import EvaluationError
from intset.expr import ops
from intset.expr.node import const, make
from lowering.passes.values.index_width import Spans, fits_by_intervals
from tests.sweeps import daily

x, y, i = Var("x"), Var("y"), Var("i")
n = ShapeVar("n", lower=1, upper=1024)


@pytest.mark.parametrize(
    ("e", "bits", "fits"),
    [
        ((i % n) * n + i // n, 32, True),  # multiplied out it is a difference of large terms
        (truncmod(i, n) * n + truncdiv(i, n), 32, True),
        (i * n, 32, True),
        (i * n * n, 32, False),
        (i * 2**11, 32, True),
        (i * 2**12, 32, False),
        (x, 64, False),  # nothing is known of x
        (select(i > 5, i, -i) * 2000, 32, True),
        (i >> 40, 32, False),  # no shift of 32 bits
        ((i - 7) % (n - 5), 32, True),
        (minimum(i, 3) - maximum(i, 9), 32, True),
    ],
)
def test_what_intervals_see(e: Expr, bits: int, fits: bool) -> None:
    assert fits_by_intervals(Context({i: Range(0, n * n)}), e, bits) is fits


def test_a_mask_of_a_loop_variable_is_as_narrow_as_the_mask() -> None:
    """Masks bound loop variables, whose constant ends are the only knowledge."""
    inside = Spans(Context({n: Range(1, 1024)}), 8).inside(i, const(0), n - 1).inside(x, const(-100), const(100))
    assert inside.span(x & 6) == (0, 6) and inside.span((x + 1 & 1) * 8 + (5 & x)) == (0, 13)
    assert inside.span(x & -128) == (-128, 0)
    assert not inside.fit(i & 7), "the operand itself does not fit"


def test_a_remainder_that_traps_does_not_fit() -> None:
    word = Context({x: Range(-128, 256), y: Range(-128, 256)})
    assert not fits_by_intervals(word, x % y, 8)
    assert not fits_by_intervals(word, truncmod(x, y), 8)
    assert fits_by_intervals(Context({x: Range(-127, 255), y: Range(-128, 256)}), truncmod(x, y), 8)
    assert fits_by_intervals(Context({x: Range(-128, 256), y: Range(0, 128)}), truncmod(x, y), 8)


def drawn(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([x, y, const(rng.randint(-9, 9))])
    op = rng.choice(
        [ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.MIN, ops.MAX, ops.SHL, ops.SHR, *ops.DIVISIONS, ops.BITAND]
    )
    if op is ops.NEG:
        return make(op, (drawn(rng, depth - 1),))
    a = drawn(rng, depth - 1)
    b: Any = const(rng.randint(0, 9)) if op in (ops.SHL, ops.SHR) else drawn(rng, depth - 1)
    b = const(3) if op in ops.DIVISIONS and b is const(0) else b
    return make(op, (a, b))


@pytest.mark.parametrize("cases", daily([150, 400], 2))
def test_what_is_accepted_fits_everywhere(cases: int) -> None:
    rng = random.Random(3)
    accepted = 0
    for _ in range(cases):
        e = drawn(rng, 3)
        low, high = sorted((rng.randint(-12, 12), rng.randint(-12, 12)))
        spans = {x: range(low, high + 1), y: range(rng.randint(-9, 0), rng.randint(1, 9))}
        ctx = Context({var: Range(span.start, len(span)) for var, span in spans.items()})
        if not fits_by_intervals(ctx, e, 8):
            continue
        accepted += 1
        for point in product(*spans.values()):
            at = dict(zip(spans, point, strict=True))
            try:
                value = evaluate(e, at)
            except EvaluationError:
                continue
            assert evaluate(e, at, bits=8) == value
    assert accepted > cases // 8


def test_a_named_value_has_the_interval_of_its_expression() -> None:
    t, j = Var("t"), Var("j")
    spans = Spans(Context({i: Range(0, 100_000)}), 32)
    named = spans.inside(t, i % 1000, i % 1000)
    assert named.fit(t * 2_000_000) and not spans.fit(t * 2_000_000)
    assert named.inside(j, const(0), t).span(j) == (0, 999)
