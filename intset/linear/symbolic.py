"""Symbolic ends of polynomial forms: variables are eliminated one by one at the end of their range that the sign of
their coefficient picks.

With `i` in `[0, n)` and `j` in `[0, m)`, `i*m + j` has the maximum `(n-1)*m + (m-1) = n*m - 1`, because the coefficient
`m` of `i` is not negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from intset.expr import ops
from intset.expr.node import Expr, Var, make
from intset.expr.walk import free_vars
from intset.linear.division import floordiv
from intset.linear.form import ZERO, Linear, atom, constant, factors, monomial_of

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

MAX_SPLITS = 3  # coefficients of unknown sign that are split on; beyond, the end is given up
MAX_STEPS = 40
MAX_CONSULTED = 3  # facts consulted inside one another: a fact may hold the very term whose sign is asked for
MAX_PROOFS = 4  # signs that may be derived one for the sake of another
MAX_DEPTH = 12  # atoms nested deeper than this give their numeric ends


class End(NamedTuple):
    """One end of a form: `None` where no finite one is known; `attained`: some point of the box reaches it."""

    form: Linear | None
    attained: bool


UNKNOWN = End(None, False)
Relaxed = Callable[[Var], bool]


def is_nonneg(known: Normalizer, form: Linear) -> bool:
    """Whether `form >= 0` follows from ranges and signs: all variables with a range are eliminated, then all
    coefficients over the remaining parameters, measured from their lower bounds, must be at least 0."""
    if known.proofs_open >= MAX_PROOFS:  # an end is a minimum, whose simplification asks for a sign, and so on
        return False
    known.proofs_open += 1
    try:
        return _follows(known, form)
    finally:
        known.proofs_open -= 1


def _follows(known: Normalizer, form: Linear) -> bool:
    limits = known.knowledge.limits
    end = lowest(known, form, lambda v: v in limits or v in known.ranges, splits=1)
    if end.form is not None and _nonneg_over_parameters(known, end.form):
        return True
    if known.consulting >= MAX_CONSULTED:
        return False
    known.consulting += 1
    try:
        return any(_is_nonneg_beside(known, form, fact) for fact in known.knowledge.nonneg)
    finally:
        known.consulting -= 1


def _is_nonneg_beside(known: Normalizer, form: Linear, fact: Linear) -> bool:
    """Whether `form >= 0` follows from `fact >= 0` and the ranges, because what they differ by is not negative."""
    factor = _cancelling_factor(form, fact)
    if not factor:
        return False
    limits = known.knowledge.limits
    end = lowest(known, form.plus(fact, -factor), lambda v: v in limits or v in known.ranges, splits=1)
    return end.form is not None and _nonneg_over_parameters(known, end.form)


def _cancelling_factor(form: Linear, fact: Linear) -> int:
    """k > 0 such that `form - k*fact` loses a common term, 0 when there is none."""
    for monomial, coefficient in fact.terms.items():
        have = form.terms.get(monomial, 0)
        if have and have % coefficient == 0 and have // coefficient > 0:
            return have // coefficient
    return 0


def _nonneg_over_parameters(known: Normalizer, form: Linear) -> bool:
    shifted = form
    for e in {e: None for monomial in form.terms for e in factors(monomial)}:
        low, high = known.atom_bounds(e)
        if low is not None:
            if low:
                shifted = substituted(shifted, e, atom(e).shift(low))
        elif high is not None:
            shifted = substituted(shifted, e, atom(e).scale(-1).shift(high))
        else:
            return shifted.is_const and shifted.const >= 0
    return shifted.const >= 0 and all(k >= 0 for k in shifted.terms.values())


def substituted(form: Linear, e: Expr, value: Linear) -> Linear:
    """`form` with the factor `e` of its monomials replaced by `value`."""
    result = constant(form.const)
    for monomial, k in form.terms.items():
        parts = factors(monomial)
        if e not in parts:
            result = result.plus(atom(monomial), k)
            continue
        others = [f for f in parts if f is not e]
        term = atom(monomial_of(others)) if others else constant(1)
        for _ in range(len(parts) - len(others)):
            term = term.times(value)
        result = result.plus(term, k)
    return result


def lowest(known: Normalizer, form: Linear, relaxed: Relaxed, splits: int = MAX_SPLITS, depth: int = 0) -> End:
    """The smallest value of `form` over the relaxed variables, as a form over the others."""
    end = highest(known, form.scale(-1), relaxed, splits, depth)
    return End(None if end.form is None else end.form.scale(-1), end.attained)


def highest(known: Normalizer, form: Linear, relaxed: Relaxed, splits: int = MAX_SPLITS, depth: int = 0) -> End:
    """The largest value of `form` over the relaxed variables, as a form over the others.

    `attained` holds when every variable is independent of the others' choices: the point at which each takes the chosen
    end then exists whenever the box is not empty (facts are for the caller to consider).
    """
    regrouped = known.regroup(form)
    current, attained = regrouped, True
    for _ in range(MAX_STEPS):
        bound, exact = _without_atoms(known, current, relaxed, depth)
        if bound is None:
            return UNKNOWN
        current, attained = bound, attained and exact
        var = _innermost(known, current, relaxed)
        if var is None:
            return End(current, attained)
        step = _eliminate(known, current, var, relaxed, splits)
        if step.form is None:
            return UNKNOWN
        current, attained = step.form, attained and step.attained
    return UNKNOWN


def _relaxed_vars(form: Linear, relaxed: Relaxed) -> list[Var]:
    return [v for v in free_vars(*form.terms) if relaxed(v)]


def _innermost(known: Normalizer, form: Linear, relaxed: Relaxed) -> Var | None:
    """A relaxed variable on which no other relaxed variable's range depends."""
    candidates = _relaxed_vars(form, relaxed)
    limits = known.knowledge.limits
    for var in candidates:
        if not any(_depends(limits.get(other), var) for other in candidates if other is not var):
            return var
    return None


def _depends(ends: tuple[Linear | None, Linear | None] | None, var: Var) -> bool:
    return ends is not None and any(end is not None and var in free_vars(*end.terms) for end in ends)


def ends_of(known: Normalizer, var: Expr) -> tuple[Linear | None, Linear | None]:
    """The symbolic ends of a variable, numeric ones where there are no others."""
    symbolic = known.knowledge.limits.get(var)
    low, high = known.atom_bounds(var)
    first = None if low is None else constant(low)
    last = None if high is None else constant(high)
    if symbolic is None:
        return first, last
    return (symbolic[0] if symbolic[0] is not None else first, symbolic[1] if symbolic[1] is not None else last)


def _eliminate(known: Normalizer, form: Linear, var: Var, relaxed: Relaxed, splits: int) -> End:
    coefficient, rest = ZERO, constant(form.const)
    for monomial, k in form.terms.items():
        parts = factors(monomial)
        if var not in parts:
            rest = rest.plus(atom(monomial), k)
            continue
        parts.remove(var)
        if var in parts:
            return UNKNOWN
        coefficient = coefficient.plus(atom(monomial_of(parts)) if parts else constant(1), k)
    first, last = ends_of(known, var)
    alone = not any(end is not None and any(relaxed(v) for v in free_vars(*end.terms)) for end in (first, last))
    if known.is_nonneg(coefficient):
        return UNKNOWN if last is None else End(rest.plus(last.times(coefficient)), alone)
    if known.is_nonneg(coefficient.scale(-1)):
        return UNKNOWN if first is None else End(rest.plus(first.times(coefficient)), alone)
    if splits <= 0 or first is None or last is None:
        return UNKNOWN
    return _larger(
        known,
        highest(known, rest.plus(last.times(coefficient)), relaxed, splits - 1),
        highest(known, rest.plus(first.times(coefficient)), relaxed, splits - 1),
        alone,
    )


def _larger(known: Normalizer, a: End, b: End, alone: bool) -> End:
    """The larger of two ends, at a variable whose coefficient has an unknown sign."""
    if a.form is None or b.form is None:
        return UNKNOWN
    attained = a.attained and b.attained and alone
    difference = a.form.minus(b.form)
    if known.is_nonneg(difference):
        return End(a.form, attained)
    if known.is_nonneg(difference.scale(-1)):
        return End(b.form, attained)
    return End(atom(make(ops.MAX, (known.atomized(a.form), known.atomized(b.form)))), attained)


def _without_atoms(known: Normalizer, form: Linear, relaxed: Relaxed, depth: int) -> tuple[Linear | None, bool]:
    """(an upper bound of `form` without non-variable atoms over relaxed variables, whether it is attained)."""
    total = constant(form.const)
    attained = True
    composite: list[Expr] = []
    for monomial, k in form.terms.items():
        parts = factors(monomial)
        inner = [e for e in parts if not isinstance(e, Var) and any(relaxed(v) for v in e.free_vars())]
        inner += [e for e in parts if e.op is ops.LOAD and e not in inner]
        if not inner:
            total = total.plus(atom(monomial), k)
            continue
        composite.append(monomial)
        bound = _atom_end(known, monomial, k > 0, relaxed, depth + 1) if len(parts) == 1 and depth < MAX_DEPTH else None
        if bound is None:
            low, high = known.atom_bounds(monomial)
            number = high if k > 0 else low
            if number is None:
                return None, False
            bound = End(constant(number), False)
        assert bound.form is not None
        total = total.plus(bound.form, k)
        attained = attained and bound.attained
    if composite and len(form.terms) > 1:
        attained = attained and _disjoint(form, composite, relaxed)
    return total, attained


def _disjoint(form: Linear, composite: list[Expr], relaxed: Relaxed) -> bool:
    """Whether no relaxed variable of a composite term occurs in another term."""
    seen: set[Var] = set()
    for monomial in form.terms:
        own = {v for v in free_vars(monomial) if relaxed(v)}
        if own & seen and (
            monomial in composite or any(own & set(free_vars(c)) for c in composite if c is not monomial)
        ):
            return False
        seen |= own
    return True


def _atom_end(known: Normalizer, e: Expr, upper: bool, relaxed: Relaxed, depth: int) -> End | None:
    """The end of one atom: monotone operations take the ends of their arguments."""
    toward = highest if upper else lowest
    if e.op is ops.FLOORMOD:
        divisor = known.form(e.args[1])
        if not known.is_positive(divisor) or any(relaxed(v) for v in free_vars(*divisor.terms)):
            return None
        base = known.form(e.args[0])
        if divisor.is_const:
            return None
        covers = _covers(known, base, divisor, relaxed)
        return End(divisor.shift(-1) if upper else ZERO, covers)
    if e.op is ops.FLOORDIV:
        divisor = known.form(e.args[1])
        if not known.is_positive(divisor) or any(relaxed(v) for v in free_vars(*divisor.terms)):
            return None
        inner = toward(known, known.form(e.args[0]), relaxed, depth=depth)
        return None if inner.form is None else End(floordiv(known, inner.form, divisor), inner.attained)
    if e.op is ops.MIN or e.op is ops.MAX:
        ends = [toward(known, known.form(arg), relaxed, depth=depth) for arg in e.args]
        forms = [end.form for end in ends]
        if forms[0] is None or forms[1] is None:
            return None
        both = make(e.op, (known.atomized(forms[0]), known.atomized(forms[1])))
        own = [{v for v in arg.free_vars() if relaxed(v)} for arg in e.args]
        return End(known.form(both), all(end.attained for end in ends) and not own[0] & own[1])
    return None


def _covers(known: Normalizer, base: Linear, divisor: Linear, relaxed: Relaxed) -> bool:
    """Whether `base % divisor` takes every residue: a variable with coefficient 1 that runs over a whole period."""
    for var in _relaxed_vars(base, relaxed):
        if base.terms.get(var) in (1, -1):
            first, last = ends_of(known, var)
            if first is not None and last is not None and known.is_nonneg(last.minus(first).shift(1).minus(divisor)):
                return True
    return False
