"""The environment of InferBound: ranges of loop variables and sizes, canonical forms, bounds, cheap proofs of signs.

It is a `Normalizer` of `intset` whose table of ranges grows while the pass enters loops. A context would
canonicalise its facts again for every loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from bound.schedule import simple
from bound.schedule.simple import low
from intset.budgets import SCHEDULE, SCHEDULE_LEAST, SCHEDULE_PER_STAGE
from intset.context import Context
from intset.domains.registry import domain_named, regions_of, strongest
from intset.expr import ops
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr, constant_value
from intset.expr.range import Range
from intset.expr.walk import conjuncts
from intset.infinity import POS_INF
from intset.linear.assumptions import Assumptions
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from intset.regions.account import Account

if TYPE_CHECKING:
    from intset.domains.protocols import Regions
    from intset.regions.shape import Shape

Ends = tuple[int | None, int | None]


def create_account(stages: int) -> Account:
    """The budget of the domain for a schedule of `stages` stages, in operations."""
    return Account(SCHEDULE + SCHEDULE_PER_STAGE * stages, SCHEDULE_LEAST)


class LoopEnvironment:
    """Ranges of loop variables and sizes, with the domain that answers about them and its budget.

    Invariant: a loop variable is entered once, before its first use, and its range never changes; so every answer,
    once true, stays true. Guarantee: bounds contain all values, and a sign is claimed only where it holds everywhere.

    Attributes
    ----------
    context: the user's facts and ranges; sizes without a range are at least 0.
    ranges: the range of every loop variable entered so far.
    domain: the name of the domain that answers.
    account: the remaining operations of the domain for this schedule.
    instances: memo of `instances`, by the variables.
    """

    def __init__(self, context: Context, sizes: Iterable[Var], domain: str, account: Account) -> None:
        self.domain, self.account = domain, account
        self._shapes: Shape | None = None
        ranges = context.ranges
        self.sizes = tuple(var for var in sizes if var not in ranges)
        self.context = context.extended({var: Range(0, POS_INF) for var in self.sizes}) if self.sizes else context
        frame = self.context.frame
        self.ranges: dict[Var, Range] = {}
        self._numeric: dict[Var, Ends] = dict(frame.known.ranges)
        self._limits = dict(frame.known.assumptions.limits)
        facts = frame.known.assumptions
        self._plain = Normalizer({})
        self._bounds = Normalizer(self._numeric, Assumptions(facts.nonneg, facts.atoms, self._limits))
        self._is_plain = not facts.nonneg
        # terms of a form -> (least constant proved to make it nonnegative, greatest constant that was not proved)
        self._thresholds: dict[frozenset[tuple[Expr, int]], tuple[int | None, int | None]] = {}
        self.instances: dict[tuple[Var, ...], Shape] = {}

    @property
    def size_ranges(self) -> dict[Var, Range]:
        """The ranges of the variables of the context."""
        return dict(self.context.ranges)

    @property
    def regions(self) -> Regions:
        """The domain of regions that are not boxes."""
        return regions_of(self.domain) or strongest()

    @property
    def has_regions(self) -> bool:
        """Whether the answering domain has regions."""
        return regions_of(self.domain) is not None

    @property
    def prefers_regions(self) -> bool:
        """Whether footprints bypass arithmetic on ends, because the user named a domain of regions."""
        domain: object = domain_named(self.domain)
        return regions_of(self.domain) is domain

    @property
    def shapes(self) -> Shape:
        """The factory of shapes of that domain."""
        if self._shapes is None:
            self._shapes = self.regions.everything(0)
        return self._shapes

    def budget(self, operations: int) -> AbstractContextManager[None]:
        """A block that limits the domain to `operations`, and to the rest of the account."""
        return self.shapes.budget(operations, self.account)

    def add(self, var: Var, limits: Range) -> None:
        """Enter a loop variable; later calls for the same variable have no effect."""
        if var in self.ranges:
            return
        self.ranges[var] = limits
        first, last = self.form(low(limits)), self.form(as_expr(limits.max))
        self._numeric[var] = (self.bounds(first)[0], self.bounds(last)[1])
        if not (first.is_const and last.is_const):
            self._limits[var] = (first, last)

    def form(self, e: IntLike) -> Linear:
        """The canonical form of `e`, without assumptions."""
        return self._plain.form(as_expr(e))

    def forms_of(self, cond: Cond) -> list[tuple[str, Linear]] | None:
        """A conjunction of comparisons as pairs (kind, form): `form >= 0` for "ge", `form == 0` for "eq".

        `None` for disjunctions and disequalities.
        """
        forms = []
        for part in conjuncts(self._plain.cond(cond)):
            if part.op is ops.BOOL:
                if part.data:
                    continue
                return [("ge", Linear(-1, {}))]
            if part.op is ops.OR or part.op is ops.AND:
                return None
            kind, form = self._plain.compared[part]
            if kind is ops.NE:
                return None
            forms.append(("ge" if kind is ops.GE else "eq", form))
        return forms

    def bounds(self, form: Linear) -> Ends:
        """Numeric bounds of `form` over all ranges; `None` for an open end."""
        low: int | None = form.const
        high: int | None = form.const
        numeric = self._numeric
        for e, k in form.terms.items():
            ends = numeric.get(e) if isinstance(e, Var) else None
            first, last = self._bounds.atom_bounds(e) if ends is None else ends
            if k < 0:
                first, last = last, first
            low = None if low is None or first is None else low + k * first
            high = None if high is None or last is None else high + k * last
        return low, high

    def is_nonneg(self, form: Linear, assumed: Iterable[Linear] = ()) -> bool:
        """Whether `form >= 0` is proved wherever all forms of `assumed` are nonnegative."""
        low, high = self.bounds(form)
        if low is not None and low >= 0:
            return True
        if high is not None and high < 0 and not assumed:
            return False
        for fact in assumed:
            low = self.bounds(form.minus(fact))[0]
            if low is not None and low >= 0:
                return True
        if self._is_plain and not any(e in self._limits or not isinstance(e, Var) for e in form.terms):
            return False
        return self._follows(form)

    def _follows(self, form: Linear) -> bool:
        """Prove `form >= 0` from symbolic ends of loops; results are kept as thresholds of the constant."""
        terms = frozenset(form.terms.items())
        enough, too_little = self._thresholds.get(terms, (None, None))
        if enough is not None and form.const >= enough:
            return True
        if too_little is not None and form.const <= too_little:
            return False
        holds = self._bounds.is_nonneg(form)
        if holds:
            self._thresholds[terms] = (form.const, too_little)
        elif all(v in self._numeric for e in form.terms for v in e.free_vars()):  # their ranges are final
            self._thresholds[terms] = (enough, form.const)
        return holds

    def number(self, e: IntLike) -> int | None:
        """The value of an expression with equal numeric bounds, else `None`."""
        value = simple.number(e)
        if value is not None:
            return value
        low, high = self.bounds(self.form(e))
        return low if low == high else None


def constant_extent(r: Range) -> int | None:
    """The extent of a range if it is constant, else `None`."""
    return constant_value(r.extent) if isinstance(r.extent, Expr) else None
