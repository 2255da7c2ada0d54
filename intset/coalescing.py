"""Loop coalescing of questions: variables that occur in one sum only become one variable.

The guard of a split leaves a box with a corner cut off: `io*4 + ii < n`. The values of a mixed-radix sum of independent
variables are consecutive, so a new variable `x = io*4 + ii` with `x < n` describes the same values, and the guard is
the end of a range (Polychronopoulos, *Loop coalescing*, ICPP 1987). Coefficients may be sizes: `io*t + ii`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from intset.budgets import COALESCED_SUMS
from intset.expr import ops
from intset.expr.node import Cond, Expr, PlainVar, Var
from intset.expr.range import Range
from intset.expr.walk import free_vars, opaque_terms
from intset.facts import DERIVED, Fact
from intset.frame import Frame
from intset.linear.form import Linear, atom, constant
from intset.linear.polynomial import linear_of, poly_of, split
from intset.linear.symbolic import ends_of
from intset.ranges import ranges_from_facts


class MixedRadix(NamedTuple):
    """The sum `unit + others` of independent variables, which takes consecutive values.

    Attributes
    ----------
    unit: a variable with coefficient 1.
    others: the rest of the sum.
    least, reach: the least value, and the distance to the greatest.
    variables: all variables of the sum.
    """

    unit: Var
    others: Linear
    least: Linear
    reach: Linear
    variables: frozenset[Expr]


def coalesced(frame: Frame, exprs: Sequence[Expr], kept: Sequence[Var]) -> tuple[Frame, tuple[Expr, ...]] | None:
    """The frame and the expressions with mixed-radix sums as single variables; `None` if no guard speaks of one.

    Guarantee: for all values of parameters and kept variables, the expressions take the same tuples of values.
    """
    asked = tuple(exprs)
    changed = False
    for _ in range(COALESCED_SUMS):
        if (step := _once(frame, asked, kept)) is None:
            break
        (frame, asked), changed = step, True
        tightened = ranges_from_facts(frame.ranges, frame.facts, frame.base, tighten=True)
        if tightened is not None:
            frame = Frame(*tightened, frame.defined, frame.requires)
    return (frame, asked) if changed else None


def _once(frame: Frame, exprs: tuple[Expr, ...], kept: Sequence[Var]) -> tuple[Frame, tuple[Expr, ...]] | None:
    tried: list[frozenset[Expr]] = []
    for total in sorted(_guarded_sums(frame, kept), key=lambda total: len(total.variables)):
        if total.variables in tried:
            continue
        tried.append(total.variables)
        replaced = _replaced(frame, exprs, total)
        if replaced is not None:
            return replaced
    return None


def _guarded_sums(frame: Frame, kept: Sequence[Var]) -> Iterator[MixedRadix]:
    """The mixed-radix sums that the guards of a frame compare with sizes or numbers."""
    ends = [limits.free_vars() for limits in frame.ranges.values()]
    for fact in frame.facts:
        clauses = frame.base.clauses(fact.condition)
        if len(clauses) != 1 or isinstance(clauses[0], Cond) or clauses[0][0] is not ops.GE:
            continue
        form = clauses[0][1]
        own = [v for v in free_vars(*form.terms) if v in frame.ranges and v not in kept]
        if len(own) < 2 or any(type(v) is not PlainVar or any(v in used for used in ends) for v in own):
            continue
        if any(not set(frame.ranges[v].free_vars()).isdisjoint(frame.ranges) for v in own) or opaque_terms(*form.terms):
            continue
        total = _mixed_radix(frame, form, own)
        if total is not None:
            yield total


def _mixed_radix(frame: Frame, form: Linear, variables: Sequence[Var]) -> MixedRadix | None:
    """The part of `form` over these variables as a mixed-radix sum; `None` if its values may have gaps."""
    known, p = frame.known, poly_of(form)
    waiting: dict[Var, Linear] = {}
    for v in variables:
        parts = split(p, v)
        coefficient = None if parts is None else linear_of(parts[0])
        if coefficient is None or any(not set(e.free_vars()).isdisjoint(variables) for e in coefficient.terms):
            return None
        waiting[v] = coefficient
    units = [v for v, k in waiting.items() if k.is_const and abs(k.const) == 1]
    if not units:
        return None
    unit, sign = units[0], waiting[units[0]].const
    least, reach, others = constant(0), constant(0), constant(0)
    while waiting:
        for v, k in waiting.items():
            direction = known.sign(k)
            if direction and known.is_nonneg(reach.shift(1).plus(k, -direction)):
                break
        else:
            return None
        first, last = ends_of(known, v)
        if first is None or last is None:
            return None
        k = k.scale(sign)
        least = least.plus(known.product(k, first if direction * sign > 0 else last))
        reach = reach.plus(known.product(k.scale(direction * sign), last.minus(first)))
        if v is not unit:
            others = others.plus(known.product(k, atom(v)))
        del waiting[v]
    return MixedRadix(unit, others, least, reach, frozenset(variables))


def _replaced(frame: Frame, exprs: tuple[Expr, ...], total: MixedRadix) -> tuple[Frame, tuple[Expr, ...]] | None:
    """The frame and the expressions over one variable for the sum; `None` if its variables occur outside it."""
    x = Var("+".join(sorted(str(v) for v in total.variables)))
    new: dict[Expr, Expr] = {total.unit: x - total.others.expr()}
    ranges = {v: limits for v, limits in frame.ranges.items() if v not in total.variables}
    ranges[x] = Range(total.least.expr(), total.reach.shift(1).expr())
    base = Frame(ranges, ()).base
    facts = [
        Fact(frame.ranges[v].extent >= 1, DERIVED) for v in total.variables if isinstance(frame.ranges[v].extent, Expr)
    ]
    for fact in frame.facts:
        condition = fact.condition.substitute(new)
        if not total.variables.isdisjoint(condition.free_vars()):
            condition = base.cond(condition)
        if not total.variables.isdisjoint(condition.free_vars()):
            return None
        facts.append(Fact(condition, fact.provenance))
    asked = []
    for e in exprs:
        moved = e.substitute(new)
        if not total.variables.isdisjoint(moved.free_vars()):
            moved = base.form(moved).expr()
        if not total.variables.isdisjoint(moved.free_vars()):
            return None
        asked.append(moved)
    if any(not total.variables.isdisjoint(cond.free_vars()) for cond in frame.defined):
        return None
    return Frame(ranges, tuple(facts), frame.defined, frame.requires), tuple(asked)
