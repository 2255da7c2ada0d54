"""What strided intervals denote: membership and inclusion, by definition."""

from __future__ import annotations

from intset.arithmetic.strided import Strided


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
