"""Congruences `m*Z + r`: their lattice and their known bits, as pure functions on tuples of integers.

A value is `(m, r)`: the integers that leave the remainder `r` modulo `m`, with `0 <= r < m`; `(0, r)` is the single
point `r`; `TOP = (1, 0)` is every integer; `BOTTOM = None` is the empty set. Invariant: each set has exactly one value,
so `==` compares sets.

Transfer functions are those of strided intervals with two open ends (`strided_bits.TRANSFER`, see `modular`).

Source: P. Granger, Static analysis of arithmetical congruences, 1989; the known-bits rules are those of LLVM and of
the Linux verifier. `meet` solves the two congruences (2Z and 3Z+1 meet in 6Z+4); taking the larger remainder is wrong.
"""

from __future__ import annotations

from math import gcd
from typing import Final, TypeAlias

Congruence: TypeAlias = tuple[int, int] | None
Bits: TypeAlias = tuple[int, int]
"""`(unknown, value)`: two's complement masks of endless width; `value` is 0 at the unknown bits."""

TOP: Final = (1, 0)
BOTTOM: Final = None


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
