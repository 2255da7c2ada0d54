"""The arithmetic of congruences `m*Z + r`: pure functions on tuples of integers.

A value is `(m, r)`: the integers that leave the remainder `r` modulo `m`, with `0 <= r < m`; `(0, r)` is the single
point `r`; `TOP = (1, 0)` is every integer; `BOTTOM = None` is the empty set. Each set has exactly one value, so `==`
compares sets. Every transfer function contains the true image over the points where the operation is defined, and is
the smallest such value where `OPTIMAL` says so.

Source: P. Granger, Static analysis of arithmetical congruences, 1989; the known-bits rules are those of LLVM and of
the Linux verifier. `meet` solves the two congruences (2Z and 3Z+1 meet in 6Z+4); taking the larger remainder is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Final, TypeAlias

from intset.expr import ops
from intset.expr.ops import Op

Congruence: TypeAlias = tuple[int, int] | None
Bits: TypeAlias = tuple[int, int]
"""`(unknown, value)`: two's complement masks of endless width; `value` is 0 at the unknown bits."""

TOP: Final = (1, 0)
BOTTOM: Final = None
WIDEST_SHIFT: Final = 4096
"""A shift to the left by more than this many bits is not carried out: the answer is then sound, not best."""


def make(m: int, r: int) -> tuple[int, int]:
    """`m*Z + r` for any `m` and `r`."""
    return (abs(m), r % abs(m)) if m else (0, r)


# --- the lattice ------------------------------------------------------------------------------------------------------


def contains(a: Congruence, x: int) -> bool:
    return a is not None and ((x - a[1]) % a[0] == 0 if a[0] else x == a[1])


def leq(a: Congruence, b: Congruence) -> bool:
    """Whether every element of `a` is one of `b`."""
    if a is None or b is None:
        return a is None
    return a[0] % b[0] == 0 and (a[1] - b[1]) % b[0] == 0 if b[0] else a == b


def join(a: Congruence, b: Congruence) -> Congruence:
    """The smallest congruence that contains both."""
    if a is None or b is None:
        return b if a is None else a
    m = gcd(a[0], b[0], a[1] - b[1])
    return (m, a[1] % m) if m else a


def meet(a: Congruence, b: Congruence) -> Congruence:
    """The intersection itself, by the Chinese remainder theorem."""
    if a is None or b is None:
        return None
    (m, r), (n, s) = a, b
    if m == 0 or n == 0:
        return (a if contains(b, r) else None) if m == 0 else (b if contains(a, s) else None)
    g = gcd(m, n)
    if (s - r) % g:
        return None
    n //= g
    return (m * n, (r + m * ((s - r) // g * pow(m // g, -1, n) % n)) % (m * n))


# --- sums and products ------------------------------------------------------------------------------------------------


def add(a: Congruence, b: Congruence) -> Congruence:
    if a is None or b is None:
        return None
    m, r = gcd(a[0], b[0]), a[1] + b[1]
    return (m, r % m if m else r)


def sub(a: Congruence, b: Congruence) -> Congruence:
    if a is None or b is None:
        return None
    m, r = gcd(a[0], b[0]), a[1] - b[1]
    return (m, r % m if m else r)


def neg(a: Congruence) -> Congruence:
    return None if a is None else (a[0], -a[1] % a[0] if a[0] else -a[1])


def bitnot(a: Congruence) -> Congruence:
    return None if a is None else (a[0], ~a[1] % a[0] if a[0] else ~a[1])  # -1 - a


def mul(a: Congruence, b: Congruence) -> Congruence:
    """(m*i + r)(n*j + s) = m*n*i*j + m*s*i + n*r*j + r*s."""
    if a is None or b is None:
        return None
    (m, r), (n, s) = a, b
    g = gcd(m * n, m * s, n * r)
    return (g, r * s % g if g else r * s)


# --- divisions: over the divisors that are not 0 ----------------------------------------------------------------------


def floordiv(a: Congruence, b: Congruence) -> Congruence:
    """(m*i + r) // c = (m/c)*i + r//c where c divides m; otherwise two quotients in a row differ by both q and q+1."""
    if a is None or b is None or b == (0, 0):
        return None
    (m, r), (n, c) = a, b
    if n == 0 and m % c == 0:
        return make(m // c, r // c)
    return a if m == r == 0 else TOP  # a large divisor of either sign makes 0 and -1 of everything but 0


def ceildiv(a: Congruence, b: Congruence) -> Congruence:
    return neg(floordiv(neg(a), b))  # ceil(x) = -floor(-x)


def floormod(a: Congruence, b: Congruence) -> Congruence:
    """a % b = a - b*k."""
    if a is None or b is None or b == (0, 0):
        return None
    (m, r), (n, c) = a, b
    if n == 0 and m % c == 0:
        return (0, r % c)
    return a if m == r == 0 else make(gcd(m, n, c), r)


def truncdiv(a: Congruence, b: Congruence) -> Congruence:
    """As `floordiv` where nothing is rounded; otherwise both signs meet, one above the other's quotient."""
    if a is None or b is None or b == (0, 0):
        return None
    (m, r), (n, c) = a, b
    if n == 0 and m == 0:
        return (0, ops.trunc_div(r, c))
    if n == 0 and m % c == 0 and r % c == 0:
        return make(m // c, r // c)
    return (0, 0) if m == 0 and abs(r) < _smallest(n, c) else TOP


def truncmod(a: Congruence, b: Congruence) -> Congruence:
    """The remainder has the sign of `a`: it is constant only where it is 0, or where no division takes place."""
    if a is None or b is None or b == (0, 0):
        return None
    (m, r), (n, c) = a, b
    if m == 0 and (n == 0 or abs(r) < _smallest(n, c)):
        return (0, ops.trunc_mod(r, c)) if n == 0 else a
    return (0, 0) if n == 0 and m % c == 0 and r % c == 0 else make(gcd(m, n, c), r)


def _smallest(m: int, r: int) -> int:
    """The least absolute value of a divisor in `m*Z + r`, 0 left out."""
    return abs(r) if m == 0 else min(r or m, m - r)


# --- order ------------------------------------------------------------------------------------------------------------


def minimum(a: Congruence, b: Congruence) -> Congruence:
    if a is not None and b is not None and a[0] == b[0] == 0:
        return (0, min(a[1], b[1]))
    return None if a is None or b is None else join(a, b)


def maximum(a: Congruence, b: Congruence) -> Congruence:
    if a is not None and b is not None and a[0] == b[0] == 0:
        return (0, max(a[1], b[1]))
    return None if a is None or b is None else join(a, b)


def absolute(a: Congruence) -> Congruence:
    return (0, abs(a[1])) if a is not None and a[0] == 0 else join(a, neg(a))


# --- bits -------------------------------------------------------------------------------------------------------------


def known_bits(a: tuple[int, int]) -> Bits:
    """A modulus 2**k * odd leaves the low k bits known."""
    m, r = a
    low = m & -m
    return (-low, r & (low - 1)) if m else (0, r)


def from_bits(known: Bits) -> tuple[int, int]:
    """The congruence that the known bits below the first unknown one state."""
    unknown, value = known
    low = unknown & -unknown
    return (low, value & (low - 1)) if unknown else (0, value)


def and_bits(a: Bits, b: Bits) -> Bits:
    """A result bit is unknown where both may be 1 and one of them is unknown."""
    (u, v), (w, z) = a, b
    return (u | w) & (u | v) & (w | z), v & z


def xor_bits(a: Bits, b: Bits) -> Bits:
    unknown = a[0] | b[0]
    return unknown, (a[1] ^ b[1]) & ~unknown


def bitand(a: Congruence, b: Congruence) -> Congruence:
    if a is None or b is None:
        return None
    if b[0] == 0 and b[1] >= 0 and b[1] & (b[1] + 1) == 0:
        return floormod(a, (0, b[1] + 1))  # a & (2**k - 1) = a % 2**k
    if a[0] == 0 and a[1] >= 0 and a[1] & (a[1] + 1) == 0:
        return floormod(b, (0, a[1] + 1))
    return from_bits(and_bits(known_bits(a), known_bits(b)))


def bitor(a: Congruence, b: Congruence) -> Congruence:
    return bitnot(bitand(bitnot(a), bitnot(b)))  # de Morgan


def bitxor(a: Congruence, b: Congruence) -> Congruence:
    if a is None or b is None:
        return None
    if (0, -1) in (a, b):
        return bitnot(a if b == (0, -1) else b)  # a ^ -1 = ~a
    return from_bits(xor_bits(known_bits(a), known_bits(b)))


def shl(a: Congruence, b: Congruence) -> Congruence:
    """a * 2**b, over b >= 0: the powers 2**s, 2**(s+n), 2**(s+2n), ... lie in 2**s*(2**n - 1)*Z + 2**s."""
    if a is None or b is None or (b[0] == 0 and b[1] < 0):
        return None
    if a == (0, 0):
        return a
    n, s = b
    low = 1 << min(s, WIDEST_SHIFT)
    if s > WIDEST_SHIFT:
        return (low, 0)
    return mul(a, make(low * ((1 << n) - 1) if n <= WIDEST_SHIFT else low, low))


def shr(a: Congruence, b: Congruence) -> Congruence:
    """a // 2**b, over b >= 0."""
    if a is None or b is None or (b[0] == 0 and b[1] < 0):
        return None
    (m, r), (n, s) = a, b
    if m == 0 and (n == 0 or r >> s in (0, -1)):
        return (0, r >> s)
    return floordiv(a, (0, 1 << s)) if n == 0 and s <= m.bit_length() else TOP


# --- the rest ---------------------------------------------------------------------------------------------------------


def cast(a: Congruence, bits: int, signed: bool) -> Congruence:
    """The values after storing into `bits` bits, as `ops.wrap` does."""
    if a is not None and a[0] == 0:
        return (0, ops.wrap(a[1], bits, signed))
    half = (0, 1 << (bits - 1) if signed else 0)
    return sub(floormod(add(a, half), (0, 1 << bits)), half)


TRANSFER: Final[dict[Op, Callable[..., Congruence]]] = {
    ops.ADD: add,
    ops.SUB: sub,
    ops.MUL: mul,
    ops.NEG: neg,
    ops.FLOORDIV: floordiv,
    ops.FLOORMOD: floormod,
    ops.CEILDIV: ceildiv,
    ops.TRUNCDIV: truncdiv,
    ops.TRUNCMOD: truncmod,
    ops.MIN: minimum,
    ops.MAX: maximum,
    ops.ABS: absolute,
    ops.BITAND: bitand,
    ops.BITOR: bitor,
    ops.BITXOR: bitxor,
    ops.BITNOT: bitnot,
    ops.SHL: shl,
    ops.SHR: shr,
    ops.SELECT: join,  # of the two branches
}

OPTIMAL: Final[dict[Op, str]] = {
    ops.ADD: "always",
    ops.SUB: "always",
    ops.MUL: "always",
    ops.NEG: "always",
    ops.FLOORDIV: "always",
    ops.FLOORMOD: "always",
    ops.CEILDIV: "always",
    ops.TRUNCDIV: "constant divisor",
    ops.TRUNCMOD: "constant divisor",
    ops.MIN: "always",
    ops.MAX: "always",
    ops.ABS: "always",
    ops.BITAND: "sound only",
    ops.BITOR: "sound only",
    ops.BITXOR: "sound only",
    ops.BITNOT: "always",
    ops.SHL: "always",  # up to WIDEST_SHIFT
    ops.SHR: "constant divisor",
    ops.SELECT: "always",
}
