"""What a store puts into an element."""

from __future__ import annotations

from bound import dtypes
from bound.tir.value import Operand
from intset.expr.node import Expr, const, constant_value
from intset.expr.ops import wrap


def held(value: Operand, dtype: str) -> Operand:
    """The value as an element of the type holds it, where that is seen: a constant integer wraps."""
    number = constant_value(value) if isinstance(value, Expr) else None
    if number is None or not dtypes.is_int(dtype):
        return value
    return const(wrap(number, dtypes.bits(dtype), dtypes.signed(dtype)))
