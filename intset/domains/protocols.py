"""What a domain is, and what it may be besides: capabilities are types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, runtime_checkable

from intset.domains.query import Query
from intset.expr.node import Cond, Expr, Var
from intset.regions.shape import Shape

if TYPE_CHECKING:
    from intset.domains.sets.base import IntSet


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

    @property
    def name(self) -> str:
        """What the domain is registered as."""

    def image(self, query: Query) -> IntSet:
        """The set of values of the query's only expression."""
        ...


class Points(NamedTuple):
    """The points that a query reaches, or more than these: then `notes` say why."""

    shape: Shape
    notes: tuple[str, ...]


@runtime_checkable
class Costed(Domain, Protocol):
    """A domain that says what a question to it costs, so that who climbs asks it where that is its turn.

    Attributes
    ----------
    cost: compared with others: `FEW_POINTS` tried 10, sets of the strongest domain with regions 100, all points 1000.
    """

    cost: ClassVar[int]


@runtime_checkable
class Regions(Protocol):
    """What knows sets of tuples, with all the algebra of `Shape`.

    Attributes
    ----------
    name: that of the domain.
    strength: of what it is exact on, compared with others; who may choose asks the strongest. isl has 100.
    """

    @property
    def name(self) -> str:
        """What the domain is registered as."""

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
class Installable(Protocol):
    """What stands on a library that may be missing: then every method refuses, and any other is stronger."""

    def is_installed(self) -> bool: ...


@dataclass(slots=True)
class Verdict:
    """What one tier of the prover says: a status, and a counterexample or a reason; `vacuous` when no point exists.

    `by_clock`: it was stopped by the clock, and on another machine may say more.
    """

    status: str
    point: dict[Expr, int] | None = None
    reason: str = ""
    vacuous: bool = False
    by_clock: bool = False


@runtime_checkable
class Deciding(Regions, Protocol):
    """What decides conditions by itself, instead of by the algebra of its shapes."""

    def judge(self, query: Query, facts: Sequence[Cond]) -> str:
        """Whether facts that share no variable with the question hold together: "holds", "empty" or "unknown"."""
        ...

    def decide(
        self, query: Query, goal: Cond, seeds: Sequence[Var], refutes: Callable[[dict[Expr, int]], bool]
    ) -> Verdict:
        """Whether a goal in canonical form holds at all points of a query.

        Parameters
        ----------
        seeds: variables that a counterexample has values for, too.
        refutes: whether a proposed point, which it completes, is a counterexample.
        """
        ...


@runtime_checkable
class RegionDomain(Domain, Regions, Protocol):
    """A domain that has regions."""


@runtime_checkable
class ClimbingDomain(Domain, Protocol):
    """A domain that asks another one, with regions, where nothing cheaper is certified."""

    def top(self) -> Regions:
        """The domain that is asked last."""
        ...
