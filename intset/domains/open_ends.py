"""Ends of operations with an open operand, by the operand that stays symbolic.

    x % d          in [min(d + 1, 0), max(d - 1, 0)]           x in any range
    x rem d        in [1 - abs(d), abs(d) - 1]                 C's; on the side of 0 of a dividend of known sign
    x << y         in [low << y, high << y]                    x in [low, high]
    q * t          in [low * t, high * t]                      q in [low, high], t >= 0; turned for t <= 0

What is kept (d, y, t) holds no variable that the question runs over. The first two are attained where the dividend is a
variable that takes every integer.
"""

from __future__ import annotations

from intset.domains.query import Query
from intset.expr import ops
from intset.expr.intern import intern
from intset.expr.node import Expr, Term, Var, const
from intset.expr.walk import free_vars
from intset.linear import symbolic

Found = tuple[Expr | None, Expr | None, bool]  # low, high, whether both are attained
NOTHING: Found = (None, None, False)


def open_ends(query: Query, e: Expr) -> Found:
    """Ends of `e` as it was written; `None` where none is found."""
    if len(e.args) != 2:
        return NOTHING
    a, b = e.args
    if e.op is ops.MUL:
        for q, t in ((a, b), (b, a)):
            found = _product(query, q, t) if _is_kept(query, t) else NOTHING
            if found is not NOTHING:
                return found
        return NOTHING
    if e.op not in (ops.FLOORMOD, ops.TRUNCMOD, ops.SHL) or not _is_kept(query, b):
        return NOTHING
    known = query.known
    low, high = known.bounds(known.form(a))
    if e.op is ops.SHL:
        ends = (None if end is None else const(0) if end == 0 else const(end) << b for end in (low, high))
        first, last = ends
        return (first, last, _runs(query, a))
    everywhere = _takes_every_integer(query, a)
    if e.op is ops.FLOORMOD:
        return (_choice(ops.MIN, b + 1), _choice(ops.MAX, b - 1), everywhere)
    sign = known.sign(known.form(b))
    size = b if sign > 0 else -b if sign < 0 else abs(b)
    first = const(0) if low is not None and low >= 0 else 1 - size
    last = const(0) if high is not None and high <= 0 else size - 1
    return (first, last, everywhere)


def _choice(op: ops.Op, e: Expr) -> Expr:
    return intern(Term, op, (e, const(0)), None)


def _is_kept(query: Query, e: Expr) -> bool:
    return not any(query.is_relaxed(v) for v in free_vars(e)) and all(e.op is not ops.LOAD for e in (e, *e.args))


def _product(query: Query, q: Expr, t: Expr) -> Found:
    known = query.known
    sign = known.sign(known.form(t))
    if not sign or not t.args and t.op is ops.CONST:
        return NOTHING
    form = known.form(q)
    found = [toward(known, form, query.is_relaxed).form for toward in (symbolic.lowest, symbolic.highest)]
    low, high = (None if end is None or not end.is_const else end.const for end in found)
    if sign < 0:
        low, high = high, low
    first, last = (None if end is None else const(0) if end == 0 else t if end == 1 else t * end for end in (low, high))
    return (first, last, False)


def _takes_every_integer(query: Query, x: Expr) -> bool:
    return _runs(query, x) and query.known.bounds(query.known.form(x)) == (None, None)


def _runs(query: Query, x: Expr) -> bool:
    """Whether `x` is a variable that takes every value between its numeric ends, whatever the parameters are."""
    if not isinstance(x, Var) or not query.is_relaxed(x):
        return False
    limits = query.known.assumptions.limits.get(x, (None, None))
    return limits == (None, None) and x.declared()[2] == 1
