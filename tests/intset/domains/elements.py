"""Congruences and strided intervals by their elements: the oracle of transfer functions.

`gamma` lists the elements of a value, `alpha` is the smallest value that contains some points. A transfer function is
sound where its result contains the image of every pair of elements, and optimal where it equals alpha of that image.
"""

from collections.abc import Collection
from math import gcd

from intset.arithmetic import strided
from intset.arithmetic.strided import Residue, Strided
from intset.expr import ops
from intset.expr.ops import Op

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


def gamma_congruence(a: Residue | None, lowest: int, highest: int) -> range:
    return range(0) if a is None else gamma_strided((None, None, *a) if a[0] else strided.const(a[1]), lowest, highest)


def all_congruences(largest: int) -> list[tuple[int, int]]:
    """All congruences with modulus at most `largest`, and all constants of magnitude at most `largest`."""
    return [(0, r) for r in range(-largest, largest + 1)] + [(m, r) for m in range(1, largest + 1) for r in range(m)]


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
