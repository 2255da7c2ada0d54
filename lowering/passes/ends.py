"""Ends of pieces of loops: in which order they are, as far as linear forms and quotients of them tell."""

from __future__ import annotations

from bound.schedule import simple
from intset.expr import ops
from intset.expr.build import maximum, minimum
from intset.expr.node import Expr, const, constant_value, make
from intset.linear.form import Linear
from lowering.passes.affine import Loops, form_of


def quotient(form: Linear, by: int, known: Loops) -> Linear:
    """The form divided, rounded down."""
    if all(k % by == 0 for k in form.terms.values()):
        return Linear(form.const // by, {t: k // by for t, k in form.terms.items()})
    whole = form.const // by
    rest = form.shift(-whole * by)
    if by & (by - 1) == 0:
        return Linear(whole, {make(ops.SHR, (rest.expr(), const(by.bit_length() - 1))): 1})
    if known.is_at_least_0(rest):
        return Linear(whole, {make(ops.TRUNCDIV, (rest.expr(), const(by))): 1})
    return form_of(simple.floordiv(rest.expr(), by)).shift(whole)


def clamped(at: Expr, low: Expr, end: Expr, loops: Loops) -> Expr:
    """`at`, or what is next to it between the ends; where these have crossed, `end`."""
    raised = at if is_in_order(low, at, loops) else low if is_in_order(at, low, loops) else maximum(at, low)
    return (
        raised if is_in_order(raised, end, loops) else end if is_in_order(end, raised, loops) else minimum(raised, end)
    )


def is_in_order(a: Expr, b: Expr, loops: Loops) -> bool:
    left, right = form_of(a), form_of(b)
    if loops.is_at_least_0(right.minus(left)):
        return True
    by = next((_divided(f, loops)[1] for f in (left, right) if _divided(f, loops)[1] > 1), 1)
    (x, c), (y, d) = (_divided(f, loops, by) for f in (left, right))
    # x // c is at most y // c where x is at most y, and where y is a multiple of c so is x - (c - 1)
    slack = by - 1 if right.is_const else 0
    return 1 < by == c == d and loops.is_at_least_0(y.minus(x).shift(slack))


def _divided(form: Linear, loops: Loops, by: int = 1) -> tuple[Linear, int]:
    """A form as a quotient by a number, rounded down: that of its one term, else `by`."""
    if form.is_const:
        return form.scale(by), by
    term, k = next(iter(form.terms.items()))
    if len(form.terms) > 1 or k != 1 or len(term.args) != 2:
        return form, 1
    number = constant_value(term.args[1])
    if number is None or number < 1 or (term.op is ops.SHR and number > 30):
        return form, 1
    found = form_of(term.args[0])
    if term.op is ops.TRUNCDIV and not loops.is_at_least_0(found):
        return form, 1
    number = 1 << number if term.op is ops.SHR else number
    is_quotient = term.op in (ops.SHR, ops.FLOORDIV, ops.TRUNCDIV)
    return (found.shift(form.const * number), number) if is_quotient else (form, 1)


def difference(low: Expr, end: Expr) -> int | None:
    """By how much two ends are apart, where that is a number."""
    form = form_of(end).minus(form_of(low))
    return form.const if form.is_const else None


def extent(low: Expr, end: Expr) -> Expr:
    """The number of iterations, written such that the end is seen."""
    known = difference(low, end)
    if known is not None:
        return const(max(0, known))
    return end if constant_value(low) == 0 else end - low
