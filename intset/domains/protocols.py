"""Protocols of domains, one for each capability."""

from typing import ClassVar, Protocol, runtime_checkable

from intset.domains.query import Deciding as Deciding
from intset.domains.query import Installable as Installable
from intset.domains.query import Points as Points
from intset.domains.query import Query
from intset.domains.query import Regions as Regions
from intset.domains.query import TierVerdict as TierVerdict
from intset.domains.sets.base import IntSet


@runtime_checkable
class Domain(Protocol):
    """A description of sets of integers.

    Guarantee: `image` contains every value of the expression, and raises nothing. Optional methods: `bounds(query)`,
    where ends are cheaper than the set, `bounds_at_once(query)` for certified ends without a search, and
    `region(query)` for several expressions.

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


@runtime_checkable
class Costed(Domain, Protocol):
    """A domain with a stated cost, by which `auto` ranks it.

    Attributes
    ----------
    cost: 10 is a box of a few points, 100 the strongest domain with regions, 1000 a large box.
    """

    cost: ClassVar[int]


@runtime_checkable
class RegionDomain(Domain, Regions, Protocol):
    """A domain that has regions."""


@runtime_checkable
class RankedDomain(Domain, Protocol):
    """A domain that asks ranked domains, the strongest one with regions last."""

    def strongest(self) -> Regions:
        """The strongest domain with regions."""
        ...
