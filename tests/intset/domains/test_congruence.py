"""Transfer functions and lattice of the `modular` domain, and congruences of sets, against enumeration."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection
from itertools import product

import pytest

from intset import Context, IntSet, Range, Var, evaluate
from intset.arithmetic import strided
from intset.arithmetic.strided import BOTTOM, TOP, WIDEST_SHIFT, Strided, StridedInterval
from intset.domains.stride import TRANSFER, ModularDomain
from intset.expr import ops
from intset.expr.node import as_expr
from intset.expr.ops import Op
from intset.infinity import Infinity
from tests.intset.domains.elements import (
    UNARY,
    all_congruences,
    alpha_congruence,
    contains,
    gamma_congruence,
    gamma_strided,
    image,
    leq,
)
from tests.strategies.contexts import PRESBURGER, Drawn, contexts
from tests.sweeps import sampled

JOIN, MEET = ModularDomain().join, ModularDomain().meet


def residue(m: int, r: int) -> StridedInterval:
    value = strided.make(None, None, m, r)
    assert value is not None
    return value


def smallest(points: Collection[int]) -> Strided:
    """The smallest congruence that contains some points."""
    best = alpha_congruence(points)
    return None if best is None else residue(*best)


VALUES = [residue(m, r) for m, r in all_congruences(9)]  # 19 constants, 45 congruences
WINDOW = 40
POINTS = {v: gamma_strided(v, -WINDOW, WINDOW) for v in VALUES}
AMOUNTS = {v: gamma_congruence(v[2:], 0, 18) for v in VALUES}
SHIFTS = (ops.SHL, ops.SHR)
CONSTANT_DIVISOR = (ops.TRUNCDIV, ops.TRUNCMOD)  # optimal where the divisor is constant
SOUND_ONLY = (ops.BITAND, ops.BITOR, ops.BITXOR)  # every other operation is optimal for every operand


@pytest.mark.parametrize("op", TRANSFER, ids=repr)
def test_transfer(op: Op) -> None:
    cases = optimal = 0
    for operands in product(VALUES, repeat=1 if op in UNARY else 2):
        points = [POINTS[operands[0]], *((AMOUNTS if op in SHIFTS else POINTS)[v] for v in operands[1:])]
        best = smallest(image(op, *points))
        result = TRANSFER[op](*operands)
        assert leq(best, result), (operands, result, best)
        if op not in SOUND_ONLY and (op not in CONSTANT_DIVISOR or operands[-1][2] == 0):
            assert result == best, (operands, result, best)
            optimal += 1
        cases += 1
    assert cases == (64 if op in UNARY else 64 * 64)
    assert optimal == (0 if op in SOUND_ONLY else 64 * 19 if op in CONSTANT_DIVISOR else cases)


@pytest.mark.parametrize("op", TRANSFER, ids=repr)
def test_large_operands(op: Op) -> None:
    rng = random.Random(f"{op}")
    for _ in range(300):
        operands, points = [], []
        for k in range(1 if op in UNARY else 2):
            size = 1 << (rng.randrange(8) if op in SHIFTS and k else rng.randrange(80))
            v = residue(rng.choice((0, rng.randint(1, size))), rng.randint(-size, size))
            operands.append(v)
            multiples = [rng.randint(-3, 3) for _ in range(4)] + [rng.randint(-size, size) for _ in range(2)]
            points.append({v[3] + v[2] * (abs(t) if op in SHIFTS and k else t) for t in multiples})
        result = TRANSFER[op](*operands)
        for x in image(op, *points):
            assert contains(result, x), (operands, result, x)


def test_lattice() -> None:
    window = set(range(-90, 91))
    sets = {v: set(gamma_strided(v, -90, 90)) for v in VALUES}
    for a, b in product(VALUES, repeat=2):
        assert leq(a, b) == (sets[a] <= sets[b])
        assert set(gamma_strided(MEET(a, b), -90, 90)) == sets[a] & sets[b], (a, b)
        assert MEET(a, b) == MEET(b, a)
        assert JOIN(a, b) == smallest(sets[a] | sets[b])
        assert leq(a, b) == (JOIN(a, b) == b) == (MEET(a, b) == a)
    for a in VALUES:
        assert sets[a] == {x for x in window if contains(a, x)}
        assert JOIN(a, BOTTOM) == JOIN(BOTTOM, a) == a == MEET(a, TOP)
        assert MEET(a, BOTTOM) is BOTTOM and leq(BOTTOM, a) and not leq(a, BOTTOM)


# --- mistakes made elsewhere ------------------------------------------------------------------------------------------


def test_a_shift_by_much_stays_small() -> None:
    for amount in ((0, 10**18), (1, 0), (10**18, 3), (10**18, 10**17)):
        for op in SHIFTS:
            result = TRANSFER[op](residue(3, 1), residue(*amount))
            assert result is not None and result[2].bit_length() < 3 * WIDEST_SHIFT


DOMAINS = ("auto", "interval", "stride", "modular", "interval*modular", "points", "isl")
i, j = Var("i"), Var("j")


def holds_of(s: IntSet, taken: set[int], at: dict[Var, int]) -> set[str]:
    """Check the fields of a set against its elements; the fields that it knows."""
    known = set()
    if s.modulus is not None:
        assert s.remainder is not None and s.modulus >= 0
        assert all((x - s.remainder) % s.modulus == 0 if s.modulus else x == s.remainder for x in taken), s
        assert s.modulus == 0 or 0 <= s.remainder < s.modulus
        known.add("congruence")
    assert (s.remainder is None) is (s.modulus is None)
    if s.base is not None and s.strides is not None and s.extents is not None and taken:
        first = evaluate(s.base, at)
        open_end = max(taken) - first + 2
        extents = [open_end if isinstance(e, Infinity) else evaluate(as_expr(e), at) for e in s.extents]
        steps = [range(0, stride * extent, stride) for stride, extent in zip(s.strides, extents, strict=True)]
        reached = {first + sum(parts) for parts in itertools.product(*steps)}
        assert taken <= reached and (not s.is_exact or taken == reached), (s, taken, reached)
        assert list(s.strides) == sorted(s.strides)
        known.add("steps")
    assert (s.base is None) is (s.strides is None) is (s.extents is None)
    return known


@sampled(40, 1500, contexts(kinds=PRESBURGER, ranges="box", facts=20), shows={"congruence", "steps"})
def test_the_fields_are_true_of_all_elements(drawn: Drawn) -> frozenset[str]:
    e, known = drawn.exprs[0], set()
    taken = {x for own in drawn.setting.values(e).values() for (x,) in own}
    for domain in DOMAINS:
        known |= holds_of(drawn.ctx.value_set(e, domain=domain), taken, {})
    return frozenset(known)


def test_named_fields() -> None:
    ctx = Context({i: Range(0, 8), j: Range(0, 2)})
    for s, fields in (
        (ctx.value_set(i * 4 + 1, domain="modular"), (None, None, None, 4, 1)),
        (ctx.value_set(i * 4 + 1, domain="interval*modular"), (1, (4,), (8,), 4, 1)),
        (ctx.value_set(i * 16 + j * 4 + 2), (2, (4, 16), (2, 8), 4, 2)),
        (Context({i: Range(3, 1)}).value_set(i), (3, (), (), 0, 3)),
        (Context({i: Range(3, 0)}).value_set(i), (None, None, None, None, None)),
    ):
        assert (s.base, s.strides, s.extents, s.modulus, s.remainder) == fields
