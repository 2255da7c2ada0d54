"""`Site`, the vocabulary of division rules: operands, width, constant divisors, C's operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from intset.expr import ops
from intset.expr.node import Cond, Expr, const, constant_value, make
from intset.expr.ops import Op


class Fits(NamedTuple):
    """A condition about the width, proved with the premise that inputs and subterms are representable."""

    cond: Cond


Need = tuple[Cond | Fits, ...]  # a conjunction to be proved
Needs = tuple[Need, ...]  # alternatives, any of which suffices
ALWAYS: Needs = ((),)


@dataclass(frozen=True, slots=True)
class Site:
    """One division `op(a, b)` at `bits` bits.

    Attributes
    ----------
    a, b: the operands as written; side conditions are proved of them.
    x, y: the lowered operands, from which rewrites are made. `x` equals `a`, `y` equals `b`.
    low: a constant lower bound of `a`; only some rules need one.
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
        """The constant divisor; 0 if the divisor is no constant."""
        return constant_value(self.b) or 0

    @property
    def k(self) -> int:
        """The exponent k of a divisor 2^k or -2^k."""
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
        """`r` computed from `q`: r = a - q*b, and q*b lies between 0 and a, so neither step overflows."""
        return self.x - self.q * self.y

    def sign(self, e: Expr) -> Expr:
        """-1 where e < 0, else 0: an arithmetic shift."""
        return e >> (self.bits - 1)


def truncdiv(a: Expr, b: Expr) -> Expr:
    """C's quotient, also by the constant 0: a division that is never reached is kept."""
    answer: Expr = make(ops.TRUNCDIV, (a, b))
    return answer


def truncmod(a: Expr, b: Expr) -> Expr:
    """C's remainder, also by the constant 0."""
    answer: Expr = make(ops.TRUNCMOD, (a, b))
    return answer


def plus(e: Expr, amount: int | Expr) -> Expr:
    """`e + amount`, written without `+ -1` and `+ 0`."""
    amount = amount.data if isinstance(amount, Expr) and amount.op is ops.CONST else amount
    if isinstance(amount, Expr):
        return e + amount
    if e.op is ops.CONST:
        return const(e.data + amount)
    return e if amount == 0 else e + amount if amount > 0 else e - -amount
