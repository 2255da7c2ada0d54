"""Ranges: validation, the normalizer of a table of ranges, ranges read out of facts, and substitution.

A range denotes two facts, `min <= v` and `v <= max`. Projecting `v` out leaves one condition on the ends: the range is
nonempty. Every frame assumes the unproved ones (`open_nonempty_conditions`), so that domains need not derive them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from intset.errors import InputError
from intset.expr import Cond, Expr, IntLike, Range, Var, arguments, as_expr, const, constant_value, dag, ops, shown
from intset.expr.build import maximum, minimum
from intset.expr.definedness import definedness
from intset.expr.node import NEG_INF, POS_INF, PlainVar
from intset.expr.range import conditions_between, range_conditions
from intset.facts import DECLARED, DERIVED, Fact, as_ranges
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from intset.linear.signs import is_known

EQUATED_SIZES: Final = 32  # sizes that equations between them eliminate
STATED_ENDS: Final = 4  # facts used for one end of one variable; further ones stay facts


def open_nonempty_conditions(ranges: Mapping[Var, Range], base: Normalizer) -> tuple[Cond, ...]:
    """The open conditions for dependent ranges to be nonempty with defined ends.

    A range is dependent if its ends mention other variables with ranges, or loads. Ranges over sizes alone need no
    condition: answers speak only of sizes for which these are nonempty.
    """
    limits = {var: ranges[var] for var in base.assumptions.limits}
    dependent = [var for var, r in limits.items() if any(v in ranges for v in r.free_vars()) or r.loads()]
    needs = [
        cond
        for var in dependent
        for cond in (*definedness_of_ends((ranges[var],)), *nonempty_conditions(var, ranges[var]))
    ]
    return tuple(cond for cond in needs if not is_known(base, cond))


def definedness_of_ends(limits: Iterable[Range]) -> tuple[Cond, ...]:
    """The definedness conditions of the ends of ranges."""
    return definedness([end for r in limits for end in (r.min, r.max) if isinstance(end, Expr)])


def nonempty_conditions(var: Var, limits: Range) -> Iterator[Cond]:
    """The conditions for a range to meet the declared bounds of its variable."""
    first, last = limits.min, limits.max
    low, high, _ = var.declared()
    if isinstance(limits.extent, Expr):
        yield limits.extent >= 1
    if low is not None and isinstance(last, Expr):
        yield last >= low
    if high is not None and isinstance(first, Expr):
        yield first <= high


LOWER, UPPER = -1, 1


class StatedEnd(NamedTuple):
    """`value` bounds `var` from one side: `var >= value` (LOWER) or `var <= value` (UPPER)."""

    var: Var
    side: int
    value: Expr


class _StatedEnds:
    """Ends collected from facts, for variables with an infinite end, or for all if `tighten`."""

    def __init__(self, ranges: Mapping[Var, Range], tighten: bool) -> None:
        self.ranges, self.tighten = ranges, tighten
        self.ends: dict[tuple[Var, int], list[Expr]] = {}
        self.facts: dict[Var, list[Fact]] = {}

    def is_open(self, end: StatedEnd) -> bool:
        limits = self.ranges[end.var]
        return self.tighten or (limits.min is NEG_INF if end.side == LOWER else limits.extent is POS_INF)

    def take(self, fact: Fact, ends: Sequence[StatedEnd]) -> bool:
        """Record a fact as these ends; False if some end is not accepted."""
        for end in ends:
            if not self.is_open(end) or len(self.ends.get((end.var, end.side), ())) >= STATED_ENDS:
                return False
        for end in ends:
            self.ends.setdefault((end.var, end.side), []).append(end.value)
        self.facts.setdefault(ends[0].var, []).append(fact)
        return True


def ranges_from_facts(
    ranges: Mapping[Var, Range], facts: Sequence[Fact], base: Normalizer, tighten: bool = False
) -> tuple[dict[Var, Range], tuple[Fact, ...]] | None:
    """Equivalent narrower ranges and fewer facts; `None` if no fact is the end of a range.

    `i >= 0` and `i < n` become the range `[0, n)`. Facts that relate two variables with ranges stay facts.

    Parameters
    ----------
    tighten: whether facts also tighten finite ends, such as `i < n` the range `[0, 100)`.

    Guarantee: ranges and facts together denote the same set of points as before.
    """
    if not tighten and not any(limits.extent is POS_INF for limits in ranges.values()):
        return None
    table = _StatedEnds(ranges, tighten)
    for fact in facts:
        for ends in _ends_of(base, fact.condition, table):
            if not any(v in ranges for v in ends[0].value.free_vars()) and table.take(fact, ends):
                break
    narrowed = dict(ranges)
    dropped: set[Fact] = set()
    for var, facts_of in table.facts.items():
        limits = _range_of_ends(table, var, base)
        if limits is not None:
            narrowed[var] = limits
            dropped.update(facts_of)
    return (narrowed, tuple(fact for fact in facts if fact not in dropped)) if dropped else None


def _ends_of(base: Normalizer, condition: Cond, table: _StatedEnds) -> Iterator[tuple[StatedEnd, ...]]:
    """The ways to read a condition as ends of one variable; an equation gives both ends."""
    if definedness((condition,)) or dag.opaque_terms(condition):
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
        first = _stated_end(base, var, k, rest)
        yield (first, _stated_end(base, var, -k, rest.scale(-1))) if kind is ops.EQ else (first,)


def _stated_end(base: Normalizer, var: Var, k: int, rest: Linear) -> StatedEnd:
    """The end of `var` by `k*var + rest >= 0`: lower end ceil(-rest/k) or upper end floor(rest/-k)."""
    quotient = rest if abs(k) == 1 else base.form(rest.expr() // abs(k))
    return StatedEnd(var, LOWER, quotient.scale(-1).expr()) if k > 0 else StatedEnd(var, UPPER, quotient.expr())


def _range_of_ends(table: _StatedEnds, var: Var, base: Normalizer) -> Range | None:
    """The range between the collected ends; `None` for a missing lower end or an empty range."""
    limits = table.ranges[var]
    own = {side: [end] if isinstance(end, Expr) else [] for side, end in ((LOWER, limits.min), (UPPER, limits.max))}
    lows, highs = ([*own[side], *table.ends.get((var, side), ())] for side in (LOWER, UPPER))
    if not lows:
        return None
    low = _tightest(LOWER, lows)
    if not highs:
        return Range(low, POS_INF)
    high = _tightest(UPPER, highs)
    extent = base.form(high).minus(base.form(low)).shift(1).expr()
    number = constant_value(extent)
    return None if number is not None and number < 1 else Range(low, extent)


def _tightest(side: int, ends: Sequence[Expr]) -> Expr:
    """The tightest of several ends, with constants folded."""
    numbers = [int(end) for end in ends if end.is_const]
    best = [const(max(numbers) if side == LOWER else min(numbers))] if numbers else []
    every = (*best, *(end for end in dict.fromkeys(ends) if not end.is_const))
    if len(every) == 1:
        return every[0]
    return maximum(*every) if side == LOWER else minimum(*every)


def equated_sizes(ranges: Mapping[Var, Range], facts: Sequence[Fact], base: Normalizer) -> dict[Var, Expr]:
    """The variables without a range that facts equate with expressions over other variables.

    Guarantee: at every point that satisfies the facts, each variable has the value of its expression, which is defined
    everywhere and mentions none of the variables.
    """
    values: dict[Var, Expr] = {}
    for fact in facts:
        for part in dag.conjuncts(fact.condition):
            if part.op is not ops.EQ or len(values) >= EQUATED_SIZES:
                continue
            cond = part.substitute(values) if values else part
            found = _equated_size(ranges, cond, base)
            if found is not None:
                values = {v: e.substitute(dict((found,))) for v, e in values.items()}
                values[found[0]] = found[1]
    return values


def _equated_size(ranges: Mapping[Var, Range], cond: Cond, base: Normalizer) -> tuple[Var, Expr] | None:
    """Solve an equation for a variable: for a side that is a variable, else for a variable with coefficient 1."""
    if definedness((cond,)) or dag.opaque_terms(cond):
        return None
    a, b = cond.args
    for v, value in ((a, b), (b, a)):
        if isinstance(v, Var) and v not in ranges and v not in value.free_vars():
            return v, value
    clauses = base.clauses(cond)
    if len(clauses) != 1 or isinstance(clauses[0], Cond):
        return None
    form = clauses[0][1]
    for e in form.terms:
        if isinstance(e, Var) and e not in ranges and (value := form.solved_for(e)) is not None:
            return e, value.expr()
    return None


def renamed(
    own: Mapping[Var, Range],
    stated: Iterable[Fact],
    replacements: Mapping[Var, IntLike],
    ranges: Mapping[Var, Range | None] | None,
) -> tuple[dict[Var, Range | None], tuple[Fact, ...]]:
    """Ranges and facts after a substitution; see `Context.renamed`."""
    new: dict[Expr, Expr] = {}
    for var, value in arguments.mapped(replacements, "replacements", "a mapping {Var: expression}").items():
        if not isinstance(var, Var):
            raise InputError(f"only variables can be renamed, not {shown(var)}")
        new[var] = as_expr(value, f"what replaces {var.name}")
    new_ranges = as_ranges(ranges)
    table: dict[Var, Range | None] = {}
    facts = [fact.substitute(new) for fact in stated]
    for var, limits in own.items():
        moved = limits.substitute(new)
        instead = new.get(var)
        if instead is None:
            table[var] = moved
        elif type(instead) is PlainVar and instead not in new_ranges and instead not in own:
            table[instead] = moved
        else:
            facts += [Fact(cond, DERIVED) for cond in range_conditions(instead, moved)]
    for old, into in new.items():
        assert isinstance(old, Var)
        facts += [Fact(cond, DECLARED) for cond in conditions_between(into, *old.declared())]
    return {**table, **new_ranges}, tuple(dict.fromkeys(facts))
