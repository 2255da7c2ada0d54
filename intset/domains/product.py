"""Products of domains intersect the answers of their parts.

`interval*modular` is a domain of its own (`modular.py`), which reduces after every operation.
"""

from __future__ import annotations

from collections.abc import Sequence

from intset.domains.protocols import Domain, RankedDomain, Regions
from intset.domains.query import Query
from intset.domains.sets.answers import region_of_points
from intset.domains.sets.base import IntSet
from intset.domains.sets.bounds import coordinate_bounds
from intset.domains.sets.ends import Bounds
from intset.domains.sets.region import Region


class ProductDomain:
    """The intersection of the answers of several domains."""

    name: str

    def __init__(self, parts: Sequence[Domain], name: str) -> None:
        self.parts, self.name = tuple(parts), name

    def image(self, query: Query) -> IntSet:
        answers = [part.image(query) for part in self.parts]
        for answer in answers:
            if answer.is_exact:
                return answer
        result = answers[0]
        for answer in answers[1:]:
            result = result & answer
        result.by = self.name
        return result

    def bounds(self, query: Query) -> Bounds:
        answers = [part.image(query) for part in self.parts]
        for answer in answers:
            if answer.is_tight:
                return Bounds(*answer.ends(), True, self.name)
        result = self.image(query)
        return Bounds(*result.ends(), result.is_tight, self.name, result.notes)


class ProductWithRegions(ProductDomain):
    """A product with regions, by the strongest of its parts that have regions."""

    def __init__(self, parts: Sequence[Domain], name: str, engines: Sequence[Regions]) -> None:
        super().__init__(parts, name)
        self._top = max(engines, key=lambda engine: engine.strength)

    def strongest(self) -> Regions:
        return self._top

    def region(self, query: Query) -> Region:
        region = region_of_points(query, self._top)
        region.coordinate_bounds = coordinate_bounds(query, self.bounds)
        return region


def product_domain(parts: Sequence[Domain], name: str) -> ProductDomain:
    """Build the product of several domains, with regions if a part has regions."""
    tops = [part.strongest() if isinstance(part, RankedDomain) else part for part in parts]
    engines = [top for top in tops if isinstance(top, Regions)]
    return ProductWithRegions(parts, name, engines) if engines else ProductDomain(parts, name)
