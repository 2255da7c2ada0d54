"""Remainders: `x % c` becomes `x - c*(x // c)`, so that `(x//5)*5 + x%5` cancels to `x` by itself; regrouping finds
what is left of them in a form and writes it as `r % c` again, for tighter bounds and shorter print.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from intset.expr import ops
from intset.expr.node import Expr, const, make
from intset.linear.division import floordiv, floordiv_const, whole_part
from intset.linear.form import Linear, Made, accumulate, atom, factors

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

MAX_EXPANDED_TERMS = 16  # a longer sum is not written out twice, nor searched for remainders
MAX_TERMS = 2 * MAX_EXPANDED_TERMS
MAX_REMAINDERS = 8  # so many are found in one form


def floormod(known: Normalizer, dividend: Linear, divisor: Linear) -> Linear:
    """`dividend % divisor`."""
    if len(dividend.terms) > MAX_EXPANDED_TERMS:
        return atom(make(ops.FLOORMOD, (known.atomized(dividend), known.atomized(divisor))))
    c = divisor.const
    made = dividend.made
    if made is not None and c > 0 and not divisor.terms and made.modulus % c == 0:
        dividend = whole_part(dividend, c)[1]  # (x % (c*d)) % c is x % c
    quotient = floordiv(known, dividend, divisor)
    if not divisor.is_const:
        return dividend.minus(known.product(quotient, divisor))
    remainder = dividend.plus(quotient, -c)
    for e in quotient.terms:
        if e.op is ops.FLOORDIV and e.args[1].op is ops.CONST:
            remainder.made = Made(e, c)
    return remainder


def only_remainder(known: Normalizer, form: Linear, made: Made) -> Linear | None:
    """What regrouping `form = g*h - c*(h // d) + ...` with `c = g*d` gives, if there is nothing else to regroup."""
    division, c = made
    d = division.args[1].data
    if form.terms.get(division) != -c or not d or c % d or len(form.terms) == 1:
        return None
    for e in form.terms:
        if (e.op is ops.FLOORDIV or e.op is ops.MUL) and e is not division:
            return None
    base, g = known.form(division.args[0]), c // d
    if g < 1 or not _dominates(form, base, g):
        return None
    return _with_remainder(known, form, division, base, d, g)


REMAINDER_OF = {ops.FLOORDIV: ops.FLOORMOD, ops.TRUNCDIV: ops.TRUNCMOD}


def _with_remainder(known: Normalizer, form: Linear, division: Expr, base: Linear, c: int, factor: int) -> Linear:
    """`form` with `factor*(base - c*division)` in it written as `factor*(base % c)`; `division` is `base // c`.

    Of a truncating division it is the truncating remainder.
    """
    terms = dict(form.terms)
    accumulate(terms, base, -factor)
    _add(terms, division, c * factor)
    _add(terms, make(REMAINDER_OF[division.op], (known.atomized(base), const(c))), factor)
    return Linear(form.const - factor * base.const, terms)


def has_quotient(monomial: Expr) -> bool:
    """Whether a factor of a monomial is a quotient."""
    while monomial.op is ops.MUL:
        if monomial.args[1].op is ops.FLOORDIV:
            return True
        monomial = monomial.args[0]
    return monomial.op is ops.FLOORDIV


def regrouped(known: Normalizer, form: Linear) -> Linear:
    """`form` with `r - c*(r // c)` written as the remainder it is, wherever that cancels something."""
    for _ in range(MAX_REMAINDERS):
        step = _next_remainder(known, form)
        if step is None:
            break
        form = step
    return form


def _next_remainder(known: Normalizer, form: Linear) -> Linear | None:
    for monomial, k in form.terms.items():
        found: Linear | None = None
        if monomial.op is ops.MUL:
            found = _symbolic_remainder(known, form, monomial, k)
        elif monomial.op in REMAINDER_OF and monomial.args[1].op is ops.CONST:
            found = _constant_remainder(known, form, monomial, k)
        elif monomial.op is ops.FLOORDIV:
            found = _remainder_of_quotient(known, form, monomial, k)
        if found is not None:
            return found
    return None


def _constant_remainder(known: Normalizer, form: Linear, division: Expr, k: int) -> Linear | None:
    """One step of regrouping for the term `k * division`, a division by a constant c: by c or by a divisor of it."""
    c: int = division.args[1].data
    if c < 1:
        return None
    inner, size, is_floor = known.form(division.args[0]), abs(k), division.op is not ops.TRUNCDIV
    for other, weight in form.terms.items():
        if other is division:
            continue
        if other in inner.terms and (factor := _factor_of(form, inner, other, k, c)):
            return _with_remainder(known, form, division, inner, c, factor)
        # A quotient of the same sign is not looked for inside of this one: that multiplies, level by level.
        if is_floor and (weight < 0) is not (k < 0) and 2 <= (m := size // abs(weight)) < c and c % m == 0:
            base = floordiv_const(known, inner, c // m)
            if factor := _factor_of(form, base, other, k, m):
                return _with_remainder(known, form, division, base, m, factor)
    return None


def _remainder_of_quotient(known: Normalizer, form: Linear, division: Expr, k: int) -> Linear | None:
    """One step of regrouping for the term `k * (b // d)`, d no constant: that is `(b*m // d) // m` for each m > 0, and
    `((b*m + r) // d) // m` for each r in [0, m) where d is positive.

    Not where quotients stand in b: those of `b*m` are others, and theirs again, level by level.
    """
    inner, divisor = (known.form(arg) for arg in division.args)
    if any(has_quotient(e) for e in inner.terms):
        return None
    for other, weight in form.terms.items():
        if other is not division and (weight < 0) is not (k < 0) and (m := abs(k) // abs(weight)) >= 2:
            whole = inner.scale(m)
            rest = known.form(other.args[0]).const - whole.const if other.op is ops.FLOORDIV else 0
            for r in (0, rest) if 0 < rest < m and known.is_positive(divisor) else (0,):
                base = floordiv(known, whole.shift(r), divisor)
                if factor := _factor_of(form, base, other, k, m):
                    return _with_remainder(known, form, division, base, m, factor)
    return None


def _factor_of(form: Linear, base: Linear, other: Expr, k: int, m: int) -> int:
    """How often `base - m*(base // m)` is taken out of `form` for its term `other`, where `k` counts the quotient; 0
    where that does not make it less."""
    own, weight = base.terms.get(other), form.terms[other]
    if own is None or weight % own:
        return 0
    factor = weight // own
    return factor if abs(k + m * factor) < abs(k) and _dominates(form, base, factor) else 0


def _symbolic_remainder(known: Normalizer, form: Linear, monomial: Expr, k: int) -> Linear | None:
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
            return form.plus(base, -factor).plus(whole, factor).plus(atom(remainder), factor)
    return None


def _add(terms: dict[Expr, int], e: Expr, k: int) -> None:
    new = terms.get(e, 0) + k
    if new:
        terms[e] = new
    else:
        del terms[e]


def _dominates(form: Linear, part: Linear, factor: int) -> bool:
    """Whether `factor * part` only takes away from what is there: same signs, no larger coefficients."""
    have_of = form.terms.get
    for monomial, coefficient in part.terms.items():
        have, take = have_of(monomial, 0), factor * coefficient
        if have * take <= 0 or abs(have) < abs(take):
            return False
    return True
