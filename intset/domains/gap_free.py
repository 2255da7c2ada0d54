"""Gap-free images with symbolic sizes: `i*m + j`, `i` in `[0, n)`, `j` in `[0, m)`, takes all values up to `n*m - 1`.

The terms are laid on one another from the smallest coefficient up: a term whose coefficient is at most the length of
the run that is there already makes it longer without a gap.
"""

from __future__ import annotations

from intset.domains.base import IntervalSet
from intset.domains.consistency import is_touched
from intset.domains.linear_ends import symbolic_bounds
from intset.domains.query import Query
from intset.expr.node import Var
from intset.linear.form import ONE, Linear, atom, constant, factors, monomial_of
from intset.linear.symbolic import ends_of


def dense_image(query: Query) -> IntervalSet | None:
    """The image as an exact interval with symbolic ends, where the terms show that it has no gap; else `None`."""
    form = query.forms[0]
    if is_touched(query, tuple(form.terms)):
        return None
    terms = _terms(query, form)
    if terms is None:
        return None
    known, run = query.known, ONE
    while terms:
        fitting = next((t for t in terms if known.is_nonneg(run.minus(t[0]))), None)
        if fitting is None:
            return None
        terms.remove(fitting)
        coefficient, extent = fitting
        run = run.plus(known.product(coefficient, extent.shift(-1)))
    bounds = symbolic_bounds(query, form)
    if not bounds.is_tight:  # nor is it where a range or a coefficient depends on what runs: there may be gaps
        return None
    return IntervalSet(bounds[0], bounds[1], "interval", is_exact=True)


def _terms(query: Query, form: Linear) -> list[tuple[Linear, Linear]] | None:
    """(size of the coefficient, extent) of each relaxed variable; each stands alone, its sign is known."""
    coefficients: dict[Var, Linear] = {}
    for monomial, k in form.terms.items():
        own = [v for v in monomial.free_vars() if query.is_relaxed(v)]
        if not own:
            continue
        parts = factors(monomial)
        if len(own) > 1 or parts.count(own[0]) != 1:
            return None
        parts.remove(own[0])
        rest = atom(monomial_of(parts)) if parts else constant(1)
        coefficients[own[0]] = coefficients.get(own[0], Linear(0, {})).plus(rest, k)
    found = []
    for var, coefficient in coefficients.items():
        first, last = ends_of(query.known, var)
        if first is None or last is None:
            return None
        if query.known.is_nonneg(coefficient.scale(-1)):
            coefficient = coefficient.scale(-1)
        elif not query.known.is_nonneg(coefficient):
            return None
        found.append((coefficient, last.minus(first).shift(1)))
    return found
