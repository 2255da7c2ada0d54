"""Differences of quotients: how many rows a stretch of a flattened tensor lies in, whatever row it starts in.

`(e + c) // m - e // m` lies between `c // m` and the quotient rounded up, for every e: where a fused loop is split, e
is the place of a tile, c its length. Bounded one by one, both quotients range over all rows.
"""

from __future__ import annotations

from math import gcd

from bound.infer.needs.known import Known
from intset.expr import ops
from intset.expr.build import ceildiv, floordiv, maximum
from intset.expr.node import Expr, as_expr
from intset.linear.form import Linear


def without_quotients(known: Known, form: Linear) -> Linear:
    """An upper bound of a form: pairs of quotients by one size whose dividends are a loop-free distance apart, bounded.

    The form itself, where there is no such pair.
    """
    quotients = [(e, k) for e, k in form.terms.items() if isinstance(e, Expr) and e.op is ops.FLOORDIV]
    for e, k in quotients:
        for other, j in quotients:
            if k > 0 > j and e.args[1] is other.args[1]:
                bound = _difference(known, e, other)
                if bound is not None:
                    number = min(k, -j)
                    rest = form.plus(Linear(0, {e: 1}), -number).plus(Linear(0, {other: 1}), number)
                    return without_quotients(known, rest.plus(known.form(bound), number))
    return form


def _difference(known: Known, e: Expr, other: Expr) -> Expr | None:
    """The most that `e` exceeds `other`, two quotients by the same size; `None` where that depends on a loop."""
    divisor = e.args[1]
    assert isinstance(divisor, Expr) and isinstance(e.args[0], Expr) and isinstance(other.args[0], Expr)
    size, high, low = _reduced(known.form(divisor), known.form(e.args[0]), known.form(other.args[0]))
    apart = high.minus(low)
    loops = {v for form in (size, apart) for term in form.terms for v in term.free_vars()} & set(known.ranges)
    if loops or not known.is_nonneg(size):
        return None
    # Where there is a quotient its divisor is not 0; the bound has a value for any size.
    by = size.expr() if known.is_nonneg(size.shift(-1)) else maximum(size.expr(), 1)
    if apart.is_const and apart.const == 0:
        return as_expr(0)
    if known.is_nonneg(apart.shift(-1)):  # rounded up
        return floordiv(apart.shift(-1).expr(), by) + 1
    return ceildiv(apart.expr(), by)


def _reduced(size: Linear, high: Linear, low: Linear) -> tuple[Linear, Linear, Linear]:
    """The divisor and the dividends divided by what all their factors share: the quotients stay what they are.

    `(g*x + r) // (g*m)` is `(x + r // g) // m`.
    """
    g = gcd(size.const, *(k for form in (size, high, low) for k in form.terms.values()))
    if g < 2:
        return size, high, low
    size, high, low = (Linear(f.const // g, {e: k // g for e, k in f.terms.items()}) for f in (size, high, low))
    return size, high, low
