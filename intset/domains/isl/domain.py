"""The `isl` domain: exact wherever the question is Presburger arithmetic."""

from __future__ import annotations

from intset.domains.isl.engine import Isl
from intset.domains.query import Query
from intset.domains.sets.answers import bounds_of_points, region_of_points, set_of_points
from intset.domains.sets.base import IntSet
from intset.domains.sets.ends import Bounds
from intset.domains.sets.region import Region


class IslDomain(Isl):
    """Images as Presburger sets: exact unless a term is not affine (then a fresh bounded variable) or the budget ends.

    Guarantee: the answer contains the true image; where `is_exact` is claimed, it is the image.
    """

    def image(self, query: Query) -> IntSet:
        return set_of_points(query, self)

    def bounds(self, query: Query) -> Bounds:
        return bounds_of_points(query, self)

    def region(self, query: Query) -> Region:
        return region_of_points(query, self)
