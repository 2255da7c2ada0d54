"""Protocols of domains, one for each capability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, runtime_checkable

from intset.deprecation import renamed
from intset.domains.query import Query
from intset.expr.node import Cond, Expr, Var
from intset.regions.shape import Shape

if TYPE_CHECKING:
    from intset.domains.sets.base import IntSet


@runtime_checkable
class Domain(Protocol):
    """A description of sets of integers.

    Guarantee: `image` contains every value of the expression, and raises nothing. Optional methods: `bounds(query)`,
    where ends are cheaper than the set, and `region(query)` for several expressions.

    The smallest domain:

    >>> class Everything:
    ...     name = "everything"
    ...     def image(self, query):
    ...         return IntervalSet(NEG_INF, POS_INF, self.name)
    """

    @property
    def name(self) -> str:
        """The name of the registration."""

    def image(self, query: Query) -> IntSet:
        """The set of values of the query's only expression."""
        ...


class Points(NamedTuple):
    """The image of a query, or a superset with the reasons in `notes`."""

    shape: Shape
    notes: tuple[str, ...]


@runtime_checkable
class Costed(Domain, Protocol):
    """A domain with a stated cost, by which `auto` ranks it.

    Attributes
    ----------
    cost: 10 is a box of a few points, 100 the strongest domain with regions, 1000 a large box.
    """

    cost: ClassVar[int]


@runtime_checkable
class Regions(Protocol):
    """A domain of sets of tuples, with the algebra of `Shape`.

    Attributes
    ----------
    strength: the rank of its precision; callers with a choice take the strongest. isl has 100.
    """

    @property
    def name(self) -> str:
        """The name of the registration."""

    strength: ClassVar[int]

    def everything(self, dims: int) -> Shape:
        """The universe of `dims` coordinates."""
        ...

    def points(self, query: Query) -> Points:
        """The image of the tuple of expressions, over the kept variables.

        Raises
        ------
        BudgetError: the image exceeds the budget of the caller.
        """
        ...


@runtime_checkable
class Installable(Protocol):
    """A domain that needs an optional library; without it, every method refuses and the domain ranks last."""

    def is_installed(self) -> bool: ...


@dataclass(slots=True)
class Verdict:
    """The verdict of one tier of the prover: a status with a counterexample or a reason.

    `vacuous`: the domain is empty. `by_clock`: a timeout ended the tier; a faster machine may decide.
    """

    status: str
    point: dict[Expr, int] | None = None
    reason: str = ""
    vacuous: bool = False
    by_clock: bool = False


@runtime_checkable
class Deciding(Regions, Protocol):
    """A domain with regions that has its own decision procedure for conditions."""

    def judge(self, query: Query, facts: Sequence[Cond]) -> str:
        """Consistency of facts that share no variable with the question: "holds", "empty" or "unknown"."""
        ...

    def decide(
        self, query: Query, goal: Cond, seeds: Sequence[Var], refutes: Callable[[dict[Expr, int]], bool]
    ) -> Verdict:
        """Decide whether a goal in canonical form holds at all points of a query.

        Parameters
        ----------
        seeds: further variables to which a counterexample assigns values.
        refutes: completes a proposed point and checks that it is a counterexample.
        """
        ...


@runtime_checkable
class RegionDomain(Domain, Regions, Protocol):
    """A domain that has regions."""


@runtime_checkable
class RankedDomain(Domain, Protocol):
    """A domain that asks ranked domains, the strongest one with regions last."""

    def strongest(self) -> Regions:
        """The strongest domain with regions."""
        ...


__getattr__ = renamed(globals(), {"ClimbingDomain": "RankedDomain"})
