"""Ranges that are stated as facts: `i >= 0` and `i < n` of a variable without ends are its range `[0, n)`.

A range is a pair of facts; what is known of ranges (ends in sizes, gap-free images, structure) serves for facts that
could have been one. Each fact that becomes an end says exactly that, no more and no less, so that it need not be kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from intset.expr import ops
from intset.expr.build import maximum, minimum
from intset.expr.definedness import definedness
from intset.expr.node import Cond, Expr, Var, const, constant_value
from intset.expr.range import Range
from intset.expr.walk import opaque_terms
from intset.infinity import NEG_INF, POS_INF
from intset.linear.form import Linear

if TYPE_CHECKING:
    from intset.facts import Fact
    from intset.linear.canonical import Normalizer

MAX_ENDS = 4  # facts that bound one side of one variable; what is beyond stays a fact
LOWER, UPPER = -1, 1


class End(NamedTuple):
    """`value` bounds `var` from one side: `var >= value` (LOWER) or `var <= value` (UPPER)."""

    var: Var
    side: int
    value: Expr


class _Table:
    """The ends found so far of variables, and the facts that gave them: of those whose range is open, or of all."""

    def __init__(self, ranges: Mapping[Var, Range], also_closed: bool) -> None:
        self.ranges, self.also_closed = ranges, also_closed
        self.ends: dict[tuple[Var, int], list[Expr]] = {}
        self.given: dict[Var, list[Fact]] = {}

    def is_open(self, end: End) -> bool:
        limits = self.ranges.get(end.var)
        if self.also_closed:
            return limits is not None
        return limits is not None and (limits.min is NEG_INF if end.side == LOWER else limits.extent is POS_INF)

    def take(self, fact: Fact, ends: Sequence[End]) -> bool:
        """Let the fact be these ends, if all of them may be."""
        for end in ends:
            if not self.is_open(end) or len(self.ends.get((end.var, end.side), ())) >= MAX_ENDS:
                return False
        for end in ends:
            self.ends.setdefault((end.var, end.side), []).append(end.value)
        self.given.setdefault(ends[0].var, []).append(fact)
        return True


def stated_as_ranges(
    ranges: Mapping[Var, Range], facts: Sequence[Fact], base: Normalizer, also_closed: bool = False
) -> tuple[dict[Var, Range], tuple[Fact, ...]] | None:
    """The same points by narrower ranges and fewer facts; `None` where no fact can serve as the end of a range.

    Only facts over sizes serve; one that relates two variables that run stays a fact. `also_closed`: an end that there
    is already is met with those of facts, `[0, 100)` with `i < n`.
    """
    if not also_closed and not any(limits.extent is POS_INF for limits in ranges.values()):
        return None
    table = _Table(ranges, also_closed)
    for fact in facts:
        for ends in _ends_of(base, fact.condition, table):
            if not any(v in ranges for v in ends[0].value.free_vars()) and table.take(fact, ends):
                break
    return _narrowed(table, facts, base)


def _ends_of(base: Normalizer, condition: Cond, table: _Table) -> Iterator[tuple[End, ...]]:
    """Each way to read a condition as ends of one variable; an equation is both ends."""
    if definedness((condition,)) or opaque_terms(condition):
        return
    clauses = base.clauses(condition)
    if len(clauses) != 1 or isinstance(clauses[0], Cond) or clauses[0][0] is ops.NE:
        return
    kind, form = clauses[0]
    for var, k in form.terms.items():
        if not isinstance(var, Var) or var not in table.ranges:
            continue
        rest = Linear(form.const, {t: c for t, c in form.terms.items() if t is not var})
        if any(var in t.free_vars() for t in rest.terms) or (kind is ops.EQ and abs(k) != 1):
            continue
        first = _end(base, var, k, rest)
        yield (first, _end(base, var, -k, rest.scale(-1))) if kind is ops.EQ else (first,)


def _end(base: Normalizer, var: Var, k: int, rest: Linear) -> End:
    """What `k*var + rest >= 0` says of `var`: it is at least the ceiling of `-rest/k`, or at most the floor."""
    quotient = rest if abs(k) == 1 else base.form(rest.expr() // abs(k))
    return End(var, LOWER, quotient.scale(-1).expr()) if k > 0 else End(var, UPPER, quotient.expr())


def _narrowed(
    table: _Table, facts: Sequence[Fact], base: Normalizer
) -> tuple[dict[Var, Range], tuple[Fact, ...]] | None:
    found = dict(table.ranges)
    dropped: set[Fact] = set()
    for var, given in table.given.items():
        limits = _range(table, var, base)
        if limits is not None:
            found[var] = limits
            dropped.update(given)
    return (found, tuple(fact for fact in facts if fact not in dropped)) if dropped else None


def _range(table: _Table, var: Var, base: Normalizer) -> Range | None:
    """The range between the ends found; `None` where the lower one is missing, or the two exclude one another."""
    limits = table.ranges[var]
    own = {side: [end] if isinstance(end, Expr) else [] for side, end in ((LOWER, limits.min), (UPPER, limits.max))}
    lows, highs = ([*own[side], *table.ends.get((var, side), ())] for side in (LOWER, UPPER))
    if not lows:
        return None
    low = _joined(LOWER, lows)
    if not highs:
        return Range(low, POS_INF)
    high = _joined(UPPER, highs)
    extent = base.form(high).minus(base.form(low)).shift(1).expr()
    number = constant_value(extent)
    return None if number is not None and number < 1 else Range(low, extent)


def _joined(side: int, ends: Sequence[Expr]) -> Expr:
    """One end that says what several do; constants are compared here."""
    numbers = [int(end) for end in ends if end.is_const]
    best = [const(max(numbers) if side == LOWER else min(numbers))] if numbers else []
    every = (*best, *(end for end in dict.fromkeys(ends) if not end.is_const))
    if len(every) == 1:
        return every[0]
    return maximum(*every) if side == LOWER else minimum(*every)
