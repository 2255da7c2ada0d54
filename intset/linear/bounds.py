"""Numeric intervals `(low, high)`, `None` for an infinite end: arithmetic, and the intervals of atoms.

Guarantee: each function returns an interval that contains every result of its operation on elements of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from typing import TYPE_CHECKING, Any

from intset.budgets import LONGEST_VALUE, REGROUPED_REMAINDERS
from intset.expr import ops
from intset.expr.node import Expr
from intset.linear.division import scaled_remainder
from intset.linear.form import Linear, atom, constant, factors, monomial_of, take_out
from intset.linear.multiples import step_of_sum

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

Interval = tuple[int | None, int | None]

EVERYTHING: Interval = (None, None)


def scaled(interval: Interval, factor: int) -> Interval:
    low, high = interval
    if factor < 0:
        low, high = high, low
    return (None if low is None else low * factor, None if high is None else high * factor)


def negated(interval: Interval) -> Interval:
    return scaled(interval, -1)


def plus(a: Interval, b: Interval) -> Interval:
    """The hull of the sums."""
    return (
        None if a[0] is None or b[0] is None else a[0] + b[0],
        None if a[1] is None or b[1] is None else a[1] + b[1],
    )


def hull(a: Interval, b: Interval) -> Interval:
    return (
        None if a[0] is None or b[0] is None else min(a[0], b[0]),
        None if a[1] is None or b[1] is None else max(a[1], b[1]),
    )


def meet(a: Interval, b: Interval) -> Interval:
    """The intersection; it is empty when the ends cross."""
    low = a[0] if b[0] is None else b[0] if a[0] is None else max(a[0], b[0])
    high = a[1] if b[1] is None else b[1] if a[1] is None else min(a[1], b[1])
    return (low, high)


def stepped(a: Interval, m: int, r: int) -> Interval:
    """The interval between the least and the greatest number in `a` that is r modulo m."""
    low, high = a
    return (None if low is None else low + (r - low) % m, None if high is None else high - (high - r) % m)


def times(a: Interval, b: Interval) -> Interval:
    """The hull of the products."""
    (a0, a1), (b0, b1) = a, b
    if a0 is not None and a1 is not None and b0 is not None and b1 is not None:
        if _bits(a0, a1) + _bits(b0, b1) > LONGEST_VALUE:
            return _unbounded_product(a, b)
        corners = (a0 * b0, a0 * b1, a1 * b0, a1 * b1)
        return (min(corners), max(corners))
    if (0, 0) in (a, b):
        return (0, 0)
    if a0 is not None and a0 >= 0:
        if b0 is not None and b0 >= 0:
            return (a0 * b0, None)
        if b1 is not None and b1 <= 0:
            return (None, a0 * b1)
    if a1 is not None and a1 <= 0:
        if b1 is not None and b1 <= 0:
            return (a1 * b1, None)
        if b0 is not None and b0 >= 0:
            return (None, a1 * b0)
    return (None, None)


def _bits(*ends: int) -> int:
    """The length of the longest end."""
    return max(end.bit_length() for end in ends)


def _unbounded_product(a: Interval, b: Interval) -> Interval:
    """A product interval without numeric ends other than 0, for factors of too many bits."""
    if (0, 0) in (a, b):
        return (0, 0)
    if _nonneg(a) and _nonneg(b) or _nonpos(a) and _nonpos(b):
        return (0, None)
    if _nonneg(a) and _nonpos(b) or _nonpos(a) and _nonneg(b):
        return (None, 0)
    return EVERYTHING


def floordiv(a: Interval, b: Interval) -> Interval:
    """The hull of floor quotients by the nonzero divisors in `b`; `EVERYTHING` without one."""
    quotients: Interval | None = None
    for part in _signed_parts(b):
        one = _floordiv_signed(a, part)
        quotients = one if quotients is None else hull(quotients, one)
    return EVERYTHING if quotients is None else quotients


def _signed_parts(b: Interval) -> list[Interval]:
    parts: list[Interval] = []
    if b[1] is None or b[1] > 0:
        parts.append((max(1, b[0]) if b[0] is not None else 1, b[1]))
    if b[0] is None or b[0] < 0:
        parts.append((b[0], min(-1, b[1]) if b[1] is not None else -1))
    return parts


def _floordiv_signed(a: Interval, b: Interval) -> Interval:
    if b[1] is not None and b[1] < 0:
        a, b = scaled(a, -1), scaled(b, -1)
    small, large = b
    assert small is not None and small > 0
    low: int | None = None
    high: int | None = None
    if a[0] is not None:
        low = a[0] // small if a[0] < 0 else (0 if large is None else a[0] // large)
    if a[1] is not None:
        high = a[1] // small if a[1] >= 0 else (-1 if large is None else a[1] // large)
    return (low, high)


def floormod(a: Interval, b: Interval) -> Interval:
    """Bounds of floor remainders by the nonzero divisors in `b`."""
    low, high = b
    result: Interval = (
        None if low is None else min(0, low + 1),
        None if high is None else max(0, high - 1),
    )
    if a[0] is not None and a[0] >= 0 and low is not None and low > 0:
        if a[1] is not None and a[1] < low:
            return a
        result = meet(result, (0, a[1]))
    return result


def _nonneg(a: Interval) -> bool:
    return a[0] is not None and a[0] >= 0


def _nonpos(a: Interval) -> bool:
    return a[1] is not None and a[1] <= 0


def atom_bounds(known: Normalizer, e: Any) -> Interval:
    """A numeric interval that contains every value of an atom or monomial; not cached."""
    op = e.op
    if op is ops.VAR:
        return known.ranges.get(e) or _declared(e)
    if op is ops.LOAD:
        return (e.data.lower, e.data.upper)
    if op is ops.MUL:
        return _product_bounds(known, factors(e))
    if op is ops.CONST:
        return (e.data, e.data)
    if op is ops.SELECT:
        return _select_bounds(known, e)
    if (op is ops.FLOORDIV or op is ops.FLOORMOD) and e.args[1].op is ops.CONST and e.args[1].data > 0:
        return _constant_division_bounds(known, e)
    rule = ATOM_BOUNDS.get(op)
    if rule is None:
        return EVERYTHING
    return rule(*[known.bounds(known.form(arg)) for arg in e.args])


def _declared(e: Any) -> Interval:
    low, high, _ = e.declared()
    return (low, high)


def _constant_division_bounds(known: Normalizer, e: Any) -> Interval:
    """Bounds of `x // c` and `x % c` for a constant c > 0."""
    inner, c = known.form(e.args[0]), e.args[1].data
    low, high = known.bounds(inner)
    if e.op is ops.FLOORDIV:
        return (None if low is None else low // c, None if high is None else high // c)
    if low is not None and high is not None and low // c == high // c:
        return (low % c, high % c)
    step, offset = step_of_sum(known, inner) if known.may_know_multiples(inner) else (inner.content(), inner.const)
    g = gcd(step, c)  # x % c = x (mod g)
    return (offset % g, c - g + offset % g)


def _select_bounds(known: Normalizer, e: Expr) -> Interval:
    (yes, if_true), (no, if_false) = known.branches(e)
    if yes.empty or no.empty:
        branch, arm = (no, if_false) if yes.empty else (yes, if_true)
        return branch.bounds(branch.form(arm))
    return hull(yes.bounds(yes.form(if_true)), no.bounds(no.form(if_false)))


def _product_bounds(known: Normalizer, parts: list[Expr]) -> Interval:
    result: Interval = (1, 1)
    while parts:
        e = parts.pop()
        interval = known.atom_bounds(e)
        if take_out(parts, e):  # even powers are nonnegative
            interval = meet(times(interval, interval), (0, None))
        result = times(result, interval)
    return result


def scaled_by_sizes(known: Normalizer, form: Linear) -> Linear:
    """`form` with each `m*b - d*m*(b // d)`, d no constant, written as `m * (b % d)`; `form` itself without one.

    Steps with the same quotient run in a row.
    """
    lead: Expr | None = None
    for _ in range(REGROUPED_REMAINDERS):
        found = next(_scaled_by_size(known, form, lead), None) or next(_scaled_by_size(known, form, None), None)
        if found is None:
            break
        form, lead = found
    return form


def _scaled_by_size(known: Normalizer, form: Linear, lead: Expr | None) -> Iterator[tuple[Linear, Expr]]:
    """The steps of `scaled_by_sizes` with their quotients; those of `lead` alone, if it is given."""
    for monomial in form.terms:
        for quotient in factors(monomial) if monomial.op is ops.MUL else ():
            if (
                quotient.op is not ops.FLOORDIV
                or quotient.args[1].op is ops.CONST
                or lead is not None
                and quotient is not lead
            ):
                continue
            if (step := scaled_remainder(known, form, monomial, quotient)) is not None:
                yield step, quotient


def by_dividends(known: Normalizer, form: Linear) -> tuple[Linear, Linear] | None:
    """A lower and an upper bound of `form` without products `d * (x // d)`; `None` without such products.

    `d * (x // d)` lies in `[x - d + 1, x]` where d is positive, and its product with h >= 0 in h times that.
    """
    least, most = form, form
    for monomial in form.terms:
        for quotient in factors(monomial) if monomial.op is ops.MUL else ():
            if quotient.op is not ops.FLOORDIV or quotient.args[1].op is ops.CONST:
                continue
            dividend, divisor = (known.form(arg) for arg in quotient.args)
            outer = _beside(monomial, quotient, divisor)
            if outer is None or not known.is_positive(divisor) or not known.is_nonneg(outer[0]):
                continue
            whole, rest = known.product(outer[0], dividend), known.product(outer[0], divisor.shift(-1))
            product = known.product(known.product(outer[0], divisor), atom(quotient))
            k = form.terms[monomial] // outer[1]
            both = whole.minus(rest).minus(product).scale(k), whole.minus(product).scale(k)
            least, most = least.plus(both[k < 0]), most.plus(both[k > 0])
            break
    return None if least is form else (least, most)


def _beside(monomial: Expr, quotient: Expr, divisor: Linear) -> tuple[Linear, int] | None:
    """(h, c) where `c * monomial` is a term of h times divisor times quotient."""
    for lead, own in divisor.terms.items():
        rest = factors(monomial)
        if take_out(rest, quotient) and all(take_out(rest, e) for e in factors(lead)):
            return atom(monomial_of(rest)) if rest else constant(1), own
    return None


# -- one function for each operation -----------------------------------------------------------------------------------


def _abs_bounds(a: Interval) -> Interval:
    low, high = a
    if low is not None and low >= 0:
        return a
    if high is not None and high <= 0:
        return scaled(a, -1)
    return (0, None if low is None or high is None else max(-low, high))


def _min_bounds(a: Interval, b: Interval) -> Interval:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    return (low, meet((None, a[1]), (None, b[1]))[1])


def _max_bounds(a: Interval, b: Interval) -> Interval:
    return scaled(_min_bounds(scaled(a, -1), scaled(b, -1)), -1)


def _truncdiv_bounds(a: Interval, b: Interval) -> Interval:
    low, high = floordiv(a, b)
    negated = scaled(floordiv(scaled(a, -1), b), -1)  # ceil(a/b)
    if a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] > 0:
        return (low, high)
    return hull((low, high), negated)


def _truncmod_bounds(a: Interval, b: Interval) -> Interval:
    """Bounds of C remainders: sign of the dividend, magnitude at most the dividend's and below the divisor's."""
    size = _abs_bounds(b)[1]
    short = None if size is None else max(size - 1, 0)
    low = 0 if a[0] is not None and a[0] >= 0 else meet((None if short is None else -short, None), (a[0], None))[0]
    high = 0 if a[1] is not None and a[1] <= 0 else meet((None, short), (None, a[1]))[1]
    return (low, high)


def _and_bounds(a: Interval, b: Interval) -> Interval:
    for x, y in ((a, b), (b, a)):
        if x[0] is not None and x[0] >= 0:
            high = x[1]
            if y[0] is not None and y[0] >= 0:
                high = meet((None, high), (None, y[1]))[1]
            return (0, high)
    return (_bit_floor(a, b), None if a[1] is None or b[1] is None else max(a[1], b[1]))


def _or_bounds(a: Interval, b: Interval) -> Interval:
    low, high = _and_bounds(_inverted(a), _inverted(b))  # a | b = ~(~a & ~b)
    return meet(_inverted((low, high)), _bit_range(a, b))


def _inverted(a: Interval) -> Interval:
    return (None if a[1] is None else ~a[1], None if a[0] is None else ~a[0])


def _bit_range(a: Interval, b: Interval) -> Interval:
    """The integers of at most the bit length of `a` and `b`, nonnegative if both are."""
    nonneg = all(x[0] is not None and x[0] >= 0 for x in (a, b))
    ends = [end for end in (*a, *b) if end is not None]
    if len(ends) < 4:
        return (0 if nonneg else None, None)
    bits = max(end.bit_length() if end >= 0 else (~end).bit_length() for end in ends)
    return (0 if nonneg else -(1 << bits), (1 << bits) - 1)


def _bit_floor(a: Interval, b: Interval) -> int | None:
    return _bit_range(a, b)[0] if None not in a and None not in b else None


def _shl_bounds(a: Interval, b: Interval) -> Interval:
    low, high = b
    if low is None or high is None or high > 4096:
        return (0, None) if a[0] is not None and a[0] >= 0 else EVERYTHING
    return times(a, (1 << max(low, 0), 1 << max(high, 0)))


def _shr_bounds(a: Interval, b: Interval) -> Interval:
    low, high = b
    if low is None or high is None or high > 4096:
        return hull(a, (0, 0))
    return floordiv(a, (1 << max(low, 0), 1 << max(high, 0)))


ATOM_BOUNDS: dict[ops.Op, Callable[..., Interval]] = {
    ops.FLOORDIV: floordiv,
    ops.FLOORMOD: floormod,
    ops.TRUNCDIV: _truncdiv_bounds,
    ops.TRUNCMOD: _truncmod_bounds,
    ops.MIN: _min_bounds,
    ops.MAX: _max_bounds,
    ops.ABS: _abs_bounds,
    ops.BITAND: _and_bounds,
    ops.BITOR: _or_bounds,
    ops.BITXOR: _bit_range,
    ops.SHL: _shl_bounds,
    ops.SHR: _shr_bounds,
}
STEP_BOUNDS: dict[ops.Op, Callable[..., Interval]] = {  # of every operation whose operands are integers
    **ATOM_BOUNDS,
    ops.ADD: plus,
    ops.SUB: lambda a, b: plus(a, negated(b)),
    ops.NEG: negated,
    ops.MUL: times,
    ops.CEILDIV: lambda a, b: negated(floordiv(negated(a), b)),
    ops.BITNOT: lambda a: plus((-1, -1), negated(a)),
    ops.SELECT: hull,
    ops.ASSERTING: lambda a: a,
}
