"""Ends of sums of independent intervals, with quotients and remainders of such sums by numbers.

Tiles of a flattened tensor read rows `e // c` and columns `e % c` of the elements `e` of an interval. With `e` from
`max(l)` to `min(h)`, both over forms, and without gaps:

    e // c    from max(l // c)                to min(h // c)
    e % c     from max(0, l - c * (h // c))   to min(c - 1, h - c * (l // c))    over all pairs l, h

The ends of remainders: if all values of `e` share one block of `c`, `l - c * (h // c)` is the first remainder, and `h -
c * (l // c)` the last. Otherwise the former is negative and the latter at least `c`; both 0 and `c - 1` occur.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from bound.infer.footprints.box import EndForms, SymbolicInterval, interval
from bound.infer.footprints.environment import LoopEnvironment
from intset.expr import ops
from intset.expr.node import Expr, Var, constant_value
from intset.linear.form import Linear, constant

_MAX_FORMS = 4  # forms of one end of a sum


@dataclass(frozen=True)
class RunningTerm:
    """A multiple of an expression with the values of an interval; gaps are possible unless it is contiguous.

    Attributes
    ----------
    variables: the running variables of the expression.
    """

    side: SymbolicInterval
    factor: int
    variables: tuple[Var, ...]
    is_contiguous: bool = True


def number_divisor(e: Expr) -> int | None:
    """The divisor of a quotient by a positive number, else `None`."""
    divisor = constant_value(e.args[1]) if e.op is ops.FLOORDIV else None
    return divisor if divisor is not None and divisor > 0 else None


def independent_terms(
    env: LoopEnvironment, row: Linear, sides: Mapping[Var, SymbolicInterval]
) -> tuple[Linear, list[RunningTerm]] | None:
    """A form as a sum of a form without running variables and of terms over disjoint running variables.

    `None` if quotients and variables do not combine to quotients and remainders of independent sums.

    Parameters
    ----------
    sides: the interval of each running variable, independent of the others.
    """
    terms: list[RunningTerm] = []
    left = row
    while (outermost := _outermost(left, sides)) is not None:
        divisor = number_divisor(outermost)
        if divisor is None:
            return None
        dividend = env.form(outermost.args[0])
        whole = _term_of(env, dividend, sides)
        if whole is None:
            return None
        factor = left.terms[outermost]
        if factor > 0:
            side, is_contiguous = quotient_interval(env, whole.side, divisor), whole.is_contiguous
        else:
            inner = _remaindered(env, left, dividend, whole.variables, divisor, -factor)
            if inner is None or not whole.is_contiguous:
                return None
            by, width, of = inner
            side = quotient_interval(env, whole.side, by) if by > 1 else whole.side
            side, is_contiguous = (None if side is None else remainder_interval(env, side, width)), False
            factor = -factor // width
            left = left.plus(of, -factor)
            left = left.plus(Linear(0, {outermost: 1}), factor * width)
        if side is None:
            return None
        if outermost in left.terms:
            left = Linear(left.const, {e: k for e, k in left.terms.items() if e is not outermost})
        terms.append(RunningTerm(side, factor, whole.variables, is_contiguous))
    terms += [RunningTerm(sides[e], k, (e,)) for e, k in left.terms.items() if isinstance(e, Var) and e in sides]
    running = [v for term in terms for v in term.variables]
    if len(set(running)) < len(running):
        return None
    return Linear(left.const, {e: k for e, k in left.terms.items() if e not in sides}), terms


def _outermost(form: Linear, sides: Mapping[Var, SymbolicInterval]) -> Expr | None:
    """The quotient of running variables with the largest divisor; `None` without one."""
    quotients = [e for e in form.terms if not isinstance(e, Var) and any(v in sides for v in e.free_vars())]
    return max(quotients, key=lambda e: number_divisor(e) or 0, default=None)


def _term_of(env: LoopEnvironment, form: Linear, sides: Mapping[Var, SymbolicInterval]) -> RunningTerm | None:
    """A dividend as one term; `None` if it is not affine in running variables."""
    own = [(e, k) for e, k in form.terms.items() if isinstance(e, Var) and e in sides]
    rest = Linear(form.const, {e: k for e, k in form.terms.items() if e not in sides})
    if any(v in sides for e in rest.terms for v in e.free_vars()):
        return None
    parts = sorted(((sides[e], k) for e, k in own), key=lambda part: abs(part[1]))
    side = sum_of_intervals(env, rest, parts)
    if side is None:
        return None
    return RunningTerm(side, 1, tuple(e for e, _ in own), is_contiguous(env, [(side, abs(k)) for side, k in parts]))


def _remaindered(
    env: LoopEnvironment, form: Linear, dividend: Linear, running: Sequence[Var], divisor: int, factor: int
) -> tuple[int, int, Linear] | None:
    """The form `q = dividend // by` that stands in a form beside `-factor * (dividend // divisor)`, as its remainder.

    Returns `by`, the width of the remainder `q % width` and `q`; `None` if there is none.
    """
    for e, k in form.terms.items():
        by = number_divisor(e)
        if by is None or not 0 < factor == k * (divisor // by) or divisor % by or by == divisor:
            continue
        if env.form(e.args[0]).same(dividend):
            return by, divisor // by, Linear(0, {e: 1})
    if all(form.terms.get(v, 0) * divisor == factor * dividend.terms[v] for v in running):
        return (1, divisor, dividend) if factor % divisor == 0 else None
    return None


def quotient_interval(env: LoopEnvironment, side: SymbolicInterval, divisor: int) -> SymbolicInterval | None:
    """The quotients of an interval by a positive number."""
    lows, highs = ([env.form(form.expr() // divisor) for form in forms] for forms in (side.lows, side.highs))
    return interval(env, lows, highs)


def remainder_interval(env: LoopEnvironment, side: SymbolicInterval, divisor: int) -> SymbolicInterval | None:
    """The minimum and maximum remainder of an interval's integers by a positive number."""
    lows, highs = [constant(0)], [constant(divisor - 1)]
    for low, high in product(side.lows, side.highs):
        lows.append(low.plus(env.form(high.expr() // divisor), -divisor))
        highs.append(high.plus(env.form(low.expr() // divisor), -divisor))
    return interval(env, lows, highs)


def is_contiguous(env: LoopEnvironment, terms: Sequence[tuple[SymbolicInterval, int]]) -> bool:
    """Whether a sum of independent intervals with these factors, smallest first, has no gaps."""
    reach = 0
    for side, k in terms:
        if k > reach + 1:
            return False
        steps = [env.bounds(gap)[0] for gap in side.gaps]
        least = 0 if any(n is None for n in steps) else min(n for n in steps if n is not None)
        reach += k * max(least, 0)
    return True


def sum_of_intervals(
    env: LoopEnvironment, rest: Linear, terms: Sequence[tuple[SymbolicInterval, int]]
) -> SymbolicInterval | None:
    """The least and the greatest sum of a form and multiples of independent intervals; `None` with too many ends."""
    lows = _sum(rest, [(side.lows if k > 0 else side.highs, k) for side, k in terms])
    highs = _sum(rest, [(side.highs if k > 0 else side.lows, k) for side, k in terms])
    return None if lows is None or highs is None else interval(env, lows, highs)


def _sum(rest: Linear, terms: Sequence[tuple[EndForms, int]]) -> list[Linear] | None:
    """The operands of the maximum (minimum) that equals `rest` plus multiples of maxima (minima).

    `None` beyond `_MAX_FORMS`.
    """
    number = 1
    for side, _ in terms:
        number *= len(side)
    if number > _MAX_FORMS:
        return None
    sums = []
    for choice in product(*(side for side, _ in terms)):
        total = rest
        for form, (_, k) in zip(choice, terms, strict=True):
            total = total.plus(form, k)
        sums.append(total)
    return sums
