"""Closed-form counts of parametric sets: each dimension is summed over its interval in turn."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import comb, gcd, lcm
from typing import TYPE_CHECKING, NamedTuple

from intset.budgets import SUMMED_PARTS
from intset.domains.isl.checked import end_of_dim
from intset.domains.isl.session import isl, named, number, whole
from intset.domains.isl.to_expr import Piece, aff_to_form, pieces_of, simplified
from intset.expr.node import Expr, Var
from intset.linear.form import ONE, ZERO, Linear, atom, factors, monomial_of

if TYPE_CHECKING:
    from islpy import PwAff, Set

_SUMMED = tuple(Var(f"x{k}") for k in range(16))  # names of the dimensions during summation


class Interval(NamedTuple):
    """A one-dimensional set `low, low + stride, ..., high` in nonempty instances; the ends are isl PwAffs."""

    low: PwAff
    high: PwAff
    stride: int


class SummedTerm(NamedTuple):
    """The integer `numerator / denominator` for parameters in the isl Set `domain`; 0 elsewhere."""

    domain: Set
    numerator: Linear
    denominator: int


def interval_of(line: Set) -> Interval | None:
    """The bounded one-dimensional isl Set as an interval of constant stride; `None` for other sets."""
    low, high = end_of_dim(line, 0, -1), end_of_dim(line, 0, 1)
    if low is None or high is None:
        return None
    if not line.involves_locals() and line.n_basic_set() == 1:
        return Interval(low, high, 1)
    stride = line.get_stride(0)
    space = line.get_space()
    here = isl().PwAff.from_aff(isl().Aff.var_on_domain(isl().LocalSpace.from_space(space), isl().dim_type.set, 0))
    first, last = low.insert_domain(space), high.insert_domain(space)
    every = here.ge_set(first).intersect(here.le_set(last))
    every = every.intersect(here.sub(first).mod_val(stride).zero_set())
    return Interval(low, high, number(stride)) if every.is_equal(line) else None


def sum_points(points: Set, params: Sequence[Expr]) -> list[SummedTerm] | None:
    """The number of points of a bounded isl Set with at most one disjunct, as a sum of terms, without enumeration.

    `None` if a bound of a dimension is no polynomial in the dimensions summed later (because of a division), or beyond
    `SUMMED_PARTS` parts.
    """
    kinds = isl().dim_type
    if points.dim(kinds.set) > len(_SUMMED):
        return None
    for k in range(points.dim(kinds.set)):
        points = points.set_dim_name(kinds.set, k, named(f"_x{k}"))
    open_parts = [(points, _SUMMED[: points.dim(kinds.set)], ONE, 1)]
    done: list[SummedTerm] = []
    while open_parts:
        part, names, numerator, denominator = open_parts.pop()
        if not names:
            done.append(SummedTerm(part.params(), numerator, denominator))
            continue
        options = [option for k in range(len(names)) if (option := _option(part, k, params, names, numerator))]
        if not options:
            return None
        best = min(options, key=lambda option: len(option.parts))
        if len(open_parts) + len(done) + len(best.parts) > SUMMED_PARTS:
            return None
        rest = names[: best.position] + names[best.position + 1 :]
        for domain, value, divisor in best.parts:
            open_parts.append((domain, rest, value, denominator * divisor))
    return _grouped(done)


class _Option(NamedTuple):
    """The sum over one dimension: parts of the projection onto the others, each with a sum `numerator / divisor`."""

    position: int
    parts: list[tuple[Set, Linear, int]]


def _option(
    part: Set, position: int, params: Sequence[Expr], names: Sequence[Var], numerator: Linear
) -> _Option | None:
    """Sum `numerator` over one dimension of `part`; `None` without a closed form."""
    kinds = isl().dim_type
    name = names[position]
    others = [other for other in names if other is not name]
    line = part.move_dims(kinds.param, len(params), kinds.set, position + 1, len(others) - position)
    line = line.move_dims(kinds.param, len(params), kinds.set, 0, position)
    interval = interval_of(line)
    if interval is None:
        return None
    powers = _powers(numerator, name)
    atoms = [*params, *others]
    parts: list[tuple[Set, Linear, int]] = []
    for first, last in product(pieces_of(interval.low), pieces_of(interval.high)):
        domain = first.domain.intersect(last.domain)
        if domain.is_empty():
            continue
        low, high = _polynomial(first, atoms, names), _polynomial(last, atoms, names)
        if low is None or high is None:
            return None
        value, divisor = _sum_of_powers(powers, low, high, interval.stride)
        disjoint = domain.make_disjoint().compute_divs().get_basic_sets()
        parts += [(_lowered(piece.to_set(), len(params), len(others)), value, divisor) for piece in disjoint]
    return _Option(position, parts)


def _lowered(domain: Set, first: int, total: int) -> Set:
    """Turn `total` parameters, from `first` on, into dimensions of a set of parameters."""
    kinds = isl().dim_type
    return domain.from_params().move_dims(kinds.set, 0, kinds.param, first, total)


def _polynomial(piece: Piece, atoms: Sequence[Expr], names: Sequence[Var]) -> Linear | None:
    """The end as a linear form; `None` with one of `names` inside a division."""
    for function in (piece.function, simplified(piece.function, piece.domain)):
        form = aff_to_form(function, (), atoms)
        if all(e in names or not any(v in names for v in e.free_vars()) for e in form.terms):
            return form
    return None


def _powers(form: Linear, name: Var) -> list[Linear]:
    """The coefficients of a form as a polynomial in `name`, in ascending order of degree."""
    found: dict[int, Linear] = {0: Linear(form.const, {})}
    for monomial, coefficient in form.terms.items():
        rest = [e for e in factors(monomial) if e is not name]
        degree = len(factors(monomial)) - len(rest)
        term = Linear(0, {monomial_of(rest): coefficient}) if rest else Linear(coefficient, {})
        found[degree] = found.get(degree, ZERO).plus(term)
    return [found.get(degree, ZERO) for degree in range(max(found) + 1)]


def _sum_of_powers(powers: Sequence[Linear], low: Linear, high: Linear, stride: int) -> tuple[Linear, int]:
    """The sum of a polynomial over `low, low + stride, ..., high`, as numerator and denominator.

    With `d = high - low`, and `S_k(m) = 0**k + ... + m**k` with the coefficients `f_k`: the sum of
    `(low + stride*t)**p` for `t` from 0 to `d/stride` is `sum_k C(p, k) * low**(p-k) * stride**k * S_k(d/stride)`, and
    `stride**(k+1) * S_k(d/stride) = sum_q f_k[q] * stride**(k+1-q) * d**q`.
    """
    denominator = lcm(*(c.denominator for k in range(len(powers)) for c in _faulhaber(k)))
    span = high.minus(low)
    sums = [
        _horner([int(c * denominator) * stride ** (k + 1 - q) for q, c in enumerate(_faulhaber(k))], span)
        for k in range(len(powers))
    ]
    total = ZERO
    for p, coefficient in enumerate(powers):
        inner = ZERO  # by Horner's scheme in `low`
        for k in range(p + 1):
            inner = inner.times(low).plus(sums[k], comb(p, k))
        total = total.plus(coefficient.times(inner))
    return total, denominator * stride


@cache
def _faulhaber(k: int) -> tuple[Fraction, ...]:
    """The coefficients, by power of m, of the polynomial `0**k + 1**k + ... + m**k`.

    Pascal's identity `(m+1)**(k+1) = sum_{i<=k} C(k+1, i) * (0**i + ... + m**i)`, solved for the last sum.
    """
    total = [Fraction(comb(k + 1, power)) for power in range(k + 2)]
    for i in range(k):
        for power, c in enumerate(_faulhaber(i)):
            total[power] -= comb(k + 1, i) * c
    return tuple(c / (k + 1) for c in total)


def _horner(coefficients: Sequence[int], x: Linear) -> Linear:
    total = ZERO
    for c in reversed(coefficients):
        total = total.times(x).shift(c)
    return total


def _grouped(terms: Sequence[SummedTerm]) -> list[SummedTerm]:
    """Add terms of equal domains, and reduce the fractions."""
    groups: list[SummedTerm] = []
    for term in terms:
        for k, (domain, numerator, denominator) in enumerate(groups):
            if domain.is_equal(term.domain):
                common = lcm(denominator, term.denominator)
                total = numerator.scale(common // denominator).plus(term.numerator, common // term.denominator)
                groups[k] = SummedTerm(domain, total, common)
                break
        else:
            groups.append(term)
    return [_reduced(*group) for group in groups]


def _reduced(domain: Set, numerator: Linear, denominator: int) -> SummedTerm:
    shared = gcd(denominator, numerator.content(), numerator.const)
    return SummedTerm(domain, numerator.divided(shared), denominator // shared)


def vanishes(term: SummedTerm, domain: Set, params: Sequence[Expr]) -> bool:
    """Whether the term's polynomial is 0 on `domain`, after substitution of parameters that are fixed there."""
    return all(_at_fixed(term.numerator, part.to_set(), params).same(ZERO) for part in domain.get_basic_sets())


def _at_fixed(form: Linear, part: Set, params: Sequence[Expr]) -> Linear:
    fixed: dict[Expr, Linear] = {}
    for k, e in enumerate(params):
        only = whole(part.plain_get_val_if_fixed(isl().dim_type.param, k))
        if only is not None:
            fixed[e] = Linear(only, {})
    total = Linear(form.const, {})
    for monomial, coefficient in form.terms.items():
        value = Linear(coefficient, {})
        for e in factors(monomial):
            value = value.times(fixed.get(e, atom(e)))
        total = total.plus(value)
    return total
