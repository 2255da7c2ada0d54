"""`Site`: one division to be lowered, in the words that rules are written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from intset.expr import ops
from intset.expr.node import Cond, Expr, const, constant_value, make
from intset.expr.ops import Op


class Fits(NamedTuple):
    """A condition about the width: proved with the help of the premise that inputs and subterms are representable."""

    cond: Cond


Need = tuple[Cond | Fits, ...]  # all of them must be proved
Needs = tuple[Need, ...]  # one of these is enough
ALWAYS: Needs = ((),)


@dataclass(frozen=True, slots=True)
class Site:
    """`op(a, b)` at `bits` bits.

    Attributes
    ----------
    a, b: the operands as they were written: what is proved is proved of them.
    x, y: the operands lowered: what a rewrite is made of. `x` equals `a`, `y` equals `b`.
    low: a number that `a` is known not to fall below, if that was asked for.
    """

    op: Op
    a: Expr
    b: Expr
    x: Expr
    y: Expr
    bits: int
    low: int | None = None

    # -- the width ----------------------------------------------------------------------------------------------

    @property
    def least(self) -> int:
        return -(1 << (self.bits - 1))

    @property
    def most(self) -> int:
        return (1 << (self.bits - 1)) - 1

    @property
    def not_least(self) -> Fits:
        """a > MIN: so -a and a - 1 are representable."""
        return Fits(self.a > self.least)

    def at_most(self, e: Expr) -> Fits:
        return Fits(e <= self.most)

    def at_least(self, e: Expr) -> Fits:
        return Fits(e >= self.least)

    # -- the divisor --------------------------------------------------------------------------------------------

    @property
    def c(self) -> int:
        """The divisor, a constant; 0 when it is none."""
        return constant_value(self.b) or 0

    @property
    def k(self) -> int:
        """The exponent, where the divisor is a power of 2 or the negative of one."""
        return abs(self.c).bit_length() - 1

    @property
    def mask(self) -> int:
        return abs(self.c) - 1

    @property
    def lift(self) -> int:
        """The smallest c >= 0 such that a + b*c >= 0, for a constant b > 0 and a known lower bound."""
        return 0 if self.low is None else max(0, -(self.low // self.c))

    # -- operations ---------------------------------------------------------------------------------------------

    @property
    def q(self) -> Expr:
        return truncdiv(self.x, self.y)

    @property
    def r(self) -> Expr:
        return truncmod(self.x, self.y)

    @property
    def rest(self) -> Expr:
        """`r`, where `q` is there: r = a - q*b, and q*b lies between 0 and a, so neither step overflows."""
        return self.x - self.q * self.y

    def sign(self, e: Expr) -> Expr:
        """-1 where e < 0, else 0: an arithmetic shift."""
        return e >> (self.bits - 1)


def truncdiv(a: Expr, b: Expr) -> Expr:
    """C's quotient, also by the constant 0: a division that is never reached is kept as it is."""
    answer: Expr = make(ops.TRUNCDIV, (a, b))
    return answer


def truncmod(a: Expr, b: Expr) -> Expr:
    """C's remainder, also by the constant 0."""
    answer: Expr = make(ops.TRUNCMOD, (a, b))
    return answer


def plus(e: Expr, amount: int) -> Expr:
    """`e + amount` as it is best written."""
    if e.op is ops.CONST:
        return const(e.data + amount)
    return e if amount == 0 else e + amount if amount > 0 else e - -amount
