"""Numbers and sizes: arithmetic on `int | Expr` that stays in `int` as long as it can."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from intset.expr.build import ceildiv
from intset.expr.node import Expr, as_expr, constant_value

if TYPE_CHECKING:
    from intset.context import Context

Scalar: TypeAlias = "int | Expr"


class Scalars:
    """Arithmetic under what a context says of the sizes. What cannot be decided counts as not so."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def short(self, x: Scalar) -> Scalar:
        """The same number, as an `int` where it is one."""
        if isinstance(x, int):
            return x
        value = constant_value(x)
        if value is not None:
            return value
        simple = self.ctx.canonical(x)
        value = constant_value(simple)
        return simple if value is None else value

    def plus(self, a: Scalar, b: Scalar) -> Scalar:
        return self.short(a + b)

    def times(self, a: Scalar, b: Scalar) -> Scalar:
        return self.short(a * b)

    def ceil(self, a: Scalar, b: Scalar) -> Scalar:
        return -(-a // b) if isinstance(a, int) and isinstance(b, int) else self.short(ceildiv(a, b))

    def ratio(self, a: Scalar, b: Scalar) -> Scalar | None:
        """`a / b` where `b` divides `a`."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b if a % b == 0 else None
        if self.same(a, 0):
            return 0
        found = self.short(as_expr(a) // b)
        return found if self.same(self.times(found, b), a) else None

    def same(self, a: Scalar, b: Scalar) -> bool:
        return self.short(a - b) == 0 if not isinstance(a, int) or not isinstance(b, int) else a == b

    def at_least(self, a: Scalar, b: Scalar) -> bool:
        """Whether `a >= b` for all sizes."""
        if isinstance(a, int) and isinstance(b, int):
            return a >= b
        gap = self.short(a - b)
        return gap >= 0 if isinstance(gap, int) else bool(self.ctx.prove(gap >= 0))

    def sign(self, a: Scalar) -> int:
        """1 or -1 where the number is above or below 0 for all sizes; 0 where neither is known."""
        return 1 if self.at_least(a, 1) else -1 if self.at_least(-1, a) else 0
