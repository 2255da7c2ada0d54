"""Transfer functions and lattice of the `modular` domain against enumeration.

A congruence is infinite, so soundness is checked on the elements in a window. The smallest congruence around the image
of a window is at most that of the whole image: a transfer function that equals it is optimal.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from itertools import product

import pytest

from intset.arithmetic import strided
from intset.arithmetic.strided import BOTTOM, TOP, WIDEST_SHIFT, Strided, StridedInterval, contains, leq
from intset.domains.modular import TRANSFER, ModularDomain
from intset.expr import ops
from intset.expr.ops import Op
from intset.testing.contexts import UNARY, all_congruences, alpha_congruence, gamma_congruence, gamma_strided, image

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


def test_meet_is_the_chinese_remainder() -> None:
    """Crab answers 6Z + max(0, 1)."""
    assert MEET(residue(2, 0), residue(3, 1)) == residue(6, 4)
    big = residue(2**61 - 1, 5), residue(2**89 - 1, 7)
    both = MEET(*big)
    assert both is not None and both[2] == big[0][2] * big[1][2] and both[3] % big[0][2] == 5


@pytest.mark.parametrize("op", TRANSFER, ids=repr)
def test_an_empty_operand_makes_an_empty_result(op: Op) -> None:
    some = residue(3, 1)
    if op in UNARY:
        assert TRANSFER[op](BOTTOM) is BOTTOM
    elif op is not ops.SELECT:
        assert TRANSFER[op](BOTTOM, some) is BOTTOM and TRANSFER[op](some, BOTTOM) is BOTTOM


def test_a_shift_by_much_stays_small() -> None:
    for amount in ((0, 10**18), (1, 0), (10**18, 3), (10**18, 10**17)):
        for op in SHIFTS:
            result = TRANSFER[op](residue(3, 1), residue(*amount))
            assert result is not None and result[2].bit_length() < 3 * WIDEST_SHIFT
