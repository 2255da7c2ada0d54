"""Polynomials whose monomials are tuples of atoms: for arithmetic whose steps nobody looks at, so that no monomial on
the way need be made an expression.
"""

from __future__ import annotations

from intset.expr import ops
from intset.expr.node import Expr, make
from intset.linear.form import Linear, factors, order_key

Monomial = tuple[Expr, ...]  # atoms in canonical order; the empty one is the constant
Poly = dict[Monomial, int]  # without zeros


def poly_of(form: Linear) -> Poly:
    found: Poly = {}
    for e, k in form.terms.items():
        found[(e,) if e.op is not ops.MUL else tuple(factors(e)[::-1])] = k
    if form.const:
        found[()] = form.const
    return found


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
    """The expression of a monomial that is not constant."""
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
    """(c, r) with `p = c*e + r`, `e` in neither; `None` where `e` has a power."""
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
    """`p` with `sign*e + offset` in the place of `e`."""
    result: Poly = {}
    replacement: Poly = {(e,): sign, (): offset}
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
    """The atoms, each once, in the order of their first occurrence."""
    return dict.fromkeys([e for parts in p for e in parts])
