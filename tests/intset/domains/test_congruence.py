"""The transfer functions of the `modular` domain against enumeration.

A congruence is infinite: soundness is checked on the elements in a window. Alpha of the image of a window is at most
alpha of the whole image, so where the transfer function equals it, it is proved optimal.
"""

from __future__ import annotations

import random
from itertools import product

import pytest

from intset.domains.arithmetic import congruence
from intset.domains.arithmetic.congruence import BOTTOM, TOP
from intset.domains.arithmetic.strided_bits import WIDEST_SHIFT
from intset.domains.modular import TRANSFER
from intset.expr import ops
from intset.expr.ops import Op
from intset.testing import galois

VALUES = galois.all_congruences(9)  # 19 constants, 45 congruences
WINDOW = 40
POINTS = {v: galois.gamma_congruence(v, -WINDOW, WINDOW) for v in VALUES}
AMOUNTS = {v: galois.gamma_congruence(v, 0, 18) for v in VALUES}
SHIFTS = (ops.SHL, ops.SHR)
CONSTANT_DIVISOR = (ops.TRUNCDIV, ops.TRUNCMOD)  # optimal where the divisor is constant
SOUND_ONLY = (ops.BITAND, ops.BITOR, ops.BITXOR)  # optimal for every other operation, and operand


@pytest.mark.parametrize("op", TRANSFER, ids=repr)
def test_transfer(op: Op) -> None:
    cases = optimal = 0
    for operands in product(VALUES, repeat=1 if op in galois.UNARY else 2):
        points = [POINTS[operands[0]], *((AMOUNTS if op in SHIFTS else POINTS)[v] for v in operands[1:])]
        best = galois.alpha_congruence(galois.image(op, *points))
        result = TRANSFER[op](*operands)
        assert congruence.leq(best, result), (operands, result, best)
        if op not in SOUND_ONLY and (op not in CONSTANT_DIVISOR or operands[-1][0] == 0):
            assert result == best, (operands, result, best)
            optimal += 1
        cases += 1
    assert cases == (64 if op in galois.UNARY else 64 * 64)
    assert optimal == (0 if op in SOUND_ONLY else 64 * 19 if op in CONSTANT_DIVISOR else cases)


@pytest.mark.parametrize("op", TRANSFER, ids=repr)
def test_large_operands(op: Op) -> None:
    rng = random.Random(f"{op}")
    for _ in range(300):
        operands, points = [], []
        for k in range(1 if op in galois.UNARY else 2):
            size = 1 << (rng.randrange(8) if op in SHIFTS and k else rng.randrange(80))
            m, r = rng.choice((0, rng.randint(1, size))), rng.randint(-size, size)
            v = congruence.make(m, r)
            operands.append(v)
            multiples = [rng.randint(-3, 3) for _ in range(4)] + [rng.randint(-size, size) for _ in range(2)]
            points.append({v[1] + v[0] * (abs(t) if op in SHIFTS and k else t) for t in multiples})
        result = TRANSFER[op](*operands)
        for x in galois.image(op, *points):
            assert congruence.contains(result, x), (operands, result, x)


def test_lattice() -> None:
    window = set(range(-90, 91))
    sets = {v: set(galois.gamma_congruence(v, -90, 90)) for v in VALUES}
    for a, b in product(VALUES, repeat=2):
        assert congruence.leq(a, b) == (sets[a] <= sets[b])
        assert set(galois.gamma_congruence(congruence.meet(a, b), -90, 90)) == sets[a] & sets[b], (a, b)
        assert congruence.meet(a, b) == congruence.meet(b, a)
        assert congruence.join(a, b) == galois.alpha_congruence(sets[a] | sets[b])
        assert congruence.leq(a, b) == (congruence.join(a, b) == b) == (congruence.meet(a, b) == a)
    for a in VALUES:
        assert sets[a] == {x for x in window if congruence.contains(a, x)}
        assert congruence.join(a, BOTTOM) == congruence.join(BOTTOM, a) == a == congruence.meet(a, TOP)
        assert congruence.meet(a, BOTTOM) is BOTTOM and congruence.leq(BOTTOM, a) and not congruence.leq(a, BOTTOM)


# --- mistakes made elsewhere ------------------------------------------------------------------------------------------


def test_meet_is_the_chinese_remainder() -> None:
    """Crab answers 6Z + max(0, 1)."""
    assert congruence.meet((2, 0), (3, 1)) == (6, 4)
    big = (2**61 - 1, 5), (2**89 - 1, 7)
    both = congruence.meet(*big)
    assert both is not None and both[0] == big[0][0] * big[1][0] and both[1] % big[0][0] == 5


def test_divisions_that_truncate_do_not_keep_the_floor() -> None:
    """Crab's division and remainder: -1 tdiv 2 = 0 but 3 tdiv 2 = 1, and -1 tmod 4 = -1."""
    assert TRANSFER[ops.TRUNCDIV]((4, 3), (0, 2)) == TOP
    assert TRANSFER[ops.FLOORDIV]((4, 3), (0, 2)) == (2, 1)
    assert TRANSFER[ops.TRUNCMOD]((4, 3), (0, 4)) == (4, 3) != TRANSFER[ops.FLOORMOD]((4, 3), (0, 4)) == (0, 3)


def test_the_modulus_0_in_gcd() -> None:
    """gcd(0, x) = x: a constant is no congruence modulo 1."""
    assert congruence.join((0, 6), (0, 6)) == (0, 6)
    assert congruence.join((0, 6), (0, 10)) == (4, 2)
    assert TRANSFER[ops.MUL]((0, 0), TOP) == (0, 0)  # Exo: times zero
    assert TRANSFER[ops.SUB]((0, 5), (6, 1)) == (6, 4)  # xDSL: 5 - x is not x - 5; Goblint: subtraction
    assert TRANSFER[ops.FLOORMOD]((0, 7), (0, 3)) == (0, 1)


def test_no_point_is_defined() -> None:
    for op in ops.DIVISIONS:
        assert TRANSFER[op](TOP, (0, 0)) is BOTTOM
    for op in SHIFTS:
        assert TRANSFER[op](TOP, (0, -1)) is BOTTOM


@pytest.mark.parametrize("op", TRANSFER, ids=repr)
def test_an_empty_operand_makes_an_empty_result(op: Op) -> None:
    if op in galois.UNARY:
        assert TRANSFER[op](BOTTOM) is BOTTOM
    elif op is not ops.SELECT:
        assert TRANSFER[op](BOTTOM, (3, 1)) is BOTTOM and TRANSFER[op]((3, 1), BOTTOM) is BOTTOM


def test_a_shift_by_much_stays_small() -> None:
    for amount in ((0, 10**18), (1, 0), (10**18, 3), (10**18, 10**17)):
        for op in SHIFTS:
            result = TRANSFER[op]((3, 1), amount)
            assert result is not None and result[0].bit_length() < 3 * WIDEST_SHIFT
