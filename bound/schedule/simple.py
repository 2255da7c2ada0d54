"""Constant-folding arithmetic on extents: sizes known when a schedule is written stay numbers.

Guarantee: the result equals the written operation wherever both operands have a value. A division by the constant 0
stays a division, without a value.
"""

from intset.expr import Expr, IntLike, Range, as_expr, constant_value, ops
from intset.expr.build import ceildiv as build_ceildiv
from intset.expr.build import floordiv as build_floordiv
from intset.expr.build import floormod as build_floormod
from intset.expr.build import minimum as build_minimum
from intset.linear.canonical import form_of


def extent(r: Range) -> Expr:
    """Return the extent of a range with an upper end."""
    assert isinstance(r.extent, Expr)
    return r.extent


def low(r: Range) -> Expr:
    """Return the minimum of a range with a lower end."""
    assert isinstance(r.min, Expr)
    return r.min


def number(e: IntLike) -> int | None:
    """Return the value of a constant, else `None`."""
    return e if type(e) is int else constant_value(e if isinstance(e, Expr) else as_expr(e))


def add(a: IntLike, b: IntLike) -> Expr:
    x, y = number(a), number(b)
    if x is not None and y is not None:
        return as_expr(x + y)
    return as_expr(b if x == 0 else a) if x == 0 or y == 0 else as_expr(a) + as_expr(b)


def sub(a: IntLike, b: IntLike) -> Expr:
    x, y = number(a), number(b)
    if x is not None and y is not None:
        return as_expr(x - y)
    return as_expr(a) if y == 0 else as_expr(a) - as_expr(b)


def mul(a: IntLike, b: IntLike) -> Expr:
    x, y = number(a), number(b)
    if x is not None and y is not None:
        return as_expr(x * y)
    if x == 0 or y == 0:
        return as_expr(0)
    return as_expr(b if x == 1 else a) if x == 1 or y == 1 else as_expr(a) * as_expr(b)


def ceildiv(a: IntLike, b: IntLike) -> Expr:
    x, y = number(a), number(b)
    if x is not None and y:
        return as_expr(-(-x // y))
    if y == 1:
        return as_expr(a)
    exact = _quotient(as_expr(a), y) if y else None
    return build_ceildiv(a, b) if exact is None else exact


def _quotient(e: Expr, divisor: int) -> Expr | None:
    """Return `e / divisor` if the divisor divides every term of the linear form."""
    form = form_of(e)
    if any(k % divisor for k in (form.const, *form.terms.values())):
        return None
    return form.divided(divisor).expr()


def floordiv(a: IntLike, b: IntLike) -> Expr:
    x, y = number(a), number(b)
    if x is not None and y:
        return as_expr(x // y)
    return as_expr(a) if y == 1 else build_floordiv(a, b)


def floormod(a: IntLike, b: IntLike) -> Expr:
    x, y = number(a), number(b)
    if x is not None and y:
        return as_expr(x % y)
    return as_expr(0) if y == 1 else build_floormod(a, b)


def minimum(a: IntLike, b: IntLike) -> Expr:
    x, y = number(a), number(b)
    if x is not None and y is not None:
        return as_expr(min(x, y))
    return build_minimum(a, b)


def divides(factor: IntLike, extent: IntLike) -> bool:
    """Return whether `factor` provably divides `extent`, by constants, linear forms or a written product."""
    f, e = number(factor), number(extent)
    if f is not None and e is not None:
        return f != 0 and e % f == 0
    whole, part = as_expr(extent), as_expr(factor)
    if f:
        return _quotient(whole, f) is not None
    return whole is part or (whole.op is ops.MUL and part in whole.args)
