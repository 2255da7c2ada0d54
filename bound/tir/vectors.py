"""Values of several lanes, as `Buffer.vload([i], "float32x4")` gives them: lane by lane the values of scalars."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from bound import dtypes
from bound.tir.value import Operand
from intset.errors import InputError

_VECTOR: Final = re.compile(r"([a-z]+\d+)x(\d+)")


def lanes_of(dtype: object) -> tuple[str, int]:
    """Return the type of an element and the number of lanes: `("float32", 4)` for "float32x4"."""
    parts = _VECTOR.fullmatch(dtype) if isinstance(dtype, str) else None
    if parts is None:
        return dtypes.check(dtype), 1
    if int(parts[2]) < 2:
        raise InputError(f"a vector has at least two lanes, not {parts[2]}")
    return dtypes.check(parts[1]), int(parts[2])


@dataclass(frozen=True, eq=False)
class Vector:
    """Several values of one type. Arithmetic is lane by lane; a scalar counts for every lane."""

    lanes: tuple[Operand, ...]
    dtype: str

    def _with(self, other: object, combine: Callable[[Any, Any], Any]) -> Vector:
        count = len(self.lanes)
        others = other.lanes if isinstance(other, Vector) else (other,) * count
        if len(others) != count:
            raise InputError(f"vectors of {count} and {len(others)} lanes do not combine")
        return Vector(tuple(combine(a, b) for a, b in zip(self.lanes, others, strict=True)), self.dtype)

    def __add__(self, other: object) -> Vector:
        return self._with(other, operator.add)

    def __sub__(self, other: object) -> Vector:
        return self._with(other, operator.sub)

    def __mul__(self, other: object) -> Vector:
        return self._with(other, operator.mul)

    def __truediv__(self, other: object) -> Vector:
        return self._with(other, operator.truediv)

    def __radd__(self, other: object) -> Vector:
        return self._with(other, lambda a, b: b + a)

    def __rsub__(self, other: object) -> Vector:
        return self._with(other, lambda a, b: b - a)

    def __rmul__(self, other: object) -> Vector:
        return self._with(other, lambda a, b: b * a)

    def __rtruediv__(self, other: object) -> Vector:
        return self._with(other, lambda a, b: b / a)


__all__ = ["Vector", "lanes_of"]
