"""Numeric bounds of atoms: what an operation that stays whole says about its values, from those of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING, Any

from intset.expr import ops
from intset.expr.node import Expr
from intset.linear import bounds as iv
from intset.linear.bounds import EVERYTHING, Interval
from intset.linear.form import factors, take_out

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer


def atom_bounds(known: Normalizer, e: Any) -> Interval:
    """A numeric interval that contains every value of an atom or monomial, computed anew."""
    op = e.op
    if op is ops.VAR:
        return known.ranges.get(e) or _declared(e)
    if op is ops.LOAD:
        return (e.data.lower, e.data.upper)
    if op is ops.MUL:
        return _product_bounds(known, factors(e))
    if op is ops.CONST:
        return (e.data, e.data)
    if op is ops.SELECT:
        return _select_bounds(known, e)
    if (op is ops.FLOORDIV or op is ops.FLOORMOD) and e.args[1].op is ops.CONST and e.args[1].data > 0:
        return _constant_division_bounds(known, e)
    rule = ATOM_BOUNDS.get(op)
    if rule is None:
        return EVERYTHING
    return rule(*[known.bounds(known.form(arg)) for arg in e.args])


def _declared(e: Any) -> Interval:
    low, high, _ = e.declared()
    return (low, high)


def _constant_division_bounds(known: Normalizer, e: Any) -> Interval:
    """Bounds of `x // c` and `x % c` for a constant c > 0."""
    inner, c = known.form(e.args[0]), e.args[1].data
    low, high = known.bounds(inner)
    if e.op is ops.FLOORDIV:
        return (None if low is None else low // c, None if high is None else high // c)
    if low is not None and high is not None and low // c == high // c:
        return (low % c, high % c)
    g = gcd(inner.content(), c)  # the remainder is what it is modulo g
    return (inner.const % g, c - g + inner.const % g)


def _select_bounds(known: Normalizer, e: Expr) -> Interval:
    (yes, if_true), (no, if_false) = known.branches(e)
    if yes.empty or no.empty:
        branch, arm = (no, if_false) if yes.empty else (yes, if_true)
        return branch.bounds(branch.form(arm))
    return iv.hull(yes.bounds(yes.form(if_true)), no.bounds(no.form(if_false)))


def _product_bounds(known: Normalizer, parts: list[Expr]) -> Interval:
    result: Interval = (1, 1)
    while parts:
        e = parts.pop()
        interval = known.atom_bounds(e)
        if take_out(parts, e):  # an even power is not negative
            interval = iv.meet(iv.times(interval, interval), (0, None))
        result = iv.times(result, interval)
    return result


# -- one function an operation -----------------------------------------------------------------------------------


def _abs_bounds(a: Interval) -> Interval:
    low, high = a
    if low is not None and low >= 0:
        return a
    if high is not None and high <= 0:
        return iv.scaled(a, -1)
    return (0, None if low is None or high is None else max(-low, high))


def _min_bounds(a: Interval, b: Interval) -> Interval:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    return (low, iv.meet((None, a[1]), (None, b[1]))[1])


def _max_bounds(a: Interval, b: Interval) -> Interval:
    return iv.scaled(_min_bounds(iv.scaled(a, -1), iv.scaled(b, -1)), -1)


def _truncdiv_bounds(a: Interval, b: Interval) -> Interval:
    low, high = iv.floordiv(a, b)
    negated = iv.scaled(iv.floordiv(iv.scaled(a, -1), b), -1)  # ceil(a/b)
    if a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] > 0:
        return (low, high)
    return iv.hull((low, high), negated)


def _truncmod_bounds(a: Interval, b: Interval) -> Interval:
    """The remainder has the sign of the dividend; it is no larger than that, and smaller than the divisor."""
    size = _abs_bounds(b)[1]
    short = None if size is None else max(size - 1, 0)
    low = 0 if a[0] is not None and a[0] >= 0 else iv.meet((None if short is None else -short, None), (a[0], None))[0]
    high = 0 if a[1] is not None and a[1] <= 0 else iv.meet((None, short), (None, a[1]))[1]
    return (low, high)


def _and_bounds(a: Interval, b: Interval) -> Interval:
    for x, y in ((a, b), (b, a)):
        if x[0] is not None and x[0] >= 0:
            high = x[1]
            if y[0] is not None and y[0] >= 0:
                high = iv.meet((None, high), (None, y[1]))[1]
            return (0, high)
    return (_bit_floor(a, b), None if a[1] is None or b[1] is None else max(a[1], b[1]))


def _or_bounds(a: Interval, b: Interval) -> Interval:
    low, high = _and_bounds(_inverted(a), _inverted(b))  # a | b = ~(~a & ~b)
    return iv.meet(_inverted((low, high)), _bit_range(a, b))


def _inverted(a: Interval) -> Interval:
    return (None if a[1] is None else ~a[1], None if a[0] is None else ~a[0])


def _bit_range(a: Interval, b: Interval) -> Interval:
    """The interval of the integers that need no more bits than those of `a` and `b`."""
    nonneg = all(x[0] is not None and x[0] >= 0 for x in (a, b))
    ends = [end for end in (*a, *b) if end is not None]
    if len(ends) < 4:
        return (0 if nonneg else None, None)
    bits = max(end.bit_length() if end >= 0 else (~end).bit_length() for end in ends)
    return (0 if nonneg else -(1 << bits), (1 << bits) - 1)


def _bit_floor(a: Interval, b: Interval) -> int | None:
    return _bit_range(a, b)[0] if None not in a and None not in b else None


def _shl_bounds(a: Interval, b: Interval) -> Interval:
    low, high = b
    if low is None or high is None or high > 4096:
        return (0, None) if a[0] is not None and a[0] >= 0 else EVERYTHING
    return iv.times(a, (1 << max(low, 0), 1 << max(high, 0)))


def _shr_bounds(a: Interval, b: Interval) -> Interval:
    low, high = b
    if low is None or high is None or high > 4096:
        return iv.hull(a, (0, 0))
    return iv.floordiv(a, (1 << max(low, 0), 1 << max(high, 0)))


ATOM_BOUNDS: dict[ops.Op, Callable[..., Interval]] = {
    ops.FLOORDIV: iv.floordiv,
    ops.FLOORMOD: iv.floormod,
    ops.TRUNCDIV: _truncdiv_bounds,
    ops.TRUNCMOD: _truncmod_bounds,
    ops.MIN: _min_bounds,
    ops.MAX: _max_bounds,
    ops.ABS: _abs_bounds,
    ops.BITAND: _and_bounds,
    ops.BITOR: _or_bounds,
    ops.BITXOR: _bit_range,
    ops.SHL: _shl_bounds,
    ops.SHR: _shr_bounds,
}
