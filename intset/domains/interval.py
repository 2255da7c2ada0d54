"""The `interval` domain: ends from the linear form, symbolic where parameters are."""

from __future__ import annotations

from typing import ClassVar

from intset.domains.base import Bounds, End, IntervalSet, IntSet, empty_set
from intset.domains.consistency import are_apart
from intset.domains.linear_ends import has_parameters, is_independent, symbolic_bounds
from intset.domains.query import Query
from intset.infinity import NEG_INF, POS_INF


class IntervalDomain:
    """One interval.

    Guarantee: the ends contain every value; `is_tight` when each variable is independent and picks its own end.
    """

    name: ClassVar[str] = "interval"

    def image(self, query: Query) -> IntSet:
        if query.is_empty:
            return empty_set(self.name)
        bounds = self.bounds(query)
        single = bounds[0] is bounds[1] and bounds.is_tight and are_apart(query, tuple(query.forms[0].terms))
        return IntervalSet(bounds[0], bounds[1], self.name, is_tight=bounds.is_tight, is_exact=single)

    def bounds(self, query: Query) -> Bounds:
        if query.is_empty:
            return Bounds(POS_INF, NEG_INF, True, self.name)
        form = query.forms[0]
        if not has_parameters(query, form):
            low, high = query.known.bounds(form)
            first: End | int = NEG_INF if low is None else low
            last: End | int = POS_INF if high is None else high
            return Bounds(first, last, is_independent(query, form), self.name)
        return symbolic_bounds(query, form)
