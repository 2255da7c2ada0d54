"""Fractions on the way from another library's terms: a rounded quotient becomes one integer division."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import lcm
from typing import Any, NoReturn

from intset.errors import InputError
from intset.expr import ops
from intset.expr.dag import Guest
from intset.expr.node import Cond, Expr, as_expr, compare, const
from intset.expr.ops import Op
from intset.expr.printer import shown


class RationalTerm(Guest):
    """A numerator over a positive number times expressions; only sums, products, comparisons and rounding take it."""

    __slots__ = ("divisors", "number", "numerator")

    def __init__(self, numerator: Expr, number: int, divisors: tuple[Expr, ...] = ()) -> None:
        self.numerator, self.number, self.divisors = numerator, number, divisors

    def __add__(self, other: Expr | RationalTerm) -> RationalTerm:
        return _added(self, other if isinstance(other, RationalTerm) else RationalTerm(other, 1))

    def __radd__(self, other: Expr) -> RationalTerm:
        return _added(RationalTerm(other, 1), self)

    def __mul__(self, other: Expr | RationalTerm) -> RationalTerm:
        b = other if isinstance(other, RationalTerm) else RationalTerm(other, 1)
        return RationalTerm(
            _product(self.numerator, b.numerator), self.number * b.number, (*self.divisors, *b.divisors)
        )

    def __rmul__(self, other: Expr) -> RationalTerm:
        return RationalTerm(other, 1) * self

    def divisor(self) -> Expr:
        """The divisor as an expression."""
        return reduce(_product, self.divisors, const(self.number))

    def __repr__(self) -> str:
        sides = (shown(self.numerator), shown(self.divisor()))
        return "/".join(side if side.isalnum() else f"({side})" for side in sides)

    def _refuse(self, *_: object) -> Any:
        no_integer(self)

    def _compared(self, op: Op, other: Any) -> Cond:
        """A comparison, by multiplying both sides; divisors that are expressions may be negative."""
        b = other if isinstance(other, RationalTerm) else RationalTerm(as_expr(other), 1)
        for side in (self, b):
            if side.divisors:
                no_integer(side)
        return compare(op, _product(self.numerator, const(b.number)), _product(b.numerator, const(self.number)))

    def __lt__(self, other: object) -> Cond:
        return self._compared(ops.LT, other)

    def __le__(self, other: object) -> Cond:
        return self._compared(ops.LE, other)

    def __gt__(self, other: object) -> Cond:
        return self._compared(ops.GT, other)

    def __ge__(self, other: object) -> Cond:
        return self._compared(ops.GE, other)

    def eq(self, other: object) -> Cond:
        """Whether both are equal."""
        return self._compared(ops.EQ, other)

    __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _refuse
    __rlshift__ = __rrshift__ = __pow__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __abs__ = _refuse
    __rand__ = __ror__ = __rxor__ = __invert__ = _refuse


def no_integer(term: object) -> NoReturn:
    """Refuse a fraction."""
    raise InputError(f"{shown(term)} is a fraction: write floor, FloorDiv or CleanDiv")


def _product(a: Expr, b: Expr) -> Expr:
    one = const(1)
    return b if a is one else a if b is one else a * b


def _added(a: RationalTerm, b: RationalTerm) -> RationalTerm:
    """The sum over the least common divisor; expressions that divide both sides count once."""
    number, divisors = lcm(a.number, b.number), list(a.divisors)
    own = list(a.divisors)
    for divisor in b.divisors:
        if divisor in own:
            own.remove(divisor)
        else:
            divisors.append(divisor)
    sides = []
    for part in (a, b):
        missing = list(divisors)
        for divisor in part.divisors:
            missing.remove(divisor)
        sides.append(_product(part.numerator, reduce(_product, missing, const(number // part.number))))
    return RationalTerm(sides[0] + sides[1], number, tuple(divisors))


def true_quotient(a: Expr, b: Expr) -> RationalTerm:
    """The quotient that is not rounded yet."""
    if b.is_const and b.value:
        return RationalTerm(a if b.value > 0 else -a, abs(b.value))
    return RationalTerm(a, 1, (b,))


def rounded(function: Callable[[Expr, Expr], Expr]) -> Callable[..., Expr]:
    """The row of a function that rounds: an integer is itself."""

    def row(term: Any, a: Expr | RationalTerm) -> Expr:
        return function(a.numerator, a.divisor()) if isinstance(a, RationalTerm) else a

    return row
