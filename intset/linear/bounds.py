"""Numeric intervals `(low, high)`, `None` for an infinite end: arithmetic, and the intervals of atoms.

Guarantee: each function returns an interval that contains every result of its operation on elements of its arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from intset.arithmetic import strided
from intset.arithmetic.strided import TRANSFER
from intset.expr import Expr, ops
from intset.expr.evaluate import LONGEST_VALUE
from intset.linear.division import REGROUPED_REMAINDERS, scaled_remainder
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


def first_of(a: Interval) -> int:
    """An element: the first, else the last number up to 0; for an empty interval its lower end."""
    low, high = a
    return low if low is not None else min(0, high) if high is not None else 0


def stepped(a: Interval, m: int, r: int) -> Interval:
    """The interval between the least and the greatest number in `a` that is r modulo m."""
    low, high = a
    return (None if low is None else low + (r - low) % m, None if high is None else high - (high - r) % m)


def of_operation(op: ops.Op, *args: Interval) -> Interval:
    """The interval of an operation on the intervals of its integers; `EVERYTHING` without a value, or a row."""
    if op is ops.ASSERTING:
        return args[0]
    if op not in TRANSFER:
        return EVERYTHING
    if (op is ops.MUL or op is ops.SHL) and sum(map(_bits, args)) > LONGEST_VALUE:
        args = tuple([_sign(a) for a in args])
    value = TRANSFER[op](*[strided.make(*a) for a in args])
    return EVERYTHING if value is None else value[:2]


def _bits(a: Interval) -> int:
    low, high = a
    return max((low or 0).bit_length(), (high or 0).bit_length())


def _sign(a: Interval) -> Interval:
    """The ends of an interval as far as its sign tells them."""
    low, high = a
    return (0 if low is not None and low >= 0 else None, 0 if high is not None and high <= 0 else None)


def reads_variables(e: Expr) -> bool:
    """Whether a term is a product of variables: its bounds are found without a deep recursion."""
    while e.op is ops.MUL and e.args[1].op is ops.VAR:
        e = e.args[0]
    return e.op is ops.VAR


def atom_bounds(known: Normalizer, e: Any) -> Interval:
    """A numeric interval that contains every value of an atom or monomial; not cached."""
    op = e.op
    if op is ops.VAR:
        return known.ranges.get(e) or e.declared()[:2]
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
    if op not in TRANSFER or op in _LINEAR:
        return EVERYTHING
    return of_operation(op, *[known.bounds(known.form(arg)) for arg in e.args])


_LINEAR = frozenset((ops.ADD, ops.SUB, ops.NEG, ops.BITNOT, ops.CEILDIV))  # atoms where their forms grew too long


def _constant_division_bounds(known: Normalizer, e: Any) -> Interval:
    """Bounds of `x // c` and `x % c` for a constant c > 0."""
    inner, c = known.form(e.args[0]), e.args[1].data
    low, high = known.bounds(inner)
    if e.op is ops.FLOORDIV:
        return (None if low is None else low // c, None if high is None else high // c)
    step, offset = step_of_sum(known, inner) if known.may_know_multiples(inner) else (inner.content(), inner.const)
    value = strided.floormod_by(strided.make(low, high, step, offset), c)
    return (0, c - 1) if value is None else value[:2]


def _select_bounds(known: Normalizer, e: Expr) -> Interval:
    (yes, if_true), (no, if_false) = known.branches(e)
    if yes.empty or no.empty:
        branch, arm = (no, if_false) if yes.empty else (yes, if_true)
        return branch.bounds(branch.form(arm))
    return hull(yes.bounds(yes.form(if_true)), no.bounds(no.form(if_false)))


def _product_bounds(known: Normalizer, parts: list[Expr]) -> Interval:
    result: Interval | None = None
    while parts:
        e = parts.pop()
        interval = known.atom_bounds(e)
        if take_out(parts, e):  # even powers are nonnegative
            interval = meet(of_operation(ops.MUL, interval, interval), (0, None))
        result = interval if result is None else of_operation(ops.MUL, result, interval)
    return result or (1, 1)


def scaled_by_sizes(known: Normalizer, form: Linear) -> Linear:
    """`form` with each `m*b - d*m*(b // d)`, d no constant, written as `m * (b % d)`; `form` itself without one.

    Steps with the same quotient run in a row.
    """
    lead: Expr | None = None
    for _ in range(REGROUPED_REMAINDERS):
        found = next(_scaled_by_size(known, form, lead), None)
        if found is None and lead is not None:
            found = next(_scaled_by_size(known, form, None), None)
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
