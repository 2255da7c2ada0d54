"""How `intset` expressions meet the values of this layer.

`intset` knows nothing of tensors, so `i * A[j]` must end in the reflected operator of `A[j]`. A `Guest` is an object
that an operator of `Expr` or `Cond` leaves the work to; and every operand of a tensor program has `dtype` and
`astype`, integers included.
"""

from __future__ import annotations

from typing import Any

from intset.expr.node import Cond, Expr, Guest


def _dtype(self: Any) -> str:
    from bound.tir.build import dtype_of

    return dtype_of(self)


def _astype(self: Any, dtype: str) -> Any:
    from bound.tir.build import cast

    return cast(dtype, self)


def install() -> None:
    """Give `Expr` and `Cond` `dtype` and `astype`; once."""
    if getattr(Expr, "astype", None) is not None:
        return
    for cls in (Expr, Cond):
        for name, member in (("dtype", property(_dtype)), ("astype", _astype)):
            setattr(cls, name, member)


install()

__all__ = ["Guest", "install"]
