"""`Frame`: one scope of ranges and facts, with its normalizer, its coalesced questions and its cached answers.

Coalesced questions: the guard of a split leaves a box with a corner cut off: `io*4 + ii < n`. The values of a
mixed-radix sum of independent variables are consecutive, so a new variable `x = io*4 + ii` with `x < n` describes the
same values, and the guard is the end of a range (Polychronopoulos, *Loop coalescing*, ICPP 1987). Coefficients may be
sizes: `io*t + ii`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Final, NamedTuple, TypeVar

from intset.config import CACHED_ANSWERS, Config, memoized
from intset.domains.query import Query
from intset.errors import InputError
from intset.expr import POS_INF, Cond, Expr, Node, Range, Var, as_expr, dag, ops, shown
from intset.expr.build import maximum, minimum
from intset.expr.definedness import asserted_parts, definedness, is_partial
from intset.expr.node import PlainVar
from intset.facts import ASSERTED, DERIVED, Fact, checked_ranges, ends_met, listed_vars
from intset.linear.assumptions import NO_ASSUMPTIONS, Assumptions, narrow
from intset.linear.bounds import EVERYTHING, Interval, meet
from intset.linear.canonical import Normalizer, unranged
from intset.linear.form import ZERO, Linear, atom
from intset.linear.signs import is_known, is_met
from intset.linear.symbolic import coefficients_of, run_of
from intset.ranges import equated_sizes, open_nonempty_conditions, ranges_from_facts, renamed

T = TypeVar("T")
SIZES: Final = "sizes"  # `over=` of a question: all variables without a range
COALESCED_SUMS: Final = 8  # sums of one question that become variables
KEPT_EXTENSIONS: Final = 4  # frames by further ranges and facts; a kept frame keeps as many of its own

N = TypeVar("N", bound=Node)


class Frame:
    """One scope: ranges, facts, and the `Normalizer` that assumes them.

    Attributes
    ----------
    base: the normalizer under the ranges alone.
    known: the normalizer under ranges and facts; the assumptions object that every analysis of this scope uses.
    conditions: the facts as conditions that do not follow from the ranges, with definedness and nonempty ranges.
    defined: definedness conditions of the query.
    requires: the side conditions among `defined` that do not follow from facts.
    running: the conditions without a fact behind them: `defined` and nonempty symbolic ranges.
    answers: cached answers by query.

    Invariant: a frame never changes; its caches die with it, so nothing derived in a scope outlives the scope.
    """

    defined: tuple[Cond, ...] = ()
    requires: tuple[Cond, ...] = ()
    running: tuple[Cond, ...] = ()
    conditions: tuple[Cond, ...] = ()

    def __init__(
        self,
        ranges: Mapping[Var, Range],
        facts: tuple[Fact, ...],
        defined: tuple[Cond, ...] = (),
        requires: tuple[Cond, ...] = (),
        base: Normalizer | None = None,
    ) -> None:
        self.ranges = ranges
        self.facts = facts
        self._defined: dict[tuple[Node, ...], tuple[Frame | None]] = {}
        self._extended: dict[tuple[object, ...], Frame] = {}  # by further ranges and facts
        self.answers: dict[object, Any] = {}
        self.verdicts: dict[tuple[object, ...], str] = {}
        self.base = base_normalizer(ranges, unranged()) if base is None else base
        multiples = [
            (var % step).eq(0) for var in ranges if type(var) is not PlainVar and (step := var.declared()[2]) > 1
        ]
        full = open_nonempty_conditions(ranges, self.base) if self.base.assumptions.limits else ()
        if not facts and not defined and not multiples and not full:
            self.known = self.base
            return
        self.defined, self.requires = defined, requires
        stated = tuple(fact.condition for fact in facts)
        self.running = tuple(cond for cond in (*full, *defined) if cond not in stated)
        if not (defined or multiples) and (found := _within_ends(self.base, stated)) is not None:
            self.conditions, self.known = found
            return
        conditions = [*multiples, *full, *(cond for cond in (*stated, *defined) if not is_known(self.base, cond))]
        partial = [cond for cond in (*full, *stated) if is_partial(cond)]
        if partial:  # a fact implies its own definedness
            conditions += [need for need in definedness(partial) if not is_met(self.base, need)]
        self.conditions = tuple(dict.fromkeys(conditions))
        self.known = narrow(self.base, self.conditions) if self.conditions else self.base

    @classmethod
    def of(cls, ranges: Mapping[Var, Range | None] | None, facts: Iterable[Fact] = ()) -> Frame:
        """The scope of ranges, lower half lines included, and facts."""
        table, ends = checked_ranges(ranges)
        return cls(table, (*ends, *facts))

    @cached_property
    def fingerprint(self) -> tuple[object, ...]:
        """Ranges and facts as a key, compared part by part by identity; equal for equal scopes."""
        parts: list[object] = [len(self.ranges)]
        for var, limits in self.ranges.items():
            parts += (var, limits.min, limits.extent)
        for fact in self.facts:
            parts += (fact.condition, fact.provenance)
        return tuple(parts)

    def extended(self, ranges: Mapping[Var, Range | None], facts: tuple[Fact, ...]) -> Frame:
        """The frame with further variables and facts; `self` without any."""
        if not ranges and not facts:
            return self
        added, ends = checked_ranges(ranges)
        key = (*added.items(), *ends, *facts)
        if (cached := self._extended.get(key)) is None:
            if len(self._extended) >= KEPT_EXTENSIONS:
                self._extended.clear()
            cached = self._extended[key] = self._with(added, (*self.facts, *ends, *facts))
        return cached

    def _with(self, added: Mapping[Var, Range], facts: tuple[Fact, ...]) -> Frame:
        table = {**self.ranges, **added}
        if any(var in self.ranges for var in added) or self._mentions(added):
            return Frame(checked_ranges(table)[0], facts)
        return Frame(table, facts, base=base_normalizer(added, self.base) if added else self.base)

    def over_sizes(self, exprs: Sequence[Expr], keep: Sequence[Var], over: Sequence[Var] | str) -> Frame:
        """The frame in which sizes are quantified: variables whose ranges are their declared bounds.

        Parameters
        ----------
        exprs: the expressions of the question.
        keep: variables that stay symbolic in the answer.
        over: the quantified sizes; "sizes" for all variables without a range.

        Raises
        ------
        InputError: `over` is no list of variables without a range outside `keep`, and not "sizes".
        """
        if isinstance(over, str):
            if over != SIZES:
                raise InputError(f'over must be a list of sizes or "{SIZES}", not {shown(over)}')
            sizes = self.sizes(exprs, keep)
        else:
            sizes = listed_vars(over, "over")
            self.check_sizes(sizes, keep)
        return self.extended(dict.fromkeys(sizes), ())

    def check_sizes(self, sizes: Iterable[Var], keep: Sequence[Var]) -> None:
        """Raise `InputError` for a variable that `over=` cannot take."""
        for var in sizes:
            if var in keep:
                raise InputError(f"over and keep both list {shown(var)}")
            if var in self.ranges:
                raise InputError(f"over takes sizes, variables without a range, not {shown(var)}")

    def sizes(self, exprs: Sequence[Expr], keep: Sequence[Var]) -> tuple[Var, ...]:
        """The variables without a range, outside `keep`, of expressions, ranges and facts."""
        stated = dag.free_vars(*exprs, *(fact.condition for fact in self.facts))
        ends = (var for limits in self.ranges.values() for var in limits.free_vars())
        own = dict.fromkeys((*stated, *ends))
        return tuple([var for var in own if var not in self.ranges and var not in keep])

    def _mentions(self, variables: Mapping[Var, Range | None]) -> bool:
        """Whether an end of a range mentions one of the variables."""
        return any(v in variables for r in self.ranges.values() if r.ends is None for v in r.free_vars())

    def stating(self, facts: tuple[Fact, ...]) -> Frame:
        """A frame of equal ranges under other facts."""
        return Frame(self.ranges, facts)

    @cached_property
    def speaks_of_sizes(self) -> bool:
        """Whether ranges or facts mention parameters, or ranges mention other variables."""
        ranges = self.ranges
        return bool(self.base.assumptions.limits) or any(
            v not in ranges for c in self.conditions for v in c.free_vars()
        )

    @property
    def bounded(self) -> Frame:
        """An equivalent frame in which facts that bound variables with infinite ends are ranges."""
        return (self._bounded() if self.facts else None) or self

    @memoized
    def _bounded(self) -> Frame | None:
        """`bounded`; `None` for this frame, to avoid a reference cycle."""
        bounded = ranges_from_facts(self.ranges, self.facts, self.base)
        return None if bounded is None else Frame(*bounded, self.defined, self.requires)

    @property
    @memoized
    def tightened(self) -> Frame | None:
        """An equivalent frame in which facts over sizes also tighten finite ranges; `None` without such facts."""
        sized = any(v not in self.ranges for fact in self.facts for v in fact.condition.free_vars())
        tightened = ranges_from_facts(self.ranges, self.facts, self.base, tighten=True) if sized else None
        return None if tightened is None else Frame(*tightened, self.defined, self.requires)

    @property
    @memoized
    def solved(self) -> tuple[Frame, Mapping[Var, Expr]] | None:
        """A frame without the sizes that facts equate with expressions, and these; `None` without such facts.

        Guarantee: its points, with the values of those sizes added, are the points of this frame.
        """
        values = equated_sizes(self.ranges, self.facts, self.base) if self.facts else {}
        if not values:
            return None
        ranges, facts = renamed(self.ranges, self.facts, values, {})
        try:
            table, ends = checked_ranges(ranges)
        except InputError:  # a size may be equated with a variable whose range depends on it
            return None
        defined, requires = (tuple(c.substitute(values) for c in some) for some in (self.defined, self.requires))
        facts = tuple(f for f in facts if f.condition.op is not ops.BOOL and not _is_reflexive(f.condition))
        return Frame(table, (*ends, *facts), defined, requires), values

    @memoized
    def summed(self, kept: tuple[Var, ...]) -> tuple[SummedFrame, ...]:
        """Equivalent frames, each over one variable for a sum that guards speak of; see `coalesced`."""
        return tuple(_over_sums(self, kept))

    def query(self, exprs: Sequence[Expr], keep: Sequence[Var], config: Config) -> Query:
        """The query for the values of `exprs` in this scope."""
        query = Query(exprs, self.ranges, self.conditions, keep, self.base, self.known, config)
        query.verdicts = self.verdicts
        return query

    def where_defined(self, roots: Sequence[Node]) -> Frame:
        """This frame with definedness of `roots` as further assumptions."""
        for root in roots:
            if is_partial(root):
                break
        else:
            return self
        key = tuple(roots)
        cached = self._defined.get(key)
        if cached is None:
            if len(self._defined) >= CACHED_ANSWERS:
                self._defined.clear()
            inside = _where_defined(self, roots)
            cached = self._defined[key] = (None if inside is self else inside,)
        return cached[0] or self

    def canonical(self, e: Expr) -> Expr:
        """The linear form of `e` as an expression, equal to `e` wherever `e` is defined."""
        known = self.where_defined((e,)).known
        return known.regroup(known.form(e)).expr()

    @property
    @memoized
    def contradiction(self) -> tuple[Fact, ...]:
        """A minimal set of facts found contradictory without the ranges; empty if none is found."""
        return _contradicting(self.facts)

    def remember(self, key: object, answer: T) -> T:
        """Cache an answer and return it."""
        if len(self.answers) >= CACHED_ANSWERS:
            self.answers.clear()
        self.answers[key] = answer
        return answer


def base_normalizer(ranges: Mapping[Var, Range], outer: Normalizer) -> Normalizer:
    """The normalizer that assumes the ranges, those of `outer`, and nothing else.

    Precondition: no range of `outer` is the range of, or mentions, a variable of `ranges`.
    """
    numeric = dict(outer.ranges)
    symbolic: dict[Var, Range] = {}
    empty = outer.empty
    for var, limits in ranges.items():
        ends = limits.ends
        if ends is None:
            symbolic[var] = limits
        else:
            low, high = numeric[var] = ends if type(var) is PlainVar else _within_declared(var, ends)
            empty |= low > high
    if not symbolic:
        return Normalizer(numeric, outer.assumptions, empty=empty)
    return _with_symbolic_ranges(numeric, symbolic, outer, empty)


def _within_declared(var: Var, ends: tuple[int, int]) -> tuple[int, int]:
    low, high, _ = var.declared()
    return (ends[0] if low is None else max(low, ends[0]), ends[1] if high is None else min(high, ends[1]))


def _meeting_declared(var: Var, first: Any, last: Any) -> tuple[Any, Any]:
    """The ends of a range intersected with the declared bounds of its variable."""
    low, high, _ = var.declared()
    if low is not None:
        first = maximum(first, low) if isinstance(first, Expr) else as_expr(low)
    if high is not None:
        last = minimum(last, high) if isinstance(last, Expr) else as_expr(high)
    return first, last


def _with_symbolic_ranges(
    numeric: dict[Var, Interval], symbolic: dict[Var, Range], outer: Normalizer, empty: bool
) -> Normalizer:
    """The normalizer with symbolic ranges: both numeric and symbolic ends, outer variables first."""
    limits = dict(outer.assumptions.limits)
    pending = dict(symbolic)
    while pending:
        is_outer = len(numeric) == len(outer.ranges)
        normalizer = outer if is_outer else Normalizer(dict(numeric), Assumptions(limits=dict(limits)))
        ready = [v for v in pending if not any(w in pending for w in pending[v].free_vars())]
        for var in ready:
            span = pending.pop(var)
            least, most = span.min, span.max
            if type(var) is not PlainVar:
                least, most = _meeting_declared(var, least, most)
            first = normalizer.form(least) if isinstance(least, Expr) else None
            last = normalizer.form(most) if isinstance(most, Expr) else None
            low = None if first is None else normalizer.bounds(first)[0]
            high = None if last is None else normalizer.bounds(last)[1]
            numeric[var] = (low, high)
            limits[var] = (first, last)
            empty |= low is not None and high is not None and low > high
    sizes = dict(outer.assumptions.atoms)
    for first, last in (limits[var] for var in symbolic):
        if first is not None and last is not None:
            _learn_size(last.minus(first), numeric, sizes)
    empty = empty or any(low is not None and high is not None and low > high for low, high in sizes.values())
    return Normalizer(numeric, Assumptions(atoms=sizes, limits=limits), empty=empty)


def _learn_size(width: Linear, numeric: Mapping[Var, Interval], sizes: dict[Expr, Interval]) -> None:
    """Tighten a size by `width >= 0`, which holds at every point; for `[0, n)` it gives `n >= 1`."""
    if len(width.terms) != 1:
        return
    ((size, k),) = width.terms.items()
    if not isinstance(size, Var) or size in numeric:
        return
    own: Interval = (-(width.const // k), None) if k > 0 else (None, width.const // -k)
    sizes[size] = meet(meet(size.declared()[:2], sizes.get(size, EVERYTHING)), own)


def _within_ends(base: Normalizer, facts: Iterable[Cond]) -> tuple[tuple[Cond, ...], Normalizer] | None:
    """The conditions that the box of `base` does not imply, and the box restricted by them; `None` as `ends_met`."""
    met = None if base.empty or base.assumptions is not NO_ASSUMPTIONS else ends_met(base.ranges, facts)
    if met is None or not met[0]:
        return None if met is None else ((), base)
    return met[0], Normalizer(met[1], base.assumptions, base.depth + 1)


def _is_reflexive(cond: Cond) -> bool:
    return cond.op is ops.EQ and cond.args[0] is cond.args[1]


def _contradicting(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """A minimal subset of contradictory facts, by deletion; empty if they are not found contradictory."""
    if not facts or not Frame({}, tuple(facts)).known.empty:
        return ()
    kept = list(facts)
    for fact in facts:
        fewer = [other for other in kept if other is not fact]
        if fewer and Frame({}, tuple(fewer)).known.empty:
            kept = fewer
    return tuple(kept)


def _where_defined(frame: Frame, roots: Sequence[Node]) -> Frame:
    """`frame` restricted to the points at which the roots are defined."""
    needs = [need for need in definedness(roots) if not is_met(frame.known, need)]
    if not needs:
        return frame
    asserted = tuple(Fact(claim, ASSERTED) for claim in asserted_parts(roots))
    inside = Frame(frame.ranges, (*frame.facts, *asserted), frame.defined, base=frame.base) if asserted else frame
    open_needs = tuple(need for need in needs if not is_met(inside.known, need))
    if not open_needs:
        return inside
    return Frame(frame.ranges, inside.facts, (*frame.defined, *open_needs), open_needs, frame.base)


class MixedRadix(NamedTuple):
    """The sum `unit + others` of independent variables, which takes consecutive values.

    Attributes
    ----------
    unit: a variable with coefficient 1.
    others: the rest of the sum.
    least, reach: the least value and the width; `None` for a sum without end.
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
        steps = ((one, one.of(asked)) for one in frame.summed(tuple(kept)))
        step = next(((one, moved) for one, moved in steps if moved is not None), None)
        if step is None:
            break
        frame, asked, changed = step[0].frame(), step[1], True
    return (frame, asked) if changed else None


def _guarded_sums(frame: Frame, kept: Sequence[Var]) -> Iterator[MixedRadix]:
    """The mixed-radix sums that the guards of a frame compare with sizes or numbers."""
    ends = [limits.free_vars() for limits in frame.ranges.values()]
    for fact in frame.facts:
        clauses = frame.base.clauses(fact.condition)
        if len(clauses) != 1 or isinstance(clauses[0], Cond) or clauses[0][0] is not ops.GE:
            continue
        form = clauses[0][1]
        own = [v for v in dag.free_vars(*form.terms) if v in frame.ranges and v not in kept]
        if len(own) < 2 or any(v.declared() != (None, None, 1) or any(v in used for used in ends) for v in own):
            continue
        if any(not set(frame.ranges[v].free_vars()).isdisjoint(frame.ranges) for v in own) or dag.opaque_terms(
            *form.terms
        ):
            continue
        total = _mixed_radix(frame.known, form, own)
        if total is not None:
            yield total


def _mixed_radix(known: Normalizer, form: Linear, variables: Sequence[Var]) -> MixedRadix | None:
    """The part of `form` over these variables as a mixed-radix sum; `None` if its values may have gaps."""
    coefficients = coefficients_of(form, variables) or {}
    unit = next((v for v, k in coefficients.items() if k.is_const and abs(k.const) == 1), None)
    if unit is None:
        return None
    upward = {v: k.scale(coefficients[unit].const) for v, k in coefficients.items()}
    run = run_of(known, upward)
    if run is None:
        return None
    others = reduce(Linear.plus, (known.product(k, atom(v)) for v, k in upward.items() if v is not unit), ZERO)
    return MixedRadix(unit, others, *run, frozenset(variables))


@dataclass(eq=False)
class SummedFrame:
    """A frame with one variable for a mixed-radix sum, built on first use, and how expressions are written over it."""

    total: MixedRadix
    new: Mapping[Expr, Expr]
    ranges: Mapping[Var, Range]
    facts: tuple[Fact, ...]
    base: Normalizer
    requires: tuple[Cond, ...]
    defined: tuple[Cond, ...]

    @memoized
    def frame(self) -> Frame:
        tightened = ranges_from_facts(self.ranges, self.facts, self.base, tighten=True)
        if tightened is None:
            return Frame(self.ranges, self.facts, self.defined, self.requires, self.base)
        return Frame(*tightened, self.defined, self.requires)

    def of(self, roots: tuple[N, ...]) -> tuple[N, ...] | None:
        """The expressions over the variable for the sum; `None` if summed variables occur outside it."""
        moved = [_over_the_sum(root, self.new, self.total, self.base) for root in roots]
        return None if any(one is None for one in moved) else tuple([one for one in moved if one is not None])


def _over_sums(frame: Frame, kept: Sequence[Var]) -> Iterator[SummedFrame]:
    """The frame over one variable for each of its guarded sums, short sums first, where all its conditions allow it."""
    tried: list[frozenset[Var]] = []
    for total in sorted(_guarded_sums(frame, kept), key=lambda total: len(total.variables)):
        if total.variables in tried:
            continue
        tried.append(total.variables)
        summed = _over_sum(frame, total)
        if summed is not None:
            yield summed


def _over_sum(frame: Frame, total: MixedRadix) -> SummedFrame | None:
    """The frame over one variable for the sum; `None` if its variables occur outside it."""
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
    if any(_mentions(cond, total) for cond in frame.defined):
        return None
    return SummedFrame(total, new, ranges, tuple(facts), base, frame.requires, frame.defined)


def _over_the_sum(root: N, new: Mapping[Expr, Expr], total: MixedRadix, base: Normalizer) -> N | None:
    """`root` over the variable for the sum; `None` if other uses of the summed variables remain."""
    moved: Any = root.substitute(dict(new))
    if _mentions(moved, total):
        moved = base.cond(moved) if isinstance(moved, Cond) else base.form(moved).expr()
    return None if _mentions(moved, total) else moved


def _mentions(root: Node, total: MixedRadix) -> bool:
    return not total.variables.isdisjoint(root.free_vars())
