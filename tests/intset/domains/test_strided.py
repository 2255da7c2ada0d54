"""The transfer functions and lattices of strided intervals, congruences and multi-stride sets against enumeration.

`gamma_strided` lists the elements of a value, `alpha_strided` is the smallest value that contains some points. A
transfer function is sound where its result contains the image of every pair of elements, and optimal where it equals
alpha of that image.
"""

import itertools
import random
import time
from collections.abc import Callable, Collection
from itertools import pairwise, product
from math import gcd
from typing import Any

import pytest

from intset import IntSet, Var, evaluate
from intset.arithmetic import multistride, strided
from intset.arithmetic.multistride import MultiStride, StrideTerm
from intset.arithmetic.multistride import make as steps
from intset.arithmetic.strided import (
    BOTTOM,
    FEW_OPERANDS,
    OPTIMAL,
    TOP,
    TRANSFER,
    WIDEST_SHIFT,
    Residue,
    Strided,
    StridedInterval,
    const,
    make,
)
from intset.domains.stride import TRANSFER as OF_CONGRUENCES
from intset.domains.stride import ModularDomain
from intset.expr import Infinity, ops
from intset.expr.node import as_expr
from intset.expr.ops import Op
from tests.strategies.contexts import PRESBURGER, Drawn, contexts
from tests.sweeps import daily, sampled

# --- the oracle of transfer functions ---------------------------------------------------------------------------------

UNARY = (ops.NEG, ops.ABS, ops.BITNOT)


def image(op: Op, *operands: Collection[int]) -> set[int]:
    """Image of `op` over all defined operand tuples."""
    if op is ops.SELECT:
        return {x for operand in operands for x in operand}
    assert op.meaning is not None
    if len(operands) == 1:
        return {op.meaning(x) for x in operands[0]}
    if op in ops.DIVISIONS or op in (ops.SHL, ops.SHR):
        defined = [y for y in operands[1] if (y if op in ops.DIVISIONS else y >= 0)]
        return {op.meaning(x, y) for x in operands[0] for y in defined}
    return {op.meaning(x, y) for x in operands[0] for y in operands[1]}


def alpha_congruence(points: Collection[int]) -> Residue | None:
    if not points:
        return None
    first = next(iter(points))
    m = gcd(*(x - first for x in points))
    return (m, first % m if m else first)


def alpha_strided(points: Collection[int]) -> Strided:
    if not points:
        return strided.BOTTOM
    m, r = alpha_congruence(points) or (0, 0)
    return (min(points), max(points), m, r)


def gamma_strided(a: Strided, lowest: int = 0, highest: int = 0) -> range:
    """The elements; those in `[lowest, highest]` alone towards an end that is infinite."""
    if a is None:
        return range(0)
    lo, hi, m, r = a
    low = lowest + (r - lowest) % m if lo is None else lo
    return range(low, (highest if hi is None else hi) + 1, m or 1)


def all_strided(lowest: int, highest: int) -> list[strided.StridedInterval]:
    """Every nonempty strided interval within `[lowest, highest]`."""
    runs = [
        (lo, hi, m, lo % m)
        for lo in range(lowest, highest + 1)
        for hi in range(lo + 1, highest + 1)
        for m in range(1, hi - lo + 1)
        if (hi - lo) % m == 0
    ]
    return [strided.const(x) for x in range(lowest, highest + 1)] + runs


def contains(a: Strided, x: int) -> bool:
    if a is None:
        return False
    lo, hi, m, r = a
    return (lo is None or lo <= x) and (hi is None or x <= hi) and (m == 0 or x % m == r)


def leq(a: Strided, b: Strided) -> bool:
    """Whether `a` is a subset of `b`."""
    if a is None or b is None:
        return a is None
    (al, ah, m, r), (bl, bh, n, s) = a, b
    inside = (bl is None or (al is not None and bl <= al)) and (bh is None or (ah is not None and ah <= bh))
    return inside and (m % n == 0 and (r - s) % n == 0 if n else m == 0)


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


# --- mistakes made elsewhere ------------------------------------------------------------------------------------------


def test_the_remainder_takes_logarithmic_time_and_a_shift_by_much_stays_small() -> None:
    # Euclid's steps without turning around are linear: m - 1 and 1 as steps, and Fibonacci's worst case.
    fibonacci = [1, 1]
    while fibonacci[-1] < 1 << 4000:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    start = time.perf_counter()
    for step, m in ((10**30 - 1, 10**30), (10**30 + 1, 10**30), (2, 10**30 + 1), (fibonacci[-2], fibonacci[-1])):
        a = make(3, 3 + step * (m // 3), step, 3)
        result = strided.floormod(a, const(m))
        assert result is not None and contains(result, (3 + step * (m // 5)) % m)
    assert time.perf_counter() - start < 20
    operand = make(-5, 9, 7, 2)
    assert strided.shr(operand, make(10**18, None)) == make(-1, 0)
    assert strided.shr(const(0), make(0, 10**18)) == const(0) == strided.shl(const(0), make(0, 10**18))
    for amount in (const(10**18), make(0, None), make(3, 10**18)):
        shifted: StridedInterval | None = strided.shl(operand, amount)
        assert shifted is not None and all(x is None or x.bit_length() < 10_000 for x in shifted)
    for amount in ((0, 10**18), (1, 0), (10**18, 3), (10**18, 10**17)):
        for op in SHIFTS:
            result = OF_CONGRUENCES[op](residue(3, 1), residue(*amount))
            assert result is not None and result[2].bit_length() < 3 * WIDEST_SHIFT


@pytest.mark.parametrize("op", TRANSFER, ids=repr)
def test_an_empty_operand_makes_an_empty_result(op: Op) -> None:
    if op in UNARY:
        assert TRANSFER[op](BOTTOM) is BOTTOM
    elif op is not ops.SELECT:
        for v in (const(3), make(-2, 9), TOP):
            assert TRANSFER[op](BOTTOM, v) is BOTTOM and TRANSFER[op](v, BOTTOM) is BOTTOM


JOIN, MEET = ModularDomain().join, ModularDomain().meet


def residue(m: int, r: int) -> StridedInterval:
    value = strided.make(None, None, m, r)
    assert value is not None
    return value


def smallest(points: Collection[int]) -> Strided:
    """The smallest congruence that contains some points."""
    best = alpha_congruence(points)
    return None if best is None else residue(*best)


CONGRUENCES = [residue(0, r) for r in range(-9, 10)]
CONGRUENCES += [residue(m, r) for m in range(1, 10) for r in range(m)]
WINDOW = 40
ELEMENTS = {v: gamma_strided(v, -WINDOW, WINDOW) for v in CONGRUENCES}
AMOUNTS = {v: gamma_strided(v, 0, 18) for v in CONGRUENCES}
CONSTANT_DIVISOR = (ops.TRUNCDIV, ops.TRUNCMOD)  # optimal where the divisor is constant
SOUND_ONLY = (ops.BITAND, ops.BITOR, ops.BITXOR)  # every other operation is optimal for every operand


@pytest.mark.parametrize("op", OF_CONGRUENCES, ids=repr)
def test_transfer_of_congruences(op: Op) -> None:
    cases = optimal = 0
    for operands in product(CONGRUENCES, repeat=1 if op in UNARY else 2):
        points = [ELEMENTS[operands[0]], *((AMOUNTS if op in SHIFTS else ELEMENTS)[v] for v in operands[1:])]
        best = smallest(image(op, *points))
        result = OF_CONGRUENCES[op](*operands)
        assert leq(best, result), (operands, result, best)
        if op not in SOUND_ONLY and (op not in CONSTANT_DIVISOR or operands[-1][2] == 0):
            assert result == best, (operands, result, best)
            optimal += 1
        cases += 1
    assert cases == (64 if op in UNARY else 64 * 64)
    assert optimal == (0 if op in SOUND_ONLY else 64 * 19 if op in CONSTANT_DIVISOR else cases)


RUNS = [v for v in VALUES if v[0] is not None and v[0] >= -3] + ENDLESS[::3]
LATTICES: dict[str, tuple[list[Any], Callable[..., Strided], Callable[..., Strided], int]] = {
    "runs": (RUNS, strided.join, strided.meet, 60),
    "congruences": (CONGRUENCES, JOIN, MEET, 90),
}


@pytest.mark.parametrize("name", LATTICES)
def test_lattice(name: str) -> None:
    values, join, meet, reach = LATTICES[name]
    sets = {v: set(gamma_strided(v, -reach, reach)) for v in values}
    assert len(RUNS) == 108
    for a, b in product(values, repeat=2):
        joined, met = join(a, b), meet(a, b)
        assert leq(a, b) == (sets[a] <= sets[b]) == (joined == b) == (met == a), (a, b)
        assert set(gamma_strided(met, -reach, reach)) == sets[a] & sets[b], (a, b, met)
        assert met is None or met == make(*met)
        assert leq(a, joined) and leq(b, joined) and met == meet(b, a)
        assert name == "runs" or joined == smallest(sets[a] | sets[b])
    for a in values:
        assert sets[a] == {x for x in range(-reach, reach + 1) if contains(a, x)}
        assert strided.count(a) == (None if None in a else len(sets[a]))
        assert join(a, BOTTOM) == join(BOTTOM, a) == a == meet(a, TOP)
        assert meet(a, BOTTOM) is BOTTOM and leq(BOTTOM, a) and not leq(a, BOTTOM)
    assert strided.count(BOTTOM) == 0 and not contains(BOTTOM, 0)


# --- mistakes made elsewhere ------------------------------------------------------------------------------------------


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


def gamma(base: int, terms: tuple[StrideTerm, ...] | list[StrideTerm]) -> set[int]:
    return {base + sum(t) for t in product(*([s * t for t in range(e)] for s, e in terms))}


def small_sets() -> list[tuple[MultiStride, set[int]]]:
    """Every two-term set with small strides, and random ones with up to four terms."""
    rng = random.Random(11)
    spaces: list[tuple[int, list[StrideTerm]]] = [
        (base, [(s, e), (t, f)])
        for base in (-3, 0)
        for s, t in product((1, 2, 3, 4, 6), (-4, 0, 2, 3, 5, 8, 12))
        for e, f in product((1, 2, 3, 4), (2, 3, 6))
    ]
    for _ in range(2400):
        strides = rng.sample((1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 32, 48, 80, 120, -1, -4, 0), rng.randint(0, 4))
        spaces.append((rng.randint(-30, 30), [(s, rng.choice((1, 2, 2, 3, 4, 5))) for s in strides]))
    return [(steps(base, terms), gamma(base, terms)) for base, terms in spaces]


SETS = small_sets()


def test_sets_of_several_strides_keep_their_elements_and_quotients() -> None:
    for a, points in SETS:
        base, terms = a
        assert gamma(base, terms) == points
        assert steps(base, terms) == a and steps(base, terms[::-1]) == a
        strides = [s for s, _ in terms]
        assert strides == sorted(set(strides)) and all(s > 0 and e >= 2 for s, e in terms)
        assert not any(t % s == 0 and t // s <= e for (s, e), (t, _) in product(terms, terms) if s < t)
        assert multistride.count(a) == len(points), a
        for x in range(min(points) - 3, max(points) + 4):
            assert multistride.contains(a, x) == (x in points), (a, x)
    answered = cases = 0
    for a, points in SETS:
        for c in DIVISORS:
            quotient, remainder = multistride.floordiv(a, c), multistride.floormod(a, c)
            assert quotient is None or gamma(*quotient) == {x // c for x in points}, (a, c, quotient)
            assert remainder is None or gamma(*remainder) == {x % c for x in points}, (a, c, remainder)
            answered += (quotient is not None) + (remainder is not None)
            cases += 2
    assert cases == len(SETS) * len(DIVISORS) * 2
    assert answered > 0.85 * cases


DIVISORS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, -1, -3, -4, -8)


@pytest.mark.parametrize("c", [1, 2, 3, 5, 8, -3])
def test_a_single_run_is_never_refused_its_progression(c: int) -> None:
    """One stride: the answer is there exactly when the image is a progression (or two)."""
    for base, s, e in product(range(-4, 5), range(1, 10), range(2, 9)):
        a, points = steps(base, [(s, e)]), gamma(base, [(s, e)])
        for answer, values in (
            (multistride.floordiv(a, c), sorted({x // c for x in points})),
            (multistride.floormod(a, c), sorted({x % c for x in points})),
        ):
            assert answer is not None or len({y - x for x, y in pairwise(values)}) > 1, (a, c)


def test_large_sets_and_small_budgets() -> None:
    start = time.perf_counter()
    big = steps(1 << 90, [(1, 1 << 20), (1 << 30, 1 << 20), (1 << 60, 1 << 25)])
    assert multistride.count(big) == 1 << 65
    assert multistride.contains(big, (1 << 90) + (5 << 60) + (7 << 30) + 9)
    assert not multistride.contains(big, (1 << 90) + (5 << 60) + (7 << 30) + (1 << 20))
    two = steps(0, [(10**20 + 39, 10**30), (10**20 + 129, 10**30)])  # two terms: no search, though they overlap
    collisions = (10**30 - 10**20 - 39) * (10**30 - 10**20 - 129)
    assert multistride.count(two) == 10**60 - collisions
    assert multistride.contains(two, 77 * (10**20 + 39) + 10**25 * (10**20 + 129))
    assert multistride.contains(two, 10**20 + 40) is False
    assert multistride.floordiv(big, 1 << 30) == (1 << 60, ((1, 1 << 20), (1 << 30, 1 << 25)))
    assert time.perf_counter() - start < 20
    loose = steps(0, [(10**12 + 39, 50), (10**12 + 61, 50), (10**12 + 63, 50), (10**12 + 91, 50)])
    assert multistride.count(loose) is None
    assert multistride.contains(loose, 60 * 10**12 + 1, steps=5) is None
    assert multistride.contains(loose, sum((10**12 + p) * t for p, t in ((39, 3), (61, 49), (63, 7), (91, 20)))) is True
