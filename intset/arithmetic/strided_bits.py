"""Strided intervals: bit operations, shifts, and the table of all transfer functions.

Values, their lattice, sums, divisions and minima are in `strided`. Known bits follow LLVM and the Linux verifier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from intset.arithmetic import strided
from intset.arithmetic.strided import (
    End,
    Residue,
    Strided,
    StridedInterval,
    add,
    at_least,
    at_most,
    bitnot,
    const,
    floordiv_by,
    floormod_by,
    join,
    make,
    mul,
    quotients,
    scale,
)
from intset.budgets import FEW_OPERANDS
from intset.expr import ops
from intset.expr.ops import Op

Bits: TypeAlias = tuple[int, int]
"""`(unknown, value)`: two's complement masks of endless width; `value` is 0 at the unknown bits."""

WIDEST_SHIFT: Final = 4096
"""A shift to the left by more than this many bits is not carried out: the answer is then sound, not optimal."""


def bitand(a: Strided, b: Strided) -> Strided:
    """A mask of consecutive bits is a division; otherwise known bits, and the ends sign by sign."""
    if a is None or b is None:
        return None
    for x, y in ((a, b), (b, a)):
        if y[2] == 0:
            c = y[3]
            low = c & -c
            if c < 0 and c == -low:
                return scale(floordiv_by(x, low), low)  # x & -2**k
            width = c // low + 1 if c else 1
            if c >= 0 and width & (width - 1) == 0:  # c = (2**n - 1) * 2**k
                return scale(floormod_by(floordiv_by(x, low or 1), width), low)
    known = _from_bits(_and_bits(_known_bits(a), _known_bits(b)))
    return const(known[1]) if known[0] == 0 else _by_sign(_and_ends, a, b, known)


def bitor(a: Strided, b: Strided) -> Strided:
    if a is None or b is None:
        return None
    if _disjoint(a, b):
        return add(a, b)
    return bitnot(bitand(bitnot(a), bitnot(b)))  # de Morgan


def bitxor(a: Strided, b: Strided) -> Strided:
    if a is None or b is None:
        return None
    if (-1, -1, 0, -1) in (a, b):
        return bitnot(a if b[3] == -1 and b[2] == 0 else b)
    if _disjoint(a, b):
        return add(a, b)
    return _by_sign(_xor_ends, a, b, _from_bits(_xor_bits(_known_bits(a), _known_bits(b))))


def _disjoint(a: StridedInterval, b: StridedInterval) -> bool:
    """Whether no bit can be 1 in both: then a | b = a ^ b = a + b."""
    (u, v), (w, z) = _known_bits(a), _known_bits(b)
    return (u | v) & (w | z) == 0


def _known_bits(a: StridedInterval) -> Bits:
    """The low bits from the stride, the high bits from what the two ends have in common."""
    lo, hi, m, r = a
    unknown, value = _residue_bits((m, r))
    if lo is None or hi is None or lo ^ hi < 0:
        return unknown, value
    unknown &= (1 << (lo ^ hi).bit_length()) - 1
    return unknown, lo & ~unknown


def _residue_bits(a: Residue) -> Bits:
    """A modulus 2**k * odd leaves the low k bits known."""
    m, r = a
    low = m & -m
    return (-low, r & (low - 1)) if m else (0, r)


def _from_bits(known: Bits) -> Residue:
    """The congruence given by the known bits below the lowest unknown bit."""
    unknown, value = known
    low = unknown & -unknown
    return (low, value & (low - 1)) if unknown else (0, value)


def _and_bits(a: Bits, b: Bits) -> Bits:
    """Known bits of x & y: unknown where both operands' bits may be 1 and one is unknown."""
    (u, v), (w, z) = a, b
    return (u | w) & (u | v) & (w | z), v & z


def _xor_bits(a: Bits, b: Bits) -> Bits:
    """Known bits of x ^ y: unknown where an operand's bit is."""
    unknown = a[0] | b[0]
    return unknown, (a[1] ^ b[1]) & ~unknown


_SignRule: TypeAlias = Callable[[End, End, End, End], tuple[End, End]]


def _by_sign(ends: _SignRule, a: StridedInterval, b: StridedInterval, known: tuple[int, int]) -> Strided:
    """The join of `ends` over the parts of one sign, rounded to the congruence `known`."""
    result: Strided = None
    for x in (at_least(a, 0), at_most(a, -1)):
        for y in (at_least(b, 0), at_most(b, -1)):
            if x is not None and y is not None:
                result = join(result, make(*ends(x[0], x[1], y[0], y[1]), *known))
    return result


def _and_ends(a: End, b: End, c: End, d: End) -> tuple[End, End]:
    """The ends of x & y over x in [a, b] and y in [c, d], each of one sign. `None` stands for that sign's infinity."""
    x_negative, y_negative = b is not None and b < 0, d is not None and d < 0
    below = x_negative and y_negative and (a is None or c is None)
    above = (b is None and (y_negative or d is None)) or (d is None and x_negative)
    top = _beyond(a, b, c, d)
    a, c = -top if a is None else a, -top if c is None else c
    b, d = top - 1 if b is None else b, top - 1 if d is None else d
    return None if below else _min_and(a, b, c, d, top), None if above else _max_and(a, b, c, d, top)


def _xor_ends(a: End, b: End, c: End, d: End) -> tuple[End, End]:
    """The ends of x ^ y over x in [a, b] and y in [c, d], each of one sign: ~x ^ y = ~(x ^ y) makes both positive."""
    flipped = False
    if a is None or a < 0:
        a, b, flipped = None if b is None else ~b, None if a is None else ~a, not flipped
    if c is None or c < 0:
        c, d, flipped = None if d is None else ~d, None if c is None else ~c, not flipped
    assert a is not None and c is not None
    top = _beyond(a, b, c, d)
    lo, hi = (
        _min_xor(a, top - 1 if b is None else b, c, top - 1 if d is None else d),
        None if b is None or d is None else _max_xor(a, b, c, d),
    )
    return (None if hi is None else ~hi, ~lo) if flipped else (lo, hi)


def _beyond(*ends: End) -> int:
    """A power of two with a bit to spare above every finite end: what infinity can be replaced with."""
    return 2 << max(e.bit_length() for e in ends if e is not None)


# The four ends below follow H. S. Warren, Hacker's Delight, section 4-3: scan bits from the top; at the first bit that
# an operand can change within its interval, change it and choose its lower bits freely.


def _min_and(a: int, b: int, c: int, d: int, top: int) -> int:
    """Minimum of x & y: a bit that both lower ends lack may be set in one, to clear its lower bits."""
    free = ~(a | c) & (top - 1)
    while free:
        bit = 1 << (free.bit_length() - 1)
        if (x := (a | bit) & -bit) <= b:
            return x & c
        if (y := (c | bit) & -bit) <= d:
            return a & y
        free ^= bit
    return a & c


def _max_and(a: int, b: int, c: int, d: int, top: int) -> int:
    """Maximum of x & y: a bit of one upper end alone may be cleared, to set its lower bits."""
    odd = (b ^ d) & (top - 1)
    while odd:
        bit = 1 << (odd.bit_length() - 1)
        if b & bit:
            if (x := (b ^ bit) | (bit - 1)) >= a:
                return x & d
        elif (y := (d ^ bit) | (bit - 1)) >= c:
            return b & y
        odd ^= bit
    return b & d


def _min_xor(a: int, b: int, c: int, d: int) -> int:
    """Minimum of x ^ y: a bit of one lower end alone is set in the other, if its interval allows."""
    odd = a ^ c
    while odd:
        bit = 1 << (odd.bit_length() - 1)
        if a & bit:
            if (y := (c | bit) & -bit) <= d:
                c = y
        elif (x := (a | bit) & -bit) <= b:
            a = x
        odd = (a ^ c) & (bit - 1)
    return a ^ c


def _max_xor(a: int, b: int, c: int, d: int) -> int:
    """Maximum of x ^ y: a common bit of the upper ends is cleared in one, if its interval allows."""
    both = b & d
    while both:
        bit = 1 << (both.bit_length() - 1)
        if (x := (b ^ bit) | (bit - 1)) >= a:
            b = x
        elif (y := (d ^ bit) | (bit - 1)) >= c:
            d = y
        both = b & d & (bit - 1)
    return b ^ d


def shl(a: Strided, b: Strided) -> Strided:
    """a * 2**b: the powers 2**s, 2**(s+n), 2**(s+2n), ... lie in 2**s*(2**n - 1)*Z + 2**s."""
    amount = at_least(b, 0)
    if amount is None:
        return None
    low, high, step, _ = amount
    assert low is not None
    widest = WIDEST_SHIFT
    lo = 1 << min(low, widest)
    hi = None if high is None or high > widest else 1 << high
    return mul(a, make(lo, hi, lo * ((1 << step) - 1) if low <= widest and step <= widest else lo, lo))


def shr(a: Strided, b: Strided) -> Strided:
    """a // 2**b: no bit is left to shift beyond the widest of a's numbers."""
    amount = at_least(b, 0)
    if a is None or amount is None:
        return None
    low, high, step, _ = amount
    assert low is not None
    widest = max(x.bit_length() for x in a if x is not None)
    low, high = min(low, widest), widest if high is None else min(high, widest)
    if low == high:
        return floordiv_by(a, 1 << low)
    amounts = (*range(low, high, step), high) if high - low < FEW_OPERANDS * step else ()
    return quotients(a, 1 << low, 1 << high, (1 << k for k in amounts))


TRANSFER: Final[dict[Op, Callable[..., Strided]]] = {
    ops.ADD: strided.add,
    ops.SUB: strided.sub,
    ops.MUL: strided.mul,
    ops.NEG: strided.neg,
    ops.FLOORDIV: strided.floordiv,
    ops.FLOORMOD: strided.floormod,
    ops.CEILDIV: strided.ceildiv,
    ops.TRUNCDIV: strided.truncdiv,
    ops.TRUNCMOD: strided.truncmod,
    ops.MIN: strided.minimum,
    ops.MAX: strided.maximum,
    ops.ABS: strided.absolute,
    ops.BITAND: bitand,
    ops.BITOR: bitor,
    ops.BITXOR: bitxor,
    ops.BITNOT: strided.bitnot,
    ops.SHL: shl,
    ops.SHR: shr,
    ops.SELECT: strided.join,  # of the two branches
}

OPTIMAL: Final[dict[Op, str]] = {
    ops.ADD: "always",
    ops.SUB: "always",
    ops.MUL: "always",
    ops.NEG: "always",
    ops.FLOORDIV: "few divisors; bounds",
    ops.FLOORMOD: "few divisors",
    ops.CEILDIV: "few divisors; bounds",
    ops.TRUNCDIV: "few divisors; bounds",
    ops.TRUNCMOD: "few divisors",
    ops.MIN: "always",
    ops.MAX: "always",
    ops.ABS: "always",
    ops.BITAND: "bounds of intervals",
    ops.BITOR: "bounds of intervals",
    ops.BITXOR: "bounds of intervals",
    ops.BITNOT: "always",
    ops.SHL: "always",  # up to WIDEST_SHIFT
    ops.SHR: "few divisors; bounds",
    ops.SELECT: "always",
}
"""Where the result is the best one. "few divisors": at most `FEW_OPERANDS` of each sign, the constant divisor among
them; "bounds": the ends are, for every operand; "of intervals": for operands whose stride is 0 or 1."""
