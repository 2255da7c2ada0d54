"""Sums read as a constant plus terms with coefficients, and written back with few operations.

    k*x + k*y = (x + y)*k            y*x + z*x = (y + z)*x            x*y*z + x*z = (y + 1)*x*z

Terms keep their order of occurrence, except that a positive term comes first if there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from intset.expr import Expr, const, ops
from intset.expr.node import folded_chain
from intset.linear.form import is_sum, spine

FACTORED_TERMS: Final = 24  # terms of a sum that is factored
TRIED_FACTORS: Final = 64  # common factors that are tried


class TermSum(NamedTuple):
    """`const + sum(coefficient * term)`, no term a sum itself."""

    const: int
    terms: dict[Expr, int]

    def plus(self, other: TermSum, factor: int = 1) -> TermSum:
        """`self + factor * other`."""
        terms = dict(self.terms)
        for term, k in other.terms.items():
            new = terms.get(term, 0) + factor * k
            if new:
                terms[term] = new
            else:
                terms.pop(term, None)
        return TermSum(self.const + factor * other.const, terms)

    def without(self, term: Expr) -> TermSum:
        return TermSum(self.const, {t: k for t, k in self.terms.items() if t is not term})

    def divided(self, k: int) -> TermSum | None:
        """The exact quotient, or `None`."""
        if self.const % k or any([c % k for c in self.terms.values()]):  # noqa: C419  # hot
            return None
        return TermSum(self.const // k, {t: c // k for t, c in self.terms.items()})


def read(e: Expr) -> TermSum:
    """Parse an expression as a sum; other operations become single terms."""
    if e.op is ops.VAR:
        return TermSum(0, {e: 1})
    if e.op is ops.CONST:
        return TermSum(e.data, {})
    if not is_sum(e) and e.op is not ops.MUL:
        return TermSum(0, {e: 1})
    total, leaves = spine(e)
    if not any([not k or leaf.op is ops.MUL for leaf, k in leaves.items()]):  # noqa: C419  # hot
        return TermSum(total, leaves)
    terms: dict[Expr, int] = {}
    for leaf, k in leaves.items():
        if not k:
            continue
        scale, term = _unscaled(leaf) if leaf.op is ops.MUL else (1, leaf)
        if term is None:
            total += scale * k
            continue
        new = terms.get(term, 0) + scale * k
        if new:
            terms[term] = new
        else:
            terms.pop(term, None)  # a product with 0 adds nothing
    return TermSum(total, terms)


def _unscaled(e: Expr) -> tuple[int, Expr | None]:
    """(k, rest) for a product whose constant factors multiply to k."""
    scale, rest = 1, []
    for factor in factors_of(e):
        if factor.op is ops.CONST:
            scale *= factor.data
        else:
            rest.append(factor)
    if scale == 1 and e.op is ops.MUL:
        return 1, e
    return scale, multiplied(rest) if rest else None


def factors_of(e: Expr) -> list[Expr]:
    """Factors of a product from left to right; products beyond `TRIED_FACTORS` factors count as one factor."""
    factors: list[Expr] = []
    stack = [e]
    while stack:
        node = stack.pop()
        if node.op is ops.MUL:
            stack.extend((node.args[1], node.args[0]))
        else:
            factors.append(node)
        if len(factors) + len(stack) > TRIED_FACTORS:
            return [e]
    return factors


def multiplied(factors: list[Expr]) -> Expr:
    """The product, from left to right; 1 for none."""
    return folded_chain(ops.MUL, factors) if factors else const(1)


def write(total: TermSum) -> Expr:
    """The sum with few operations."""
    terms = total.terms
    if len(terms) < 2 or len(terms) > FACTORED_TERMS or not _may_share(terms):
        return _added(list(terms.items()), total.const)
    parts = [(k, factors_of(term) if term.op is ops.MUL else [term]) for term, k in terms.items()]
    return _written(parts, total.const)


def _may_share(terms: Mapping[Expr, int]) -> bool:
    """Whether two terms may have a factor in common: one term is a product, or two terms share a coefficient."""
    sizes: set[int] = set()
    for term, k in terms.items():
        size = abs(k)
        if size in sizes or term.op is ops.MUL:
            return True
        if size > 1:
            sizes.add(size)
    return False


_Part = tuple[int, list[Expr]]  # coefficient, factors


def _written(parts: list[_Part], offset: int) -> Expr:
    """The sum of the parts and the offset, with common factors extracted while that saves an operation."""
    while (shared := _best_factor(parts)) is not None:
        first, taken, left = 0, list[_Part](), list[_Part]()
        size = abs(shared) if isinstance(shared, int) else 0
        for part in parts:
            if abs(part[0]) == size if size else any([f is shared for f in part[1]]):  # noqa: C419  # hot
                first = first if taken else len(left)
                taken.append(part)
            else:
                left.append(part)
        if isinstance(shared, int):
            inner = _written([(1 if k == shared else -1, f) for k, f in taken], 0)
            parts = [*left[:first], (shared, [inner]), *left[first:]]
        else:
            inside, extra = [], 0
            for k, factors in taken:
                rest = _removed(factors, shared)
                if rest:
                    inside.append((k, rest))
                else:
                    extra += k
            inner = _written(inside, extra)
            scale, factors = 1, [inner, shared]
            if inner.op is ops.MUL and inner.args[1].op is ops.CONST:  # (x*4)*y counts as 4 * x*y
                scale, factors = inner.args[1].data, [inner.args[0], shared]
            parts = [*left[:first], (scale, factors), *left[first:]]
    return _added([(factors[0] if len(factors) == 1 else multiplied(factors), k) for k, factors in parts], offset)


def _removed(factors: list[Expr], one: Expr) -> list[Expr]:
    """The factors without one occurrence of `one`."""
    position = next(k for k, f in enumerate(factors) if f is one)
    return factors[:position] + factors[position + 1 :]


def _best_factor(parts: list[_Part]) -> Expr | int | None:
    """The coefficient or factor shared by most parts; None if no two parts share one."""
    count: dict[Expr | int, int] = {}
    for k, factors in parts:
        size = abs(k)
        if size > 1:
            count[size] = count.get(size, 0) + 1
        for factor in factors if len(factors) < 2 else dict.fromkeys(factors):
            count[factor] = count.get(factor, 0) + 1
    best, most = None, 1
    for candidate, number in count.items():
        if number > most:
            best, most = candidate, number
    if isinstance(best, int):
        signs = sum(1 if k > 0 else -1 for k, _ in parts if abs(k) == best)
        return best if signs >= 0 else -best
    return best


def _added(terms: list[tuple[Expr, int]], offset: int) -> Expr:
    if not terms:
        return const(offset)
    lead = 0 if terms[0][1] > 0 else next((n for n, (_, k) in enumerate(terms) if k > 0), len(terms))
    if lead < len(terms):
        first, k = terms[lead]
        total = first if k == 1 else first * k
    elif offset:  # -5 - x
        total, offset = const(offset), 0
    else:  # all negative: begin with x * -4, because -x costs one more operation
        lead = next((n for n, (_, k) in enumerate(terms) if k != -1), 0)
        first, k = terms[lead]
        total = -first if k == -1 else first * k
    for n, (term, k) in enumerate(terms):
        if n == lead:
            continue
        size = k if k > 0 else -k
        part = term if size == 1 else term * size
        total = total + part if k > 0 else total - part
    if offset:
        total = total + offset if offset > 0 else total - -offset
    return total


def common(a: TermSum, b: TermSum) -> TermSum:
    """Common addends: terms with equal coefficients, and the constant if it is equal."""
    terms = {t: k for t, k in a.terms.items() if b.terms.get(t) == k}
    return TermSum(a.const if a.const == b.const else 0, terms)


def scaled(total: TermSum, k: int) -> TermSum:
    return TermSum(total.const * k, {t: c * k for t, c in total.terms.items()} if k else {})


def of(const_: int, terms: Mapping[Expr, int]) -> TermSum:
    return TermSum(const_, dict(terms))
