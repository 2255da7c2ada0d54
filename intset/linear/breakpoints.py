"""The sum and the maximum, over one variable, of the minimum of forms affine in it.

Where two forms cross, a quotient separates the iterations in which one is the smaller: with `t >= 1`, `t <= b - t*o`
holds for `o <= (b - t) // t`. Between these breakpoints the minimum is one affine form; its sum is an arithmetic
series, and its maximum stands at an end.

Example: the sum of `minimum(t, n - t*o)` over `o` in `[0, ceildiv(n, t))` is `n`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from intset.expr import ops
from intset.expr.build import sum_of
from intset.expr.node import Expr, Var, const
from intset.linear.division import floordiv
from intset.linear.form import ZERO, Linear, constant
from intset.linear.operations import extremum
from intset.linear.polynomial import linear_of, poly_of, split

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

BREAKPOINT_PIECES: Final = 8  # affine pieces of the minimum of several forms


class Affine(NamedTuple):
    """`slope*v + rest`, with the proved sign of the slope: 1 for `>= 0`, -1 for `<= 0`."""

    slope: Linear
    rest: Linear
    sign: int


class AffinePiece(NamedTuple):
    """The iterations `[start, end)`, `start <= end`, in which the minimum is `form`."""

    start: Linear
    end: Linear
    form: Affine


def minimum_pieces(
    known: Normalizer, forms: Sequence[Linear], var: Var, first: Linear, end: Linear
) -> list[AffinePiece] | None:
    """The pieces of `max(0, min(forms))` over `var` in `[first, end)`, without those where it is 0.

    Guarantee: the pieces are disjoint and contain every iteration in which the minimum is positive. `None`: a form is
    not affine in the variable, a slope has no proved sign, or there are more than `BREAKPOINT_PIECES` pieces.
    """
    lines = [affine_in(known, form, var) for form in forms]
    if any(line is None for line in lines):
        return None
    end = extremum(known, ops.MAX, end, first)
    kept = [line for line in lines if line is not None]
    for line in kept:  # iterations in which no form is negative
        window = _window(known, line, first, end)
        if window is None:
            return None
        first, end = window
    pieces: list[AffinePiece] = []
    waiting = [(kept, first, end)]
    while waiting:
        lines_, start, stop = waiting.pop()
        if len(lines_) == 1:
            pieces.append(AffinePiece(start, stop, lines_[0]))
            if len(pieces) > BREAKPOINT_PIECES:
                return None
            continue
        a, b, rest = lines_[0], lines_[1], lines_[2:]
        apart = _difference(known, a, b)
        if apart is None:
            return None
        if apart.slope.is_const and not apart.slope.const:
            lower = a._replace(rest=extremum(known, ops.MIN, a.rest, b.rest))
            waiting.append(([lower, *rest], start, stop))
            continue
        if apart.sign < 0:
            a, b = b, a
            apart = Affine(apart.slope.scale(-1), apart.rest.scale(-1), 1)
        cut = _clamped(known, _last_nonpositive(known, apart).shift(1), start, stop)
        waiting.append(([b, *rest], cut, stop))
        waiting.append(([a, *rest], start, cut))
    return [piece for piece in pieces if not piece.start.same(piece.end)]


def affine_in(known: Normalizer, form: Linear, var: Var) -> Affine | None:
    """A form as affine in a variable; `None` if it is not, or the slope has no proved sign."""
    parts = split(poly_of(form), var)
    if parts is None:
        return None
    slope, rest = linear_of(parts[0]), linear_of(parts[1])
    if any(var in e.free_vars() for part in (slope, rest) for e in part.terms):
        return None
    sign = known.sign(slope)
    return Affine(slope, rest, sign) if sign else None


def _difference(known: Normalizer, a: Affine, b: Affine) -> Affine | None:
    """`a - b`; `None` if its slope has no proved sign, or may be 0 without being 0."""
    slope = a.slope.minus(b.slope)
    if slope.is_const and not slope.const:
        return Affine(ZERO, a.rest.minus(b.rest), 1)
    if known.is_positive(slope):
        return Affine(slope, a.rest.minus(b.rest), 1)
    return Affine(slope, a.rest.minus(b.rest), -1) if known.is_positive(slope.scale(-1)) else None


def _last_nonpositive(known: Normalizer, rising: Affine) -> Linear:
    """The last value of the variable at which a form with a positive slope is at most 0."""
    return floordiv(known, rising.rest.scale(-1), rising.slope)


def _window(known: Normalizer, line: Affine, first: Linear, end: Linear) -> tuple[Linear, Linear] | None:
    """The iterations of `[first, end)` in which a form is at least 0."""
    at_last = value_at(known, line, end.shift(-1))
    worst = value_at(known, line, first) if line.sign > 0 else at_last
    if known.sign(worst) > 0:
        return first, end
    if not line.slope.terms and not line.slope.const:
        return None
    if not known.is_positive(line.slope.scale(line.sign)):
        return None
    if line.sign < 0:  # rest - s*v >= 0 for v <= rest // s
        stop = floordiv(known, line.rest, line.slope.scale(-1)).shift(1)
        return first, _clamped(known, stop, first, end)
    start = floordiv(known, line.rest.scale(-1).plus(line.slope).shift(-1), line.slope)  # ceildiv(-rest, slope)
    return _clamped(known, start, first, end), end


def _clamped(known: Normalizer, form: Linear, low: Linear, high: Linear) -> Linear:
    return extremum(known, ops.MAX, low, extremum(known, ops.MIN, form, high))


def value_at(known: Normalizer, line: Affine, v: Linear) -> Linear:
    """The value of a form at a value of its variable."""
    return known.product(line.slope, v).plus(line.rest)


def sum_of_pieces(known: Normalizer, pieces: Sequence[AffinePiece]) -> Expr:
    """The sum over all pieces: of each, an arithmetic series, or one value where there is at most one iteration."""
    terms = []
    for start, end, line in pieces:
        length = end.minus(start)
        number = length.expr()
        if known.is_nonneg(constant(1).minus(length)):
            terms.append(number * value_at(known, line, start).expr())
            continue
        term = number * line.rest.expr()
        if line.slope.terms or line.slope.const:
            indices = number * start.plus(end).shift(-1).expr() // 2  # start + ... + (end - 1)
            slope = line.slope.scale(line.sign).expr()
            term = term + slope * indices if line.sign > 0 else term - slope * indices
        terms.append(term)
    return sum_of(terms) if terms else const(0)


def greatest_of_pieces(pieces: Sequence[AffinePiece]) -> Iterator[tuple[Linear, Affine, Linear]]:
    """For each piece its length, its form, and the iteration in which the form is greatest."""
    for start, end, line in pieces:
        yield end.minus(start), line, start if line.sign < 0 else end.shift(-1)


__all__ = ["Affine", "AffinePiece", "affine_in", "greatest_of_pieces", "minimum_pieces", "sum_of_pieces", "value_at"]
