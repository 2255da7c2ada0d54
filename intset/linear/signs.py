"""Signs: whether a form is nonnegative, by the ends of its variables, of its quotients, and by facts.

    a*s <= d*s       from  a < b, b < c, c <= d      facts added up, times a monomial that is nonnegative
    ceildiv(s, t)*t < s + t                          quotients at the ends of their rational values

A sign may lead to further questions about signs and ends (`symbolic.py`); all share one budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from intset.budgets import PRODUCT_DEGREE, RELAXED_DIVISORS, VISITED_MONOMIALS
from intset.expr import ops
from intset.expr.node import Expr, Var
from intset.linear.bounds import EVERYTHING, Interval
from intset.linear.form import Linear, atom, constant, degree, factors, monomial_of, take_out
from intset.linear.members import is_refuted
from intset.linear.polynomial import Poly, atoms_in, linear_of, poly_of, scaled, shifted
from intset.linear.symbolic import SPENT, Relaxed, eliminated, obvious_sign

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

CONSULTED_FACTS: Final = 3  # nested uses of facts: a fact may contain the term whose sign it helps to derive
FACT_CHAIN: Final = 3  # facts that are added up for one sign, as in `a < b`, `b < c`, `c < d`
DERIVED_SIGNS: Final = 4  # nested derivations of signs

_Rest: TypeAlias = "tuple[int, int, frozenset[tuple[Expr, int]]]"  # the facts that may still follow, and the form


def is_nonneg(known: Normalizer, form: Linear) -> bool:
    """Prove `form >= 0` from ranges, symbolic ends and facts; False means unknown.

    Eliminates all variables with a range. The coefficients over the remaining parameters, each measured from its lower
    bound, must then be nonnegative.
    """
    spent = SPENT
    if spent.open:  # an answer that depends on the remaining budget is not cached
        return spent.proofs < DERIVED_SIGNS and _derived(known, form)
    key = (form.const, frozenset(form.terms.items()))
    sign = known.signs.get(key)
    if sign is None:
        spent.left = VISITED_MONOMIALS
        sign = known.signs[key] = _derived(known, form)
    return sign


def _derived(known: Normalizer, form: Linear) -> bool:
    spent = SPENT
    spent.open += 1
    spent.proofs += 1
    try:
        return _follows(known, form)
    finally:
        spent.proofs -= 1
        spent.open -= 1


def _follows(known: Normalizer, form: Linear) -> bool:
    facts, spent = known.assumptions.nonneg, SPENT
    if known.members is None and spent.open == 1:  # members cost more than a first question that is plainly true
        if _lowest_is_nonneg(known, form):
            return True
        spent.left = VISITED_MONOMIALS  # the answer does not depend on whether there were members
    if is_refuted(known, form):
        return False
    if _is_sure(known, form):
        return True
    if not facts or spent.consulting >= CONSULTED_FACTS:
        return False
    spent.consulting += 1
    try:
        return _beside_facts(known, form, facts, FACT_CHAIN if spent.open == 1 else 1, set())
    finally:
        spent.consulting -= 1


def _beside_facts(known: Normalizer, form: Linear, facts: Sequence[Linear], chain: int, seen: set[_Rest]) -> bool:
    """Whether `form = c1*f1 + ... + rest` for at most `chain` facts `f >= 0`, factors `c >= 0`, and `rest >= 0`.

    Parameters
    ----------
    seen: the rests tried so far, which the same facts in another order lead to again; grows.
    """
    open_ends: list[Linear] = []
    for fact in facts:
        factor = _cancelling_factor(known, form, fact)
        if factor is None:
            continue
        rest = form.minus(factor.times(fact))
        key = (chain, rest.const, frozenset(rest.terms.items()))
        if key in seen:
            continue
        seen.add(key)
        left = SPENT.left
        if _is_sure(known, rest):
            return True
        if chain > 1:
            SPENT.left = left - len(fact.terms)
            if len(rest.terms) <= len(form.terms) + 1:
                open_ends.append(rest)
    return any(_beside_facts(known, rest, facts, chain - 1, seen) for rest in open_ends)


def _is_sure(known: Normalizer, form: Linear) -> bool:
    """Prove `form >= 0` from ends of variables and atoms, or of the quotients in it."""
    if _lowest_is_nonneg(known, form):
        return True
    relaxed = form
    for _ in range(RELAXED_DIVISORS):
        step = without_quotients(known, relaxed)
        if step is None:
            return False
        relaxed = step
        if _lowest_is_nonneg(known, relaxed):
            return True
    return False


def without_quotients(known: Normalizer, form: Linear) -> Linear | None:
    """A form f without the quotients by one divisor d of the given one, such that `form >= 0` follows from `f >= 0`.

    It is `d * form` with each `d * (x // d)` at its least in [x - d + 1, x]. As `form` is an integer, it is nonnegative
    where `d * form > -d`. Where `form` has the factor d beside each quotient, it need not be multiplied.

    `None` without a quotient by a positive divisor, or with a quotient beside a factor of unknown sign.
    """
    divisor: Expr | None = None
    found: list[tuple[Expr, int, Expr, list[Expr]]] = []
    for e, k in form.terms.items():
        others = factors(e)
        for q in others:
            if q.op is ops.FLOORDIV and (divisor is None or q.args[1] is divisor):
                divisor = q.args[1]
                take_out(others, q)
                found.append((e, k, q, others))
                break
    if divisor is None:
        return None
    d = known.form(divisor)
    if not known.is_positive(d):
        return None
    own = factors(next(iter(d.terms))) if not d.const and list(d.terms.values()) == [1] else None
    less = [None if own is None else _without(others, own) for *_, others in found]
    multiply = None in less
    total = Linear(form.const, {e: k for e, k in form.terms.items() if all(e is not part for part, *_ in found)})
    if multiply:
        if degree(total, PRODUCT_DEGREE) + degree(d, PRODUCT_DEGREE) > PRODUCT_DEGREE:
            return None
        total = total.times(d).plus(d).shift(-1)
    for (_, k, q, others), left in zip(found, less, strict=True):
        parts = others if multiply or left is None else left
        beside = atom(monomial_of(parts)) if parts else constant(1)
        low = known.bounds(beside)[0]
        if low is None or low < 0:
            return None
        x = known.form(q.args[0])
        total = total.plus(beside.times(x.minus(d).shift(1) if k > 0 else x), k)
    return total


def _without(parts: list[Expr], taken: list[Expr]) -> list[Expr] | None:
    """The factors without those to take out; `None` if one is missing."""
    left = list(parts)
    return left if all([take_out(left, e) for e in taken]) else None  # noqa: C419  # every factor is taken out


def _lowest_is_nonneg(known: Normalizer, form: Linear) -> bool:
    limits, ranges, atoms = known.assumptions.limits, known.ranges, known.assumptions.atoms
    negated = scaled(poly_of(known.regroup(form)), -1)
    quotients = any(e.op is ops.FLOORDIV for e in atoms_in(negated))

    def is_least(relaxed: Relaxed) -> bool:
        highest, _ = eliminated(known, negated, relaxed, 1, 0)
        if highest is None:
            return False
        least = scaled(highest, -1)
        return _nonneg_over_parameters(known, least) or not quotients and _beside_its_quotients(known, least)

    def everything(v: Var) -> bool:
        return v in limits or v in ranges or v in atoms

    # keep sizes symbolic: a size beside its own quotient bounds better than the ends of both
    sizes = {v for v, ends in ranges.items() if None in ends and not any(map(_depends, limits.get(v, ())))}
    if atoms:
        return is_least(lambda v: (v in limits or v in ranges) and v not in sizes) or is_least(everything)
    return is_least(everything) or bool(sizes) and is_least(((limits.keys() | ranges.keys()) - sizes).__contains__)


def _beside_its_quotients(known: Normalizer, least: Poly) -> bool:
    """Prove `least >= 0` from the quotients that it has as ends of variables: `t*o` up to `(ceildiv(n, t) - 1)*t`."""
    if not any(e.op is ops.FLOORDIV for e in atoms_in(least)):
        return False
    relaxed = without_quotients(known, linear_of(least))
    return relaxed is not None and _nonneg_over_parameters(known, poly_of(relaxed))


def _depends(end: Linear | None) -> bool:
    return end is not None and not end.is_const


def _cancelling_factor(known: Normalizer, form: Linear, fact: Linear) -> Linear | None:
    """A monomial c >= 0 such that a term of `form - c*fact` cancels; `None` without one."""
    for monomial, coefficient in fact.terms.items():
        have = form.terms.get(monomial, 0)
        if have and have % coefficient == 0 and have // coefficient > 0:
            return constant(have // coefficient)
    if all([e.op is not ops.MUL for e in form.terms]):  # noqa: C419  # hot
        return None
    for monomial, coefficient in fact.terms.items():
        own = factors(monomial)
        for e, k in form.terms.items():
            if e.op is ops.MUL and k % coefficient == 0 and k // coefficient > 0:
                others = _without(factors(e), own)
                if others:
                    beside = monomial_of(others)
                    low = known.atom_bounds(beside)[0]
                    if low is not None and low >= 0:
                        return Linear(0, {beside: k // coefficient})
    return None


def _nonneg_over_parameters(known: Normalizer, p: Poly) -> bool:
    if obvious_sign(known, p) > 0:
        return True
    around = _around_ends(known, p)
    if around is None:
        return False
    if all(k >= 0 for k in around.values()):
        return True
    low = known.bounds(linear_of(p))[0] if any(e.op is ops.FLOORDIV for e in atoms_in(p)) else None
    return low is not None and low >= 0


def _around_ends(known: Normalizer, p: Poly) -> Poly | None:
    """`p` with each atom denoting its distance from a numeric end; `None` where one has no end."""
    for e in atoms_in(p):
        low, high = known.atom_bounds(e)
        if low is None and high is None:
            return None
        if low != 0:
            p = shifted(p, e, 1, low) if low is not None else shifted(p, e, -1, high or 0)
    return p


def ends_of_products(known: Normalizer, form: Linear) -> Interval:
    """An end of a form with products, attained at the ends of all atoms.

    `a*b - a - b + 1` over a, b >= 2 is `(a - 2)*(b - 2) + (a - 2) + (b - 2) + 1`.
    """
    if len(form.terms) << degree(form, PRODUCT_DEGREE) > VISITED_MONOMIALS or ops.MUL not in [e.op for e in form.terms]:
        return EVERYTHING
    around = _around_ends(known, poly_of(form))
    if around is None:
        return EVERYTHING
    least = around.pop((), 0)
    return (
        least if all(k >= 0 for k in around.values()) else None,
        least if all(k <= 0 for k in around.values()) else None,
    )
