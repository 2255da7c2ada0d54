"""The transfer functions of `strided` against enumeration."""

from __future__ import annotations

import random
import time
from itertools import product

import pytest

from intset.arithmetic import strided
from intset.arithmetic.strided import BOTTOM, OPTIMAL, TOP, TRANSFER, Strided, StridedInterval, const, make
from intset.budgets import FEW_OPERANDS
from intset.expr import ops
from intset.expr.ops import Op
from tests.intset.domains.elements import UNARY, all_strided, alpha_strided, contains, gamma_strided, image, leq
from tests.sweeps import daily

VALUES = all_strided(-5, 5)
HALVES = ((-3, None), (0, None), (4, None), (None, -4), (None, 1), (None, 3), (None, None))
ENDLESS = list(dict.fromkeys(make(lo, hi, m, r) for m in (1, 2, 3, 4) for r in range(m) for lo, hi in HALVES))
POINTS = {v: list(gamma_strided(v)) for v in VALUES}
SHIFTS = (ops.SHL, ops.SHR)


def promised(op: Op, *operands: Strided) -> str:
    """What `OPTIMAL` promises for these operands: "value", "bounds" or ""."""
    claim = OPTIMAL[op]
    if claim == "bounds of intervals":
        return "bounds" if all(v is None or v[2] < 2 for v in operands) else ""
    if claim == "always":
        return "value"
    b = operands[1]
    signs = (strided.at_least(b, 0 if op is ops.SHR else 1), strided.at_most(b, -1))
    if all((n := strided.count(part)) is not None and n <= FEW_OPERANDS for part in signs):
        return "value"
    return "bounds" if claim.endswith("bounds") else ""


def check(op: Op, best: Strided, *operands: Strided) -> str:
    result = TRANSFER[op](*operands)
    assert result is None or result == make(*result), (operands, result)
    assert leq(best, result), (operands, result, best)
    claim = promised(op, *operands)
    if claim == "value":
        assert result == best, (operands, result, best)
    elif claim == "bounds":
        assert (result and result[:2]) == (best and best[:2]), (operands, result, best)
    return claim


@pytest.mark.parametrize("reach", daily([4, 5], 2))
@pytest.mark.parametrize("op", TRANSFER, ids=repr)
def test_transfer(op: Op, reach: int) -> None:
    seen = {"value": 0, "bounds": 0, "": 0}
    window = [v for v in VALUES if v is None or (v[0] >= -reach and v[1] <= reach)]
    for operands in product(window, repeat=1 if op in UNARY else 2):
        best = alpha_strided(image(op, *(POINTS[v] for v in operands)))
        seen[check(op, best, *operands)] += 1
    size = {4: 86, 5: 138}[reach]
    assert len(window) == size
    cases = size if op in UNARY else size * size
    assert sum(seen.values()) == cases
    if OPTIMAL[op] == "bounds of intervals":
        assert seen["bounds"] == sum(v is None or v[2] < 2 for v in window) ** 2 >= 45 * 45
    else:
        assert seen["value"] == cases


@pytest.mark.parametrize("op", [*ops.DIVISIONS, ops.SHL, ops.SHR], ids=repr)
def test_constant_divisor(op: Op) -> None:
    """Longer runs, longer steps: what a remainder does with several wraps only shows there."""
    cases = 0
    divisors = [d for d in range(-15, 16) if d] if op in ops.DIVISIONS else range(6)
    for lo, m, n in product(range(-7, 8, 2), range(1, 16), range(1, 13, 2)):
        a = (lo, lo + m * n, m, lo % m)
        for d in divisors:
            best = alpha_strided(image(op, gamma_strided(a), (d,)))
            assert check(op, best, a, const(d)) == "value"
            cases += 1
    assert cases == 8 * 15 * 6 * len(divisors)


@pytest.mark.parametrize("op", [ops.BITAND, ops.BITOR, ops.BITXOR], ids=repr)
def test_bit_operations_on_wider_intervals(op: Op) -> None:
    rng = random.Random(7)
    for _ in range(1500):
        (a, b), (c, d) = (sorted(rng.randint(-40, 70) for _ in "ab") for _ in "ab")
        x, y = make(a, b, rng.choice((1, 1, 1, 2, 4, 6, 8)), a), make(c, d, rng.choice((1, 1, 1, 2, 4, 16)), c)
        check(op, alpha_strided(image(op, gamma_strided(x), gamma_strided(y))), x, y)


# --- infinite operands ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", TRANSFER, ids=repr)
def test_infinite_operands(op: Op) -> None:
    """Two windows represent an infinite operand: an end that differs between their images is infinite."""
    rng = random.Random(f"{op}")
    steps = 1 if OPTIMAL[op] == "bounds of intervals" else 4
    endless = [v for v in ENDLESS if v is None or v[2] <= steps]
    some = endless + [v for v in rng.sample(VALUES, 60) if v[2] <= steps]
    for _ in range(70):
        operands = [rng.choice(endless), rng.choice(some)][: 1 if op in UNARY else 2]
        rng.shuffle(operands)
        windows = ((1500, 20), (3000, 21)) if op is ops.SHR else ((40, 40), (70, 70))
        near, far = (
            alpha_strided(image(op, *map(gamma_strided, operands, (-n for n in sizes), sizes))) for sizes in windows
        )
        if near is None or far is None:
            assert near == far == TRANSFER[op](*operands)
            continue
        lo, hi = (x if x == y else None for x, y in zip(near[:2], far[:2], strict=True))
        check(op, (lo, hi, *far[2:]), *operands)


@pytest.mark.parametrize("op", TRANSFER, ids=repr)
def test_large_operands(op: Op) -> None:
    rng = random.Random(f"{op}")
    for _ in range(400):
        operands: list[Strided] = []
        points = []
        for k in range(1 if op in UNARY else 2):
            size = 1 << (rng.randrange(8) if op in SHIFTS and k else rng.randrange(80))
            lo, n, m = rng.randint(-size, size), rng.choice((0, 1, 3, rng.randint(2, size + 2))), rng.randint(1, size)
            n = min(n, 60) if op in SHIFTS and k else n
            below, above = rng.choice(((1, 1), (1, 1), (1, 1), (0, 1), (1, 0), (0, 0)))
            operands.append(make(lo if below else None, lo + n * m if above else None, m, lo))
            inside = {0, n, *(rng.randint(0, n) for _ in range(5))}
            points.append({lo + t * m for t in inside})
        result = TRANSFER[op](*operands)
        for x in image(op, *points):
            assert contains(result, x), (operands, result, x)


# --- the lattice ------------------------------------------------------------------------------------------------------


def test_lattice() -> None:
    values = [v for v in VALUES if v[0] is not None and v[0] >= -3] + ENDLESS[::3]
    sets = {v: set(gamma_strided(v, -60, 60)) for v in values}
    assert len(values) == 108
    for a, b in product(values, repeat=2):
        joined, met = strided.join(a, b), strided.meet(a, b)
        assert leq(a, b) == (sets[a] <= sets[b]) == (joined == b) == (met == a), (a, b)
        assert set(gamma_strided(met, -60, 60)) == sets[a] & sets[b], (a, b, met)
        assert met is None or met == make(*met)
        assert leq(a, joined) and leq(b, joined) and met == strided.meet(b, a)
    for a in values:
        assert sets[a] == {x for x in range(-60, 61) if contains(a, x)}
        assert strided.count(a) == (None if a is None or None in a else len(sets[a]))
        assert strided.join(a, BOTTOM) == strided.join(BOTTOM, a) == a == strided.meet(a, TOP)
        assert strided.meet(a, BOTTOM) is BOTTOM and leq(BOTTOM, a) and not leq(a, BOTTOM)
    assert strided.count(BOTTOM) == 0 and not contains(BOTTOM, 0)


def test_make() -> None:
    cases = 0
    for lo, hi, m, r in product(range(-4, 5), range(-4, 5), range(-4, 5), range(-2, 6)):
        points = [x for x in range(lo, hi + 1) if (x == r if m == 0 else (x - r) % m == 0)]
        assert make(lo, hi, m, r) == alpha_strided(points)
        cases += 1
    assert cases == 9 * 9 * 9 * 8
    assert make(None, 7, 4, 1) == (None, 5, 4, 1) and make(None, None, -4, -1) == (None, None, 4, 3)


# --- the remainder of a run -------------------------------------------------------------------------------------------


def test_smallest_mod() -> None:
    cases = 0
    for m in range(1, 16):
        for a, b, n in product(range(-2, m + 2), range(m), range(18)):
            remainders = [(a * i + b) % m for i in range(n + 1)]
            assert strided.smallest_mod(a, b, m, n) == min(remainders)
            assert strided.largest_mod(a, b, m, n) == max(remainders)
            cases += 1
    assert cases == sum((m + 4) * m * 18 for m in range(1, 16))


def test_smallest_mod_of_large_operands() -> None:
    rng = random.Random(3)
    for _ in range(60):
        m = rng.randint(1, 1 << 80)
        a, b, n = rng.randint(0, m), rng.randint(0, m), rng.randint(0, 400)
        remainders = [(a * i + b) % m for i in range(n + 1)]
        assert strided.smallest_mod(a, b, m, n) == min(remainders)
        assert strided.largest_mod(a, b, m, n) == max(remainders)


# --- mistakes made elsewhere ------------------------------------------------------------------------------------------


def test_the_remainder_takes_logarithmic_time() -> None:
    """Euclid's steps without turning around are linear: m - 1 and 1 as steps, and Fibonacci's worst case."""
    fibonacci = [1, 1]
    while fibonacci[-1] < 1 << 4000:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    start = time.perf_counter()
    for step, m in ((10**30 - 1, 10**30), (10**30 + 1, 10**30), (2, 10**30 + 1), (fibonacci[-2], fibonacci[-1])):
        a = make(3, 3 + step * (m // 3), step, 3)
        result = strided.floormod(a, const(m))
        assert result is not None and contains(result, (3 + step * (m // 5)) % m)
    assert time.perf_counter() - start < 20


@pytest.mark.parametrize("op", TRANSFER, ids=repr)
def test_an_empty_operand_makes_an_empty_result(op: Op) -> None:
    if op in UNARY:
        assert TRANSFER[op](BOTTOM) is BOTTOM
    elif op is not ops.SELECT:
        for v in (const(3), make(-2, 9), TOP):
            assert TRANSFER[op](BOTTOM, v) is BOTTOM and TRANSFER[op](v, BOTTOM) is BOTTOM


def test_a_shift_by_much_stays_small() -> None:
    operand = make(-5, 9, 7, 2)
    assert strided.shr(operand, make(10**18, None)) == make(-1, 0)
    assert strided.shr(const(0), make(0, 10**18)) == const(0) == strided.shl(const(0), make(0, 10**18))
    for amount in (const(10**18), make(0, None), make(3, 10**18)):
        shifted: StridedInterval | None = strided.shl(operand, amount)
        assert shifted is not None and all(x is None or x.bit_length() < 10_000 for x in shifted)
