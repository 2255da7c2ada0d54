"""What every domain answers with: `IntSet`, and the kinds of sets that operations between any two of them give.

An IntSet backend is one module: a class that implements `Domain` (`protocols.py`), registered by name. The one question
is `image`: given iteration variables with their ranges, the facts that hold, and a tuple of index expressions, which
points do they reach?
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from intset.config import all_as_configured, as_configured
from intset.domains.protocols import ClimbingDomain, Domain, Points, RegionDomain, Regions
from intset.domains.sets import order
from intset.domains.sets.bounds import (
    Enclosure,
    Ends,
    check_countable,
    condition_of,
    count_of,
    has_point,
    is_empty,
    joined,
    placed,
)
from intset.domains.sets.ends import Bounds, End, as_end, by_parameter, end_at, placed_conditions
from intset.domains.sets.nonempty import Excludable, note
from intset.errors import BudgetError, InputError, UndecidedError
from intset.expr import ops
from intset.expr.arguments import listed
from intset.expr.build import logical_and, maximum
from intset.expr.definedness import definedness, is_partial
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr, as_int, constant_value, truth
from intset.expr.walk import conjuncts, free_vars
from intset.facts import ASSUMED, Fact
from intset.frame import Frame
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.names import CHEAPEST
from intset.prover.proof import Proof, prove_in, undecided
from intset.regions.shape import Shape


class IntSet(Excludable, order.Ordered):
    """A set of integers, possibly depending on parameters: a sound superset of what was asked for.

    Attributes
    ----------
    min, max: the ends, expressions over `params`, or `NEG_INF` / `POS_INF`.
    is_tight: both ends are attained wherever the set is not empty.
    is_exact: proved equal to the true set.
    params: the variables the set depends on.
    notes: what was given up, in words; or which fact excludes the values given to `at`.
    by: the domain that answered.
    """

    by: str
    is_tight: bool
    is_exact: bool
    notes: tuple[str, ...]
    where: tuple[Cond, ...]  # what holds of the parameters

    def __init__(
        self, by: str, is_tight: bool, is_exact: bool, notes: Sequence[str] = (), where: Sequence[Cond] = ()
    ) -> None:
        self.by, self.is_tight, self.is_exact = by, is_tight or is_exact, is_exact
        self.notes = notes if type(notes) is tuple else listed(notes, "notes")
        self.where = tuple(where)

    # -- what a kind of set must tell ----------------------------------------------------------------------------

    @abstractmethod
    def ends(self) -> tuple[End, End]:
        """(min, max); `(POS_INF, NEG_INF)` when empty for all parameters."""

    @abstractmethod
    def condition(self, e: IntLike) -> Cond:
        """The condition that `e` is an element of the set represented."""

    @abstractmethod
    def count(self) -> int | Infinity | Expr:
        """The number of elements.

        Returns an `int` when it is constant, `POS_INF` when unbounded, else an expression over `params`.

        Raises
        ------
        CountError: the set is not exact, or the number is not known in closed form or out of the budget.
        """

    # -- what follows --------------------------------------------------------------------------------------------

    @property
    def min(self) -> End:
        return self.ends()[0]

    @property
    def max(self) -> End:
        return self.ends()[1]

    @property
    def params(self) -> tuple[Var, ...]:
        return free_vars(*(end for end in self.ends() if isinstance(end, Expr)))

    @property
    def is_empty(self) -> bool:
        """Whether the set is empty for all values of the parameters."""
        return self.ends()[0] is POS_INF

    @property
    def is_everything(self) -> bool:
        low, high = self.ends()
        try:
            return low is NEG_INF and high is POS_INF and self.condition(Var("element")).op is ops.BOOL
        except UndecidedError:
            return False

    @property
    def is_single_point(self) -> bool:
        low, high = self.ends()
        return isinstance(low, Expr) and low is high

    def __contains__(self, value: object) -> bool:
        """`5 in s`, for a set that does not depend on parameters."""
        if self.params:
            raise InputError(f"the set depends on {', '.join(p.name for p in self.params)}: use s.contains(e)")
        return bool(evaluate(self.condition(as_int(value, "an element"))))

    @as_configured
    def contains(self, e: IntLike) -> Proof:
        """The proof that `e` is an element of the set represented, or a counterexample; unknown where the set has no
        condition that could be written."""
        try:
            inside = self.condition(as_expr(e))
        except UndecidedError as error:
            return undecided(str(error))
        return prove_in(self._frame(), inside)

    def _frame(self) -> Frame:
        """What holds of the parameters, as a scope."""
        return Frame({}, tuple(Fact(part, ASSUMED) for part in self._relied_on()))

    @as_configured
    def at(self, values: Mapping[Var, IntLike]) -> IntSet:
        """The set at the given values of parameters, `{n: 5}` or by name `{"n": 5}`.

        At values that a fact or a declared bound excludes the set is empty, and a note names the fact.

        Raises
        ------
        InputError: a key that does not say which parameter is meant, a value that is no integer.
        """
        params = self._spoken_of()
        table = by_parameter(values, params)
        if excluding := self._excluding(table):
            return empty_set(self.by, (note(excluding, table),))
        if table.keys().isdisjoint(params):
            return self
        where = placed_conditions(self.where, table)
        if where is None:
            return empty_set(self.by)
        found = self.substituted(table)
        found.where = where
        return found

    @as_configured
    def substituted(self, values: Mapping[Var, Expr]) -> IntSet:
        """What `at` gives where some of these parameters occur. A kind of set that says nothing here keeps its elements
        where they are a shape, else its ends."""
        try:
            shape = placed(self.shape, values)
        except BudgetError:
            note = "the elements are not known at given values, only their ends"
            return _interval_at(self, values, False, (*self.notes, note))
        flags = {"is_exact": self.is_exact, "is_tight": self.is_tight, "notes": self.notes}
        return ShapeSet(shape, self.by, enclosure=self.enclosure().at(values), **flags)

    # -- as other sets are ---------------------------------------------------------------------------------------

    _kind, dims = "set", 1

    def conditions(self, point: Sequence[Expr]) -> tuple[Cond, ...]:
        return (*self.where, self.condition(point[0]))

    @property
    def mentioned(self) -> IntSet:
        """The set at the values of parameters at which something is left (`domains.where_nonempty`)."""
        return self

    def in_instances(self) -> IntSet:
        return self

    def _knows_where_empty(self) -> bool:
        """Whether nothing is represented wherever there is no true element."""
        return True

    def _relied_on(self) -> tuple[Cond, ...]:
        return tuple(part for cond in self.where for part in conjuncts(cond))

    def _joined_with(self, other: IntSet, operation: Callable[[IntSet, IntSet], IntSet]) -> IntSet:
        """What an operation makes of this set and another."""
        return operation(self, other)

    def enclosure(self) -> Enclosure:
        """What is known of the set without its shape; it is not asked for its ends before somebody needs them."""
        return Enclosure(lambda: [self.ends()])

    @as_configured
    def __or__(self, other: IntSet) -> IntSet:
        """The union of the sets represented, or a superset of it when it has no representation."""
        return self._joined_with(other, _union) if isinstance(other, IntSet) else NotImplemented

    @as_configured
    def __and__(self, other: IntSet) -> IntSet:
        """The intersection of the sets represented, or a superset of it when it has no representation."""
        return self._joined_with(other, _intersection) if isinstance(other, IntSet) else NotImplemented

    def describe(self) -> str:
        """The elements, in words or formulas."""
        low, high = self.ends()
        if self.is_empty:
            return "{}"
        return f"{{{low}}}" if low is high else f"[{low}, {high}]"

    def __repr__(self) -> str:
        flag = "exact" if self.is_exact else "tight" if self.is_tight else "superset"
        return f"<{type(self).__name__} {self.describe()} {flag} by {self.by}>"


class IntervalSet(IntSet):
    """All integers from `low` to `high`, both included; the ends may be symbolic, or infinite."""

    def __init__(self, low: End | int, high: End | int, by: str = "interval", **flags: Any) -> None:
        super().__init__(by, flags.pop("is_tight", False), flags.pop("is_exact", False), **flags)
        self.low, self.high = as_end(low), as_end(high)
        first, last = (constant_value(end) if isinstance(end, Expr) else None for end in (self.low, self.high))
        self._is_crossed = first is not None and last is not None and first > last

    def substituted(self, values: Mapping[Var, Expr]) -> IntSet:
        return _interval_at(self, values, self.is_exact, self.notes)

    def ends(self) -> tuple[End, End]:
        return (POS_INF, NEG_INF) if self._is_crossed else (self.low, self.high)

    def condition(self, e: IntLike) -> Cond:
        if self._is_crossed or self.low is POS_INF or self.high is NEG_INF:
            return truth(False)
        ends = [end for end in (self.low, self.high) if isinstance(end, Expr)]
        parts: list[Cond] = [
            *definedness([end for end in ends if is_partial(end)])
        ]  # an interval without ends has no elements
        if isinstance(self.low, Expr):
            parts.append(as_expr(e) >= self.low)
        if isinstance(self.high, Expr):
            parts.append(as_expr(e) <= self.high)
        return logical_and(*parts)

    def count(self) -> int | Infinity | Expr:
        if self.is_empty:
            return 0
        check_countable(self)
        if isinstance(self.low, Infinity) or isinstance(self.high, Infinity):
            return POS_INF
        extent = self._frame().canonical(self.high - self.low + 1)
        number = constant_value(extent)
        return maximum(extent, 0) if number is None else max(number, 0)


@all_as_configured
class ShapeSet(IntSet):
    """The points of a shape with one coordinate.

    `enclosure` answers where the budget of the shape does not suffice: then the ends are looser, `is_tight` is false.
    """

    def __init__(self, shape: Shape, by: str, enclosure: Enclosure | None = None, **flags: Any) -> None:
        self._shape, self._enclosure = shape, enclosure
        self._ends = Ends(shape, 1, enclosure)
        super().__init__(by, flags.pop("is_tight", False), flags.pop("is_exact", False), **flags)

    @property
    def shape(self) -> Shape:
        return self._shape

    def enclosure(self) -> Enclosure:
        return super().enclosure() if self._enclosure is None else self._enclosure.outline()

    def ends(self) -> tuple[End, End]:
        return self._ends.sides()[0]

    @property
    def is_tight(self) -> bool:
        """Looked into when it is asked for: an end that only some parameters have is not attained for the others."""
        return self._claims_tight and self._ends.are_attained()

    @is_tight.setter
    def is_tight(self, claim: bool) -> None:
        self._claims_tight = claim

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self._notes, *self._ends.notes_so_far())

    @notes.setter
    def notes(self, notes: tuple[str, ...]) -> None:
        self._notes = notes

    def bounds(self, operations: int | None = None) -> Bounds:
        """The ends, whether they are attained, and what was given up, in one go and within a budget."""
        sides, given_up = self._ends.found(operations)
        is_tight = self._claims_tight and not given_up and self._ends.attains(sides)
        return Bounds(*sides[0], is_tight, self.by, (*self._notes, *given_up))

    @property
    def is_empty(self) -> bool:
        return is_empty(self._shape)

    @property
    def params(self) -> tuple[Var, ...]:
        return self._shape.variables()

    def condition(self, e: IntLike) -> Cond:
        return condition_of(self._shape, (e,), "set")

    def __contains__(self, value: object) -> bool:
        return super().__contains__(value) if self.params else has_point(self._shape, (as_int(value, "an element"),))

    def count(self) -> int | Infinity | Expr:
        check_countable(self)
        return count_of(self._shape, self._enclosure)

    def substituted(self, values: Mapping[Var, Expr]) -> IntSet:
        enclosure = None if self._enclosure is None else self._enclosure.at(values)
        try:
            shape = placed(self._shape, values)
        except BudgetError as error:
            low, high = (NEG_INF, POS_INF) if enclosure is None else enclosure.sides[0]
            notes = (*self.notes, f"the values were put into the ends alone: {error}")
            return IntervalSet(low, high, self.by, notes=notes)
        flags = {"is_exact": self.is_exact, "is_tight": self._claims_tight, "notes": self._notes}
        return ShapeSet(shape, self.by, enclosure, **flags)

    def describe(self) -> str:
        return self._shape.describe()

    def __repr__(self) -> str:
        flag = "exact" if self.is_exact else "tight" if self._claims_tight else "superset"
        return f"<{type(self).__name__} {self.describe()} {flag} by {self.by}>"


def _interval_at(s: IntSet, table: Mapping[Var, IntLike], is_exact: bool, notes: Sequence[str]) -> IntSet:
    """The interval between the ends of `s` at given values."""
    low, high = (end_at(end, table) for end in s.ends())
    if low is None or high is None:
        return empty_set(s.by)
    return IntervalSet(low, high, by=s.by, is_tight=s.is_tight, is_exact=is_exact, notes=notes)


def _union(a: IntSet, b: IntSet) -> IntSet:
    if a.is_empty or b.is_empty:
        return b if a.is_empty else a
    where = tuple(cond for cond in dict.fromkeys(a.where) if cond in b.where)  # elements are there where one has some
    exact = a._knows_where_empty() and b._knows_where_empty() and a.where == b.where
    return _joined(a, b, lambda x, y: x.union(y), a.enclosure().united(b.enclosure()), where, exact)


def _intersection(a: IntSet, b: IntSet) -> IntSet:
    if a.is_empty or b.is_empty:
        return empty_set(a.by)
    where = tuple(dict.fromkeys((*a.where, *b.where)))
    return _joined(a, b, lambda x, y: x.intersect(y), a.enclosure().intersected(b.enclosure()), where, True)


def _joined(
    a: IntSet,
    b: IntSet,
    operation: Callable[[Shape, Shape], Shape],
    enclosure: Enclosure,
    where: tuple[Cond, ...],
    exact: bool,
) -> IntSet:
    """What two sets give together; exact only when both are."""
    notes = tuple(dict.fromkeys((*a.notes, *b.notes)))
    try:
        shape = joined(a, b, operation)
    except BudgetError as error:
        low, high = enclosure.sides[0]
        by = a.by if a.by == b.by else CHEAPEST
        return IntervalSet(low, high, by, notes=(*notes, f"joined as intervals: {error}"), where=where)
    by = a.by if a.by == b.by else shape.by
    is_exact = exact and a.is_exact and b.is_exact
    found = ShapeSet(shape, by, enclosure, is_exact=is_exact, notes=notes, where=where)
    return empty_set(by) if found.is_empty else found


def bounds_of(found: IntSet) -> Bounds:
    """The ends of a set."""
    return Bounds(*found.ends(), found.is_tight, found.by, found.notes)


def empty_set(by: str, notes: Sequence[str] = ()) -> IntervalSet:
    """The set without elements; notes may say why."""
    return IntervalSet(POS_INF, NEG_INF, by, is_exact=True, notes=notes)


__all__ = [
    "Bounds",
    "ClimbingDomain",
    "Domain",
    "End",
    "IntSet",
    "IntervalSet",
    "Points",
    "RegionDomain",
    "Regions",
    "ShapeSet",
    "as_end",
    "empty_set",
]
