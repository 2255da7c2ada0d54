"""What every domain answers with (`IntSet`; `region.py` has `Region`), and the `Domain` protocol.

An IntSet backend is one module: a class that implements `Domain`, registered by name. The one question is `image`:
given iteration variables with their ranges, the facts that hold, and a tuple of index expressions, which points do they
reach?
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from intset.errors import InputError, UndecidedError
from intset.expr import ops
from intset.expr.build import logical_and, maximum, minimum
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr, as_int, const, constant_value, truth
from intset.expr.walk import free_vars
from intset.infinity import NEG_INF, POS_INF, Infinity

if TYPE_CHECKING:
    from intset.check.ends import BoundsCertificate
    from intset.domains.query import Query
    from intset.prover.proof import Proof
    from intset.regions.shape import Shape

End = Expr | Infinity


class Asked(Protocol):
    """A question about bounds, of which nothing but what it needs is kept; it finds the certificate of its answer."""

    def certificate(self, answer: Bounds) -> BoundsCertificate: ...


class Bounds(tuple[End, End]):
    """The two ends of a set, `(low, high)`.

    `is_tight`: both are attained (for every value of the parameters at which the set is not empty). `notes`: what was
    given up, in words, when they are not known to be attained. `by`: the domain that answered. An empty set has the
    ends `(POS_INF, NEG_INF)`.
    """

    is_tight: bool
    notes: tuple[str, ...]
    by: str
    asked: Asked | None = None  # what they answer, when a context was asked

    def __new__(
        cls, low: End | int, high: End | int, is_tight: bool, by: str = "", notes: Sequence[str] = ()
    ) -> Bounds:
        self = super().__new__(cls, (as_end(low), as_end(high)))
        self.is_tight, self.by, self.notes = is_tight, by, tuple(notes)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (Bounds, (self[0], self[1], self.is_tight, self.by, self.notes), {"asked": self.asked})

    def answering(self, asked: Asked) -> Bounds:
        """These bounds as the answer to a question."""
        answer = self if self.asked is None else Bounds(self[0], self[1], self.is_tight, self.by, self.notes)
        answer.asked = asked
        return answer

    def certificate(self) -> BoundsCertificate:
        """Why the ends are the ends: certificates of both, and points at which they are attained.

        Raises
        ------
        InputError: no certificate was found within the budgets, or the bounds are not the answer of a context.
        """
        if self.asked is None:
            raise InputError("only bounds that a context answers with have a certificate")
        return self.asked.certificate(self)

    @property
    def is_empty(self) -> bool:
        return self[0] is POS_INF and self[1] is NEG_INF

    def ints(self) -> tuple[int, int]:
        """Both ends as Python integers.

        Raises
        ------
        InputError: an end is infinite or depends on a size, or the set is empty; the message names the end.
        """
        if self.is_empty:
            raise InputError("an empty set has no ends: its bounds are (POS_INF, NEG_INF)")
        low, high = (_number(end, side) for end, side in zip(self, ("lower", "upper"), strict=True))
        return low, high

    def __repr__(self) -> str:
        return f"({self[0]}, {self[1]})" + ("" if self.is_tight else " not known to be tight")


def _number(end: End, side: str) -> int:
    if isinstance(end, Infinity):
        raise InputError(f"the {side} end is {end}, not an integer")
    if free := end.free_vars():
        raise InputError(f"the {side} end {end!r} depends on {', '.join(v.name for v in free)}")
    return int(end)


def as_end(value: End | int) -> End:
    return value if isinstance(value, (Expr, Infinity)) else const(value)


class IntSet(ABC):
    """A set of integers, possibly depending on parameters: a sound superset of what was asked for.

    Attributes
    ----------
    min, max: the ends, expressions over `params`, or `NEG_INF` / `POS_INF`.
    is_tight: both ends are attained wherever the set is not empty.
    is_exact: proved equal to the true set.
    params: the variables the set depends on.
    notes: what was given up, in words; empty when the set is exact.
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
        self.notes, self.where = tuple(notes), tuple(where)

    # -- what a kind of set must tell ----------------------------------------------------------------------------

    @abstractmethod
    def ends(self) -> tuple[End, End]:
        """(min, max); `(POS_INF, NEG_INF)` when empty for all parameters."""

    @abstractmethod
    def condition(self, e: IntLike) -> Cond:
        """The condition that `e` is an element of the set represented."""

    @abstractmethod
    def count(self) -> int | Infinity | Expr:
        """The number of elements of the set represented.

        Returns an `int` when it is constant, `POS_INF` when unbounded, else an expression over `params`.

        Raises
        ------
        CountError: the number is not known in closed form, or out of the budget.
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
        from intset.expr.evaluate import evaluate

        return bool(evaluate(self.condition(as_int(value, "an element"))))

    def contains(self, e: IntLike) -> Proof:
        """The proof that `e` is an element of the set represented, or a counterexample; unknown where the set has no
        condition that could be written."""
        from intset.context import Context
        from intset.prover.proof import undecided

        try:
            inside = self.condition(as_expr(e))
        except UndecidedError as error:
            return undecided(str(error))
        return Context(assume=self.where).prove(inside)

    def at(self, values: Mapping[Var, IntLike]) -> IntSet:
        """The set at the given values of parameters."""
        from intset.domains.combine import set_at

        return set_at(self, values)

    def substituted(self, values: Mapping[Var, Expr]) -> IntSet:
        """What `at` gives where some of these parameters occur. A kind of set that says nothing here keeps its elements
        where they are a Presburger set, else its ends."""
        from intset.domains.combine import hull_at

        return hull_at(self, values)

    def __or__(self, other: IntSet) -> IntSet:
        """The union of the sets represented, or a superset of it when it has no representation."""
        from intset.domains.combine import combine

        return combine(self, other, "union")

    def __and__(self, other: IntSet) -> IntSet:
        """The intersection of the sets represented, or a superset of it when it has no representation."""
        from intset.domains.combine import combine

        return combine(self, other, "intersect")

    def __le__(self, other: IntSet) -> bool:
        """Whether every element of this set is known to be one of `other`, for all parameters (comparing what is
        represented)."""
        from intset.domains.order import is_subset

        return is_subset(self, other) if isinstance(other, IntSet) else NotImplemented

    def __lt__(self, other: IntSet) -> bool:
        """Whether this set is known to be a subset of `other`, and to differ from it for some parameters."""
        from intset.domains.order import is_proper_subset

        return is_proper_subset(self, other) if isinstance(other, IntSet) else NotImplemented

    def __ge__(self, other: IntSet) -> bool:
        return other <= self if isinstance(other, IntSet) else NotImplemented

    def __gt__(self, other: IntSet) -> bool:
        return other < self if isinstance(other, IntSet) else NotImplemented

    def __eq__(self, other: object) -> bool:
        """Whether both are known to have the same elements, for all parameters."""
        return isinstance(other, IntSet) and self <= other and other <= self

    __hash__ = None  # type: ignore[assignment]

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
        if first is not None and last is not None and first > last:
            self.low, self.high = POS_INF, NEG_INF

    def substituted(self, values: Mapping[Var, Expr]) -> IntSet:
        from intset.domains.combine import interval_at

        return interval_at(self, values, self.is_exact, self.notes)

    def ends(self) -> tuple[End, End]:
        return self.low, self.high

    def condition(self, e: IntLike) -> Cond:
        if self.low is POS_INF or self.high is NEG_INF:
            return truth(False)
        parts = []
        if isinstance(self.low, Expr):
            parts.append(as_expr(e) >= self.low)
        if isinstance(self.high, Expr):
            parts.append(as_expr(e) <= self.high)
        return logical_and(*parts)

    def count(self) -> int | Infinity | Expr:
        if self.is_empty:
            return 0
        if isinstance(self.low, Infinity) or isinstance(self.high, Infinity):
            return POS_INF
        from intset.context import Context

        extent = Context(assume=self.where).canonical(self.high - self.low + 1)
        number = constant_value(extent)
        return maximum(extent, 0) if number is None else max(number, 0)


def bounds_of(found: IntSet) -> Bounds:
    """The ends of a set."""
    return Bounds(*found.ends(), found.is_tight, found.by, found.notes)


def empty_set(by: str) -> IntervalSet:
    """The set without elements."""
    return IntervalSet(POS_INF, NEG_INF, by, is_exact=True)


@runtime_checkable
class Domain(Protocol):
    """One way to describe sets.

    A domain answers `image` for one expression with an `IntSet`, and may answer `region` for several; a sound superset
    is always allowed, an exception never is. `bounds` may be cheaper than `image`; the default takes its ends.

    A complete domain that knows nothing but the declared ranges:

    >>> class Everything:
    ...     name = "everything"
    ...     def image(self, query):
    ...         return IntervalSet(NEG_INF, POS_INF, self.name)
    """

    name: ClassVar[str]

    def image(self, query: Query) -> IntSet:
        """The set of values of the query's only expression."""
        ...


class Points(NamedTuple):
    """The points that a query reaches, or more than these: then `notes` say why."""

    shape: Shape
    notes: tuple[str, ...]


@runtime_checkable
class RegionDomain(Domain, Protocol):
    """A domain that has regions: sets of tuples with all the algebra of `Shape`.

    Attributes
    ----------
    strength: of what it is exact on, compared with others; who may choose asks the strongest. isl has 100.
    """

    strength: ClassVar[int]

    def everything(self, dims: int) -> Shape:
        """All points with so many coordinates."""
        ...

    def points(self, query: Query) -> Points:
        """The points that the expressions of a query reach together, over the variables that it keeps.

        Raises
        ------
        BudgetError: they are out of the budget of who asks.
        """
        ...


@runtime_checkable
class ClimbingDomain(Domain, Protocol):
    """A domain that asks another one, with regions, where nothing cheaper is certified."""

    def top(self) -> RegionDomain:
        """The domain that is asked last."""
        ...


__all__ = [
    "Bounds",
    "ClimbingDomain",
    "Domain",
    "End",
    "IntSet",
    "IntervalSet",
    "Points",
    "RegionDomain",
    "as_end",
    "empty_set",
    "minimum",
]
