"""Irreducible expressions: recognized from their shape (`shapes.py`) and the ranges, without the simplifier.

Guarantee of `settled(e, known)`: a result other than None equals the simplifier's result for `e`, namely `e` itself up
to moving a constant to the right-hand side and to a bound instead of two comparisons with one constant. Most index
expressions are irreducible, and recognizing them costs less than one linear form (a fifth of the simplifier's time on
them).

Criteria: terms of a sum share no variable, so nothing cancels; the sum is written with the fewest operations; ranges
are wide enough that no quotient, remainder or comparison shrinks:

    (g*h + s) // c     is shorter where s // g is one number, g dividing c
    s % (c*d) // c     is left alone where s // c is irreducible and s reaches two periods of c*d
    s % c              where s // c is one number
    g*h + s < c        where s // g is one number
    min(s, c)          where s is never above c, or never below
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from intset.expr import ops
from intset.expr.node import Node, PlainVar
from intset.linear.bounds import Interval
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from intset.linear.multiples import known_multiples
from intset.simplify.shapes import (
    UPPER,
    ChoiceShape,
    ComparisonShape,
    DivisionShape,
    JunctionShape,
    Rests,
    ShapeTerm,
    SumShape,
    is_digit,
    shape_of,
    threshold,
)


def settled(e: Node, known: Normalizer, for_machine: bool = False) -> Any:
    """The simplifier's result for an irreducible `e`; None if `e` is not recognized as irreducible.

    for_machine: two comparisons with one constant stay two (`Rule.plain`).
    """
    if known.empty:
        return None
    shape = shape_of(e)
    if type(shape) is SumShape:
        return e if _ends(shape, known, True) is not None else None
    if type(shape) is JunctionShape:
        for part in shape.parts:
            if not _is_open(part, known):
                return None
        if shape.bounded is not None and not for_machine:
            return shape.bounded
        return e if shape.written is None else shape.written
    if type(shape) is ChoiceShape and _is_undecided(shape, known):
        return e if shape.written is None else shape.written
    return None


def _ends(total: SumShape, known: Normalizer, is_root: bool = False) -> Interval | None:
    """Interval of the sum; None if some part is reducible."""
    low: int | None = total.const
    high: int | None = total.const
    table = known.intervals
    for e, k, inner in total.terms:
        if e is not None:
            interval = table.get(e)
            if interval is None:
                interval = known.atom_bounds(e)
            first, last = interval
            if first is not None and first == last:
                return None
        elif isinstance(inner, DivisionShape):
            interval = _division_ends(inner, known, is_root and _stands_alone(inner, k, total))
            if interval is None:
                return None
            first, last = interval
        elif inner is not None:
            for factor in inner.factors:
                first, last = known.atom_bounds(factor)
                if first is not None and last is not None and last - first < 2:
                    return None
            first = last = None
        if k < 0:
            first, last = last, first
        low = None if low is None or first is None else low + k * first
        high = None if high is None or last is None else high + k * last
    return low, high


def _stands_alone(division: DivisionShape, k: int, total: SumShape) -> bool:
    """Whether no other term shares a coefficient with the parts into which a remainder may split."""
    return all(abs(other) != abs(k) * g for g, _ in division.rests for _, other, _ in total.terms)


def _division_ends(division: DivisionShape, known: Normalizer, is_root: bool) -> Interval | None:
    dividend, c = division.dividend, division.divisor
    if any([type(v) is not PlainVar or v in known.related for v in dividend.variables]) and any(  # noqa: C419  # hot
        known_multiples(known, v) for v in dividend.variables
    ):
        return None
    below: Any = dividend.terms[0][2] if is_digit(division) else None
    ends = _ends_inside(dividend, known) if below is None else _division_ends(below, known, False)
    if ends is None or _is_one_period(ends, c) or below is not None and not _is_wide(below, known):
        return None
    low, high = ends
    if division.is_truncated and (low is None or low < 0):
        return None
    if division.reduced is not dividend:
        ends = _ends_inside(division.reduced, known)
        if ends is None or _is_one_period(ends, c):
            return None
    alone = is_root and division.is_remainder  # (x*4 + y) % 8 as x%2*4 + y is of use within something only
    if not alone and not _all_matter(division.reduced if below is None else below.dividend, division.rests, known):
        return None
    if division.is_remainder:
        return 0, c - 1
    return None if low is None else low // c, None if high is None else high // c


def _ends_inside(total: SumShape, known: Normalizer) -> Interval | None:
    """Interval of an operand; facts that relate its variables are taken into account."""
    ends = _ends(total, known)
    related = known.related
    if ends is not None and related and not related.isdisjoint(total.variables):
        return _under_facts(total.const, total.terms, known) if total.is_plain else None
    return ends


def _is_one_period(ends: Interval, c: int) -> bool:
    low, high = ends
    return low is not None and high is not None and low // c == high // c


def _under_facts(const: int, terms: Iterable[ShapeTerm], known: Normalizer) -> Interval:
    return known.bounds(Linear(const, {e: k for e, k, _ in terms if e is not None}))


def _all_matter(total: SumShape, rests: Rests, known: Normalizer) -> bool:
    """Whether, for each divisor, the remaining terms span more than one period."""
    for g, terms in rests:
        ends = _ends_inside(total._replace(terms=terms), known)
        if ends is None or _is_one_period(ends, g):
            return False
    return True


def _is_undecided(choice: ChoiceShape, known: Normalizer) -> bool:
    """Whether the interval of the sum strictly contains the constant."""
    total = choice.total
    ends = _own_ends(total, known)
    if ends is None:
        return False
    low, high = ends
    return (low is None or low < choice.right) and (high is None or high > choice.right)


def _own_ends(total: SumShape, known: Normalizer) -> Interval | None:
    """The interval of a sum if both ends are attained: no fact and no symbolic range relates its variables."""
    ends = _ends(total, known)
    if ends is None or known.related and not known.related.isdisjoint(total.variables):
        return None
    limits = known.assumptions.limits
    return None if len(total.terms) > 1 and limits and not limits.keys().isdisjoint(total.variables) else ends


def _is_open(part: ComparisonShape, known: Normalizer) -> bool:
    """Whether a comparison is undecided and irreducible."""
    total = part.total
    ends = _own_ends(total, known)
    if ends is None:
        return False
    low, high = ends
    for _, _, inner in total.terms:
        if type(inner) is DivisionShape and inner.is_remainder and not _is_wide(inner, known):
            return False
    is_equation = part.op is ops.EQ or part.op is ops.NE
    least = part.right if is_equation else threshold(part)
    first = None if low is None else low if is_equation else low + 1  # the least threshold that is open
    if first is not None and least < first or high is not None and high < least:
        return False
    if first is not None and first == least or high is not None and high == least:  # at an end
        if is_equation and total.is_plain:
            return True
        if len(total.terms) > 1 or type(inner) is DivisionShape and not (inner.is_remainder and _is_variable(inner)):
            return False  # all terms are at their ends, a quotient becomes an inequality
    if is_equation:
        return True
    # the comparison as form >= 0 has the form total - least, or least - 1 - total
    if part.op not in UPPER:
        return _all_matter(total._replace(const=-least), part.rests, known)
    mirrored = tuple((g, tuple([(e, -k, inner) for e, k, inner in terms])) for g, terms in part.rests)
    return _all_matter(total._replace(const=least - 1), mirrored, known)


def _is_variable(division: DivisionShape) -> bool:
    """Whether a variable is divided."""
    ((_, k, inner), *others) = division.dividend.terms
    return not others and inner is None and k == 1


def _is_wide(remainder: Any, known: Normalizer) -> bool:
    """Whether the dividend of a `DivisionShape` reaches two whole periods."""
    ends = _ends_inside(remainder.reduced, known)
    assert ends is not None  # it was found before
    low, high = ends
    return low is None or high is None or high - low >= 2 * remainder.divisor - 1
