"""`POS_INF` and `NEG_INF`, the ends of unbounded sets."""

from __future__ import annotations

from typing import Final


class Infinity:
    """`POS_INF` or `NEG_INF`: comparable with numbers and expressions, with negation as its only operation.

    >>> NEG_INF < -10**100 < POS_INF
    True
    >>> -POS_INF is NEG_INF
    True
    """

    __slots__ = ("sign",)
    sign: int

    def __new__(cls, sign: int) -> Infinity:
        known = _KNOWN.get(sign)
        if known is None:
            known = object.__new__(cls)
            object.__setattr__(known, "sign", sign)
            _KNOWN[sign] = known
        return known

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("an infinity is immutable")

    def __neg__(self) -> Infinity:
        return Infinity(-self.sign)

    def __lt__(self, other: object) -> bool:
        return self.sign < 0 and other is not self if _is_number(other) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.sign > 0 and other is not self if _is_number(other) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.sign < 0 or other is self if _is_number(other) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.sign > 0 or other is self if _is_number(other) else NotImplemented

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __float__(self) -> float:
        return self.sign * float("inf")

    def __int__(self) -> int:
        raise OverflowError(f"{self!r} is not an integer")

    def __reduce__(self) -> tuple[type[Infinity], tuple[int]]:
        return (Infinity, (self.sign,))

    def __repr__(self) -> str:
        return "POS_INF" if self.sign > 0 else "NEG_INF"


def _is_number(other: object) -> bool:
    return isinstance(other, (Infinity, float)) or hasattr(other, "__index__")


_KNOWN: dict[int, Infinity] = {}
POS_INF: Final = Infinity(1)
NEG_INF: Final = Infinity(-1)
