"""Random value expressions over all machine types: floats, integers and truth values converted into one another."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from bound import dtypes, te, tir
from bound.tensor import Tensor

LENGTH = 8
INTEGERS = tuple(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64))
SPECIAL = (0.0, -0.0, 1.0, -1.5, 2.5, -0.5, 0.1, 1 / 3, 2048.0, 2049.0, 16777216.0, 3e38, -3e38, 1e-40, 1e-7)
UNORDERED = (math.inf, -math.inf, math.nan)
_INFIX: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
_COMPARE: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: a == b,
    lambda a, b: a != b,
)  # fmt: skip
_DIVISIONS = (tir.floordiv, tir.floormod, tir.truncdiv, tir.truncmod)
_EXACT_CALLS = (tir.floor, tir.ceil, tir.trunc, tir.round, tir.nearbyint, tir.sqrt, tir.rsqrt)


def _with_sign(a: Any, b: Any) -> Any:
    """A number with the sign of another; machines disagree about the sign of NaN."""
    return tir.copysign(a, tir.Select(b == b + 0.0, b, tir.const(1.0, b.dtype)))


class Values:
    """Formulas at an index `i` over vectors of each type, with values at the ends of the types.

    Divisions by 0, shifts by the width and conversions of numbers that are too large do not occur.
    """

    def __init__(self, seed: int, floats: tuple[str, ...]) -> None:
        self.rng = random.Random(seed)
        self.floats = floats
        self.tensors: dict[str, Tensor] = {}

    def tensor(self, dtype: str) -> Tensor:
        if dtype not in self.tensors:
            self.tensors[dtype] = te.placeholder((LENGTH,), dtype, name=f"X_{dtype}")
        return self.tensors[dtype]

    def data(self) -> dict[str, Any]:
        """An array for each vector."""
        return {
            t.name: np.array([self._number(dtype) for _ in range(LENGTH)], dtype) for dtype, t in self.tensors.items()
        }

    def _number(self, dtype: str) -> Any:
        rng = self.rng
        if dtype == "bool":
            return rng.random() < 0.5
        if dtypes.is_float(dtype):
            return dtypes.rounded(rng.choice((*SPECIAL, *UNORDERED, rng.uniform(-9, 9))), dtype)
        low, high = dtypes.int_range(dtype)
        return rng.choice(
            (low, low + 1, high, high - 1, 0, 1, 5, rng.randint(low, high), rng.randint(max(low, -50), 50))
        )

    def float(self, i: Any, dtype: str, depth: int) -> Any:
        rng = self.rng
        if depth <= 0:
            return tir.const(rng.choice(SPECIAL), dtype) if rng.random() < 0.3 else self.tensor(dtype)[i]

        def inner() -> Any:
            return self.float(i, dtype, depth - 1)

        match rng.randrange(10):
            case 0 | 1 | 2:
                return rng.choice(tuple(_INFIX.values()))(inner(), inner())
            case 3:
                return rng.choice((lambda a, b: a / b, *_DIVISIONS))(inner(), inner())
            case 4:
                return self._extremum(inner(), inner())
            case 5:
                return rng.choice((lambda a: -a, abs, *_EXACT_CALLS))(inner())
            case 6:
                return rng.choice((_with_sign, tir.nextafter, tir.fmod))(inner(), inner())
            case 7:
                return self.float(i, rng.choice(self.floats), depth - 1).astype(dtype)
            case 8:
                return self.integer(i, depth - 1).astype(dtype)
            case _:
                return tir.Select(self.condition(i, depth - 1), inner(), inner())

    def _extremum(self, a: Any, b: Any) -> Any:
        """The smaller or larger of two; numpy may return 0.0 or -0.0 for either, so -0.0 never occurs."""
        return self.rng.choice((te.min, te.max))(a + 0.0, b + 0.0)

    def integer(self, i: Any, depth: int) -> Any:
        rng = self.rng
        if depth <= 0:
            return i if rng.random() < 0.15 else self.tensor(rng.choice(INTEGERS))[i]

        def inner() -> Any:
            return self.integer(i, depth - 1)

        match rng.randrange(10):
            case 0 | 1:
                return rng.choice(tuple(_INFIX.values()))(inner(), inner())
            case 2:
                return rng.choice(_DIVISIONS)(inner(), rng.choice((3, -3, 7, 1, 2, -8)))
            case 3:
                return rng.choice((te.min, te.max))(inner(), inner())
            case 4:
                return rng.choice((lambda a: -a, abs, lambda a: ~a, lambda a: a >> 2, lambda a: a << 3, tir.popcount))(
                    inner()
                )
            case 5:
                return rng.choice((lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b))(inner(), inner())
            case 6:
                return rng.choice((lambda a, b: a << (b & 7), lambda a, b: a >> (b & 7)))(inner(), inner())
            case 7:
                return inner().astype(rng.choice(INTEGERS))
            case 8:
                dtype = rng.choice(self.floats)
                x = self.float(i, dtype, depth - 1)
                target = rng.choice(INTEGERS)
                most = 1000.0 if dtypes.bits(target) > 8 else 128.0
                least = tir.const(-1.0 if target.startswith("u") else -most, dtype)
                small = tir.Select(tir.all(x > least, x < most), x, tir.const(7.5, dtype))
                return small.astype(target)
            case _:
                return tir.Select(self.condition(i, depth - 1), inner(), inner())

    def condition(self, i: Any, depth: int) -> Any:
        rng = self.rng
        kind = rng.randrange(4) if depth > 0 else 3
        if kind == 0:
            return rng.choice((tir.all, tir.any))(self.condition(i, depth - 1), self.condition(i, depth - 1))
        if kind == 1:
            dtype = rng.choice(self.floats)
            return rng.choice(_COMPARE)(self.float(i, dtype, depth - 1), self.float(i, dtype, depth - 1))
        if kind == 2:
            return rng.choice(_COMPARE)(self.integer(i, depth - 1), self.integer(i, depth - 1))
        return self.tensor("bool")[i]

    def formula(self, i: Any, depth: int) -> Any:
        """A value of any type."""
        dtype = self.rng.choice((*self.floats, *INTEGERS))
        return self.float(i, dtype, depth) if dtypes.is_float(dtype) else self.integer(i, depth).astype(dtype)
