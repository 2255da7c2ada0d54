"""Numeric intervals `(low, high)`, `None` where unbounded: the arithmetic that canonicalisation asks for on the way."""

from __future__ import annotations

from intset.expr.length import MAX_BITS

Interval = tuple[int | None, int | None]

EVERYTHING: Interval = (None, None)


def scaled(interval: Interval, factor: int) -> Interval:
    low, high = interval
    if factor < 0:
        low, high = high, low
    return (None if low is None else low * factor, None if high is None else high * factor)


def hull(a: Interval, b: Interval) -> Interval:
    return (
        None if a[0] is None or b[0] is None else min(a[0], b[0]),
        None if a[1] is None or b[1] is None else max(a[1], b[1]),
    )


def meet(a: Interval, b: Interval) -> Interval:
    """The intersection; it is empty when the ends cross."""
    low = a[0] if b[0] is None else b[0] if a[0] is None else max(a[0], b[0])
    high = a[1] if b[1] is None else b[1] if a[1] is None else min(a[1], b[1])
    return (low, high)


def times(a: Interval, b: Interval) -> Interval:
    """The hull of the products."""
    (a0, a1), (b0, b1) = a, b
    if a0 is not None and a1 is not None and b0 is not None and b1 is not None:
        if _bits(a0, a1) + _bits(b0, b1) > MAX_BITS:
            return _unbounded_product(a, b)
        corners = (a0 * b0, a0 * b1, a1 * b0, a1 * b1)
        return (min(corners), max(corners))
    if (0, 0) in (a, b):
        return (0, 0)
    if a0 is not None and a0 >= 0:
        if b0 is not None and b0 >= 0:
            return (a0 * b0, None)
        if b1 is not None and b1 <= 0:
            return (None, a0 * b1)
    if a1 is not None and a1 <= 0:
        if b1 is not None and b1 <= 0:
            return (a1 * b1, None)
        if b0 is not None and b0 >= 0:
            return (None, a1 * b0)
    return (None, None)


def _bits(*ends: int) -> int:
    """The length of the longest end."""
    return max(end.bit_length() for end in ends)


def _unbounded_product(a: Interval, b: Interval) -> Interval:
    """The sign of the products, where their size is given up."""
    if (0, 0) in (a, b):
        return (0, 0)
    if _nonneg(a) and _nonneg(b) or _nonpos(a) and _nonpos(b):
        return (0, None)
    if _nonneg(a) and _nonpos(b) or _nonpos(a) and _nonneg(b):
        return (None, 0)
    return EVERYTHING


def floordiv(a: Interval, b: Interval) -> Interval:
    """The hull of the floor quotients over the divisors in `b` other than 0 (everything where there is none)."""
    quotients: Interval | None = None
    for part in _signed_parts(b):
        one = _floordiv_signed(a, part)
        quotients = one if quotients is None else hull(quotients, one)
    return EVERYTHING if quotients is None else quotients


def _signed_parts(b: Interval) -> list[Interval]:
    parts: list[Interval] = []
    if b[1] is None or b[1] > 0:
        parts.append((max(1, b[0]) if b[0] is not None else 1, b[1]))
    if b[0] is None or b[0] < 0:
        parts.append((b[0], min(-1, b[1]) if b[1] is not None else -1))
    return parts


def _floordiv_signed(a: Interval, b: Interval) -> Interval:
    if b[1] is not None and b[1] < 0:
        a, b = scaled(a, -1), scaled(b, -1)
    small, large = b
    assert small is not None and small > 0
    low: int | None = None
    high: int | None = None
    if a[0] is not None:
        low = a[0] // small if a[0] < 0 else (0 if large is None else a[0] // large)
    if a[1] is not None:
        high = a[1] // small if a[1] >= 0 else (-1 if large is None else a[1] // large)
    return (low, high)


def floormod(a: Interval, b: Interval) -> Interval:
    """Bounds of the floor remainders over the divisors in `b` other than 0."""
    low, high = b
    result: Interval = (
        None if low is None else min(0, low + 1),
        None if high is None else max(0, high - 1),
    )
    if a[0] is not None and a[0] >= 0 and low is not None and low > 0:
        if a[1] is not None and a[1] < low:
            return a
        result = meet(result, (0, a[1]))
    return result


def _nonneg(a: Interval) -> bool:
    return a[0] is not None and a[0] >= 0


def _nonpos(a: Interval) -> bool:
    return a[1] is not None and a[1] <= 0
