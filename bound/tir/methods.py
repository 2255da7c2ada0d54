"""The methods of operands that need modules above theirs: operators, conversion, print. Set once, with the package.

`intset` knows nothing of tensors, so `i * A[j]` must end in the reflected operator of `A[j]`: that is a `Guest`, an
object that an operator of `Expr` or `Cond` leaves the work to. And every operand of a tensor program has `dtype` and
`astype`, integers included.
"""

from __future__ import annotations

from bound.tir import build
from bound.tir.printer import to_text
from bound.tir.value import ABOVE, Operand
from intset.expr.node import Cond, Expr


def _dtype(self: Operand) -> str:
    return build.dtype_of(self)


def _astype(self: Operand, dtype: str) -> Operand:
    return build.cast(dtype, self)


ABOVE.binary = build.binary
ABOVE.cast = build.cast
ABOVE.logical = build.logical
ABOVE.negation = build.negation
ABOVE.text = to_text
ABOVE.unary = build.unary
for cls in (Expr, Cond):
    for name, member in (("dtype", property(_dtype)), ("astype", _astype)):
        setattr(cls, name, member)
