"""Polynomials as dictionaries from tuples of atoms to coefficients.

Arithmetic on them interns no expressions for intermediate monomials, unlike `Linear`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from intset.expr import ops
from intset.expr.node import Expr, make
from intset.linear.form import Linear, factors, order_key

POLYNOMIAL_STEPS: Final = 512  # points around which a polynomial in one variable is written in search of an extremum

Monomial = tuple[Expr, ...]  # atoms in canonical order; the empty one is the constant
Poly = dict[Monomial, int]  # without zeros


def poly_of(form: Linear) -> Poly:
    p: Poly = {}
    for e, k in form.terms.items():
        p[(e,) if e.op is not ops.MUL else tuple(factors(e)[::-1])] = k
    if form.const:
        p[()] = form.const
    return p


def linear_of(p: Poly) -> Linear:
    constant = 0
    terms: dict[Expr, int] = {}
    for parts, k in p.items():
        if parts:
            terms[chain(parts)] = k
        else:
            constant = k
    return Linear(constant, terms)


def chain(parts: Monomial) -> Expr:
    """The product expression of a nonempty monomial."""
    result = parts[0]
    for e in parts[1:]:
        result = make(ops.MUL, (result, e))
    return result


def scaled(p: Poly, factor: int) -> Poly:
    return {parts: k * factor for parts, k in p.items()}


def add(total: Poly, p: Poly, factor: int = 1) -> None:
    """Add `factor` times `p` to `total`, which is changed."""
    for parts, k in p.items():
        new = total.get(parts, 0) + factor * k
        if new:
            total[parts] = new
        else:
            total.pop(parts, None)


def add_product(total: Poly, a: Poly, b: Poly) -> None:
    """Add `a * b` to `total`, which is changed."""
    for parts, k in a.items():
        for others, factor in b.items():
            both = parts + others if not parts or not others else tuple(sorted(parts + others, key=order_key))
            new = total.get(both, 0) + k * factor
            if new:
                total[both] = new
            else:
                total.pop(both, None)


def split(p: Poly, e: Expr) -> tuple[Poly, Poly] | None:
    """(c, r) with `p = c*e + r` and no `e` in c or r; `None` for higher powers of `e`."""
    coefficient: Poly = {}
    rest: Poly = {}
    for parts, k in p.items():
        others = tuple([f for f in parts if f is not e])
        if len(others) == len(parts):
            rest[parts] = k
        elif len(others) == len(parts) - 1:
            coefficient[others] = k
        else:
            return None
    return coefficient, rest


def shifted(p: Poly, e: Expr, sign: int, offset: int) -> Poly:
    """`p` with `sign*e + offset` substituted for `e`."""
    return substituted(p, e, {(e,): sign, (): offset})


def substituted(p: Poly, e: Expr, replacement: Poly) -> Poly:
    """`p` with `replacement` substituted for `e`."""
    result: Poly = {}
    for parts, k in p.items():
        others = tuple([f for f in parts if f is not e])
        term: Poly = {others: k}
        for _ in range(len(parts) - len(others)):
            product: Poly = {}
            add_product(product, term, replacement)
            term = product
        add(result, term)
    return result


def atoms_in(p: Poly) -> dict[Expr, None]:
    """The distinct atoms in the order of their first occurrence."""
    return dict.fromkeys([e for parts in p for e in parts])


def highest_value(powers: Sequence[int], low: int | None, high: int | None) -> int | None:
    """The maximum of a polynomial in one integer variable between its ends; `None` if unbounded or beyond the budget.

    The polynomial is written around successive points from one end on: as soon as its coefficients there share one
    sign, it is monotone in the rest of the range.

    Parameters
    ----------
    powers: coefficients in ascending order of powers.
    """
    if low is None:
        mirrored = [-k if degree % 2 else k for degree, k in enumerate(powers)]
        if high is not None:
            return highest_value(mirrored, -high, None)
        halves = highest_value(powers, 0, None), highest_value(mirrored, 1, None)
        return None if halves[0] is None or halves[1] is None else max(halves[0], halves[1])
    around = moved(powers, low)
    best = around[0]
    for at in range(low, low + POLYNOMIAL_STEPS):
        best = max(best, around[0])
        if at == high or all(k <= 0 for k in around[1:]):
            return best
        if all(k >= 0 for k in around[1:]):
            return None if high is None else max(best, moved(around, high - at)[0])
        around = moved(around, 1)
    return None


def moved(powers: Sequence[int], by: int) -> list[int]:
    """The coefficients of `p(x + by)` for those of `p(x)`, by synthetic division."""
    result = list(powers)
    for first in range(len(result) - 1):
        for k in range(len(result) - 2, first - 1, -1):
            result[k] += by * result[k + 1]
    return result
