"""Loop coalescing of questions: variables that occur in one sum only become one variable.

The guard of a split leaves a box with a corner cut off: `io*4 + ii < n`. The values of a mixed-radix sum of independent
variables are consecutive, so a new variable `x = io*4 + ii` with `x < n` describes the same values, and the guard is
the end of a range (Polychronopoulos, *Loop coalescing*, ICPP 1987). Coefficients may be sizes: `io*t + ii`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from intset.expr import ops
from intset.expr.dag import free_vars, opaque_terms
from intset.expr.node import Cond, Expr, Node, PlainVar, Var
from intset.expr.range import Range
from intset.facts import DERIVED, Fact
from intset.frame import Frame
from intset.infinity import POS_INF
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear, atom, constant, linear_of, poly_of, split
from intset.linear.symbolic import ends_of
from intset.ranges import ranges_from_facts

COALESCED_SUMS: Final = 8  # sums of one question that become variables

N = TypeVar("N", bound=Node)


class MixedRadix(NamedTuple):
    """The sum `unit + others` of independent variables, which takes consecutive values.

    Attributes
    ----------
    unit: a variable with coefficient 1.
    others: the rest of the sum.
    least, reach: the least value, and the distance to the greatest; `None` for a sum without end.
    variables: all variables of the sum.
    """

    unit: Var
    others: Linear
    least: Linear
    reach: Linear | None
    variables: frozenset[Var]


def coalesced(frame: Frame, roots: Sequence[N], kept: Sequence[Var]) -> tuple[Frame, tuple[N, ...]] | None:
    """The frame and the expressions or conditions with mixed-radix sums as variables; `None` if no guard speaks of one.

    Guarantee: for all values of parameters and kept variables, the expressions take the same tuples of values.
    """
    asked = tuple(roots)
    changed = False
    for _ in range(COALESCED_SUMS):
        if (step := _once(frame, asked, kept)) is None:
            break
        (frame, asked), changed = step, True
        tightened = ranges_from_facts(frame.ranges, frame.facts, frame.base, tighten=True)
        if tightened is not None:
            frame = Frame(*tightened, frame.defined, frame.requires)
    return (frame, asked) if changed else None


def _once(frame: Frame, roots: tuple[N, ...], kept: Sequence[Var]) -> tuple[Frame, tuple[N, ...]] | None:
    tried: list[frozenset[Var]] = []
    for total in sorted(_guarded_sums(frame, kept), key=lambda total: len(total.variables)):
        if total.variables in tried:
            continue
        tried.append(total.variables)
        replaced = _replaced(frame, roots, total)
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
    least, others = constant(0), constant(0)
    reach: Linear | None = constant(0)
    while waiting:
        bounded = sorted(waiting.items(), key=lambda item: None in ends_of(known, item[0]))  # those without end last
        ready = ((v, s) for v, k in bounded if (s := known.sign(k)) and _has_no_gap(known, reach, k.scale(s)))
        if (step := next(ready, None)) is None:
            return None
        v, direction = step
        k = waiting.pop(v).scale(sign)
        first, last = ends_of(known, v) if direction * sign > 0 else ends_of(known, v)[::-1]
        if first is None:
            return None
        least = least.plus(known.product(k, first))
        run = None if last is None or reach is None else known.product(k, last.minus(first))
        reach = None if reach is None or run is None else reach.plus(run)
        if v is not unit:
            others = others.plus(known.product(k, atom(v)))
    return MixedRadix(unit, others, least, reach, frozenset(variables))


def _has_no_gap(known: Normalizer, reach: Linear | None, step: Linear) -> bool:
    """Whether steps of this size over runs of this reach leave no value out; a run without end has all values."""
    return reach is None or known.is_nonneg(reach.shift(1).minus(step))


def _replaced(frame: Frame, roots: tuple[N, ...], total: MixedRadix) -> tuple[Frame, tuple[N, ...]] | None:
    """The frame and the expressions over one variable for the sum; `None` if its variables occur outside it."""
    x = Var("+".join(sorted(str(v) for v in total.variables)))
    new: dict[Expr, Expr] = {total.unit: x - total.others.expr()}
    ranges = {v: limits for v, limits in frame.ranges.items() if v not in total.variables}
    extent = POS_INF if total.reach is None else total.reach.shift(1).expr()
    ranges[x] = Range.of_extent(total.least.expr(), extent)
    base = Frame(ranges, ()).base
    facts = [
        Fact(extent >= 1, DERIVED)
        for v in total.variables
        if isinstance(extent := frame.ranges[v].extent, Expr) and not extent.is_const
    ]
    for fact in frame.facts:
        condition = _over_the_sum(fact.condition, new, total, base)
        if condition is None:
            return None
        facts.append(Fact(condition, fact.provenance))
    asked = [_over_the_sum(root, new, total, base) for root in roots]
    if any(one is None for one in asked) or any(_mentions(cond, total) for cond in frame.defined):
        return None
    return Frame(ranges, tuple(facts), frame.defined, frame.requires), tuple(one for one in asked if one is not None)


def _over_the_sum(root: N, new: Mapping[Expr, Expr], total: MixedRadix, base: Normalizer) -> N | None:
    """`root` over the variable for the sum; `None` if other uses of the summed variables remain."""
    moved: Any = root.substitute(dict(new))
    if _mentions(moved, total):
        moved = base.cond(moved) if isinstance(moved, Cond) else base.form(moved).expr()
    return None if _mentions(moved, total) else moved


def _mentions(root: Node, total: MixedRadix) -> bool:
    return not total.variables.isdisjoint(root.free_vars())
