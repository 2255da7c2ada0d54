"""Remainders in a form: `r - c*(r // c)` found again and written as `r % c`, for tighter bounds and shorter print."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from intset.expr import ops
from intset.expr.node import Expr, const, make
from intset.linear.division import floordiv_const
from intset.linear.form import Linear, atom, factors

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

MAX_EXPANDED_TERMS = 16  # a longer sum is not written out twice, nor searched for remainders
MAX_REMAINDERS = 8  # so many are found in one form


def regrouped(known: Normalizer, form: Linear) -> Linear:
    """`form` with `r - c*(r // c)` written as the remainder it is, wherever that cancels something."""
    if len(form.terms) > 2 * MAX_EXPANDED_TERMS:
        return form
    for _ in range(MAX_REMAINDERS):
        step = next(_steps(known, form), None)
        if step is None:
            break
        form = step
    return form


def _steps(known: Normalizer, form: Linear) -> Iterator[Linear]:
    for monomial, k in form.terms.items():
        division = monomial if monomial.op is ops.FLOORDIV else None
        if division is None:
            if monomial.op is ops.MUL:
                yield from _symbolic_remainder(known, form, monomial, k)
            continue
        if division.args[1].op is not ops.CONST:
            continue
        c: int = division.args[1].data
        if c < 1:
            continue
        inner = known.form(division.args[0])
        for other, weight in form.terms.items():
            if other is monomial or weight * k > 0:
                continue
            for modulus in {c, -k // weight}:
                if modulus < 2 or c % modulus:
                    continue
                base = inner if modulus == c else floordiv_const(known, inner, c // modulus)
                own = base.terms.get(other)
                if own is None or weight % own:
                    continue
                factor = weight // own
                if abs(k + modulus * factor) < abs(k) and _dominates(form, base, factor):
                    remainder = make(ops.FLOORMOD, (known.atomized(base), const(modulus)))
                    shorter = form.plus(base, -factor).plus(atom(monomial), modulus * factor)
                    yield shorter.plus(atom(remainder), factor)


def _symbolic_remainder(known: Normalizer, form: Linear, monomial: Expr, k: int) -> Iterator[Linear]:
    for division in factors(monomial):
        if division.op is not ops.FLOORDIV or division.args[1].op is ops.CONST:
            continue
        base, divisor = known.form(division.args[0]), known.form(division.args[1])
        whole = known.product(divisor, atom(division))
        own = whole.terms.get(monomial)
        if own is None or k % own:
            continue
        factor = -k // own
        if base.terms and _dominates(form, base, factor):
            remainder = make(ops.FLOORMOD, (known.atomized(base), known.atomized(divisor)))
            yield form.plus(base, -factor).plus(whole, factor).plus(atom(remainder), factor)


def _dominates(form: Linear, part: Linear, factor: int) -> bool:
    """Whether `factor * part` only takes away from what is there: same signs, no larger coefficients."""
    get = form.terms.get
    for monomial, coefficient in part.terms.items():
        have, take = get(monomial, 0), factor * coefficient
        if have * take <= 0 or abs(have) < abs(take):
            return False
    return True
