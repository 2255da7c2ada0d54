"""The identities of floor division, on linear forms. With c, d, g > 0:

    (c*q + r) // c            = q + r // c
    (g*r + k) // (g*c)        = (r + k//g) // c
    (x//e + y) // c           = (x + e*y) // (c*e)          for any e
    (g*h + s) // (g*c)        = h // c                      where 0 <= s < g
    x // c                    = k                           where k*c <= x < (k+1)*c
    x // d                    = -1                          where -d <= x < 0
    (x*h) // (x*d)            = h // d                      where it has a value

    truncdiv(x, c)            = 0                           where -c < x < c

Ceiling and truncated division are written with floor division, where the signs are known.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from intset.expr import ops
from intset.expr.node import Expr, const, make
from intset.linear.form import ZERO, Linear, atom, constant, factors, monomial_of, take_out
from intset.linear.order import Key, order_key

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer


def floordiv(known: Normalizer, dividend: Linear, divisor: Linear) -> Linear:
    """`dividend // divisor`."""
    if divisor.is_const:
        c = divisor.const
        if c == 0:
            return atom(make(ops.FLOORDIV, (known.atomized(dividend), const(0))))
        return floordiv_const(known, dividend, c) if c > 0 else floordiv_const(known, dividend.scale(-1), -c)
    quotient, rest = _pull_out(dividend, divisor, known)
    if rest.is_const and rest.const == 0:
        return quotient
    positive = known.is_positive(divisor)
    if positive and known.is_nonneg(rest) and known.is_positive(divisor.minus(rest)):
        return quotient
    if positive and _is_negative(known, rest) and known.is_nonneg(divisor.plus(rest)):
        return quotient.shift(-1)
    if (less := _without_common_factors(rest, divisor, positive)) is not None:
        return quotient.plus(floordiv(known, *less))
    if positive and (inner := _inner_division(known, rest)) is not None:
        return quotient.plus(floordiv(known, inner[0], known.product(inner[1], divisor)))
    return quotient.plus(atom(make(ops.FLOORDIV, (known.atomized(rest), known.atomized(divisor)))))


def _without_common_factors(dividend: Linear, divisor: Linear, rounds: bool = False) -> tuple[Linear, Linear] | None:
    """Both divided by what divides every term of both; `None` where nothing does. Where the quotient has a value the
    divisor is not 0, so no factor of it is.

    rounds: whether the quotient is rounded down and the divisor positive, so that a number need not divide the
    constant of the dividend: (g*h + r) // (g*d) = h // d where 0 <= r < g. Else a common number alone stays: the
    quotient of `2*x` is compared with that of `2*x + 1` by the same divisor.
    """
    if not dividend.terms:
        return None
    both = (dividend, divisor)
    shared: list[Expr] = []
    if not dividend.const and not divisor.const:
        shared = factors(next(iter(divisor.terms)))
        for form in both:
            for monomial in form.terms:
                left = factors(monomial)
                shared = [e for e in shared if take_out(left, e)]
    g = gcd(divisor.const, *(k for form in both for k in form.terms.values()))
    if not shared and (g == 1 or not rounds):
        return None
    return _divided(dividend, shared, g), _divided(divisor, shared, g)


def _divided(form: Linear, shared: list[Expr], g: int) -> Linear:
    """`form` divided by a number and by factors that all its terms have."""
    total, terms = form.const // g, dict[Expr, int]()
    for monomial, k in form.terms.items():
        left = factors(monomial)
        for e in shared:
            take_out(left, e)
        if left:
            terms[monomial_of(left)] = k // g
        else:
            total += k // g
    return Linear(total, terms)


def _is_negative(known: Normalizer, form: Linear) -> bool:
    high = known.bounds(form)[1]
    return high is not None and high < 0


def floordiv_const(known: Normalizer, form: Linear, c: int) -> Linear:
    """`form // c` for a constant c > 0."""
    if c == 1:
        return form
    if (single := _one_period(known, form, c)) is not None:
        return constant(single)
    outer, inner = whole_part(form, c)
    if not inner.terms:
        return outer
    if (g := gcd(inner.content(), c)) > 1:
        inner, c = inner.divided(g), c // g
    if c == 1:
        quotient = inner
    elif inner is not form and (single := _one_period(known, inner, c)) is not None:
        return outer.shift(single)
    elif (nested := _inner_division(known, inner)) is not None:
        quotient = floordiv(known, nested[0], nested[1].scale(c))
    else:
        quotient = _drop_small_part(known, inner, c) or atom(make(ops.FLOORDIV, (known.atomized(inner), const(c))))
    return quotient if outer is ZERO else outer.plus(quotient)


def whole_part(form: Linear, c: int) -> tuple[Linear, Linear]:
    """(q, r) with `form = c*q + r`, every coefficient of r below c in size and the constant of r in [0, c)."""
    if 0 <= form.const < c and max(map(abs, form.terms.values()), default=0) < c:
        return ZERO, form
    quotient: dict[Expr, int] = {}
    rest: dict[Expr, int] = {}
    for monomial, coefficient in form.terms.items():
        q = coefficient // c if coefficient > 0 else -(-coefficient // c)
        r = coefficient - q * c
        if q:
            quotient[monomial] = q
        if r:
            rest[monomial] = r
    offset, left = divmod(form.const, c)
    return Linear(offset, quotient), Linear(left, rest)


def _one_period(known: Normalizer, form: Linear, c: int) -> int | None:
    """`form // c` where that is a constant."""
    low, high = known.bounds(form)
    if low is None or high is None or low // c != high // c:
        return None
    return low // c


def _inner_division(known: Normalizer, form: Linear) -> tuple[Linear, Linear] | None:
    """(x + d*y, d) when `form` is `x // d + y` with just one such x: divided by a positive number it is that by d times
    as much, whatever the sign of d."""
    found: Expr | None = None
    for e, k in form.terms.items():
        if e.op is ops.FLOORDIV and k == 1:
            if found is not None:
                return None
            found = e
    if found is None:
        return None
    inner, divisor = known.form(found.args[0]), known.form(found.args[1])
    return inner.plus(known.product(form.minus(atom(found)), divisor)), divisor


def _drop_small_part(known: Normalizer, form: Linear, c: int) -> Linear | None:
    """`(g*h + s) // c` as `(h + k) // (c/g)`, when g divides c and s stays within one period of g."""
    if len(form.terms) < 2:
        return None
    shared = {gcd(k, c) for k in form.terms.values()}
    shared.discard(1)
    for g in sorted(shared, reverse=True):
        coarse = {t: k for t, k in form.terms.items() if k % g == 0}
        if len(coarse) == len(form.terms):
            continue
        fine = Linear(form.const, {t: k for t, k in form.terms.items() if k % g})
        step = _one_period(known, fine, g)
        if step is not None:
            return floordiv_const(known, Linear(step, {t: k // g for t, k in coarse.items()}), c // g)
    return None


def ceildiv(known: Normalizer, a: Linear, b: Linear) -> Linear:
    return floordiv(known, a.scale(-1), b).scale(-1)  # ceil(a/b) = -floor(-a/b)


def truncdiv(known: Normalizer, a: Linear, b: Linear) -> Linear:
    if b.is_const and b.const < 0:
        return truncdiv(known, a, b.scale(-1)).scale(-1)
    if b.is_const and _is_shorter(known, a, b.const):
        return ZERO
    if not b.is_const and (less := _without_common_factors(a, b)) is not None:
        return truncdiv(known, *less)
    positive = known.is_nonneg(b)
    if positive and known.is_nonneg(a):
        return floordiv(known, a, b)
    if positive and known.is_nonneg(a.scale(-1)):
        return floordiv(known, a.scale(-1), b).scale(-1)
    if b.is_const and b.const and a.const % b.const == 0 and a.content() % b.const == 0:
        return a.divided(b.const)
    return atom(make(ops.TRUNCDIV, (known.atomized(a), known.atomized(b))))


def _is_shorter(known: Normalizer, form: Linear, c: int) -> bool:
    """Whether -c < form < c."""
    low, high = known.bounds(form)
    return low is not None and high is not None and -c < low and high < c


def truncmod(known: Normalizer, a: Linear, b: Linear) -> Linear:
    return a.minus(known.product(truncdiv(known, a, b), b))


def _pull_out(dividend: Linear, divisor: Linear, known: Normalizer) -> tuple[Linear, Linear]:
    """(q, r) with `dividend = q*divisor + r`, q as large as the terms show; for symbolic divisors."""
    if divisor.const == 0 and len(divisor.terms) == 1:
        ((unit, scale),) = divisor.terms.items()
        whole = 0
        quotient: dict[Expr, int] = {}
        rest: dict[Expr, int] = {}
        wanted = factors(unit)
        for monomial, coefficient in dividend.terms.items():
            left = factors(monomial)
            if not all(take_out(left, e) for e in wanted):
                rest[monomial] = coefficient
                continue
            q = coefficient // scale if coefficient * scale > 0 else -(-coefficient // scale)
            if coefficient != q * scale:
                rest[monomial] = coefficient - q * scale
            if not q:
                continue
            if left:
                quotient[monomial_of(left)] = q
            else:
                whole = q
        return Linear(whole, quotient), Linear(dividend.const, rest)
    if any(e.op is ops.MUL for e in dividend.terms):
        found = _as_factor(dividend, divisor, known)
        if found[0].terms or found[0].const:
            return found
        quotient_of_all = _exact_quotient(dividend, divisor)
        if quotient_of_all is not None:
            return quotient_of_all, ZERO
    for monomial, coefficient in divisor.terms.items():
        have = dividend.terms.get(monomial, 0)
        if have and have % coefficient == 0:
            q = have // coefficient
            return constant(q), dividend.plus(divisor, -q)
        break
    return ZERO, dividend


def _as_factor(dividend: Linear, divisor: Linear, known: Normalizer) -> tuple[Linear, Linear]:
    """(q, r) with `dividend = q*divisor + r`: q from the products that have the divisor, a sum, as a factor."""
    unit = known.atomized(divisor)
    whole, quotient, rest = 0, dict[Expr, int](), dict[Expr, int]()
    for monomial, coefficient in dividend.terms.items():
        left = factors(monomial)
        if not take_out(left, unit):
            rest[monomial] = coefficient
        elif left:
            form = known.form(left[0]) if len(left) == 1 else atom(monomial_of(left))
            whole += coefficient * form.const
            for e, k in form.terms.items():
                quotient[e] = quotient.get(e, 0) + coefficient * k
        else:
            whole += coefficient
    return Linear(whole, {e: k for e, k in quotient.items() if k}), Linear(dividend.const, rest)


MAX_QUOTIENT = 24  # terms of an exact quotient


def _exact_quotient(dividend: Linear, divisor: Linear) -> Linear | None:
    """The polynomial q with `dividend = q*divisor`, if there is one of few terms: divided as polynomials are, by the
    term that comes first in the dictionary."""
    lead = min(divisor.terms, key=_place)
    own, scale = factors(lead), divisor.terms[lead]
    quotient = ZERO
    for _ in range(MAX_QUOTIENT):
        if not dividend.terms:
            return None if dividend.const else quotient
        first = min(dividend.terms, key=_place)
        left = factors(first)
        if dividend.terms[first] % scale or not all(take_out(left, e) for e in own):
            return None
        k = dividend.terms[first] // scale
        part = Linear(0, {monomial_of(left): k}) if left else constant(k)
        quotient = quotient.plus(part)
        dividend = dividend.minus(part.times(divisor))
    return None


def _place(monomial: Expr) -> tuple[Key, ...]:
    """Where a monomial stands in the dictionary of words over the atoms; a word comes before its beginnings."""
    return (*sorted(order_key(e) for e in factors(monomial)), _AFTER_ALL)


_AFTER_ALL = (1 << 200,)
