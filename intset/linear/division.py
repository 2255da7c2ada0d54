"""The identities of floor division, on linear forms. With c, d, g > 0:

    (c*q + r) // c            = q + r // c
    (g*r + k) // (g*c)        = (r + k//g) // c
    (x//e + y) // c           = (x + e*y) // (c*e)          for any e
    (g*h + s) // (g*c)        = h // c                      where 0 <= s < g
    x // c                    = k                           where k*c <= x < (k+1)*c
    x // d                    = -1                          where -d <= x < 0
    (x*h) // (x*d)            = h // d                      where x*d is nonzero
    truncdiv(x, c)            = 0                           where -c < x < c

Ceiling division becomes floor division, and truncated division does where the signs are known.
`x % c` becomes `x - c*(x // c)`, so that `(x//5)*5 + x%5` cancels to `x`. Regrouping finds such differences in a form
and writes them as `r % c` again, for tighter bounds and shorter text.

`RULES` has one rule for each operation: the linear form of a node from its arguments' linear forms.

Guarantee: under the assumptions of the normalizer, the form equals the node wherever the node is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from typing import TYPE_CHECKING, Final

from intset.expr import Expr, Node, const, ops
from intset.expr.node import make
from intset.linear import form as forms
from intset.linear.form import REMAINDER_OF, Linear, atom, factors, has_quotient
from intset.linear.multiples import exact_quotient, folded, split_exactly, step_of

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

EXPANDED_TERMS: Final = 16  # terms of a sum that is duplicated or searched for remainders
REGROUPED_REMAINDERS: Final = 8  # remainders regrouped in one form


def floordiv(known: Normalizer, dividend: Linear, divisor: Linear) -> Linear:
    """`dividend // divisor`."""
    if not divisor.terms:
        c = divisor.const
        if c == 0:
            return atom(make(ops.FLOORDIV, (known.atomized(dividend), const(0))))
        return floordiv_const(known, dividend, c) if c > 0 else floordiv_const(known, dividend.scale(-1), -c)
    quotient, rest = _pull_out(dividend, divisor, known)
    if rest.is_const and rest.const == 0:
        return quotient
    if known.may_know_multiples(rest) and (share := split_exactly(known, rest, divisor)) is not None:
        return quotient.plus(share[0]).plus(floordiv(known, share[1], divisor))
    positive = known.is_positive(divisor)
    if positive and known.is_nonneg(rest) and known.is_positive(divisor.minus(rest)):
        return quotient
    if positive and _is_negative(known, rest) and known.is_nonneg(divisor.plus(rest)):
        return quotient.shift(-1)
    if (less := _without_common_factors(rest, divisor, positive)) is not None:
        return quotient.plus(floordiv(known, *less))
    if positive and (inner := as_quotient(known, rest)) is not None:
        return quotient.plus(floordiv(known, inner[0], known.product(inner[1], divisor)))
    return quotient.plus(atom(make(ops.FLOORDIV, (known.atomized(rest), known.atomized(divisor)))))


def _without_common_factors(dividend: Linear, divisor: Linear, rounds: bool = False) -> tuple[Linear, Linear] | None:
    """Dividend and divisor without their common factors; `None` if there are none.

    Sound because a defined quotient has a nonzero divisor, so every factor of it is nonzero.

    Parameters
    ----------
    rounds: whether this is floor division by a positive divisor. Then a common number g need not divide the constant of
        the dividend: (g*h + r) // (g*d) = h // d with 0 <= r < g. Otherwise a common number alone is kept, so that the
        quotients of `2*x` and `2*x + 1` have one divisor.
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
                shared = [e for e in shared if forms.take_out(left, e)]
    g = gcd(divisor.const, *(k for form in both for k in form.terms.values()))
    if not shared and (g == 1 or not rounds):
        return None
    return _divided(dividend, shared, g), _divided(divisor, shared, g)


def _divided(form: Linear, shared: list[Expr], g: int) -> Linear:
    """`form` divided by the number `g` and by factors common to all its terms."""
    total, terms = form.const // g, dict[Expr, int]()
    for monomial, k in form.terms.items():
        left = factors(monomial)
        for e in shared:
            forms.take_out(left, e)
        if left:
            terms[forms.monomial_of(left)] = k // g
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
        return forms.constant(single)
    outer, inner = whole_part(form, c)
    if not inner.terms:
        return outer
    knows = known.may_know_multiples(inner)
    if knows and (share := split_exactly(known, inner, forms.constant(c))) is not None:
        return outer.plus(share[0]).plus(floordiv_const(known, share[1], c))
    if inner is form and form.is_variable and not knows:
        (variable,) = form.terms
        return atom(make(ops.FLOORDIV, (variable, const(c))))
    if (g := gcd(inner.content(), c)) > 1:
        inner, c = inner.divided(g), c // g
    if c == 1:
        quotient = inner
    elif inner is not form and (single := _one_period(known, inner, c)) is not None:
        return outer.shift(single)
    elif (nested := as_quotient(known, inner)) is not None:
        quotient = floordiv(known, nested[0], nested[1].scale(c))
    else:
        quotient = _drop_small_part(known, inner, c, knows) or atom(
            make(ops.FLOORDIV, (known.atomized(inner), const(c)))
        )
    return quotient if outer is forms.ZERO else outer.plus(quotient)


def whole_part(form: Linear, c: int) -> tuple[Linear, Linear]:
    """(q, r) with `form = c*q + r`, every coefficient of r below c in size and the constant of r in [0, c)."""
    if 0 <= form.const < c and max(map(abs, form.terms.values()), default=0) < c:
        return forms.ZERO, form
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
    """`form // c` if it is constant, else `None`."""
    low, high = known.bounds(form)
    if low is None or high is None or low // c != high // c:
        return None
    return low // c


def as_quotient(known: Normalizer, form: Linear) -> tuple[Linear, Linear] | None:
    """(x + d*y, d) if `form` is `x // d + y` with exactly one such quotient, else `None`.

    Then `form // c = (x + d*y) // (d*c)` for every c > 0, whatever the sign of d.
    """
    quotient: Expr | None = None
    for e, k in form.terms.items():
        if e.op is ops.FLOORDIV and k == 1:
            if quotient is not None:
                return None
            quotient = e
    if quotient is None:
        return None
    inner, divisor = known.form(quotient.args[0]), known.form(quotient.args[1])
    return inner.plus(known.product(form.minus(atom(quotient)), divisor)), divisor


def _drop_small_part(known: Normalizer, form: Linear, c: int, knows: bool) -> Linear | None:
    """`(g*h + s) // c` as `(h + k) // (c/g)`, when g divides c and s stays within one period of g.

    Known multiples (`knows`: there may be some) make terms divisible by g: `(a + 2) // 16 = a // 16` where 8 divides a.
    """
    if len(form.terms) < 2 and not form.const:
        return None
    steps: dict[Expr, int] = form.terms
    rests: dict[Expr, int] = {}
    if knows:
        of_terms = {t: step_of(known, t) for t in form.terms}
        steps = {t: k * of_terms[t][0] for t, k in form.terms.items()}
        rests = {t: k * of_terms[t][1] for t, k in form.terms.items()}
    shared = {gcd(step, c) for step in steps.values()}
    shared.discard(1)
    for g in sorted(shared, reverse=True):
        coarse = {t: k for t, k in form.terms.items() if steps[t] % g == 0}
        offset = sum([rests[t] for t in coarse]) if rests else 0
        fine = Linear(form.const + offset, {t: k for t, k in form.terms.items() if t not in coarse})
        step = _one_period(known, fine, g)
        if step is None or not fine.terms and abs(step * g - offset) >= abs(form.const):
            continue
        if offset == 0 and all(k % g == 0 for k in coarse.values()):
            return floordiv_const(known, Linear(step, {t: k // g for t, k in coarse.items()}), c // g)
        return floordiv_const(known, Linear(step * g - offset, coarse), c)
    return None


def ceildiv(known: Normalizer, a: Linear, b: Linear) -> Linear:
    return floordiv(known, a.scale(-1), b).scale(-1)  # ceil(a/b) = -floor(-a/b)


def truncdiv(known: Normalizer, a: Linear, b: Linear) -> Linear:
    if b.is_const and b.const < 0:
        return truncdiv(known, a, b.scale(-1)).scale(-1)
    if b.is_const and _is_shorter(known, a, b.const):
        return forms.ZERO
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
    """(q, r) with `dividend = q*divisor + r` for a symbolic divisor, q collected term by term."""
    if divisor.const == 0 and len(divisor.terms) == 1:
        ((unit, scale),) = divisor.terms.items()
        whole = 0
        quotient: dict[Expr, int] = {}
        rest: dict[Expr, int] = {}
        unit_factors = factors(unit)
        for monomial, coefficient in dividend.terms.items():
            left = factors(monomial)
            if not all(forms.take_out(left, e) for e in unit_factors):
                rest[monomial] = coefficient
                continue
            q = coefficient // scale if coefficient * scale > 0 else -(-coefficient // scale)
            if coefficient != q * scale:
                rest[monomial] = coefficient - q * scale
            if not q:
                continue
            if left:
                quotient[forms.monomial_of(left)] = q
            else:
                whole = q
        return Linear(whole, quotient), Linear(dividend.const, rest)
    if any(e.op is ops.MUL for e in dividend.terms):
        factored = _as_factor(dividend, divisor, known)
        if factored[0].terms or factored[0].const:
            return factored
        quotient_of_all = exact_quotient(dividend, divisor)
        if quotient_of_all is not None:
            return quotient_of_all, forms.ZERO
    for monomial, coefficient in divisor.terms.items():
        have = dividend.terms.get(monomial, 0)
        if have and have % coefficient == 0:
            q = have // coefficient
            return forms.constant(q), dividend.plus(divisor, -q)
        break
    return forms.ZERO, dividend


def _as_factor(dividend: Linear, divisor: Linear, known: Normalizer) -> tuple[Linear, Linear]:
    """(q, r) with `dividend = q*divisor + r`, q from products that have the divisor (a sum) as a factor."""
    unit = known.atomized(divisor)
    whole, quotient, rest = 0, dict[Expr, int](), dict[Expr, int]()
    for monomial, coefficient in dividend.terms.items():
        left = factors(monomial)
        if not forms.take_out(left, unit):
            rest[monomial] = coefficient
        elif left:
            form = known.form(left[0]) if len(left) == 1 else atom(forms.monomial_of(left))
            whole += coefficient * form.const
            for e, k in form.terms.items():
                quotient[e] = quotient.get(e, 0) + coefficient * k
        else:
            whole += coefficient
    return Linear(whole, {e: k for e, k in quotient.items() if k}), Linear(dividend.const, rest)


def floormod(known: Normalizer, dividend: Linear, divisor: Linear) -> Linear:
    """`dividend % divisor`."""
    if len(dividend.terms) > EXPANDED_TERMS:
        return atom(make(ops.FLOORMOD, (known.atomized(dividend), known.atomized(divisor))))
    c = divisor.const
    origin = dividend.origin
    if origin is not None and c > 0 and not divisor.terms and origin.modulus % c == 0:
        dividend = whole_part(dividend, c)[1]  # (x % (c*d)) % c is x % c
    if not divisor.terms and c > 0 and dividend.content() % c == 0:
        return forms.constant(dividend.const % c)
    knows = known.may_know_multiples(dividend)
    if knows and (share := split_exactly(known, dividend, divisor)) is not None:
        dividend = share[1]  # (d*q + r) % d is r % d
        if not dividend.terms and not dividend.const:
            return forms.ZERO
    quotient = floordiv(known, dividend, divisor)
    remainder = dividend.minus(known.product(quotient, divisor)) if divisor.terms else dividend.plus(quotient, -c)
    if knows:
        remainder = folded(known, remainder)
    if divisor.terms:
        return remainder
    for e in quotient.terms:
        if e.op is ops.FLOORDIV and e.args[1].op is ops.CONST:
            remainder.origin = forms.RemainderOrigin(e, c)
    return remainder


MAX_TERMS = 2 * EXPANDED_TERMS


def only_remainder(known: Normalizer, form: Linear, origin: forms.RemainderOrigin) -> Linear | None:
    """`form = g*h - c*(h // d) + ...` with `c = g*d` regrouped, if it has no other quotient; else `None`."""
    division, c = origin
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


def _with_remainder(known: Normalizer, form: Linear, division: Expr, base: Linear, c: int, factor: int) -> Linear:
    """`form` with its part `factor*(base - c*division)` written as `factor*(base % c)`; `division` is `base // c`.

    A truncating division gives the truncating remainder.
    """
    terms = dict(form.terms)
    forms.add(terms, base.terms, -factor)
    remainder = make(REMAINDER_OF[division.op], (known.atomized(base), const(c)))
    forms.add(terms, {division: c, remainder: 1}, factor)
    return Linear(form.const - factor * base.const, terms)


def regrouped(known: Normalizer, form: Linear) -> Linear:
    """`form` with `r - c*(r // c)` written as `r % c` wherever that cancels terms."""
    if form.origin is not None and (short := only_remainder(known, form, form.origin)) is not None:
        return short
    lead: Expr | None = None
    for _ in range(REGROUPED_REMAINDERS):
        if (step := _next_remainder(known, form, lead)) is None:
            break
        form, lead = step
    return form


def _next_remainder(known: Normalizer, form: Linear, lead: Expr | None) -> tuple[Linear, Expr | None] | None:
    """One regrouping step; also its quotient, for products. Steps of the quotient `lead` come first."""
    for monomial in form.terms if lead is not None else ():
        for quotient in factors(monomial) if monomial.op is ops.MUL else ():
            if quotient is lead and (step := scaled_remainder(known, form, monomial, quotient)) is not None:
                return step, lead
    for monomial, k in form.terms.items():
        for quotient in factors(monomial) if monomial.op is ops.MUL else ():
            if quotient.op in REMAINDER_OF and (step := _symbolic_remainder(known, form, monomial, k, quotient)):
                return step, quotient
        if monomial.op in REMAINDER_OF and monomial.args[1].op is ops.CONST:
            step = _constant_remainder(known, form, monomial, k)
        else:
            step = _remainder_of_quotient(known, form, monomial, k) if monomial.op is ops.FLOORDIV else None
        if step is not None:
            return step, None
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
        # Skip quotients of the same sign inside this one: the search would multiply at each level.
        if is_floor and (weight < 0) is not (k < 0) and 2 <= (m := size // abs(weight)) < c and c % m == 0:
            base = floordiv_const(known, inner, c // m)
            if factor := _factor_of(form, base, other, k, m):
                return _with_remainder(known, form, division, base, m, factor)
    return None


def _remainder_of_quotient(known: Normalizer, form: Linear, division: Expr, k: int) -> Linear | None:
    """One step of regrouping for the term `k * (b // d)`, d no constant: that is `(b*m // d) // m` for each m > 0, and
    `((b*m + r) // d) // m` for each r in [0, m) where d is positive.

    Skipped if b contains quotients: scaling b by m would create new ones at each level.
    """
    inner, divisor = (known.form(arg) for arg in division.args)
    if any(has_quotient(e) for e in inner.terms):
        return None
    for other, weight in form.terms.items():
        if other is not division and (weight < 0) is not (k < 0) and (m := abs(k) // abs(weight)) >= 2:
            whole = inner.scale(m)
            if not _may_have(known, whole, divisor, other):
                continue
            rest = known.form(other.args[0]).const - whole.const if other.op is ops.FLOORDIV else 0
            for r in (0, rest) if 0 < rest < m and known.is_positive(divisor) else (0,):
                base = floordiv(known, whole.shift(r), divisor)
                if factor := _factor_of(form, base, other, k, m):
                    return _with_remainder(known, form, division, base, m, factor)
    return None


def _may_have(known: Normalizer, dividend: Linear, divisor: Linear, term: Expr) -> bool:
    """Whether `dividend // divisor` may have a term, by its factors.

    Without known multiples, a term of a quotient by one monomial is a quotient itself or a factor of a dividend's term.
    The division itself may ask for signs.
    """
    if has_quotient(term) or len(divisor.terms) > 1 or divisor.const or known.may_know_multiples(dividend):
        return True
    own = factors(term)
    return any(all(forms.take_out(left, e) for e in own) for left in map(factors, dividend.terms))


def _factor_of(form: Linear, base: Linear, other: Expr, k: int, m: int) -> int:
    """The multiple of `base - m*(base // m)` to take out of `form` so that its term `other` cancels; 0 if the
    coefficient `k` of the quotient would not shrink."""
    own, weight = base.terms.get(other), form.terms[other]
    if own is None or weight % own:
        return 0
    factor = weight // own
    return factor if abs(k + m * factor) < abs(k) and _dominates(form, base, factor) else 0


def _symbolic_remainder(known: Normalizer, form: Linear, monomial: Expr, k: int, division: Expr) -> Linear | None:
    if division.args[1].op is ops.CONST:
        return scaled_remainder(known, form, monomial, division)
    for base, divisor in _as_quotients_of(known, division, monomial):
        whole = known.product(divisor, atom(division))
        own = whole.terms.get(monomial)
        if own is None or k % own:
            continue
        factor = -k // own
        is_smaller = abs(form.const - factor * base.const) <= abs(form.const)
        if _dominates(form, base, factor) if base.terms else is_smaller:
            remainder = make(REMAINDER_OF[division.op], (known.atomized(base), known.atomized(divisor)))
            return form.plus(base, -factor).plus(whole, factor).plus(atom(remainder), factor)
    return None


def scaled_remainder(known: Normalizer, form: Linear, monomial: Expr, division: Expr) -> Linear | None:
    """One step of regrouping for `m * (b // d)`: `m*b - d*m*(b // d)` is `m * (b % d)`."""
    base, divisor = (known.form(arg) for arg in division.args)
    k, beside, others = form.terms[monomial], factors(monomial), divisor.terms or {const(1): divisor.const}
    if division.op is ops.TRUNCDIV or not forms.take_out(beside, division) or not divisor.terms and divisor.const < 1:
        return None
    for lead, own in others.items():
        rest = list(beside)
        if k % own or not all(forms.take_out(rest, e) for e in factors(lead) if e.op is not ops.CONST) or not rest:
            continue
        outer, factor = atom(forms.monomial_of(rest)), -k // own
        part, whole = known.product(outer, base), known.product(known.product(outer, divisor), atom(division))
        if part.terms and _dominates(form, part, factor) and _dominates(form, whole, -factor):
            remainder = atom(make(ops.FLOORMOD, (known.atomized(base), known.atomized(divisor))))
            return form.plus(part, -factor).plus(whole, factor).plus(outer.times(remainder), factor)
    return None


def _as_quotients_of(known: Normalizer, division: Expr, monomial: Expr) -> Iterator[tuple[Linear, Linear]]:
    """Forms (b, d) such that the division is `b // d`: as written, and `(a // g) // d` for `a // (g*d)`, where d is
    positive and the factor of the division in the monomial."""
    dividend, divisor = known.form(division.args[0]), known.form(division.args[1])
    yield dividend, divisor
    if division.op is ops.TRUNCDIV:
        return
    beside, inner = factors(monomial), factors(division.args[1])
    if (
        not forms.take_out(beside, division)
        or not beside
        or not all(forms.take_out(inner, e) for e in beside)
        or not inner
    ):
        return
    outer = atom(forms.monomial_of(beside))
    if known.is_positive(outer):
        yield floordiv(known, dividend, atom(forms.monomial_of(inner))), outer


def _dominates(form: Linear, part: Linear, factor: int) -> bool:
    """Whether subtracting `factor * part` shrinks every coefficient of `form` that it touches, without sign changes."""
    have_of = form.terms.get
    for monomial, coefficient in part.terms.items():
        have, take = have_of(monomial, 0), factor * coefficient
        if have * take <= 0 or abs(have) < abs(take):
            return False
    return True


MASK_RUNS: Final = 4  # runs of ones in a mask that becomes remainders
LINEAR_SHIFT: Final = 4_096  # bits of a shift that becomes a product or quotient


def extremum(known: Normalizer, op: ops.Op, a: Linear, b: Linear) -> Linear:
    """The minimum or maximum of two forms: one of them if the sign of `a - b` is known, else a new atom."""
    sign = known.sign(b.minus(a) if op is ops.MIN else a.minus(b))
    if sign:
        return a if sign > 0 else b
    common, *parts = without_shared(a, b)
    first, second = sorted(parts, key=_without_constant)
    offset = first.const
    apart = tuple(known.atomized(part.shift(-offset)) for part in (first, second))
    return common.shift(offset).plus(atom(make(op, apart)))


def without_shared(a: Linear, b: Linear) -> tuple[Linear, Linear, Linear]:
    """(s, a - s, b - s) for the common terms s."""
    common = Linear(0, {t: k for t, k in a.terms.items() if b.terms.get(t) == k})
    return (common, a.minus(common), b.minus(common)) if common.terms else (common, a, b)


def _without_constant(form: Linear) -> tuple[object, ...]:
    """A sort key that ignores the constant; constant forms come last."""
    return (form.is_const, forms.form_key(form.shift(-form.const)))


def low_bits(known: Normalizer, form: Linear, bits: int) -> Linear:
    """`form % 2**bits`."""
    return form.plus(floordiv_const(known, form, 1 << bits), -(1 << bits))


def bit_and(known: Normalizer, a: Linear, b: Linear) -> Linear | None:
    """`a & b` if linear (a constant mask of few runs of ones, or disjoint bits); else `None`."""
    if a.is_const and b.is_const:
        return forms.constant(a.const & b.const)
    if a.is_const:
        a, b = b, a
    if b.is_const:
        if b.const < 0:  # a & m = a - (a & ~m)
            rest = _masked(known, a, ~b.const)
            return None if rest is None else a.minus(rest)
        return _masked(known, a, b.const)
    return forms.ZERO if _no_common_bit(known, a, b) or _no_common_bit(known, b, a) else None


def _masked(known: Normalizer, a: Linear, mask: int) -> Linear | None:
    total, low, runs = forms.ZERO, 0, 0
    while mask >> low:
        low += ((mask >> low) & -(mask >> low)).bit_length() - 1
        ones = (mask >> low) ^ ((mask >> low) + 1)
        width = ones.bit_length() - 1
        total = total.plus(low_bits(known, floordiv_const(known, a, 1 << low), width), 1 << low)
        low, runs = low + width, runs + 1
        if runs > MASK_RUNS:
            return None
    return total


def _no_common_bit(known: Normalizer, high: Linear, low: Linear) -> bool:
    step = gcd(high.content(), high.const)
    step &= -step
    first, last = known.bounds(low)
    return first is not None and last is not None and first >= 0 and last < step


# -- rules: one for each operation, of the forms of its arguments ----------------------------------------------


def _bitand(known: Normalizer, a: Linear, b: Linear) -> Linear:
    return bit_and(known, a, b) or _opaque_bits(known, ops.BITAND, a, b)


def _bitor(known: Normalizer, a: Linear, b: Linear) -> Linear:
    common = bit_and(known, a, b)  # a | b = a + b - (a & b)
    return _opaque_bits(known, ops.BITOR, a, b) if common is None else a.plus(b).minus(common)


def _bitxor(known: Normalizer, a: Linear, b: Linear) -> Linear:
    common = bit_and(known, a, b)  # a ^ b = a + b - 2*(a & b)
    return _opaque_bits(known, ops.BITXOR, a, b) if common is None else a.plus(b).plus(common, -2)


def _opaque_bits(known: Normalizer, op: ops.Op, a: Linear, b: Linear) -> Linear:
    return atom(make(op, tuple(known.atomized(part) for part in sorted((a, b), key=forms.form_key))))


def _shl(known: Normalizer, a: Linear, b: Linear) -> Linear:
    if b.is_const and 0 <= b.const <= LINEAR_SHIFT:
        return a.scale(1 << b.const)
    return atom(make(ops.SHL, (known.atomized(a), known.atomized(b))))


def _shr(known: Normalizer, a: Linear, b: Linear) -> Linear:
    if b.is_const and 0 <= b.const <= LINEAR_SHIFT:
        return floordiv_const(known, a, 1 << b.const)
    return atom(make(ops.SHR, (known.atomized(a), known.atomized(b))))


def _abs(known: Normalizer, a: Linear) -> Linear:
    sign = known.sign(a)
    if sign:
        return a if sign > 0 else a.scale(-1)
    first = a.ordered()[0][1]
    return atom(make(ops.ABS, (known.atomized(a if first > 0 else a.scale(-1)),)))


def _mul(known: Normalizer, a: Linear, b: Linear) -> Linear:
    form = known.product(a, b)
    return folded(known, form) if known.may_know_multiples(form) else form


# -- rules of operations with lazy arguments or a payload: of the node -----------------------------------------


def _cast(known: Normalizer, node: Node) -> Linear:
    bits, signed = node.data
    a = known.forms[node.args[0]]
    offset = 1 << (bits - 1) if signed else 0
    return low_bits(known, a.shift(offset), bits).shift(-offset)  # wrap(a) = (a + h) mod 2^bits - h


def _split_common(a: Linear, b: Linear) -> tuple[Linear, Linear, Linear]:
    """(s, a - s, b - s) for the common terms s, plus the constant of `a` unless `a - s` would be that constant."""
    common, a, b = without_shared(a, b)
    offset = a.const if a.const == b.const or a.terms else 0
    return common.shift(offset), a.shift(-offset), b.shift(-offset)


def _select(known: Normalizer, node: Node) -> Linear:
    condition = known.conds[node.args[0]]
    if condition.op is ops.BOOL:
        return known.form(node.args[1 if condition.data else 2])
    (yes, if_true), (no, if_false) = known.branches(node)
    a, b = yes.form(if_true), no.form(if_false)
    if yes.empty or no.empty:
        return b if yes.empty else a
    if a.same(b):
        return a
    common, a, b = _split_common(a, b)
    e = make(ops.SELECT, (condition, known.atomized(a), known.atomized(b)))
    known.remember_branches(e, yes, a, no, b)
    return common.plus(atom(e)) if common.terms or common.const else atom(e)


def _load(known: Normalizer, node: Node) -> Linear:
    args = tuple(known.atomized(known.forms[arg]) for arg in node.args)
    symbol = node.data
    if symbol.lower is not None and symbol.lower == symbol.upper:
        return forms.constant(symbol.lower)
    return atom(make(ops.LOAD, args, symbol))


RULES: dict[ops.Op, Callable[..., Linear]] = {
    ops.MUL: _mul,
    ops.FLOORDIV: floordiv,
    ops.FLOORMOD: floormod,
    ops.CEILDIV: ceildiv,
    ops.TRUNCDIV: truncdiv,
    ops.TRUNCMOD: truncmod,
    ops.MIN: lambda known, a, b: extremum(known, ops.MIN, a, b),
    ops.MAX: lambda known, a, b: extremum(known, ops.MAX, a, b),
    ops.ABS: _abs,
    ops.BITAND: _bitand,
    ops.BITOR: _bitor,
    ops.BITXOR: _bitxor,
    ops.BITNOT: lambda known, a: a.scale(-1).shift(-1),  # ~a = -a - 1
    ops.SHL: _shl,
    ops.SHR: _shr,
}

NODE_RULES: dict[ops.Op, Callable[[Normalizer, Node], Linear]] = {
    ops.LOAD: _load,
    ops.SELECT: _select,
    ops.ASSERTING: lambda known, node: known.form(node.args[1]),
    ops.CAST: _cast,
}
