"""The `auto` domain: the cheapest answer that is certified for what was asked, then isl, then what is sound.

Bounds are certified by structure (independent variables) or by a witness point; a set by structure (a multi-stride set
of independent variables). Only when no cheap certificate exists does isl answer, under its budget; what isl cannot say
because a term is not affine is enumerated when the box is small. What was given up is in `notes`.
"""

from __future__ import annotations

from typing import ClassVar

from intset.domains.answers import bounds_of_points, region_of_points, set_of_points
from intset.domains.base import IntervalSet, IntSet, empty_set
from intset.domains.ends import Bounds, End
from intset.domains.engines import strongest
from intset.domains.linear_ends import has_parameters, is_independent, symbolic_bounds
from intset.domains.points import PointsDomain, points_bounds, points_image
from intset.domains.protocols import Regions
from intset.domains.query import Query
from intset.domains.region import Region
from intset.domains.run import dense_image
from intset.domains.sides import Sides
from intset.domains.stride import structural_image
from intset.domains.witness import witness
from intset.expr.node import Expr
from intset.infinity import NEG_INF, POS_INF
from intset.linear.form import Linear

_POINTS = PointsDomain()
FEW_POINTS = 400  # a box this small is enumerated in the time isl takes to set up


class AutoDomain:
    """Climbs from the linear form to isl and enumeration, and stops at the first certified answer."""

    name: ClassVar[str] = "auto"

    def top(self) -> Regions:
        return strongest()

    def bounds(self, query: Query) -> Bounds:
        if query.is_empty:
            return Bounds(POS_INF, NEG_INF, True, self.name)
        form = query.forms[0]
        cheap = self._cheap_bounds(query, form)
        if cheap.is_tight:
            return cheap
        few = points_bounds(query, FEW_POINTS)
        if few is not None:
            return few
        exact = bounds_of_points(query, self.top())
        if exact.is_tight:
            return exact
        listed = _POINTS.bounds(query)
        if listed.is_tight:
            return listed
        return self._best_of(query, cheap, exact)

    def _cheap_bounds(self, query: Query, form: Linear) -> Bounds:
        if has_parameters(query, form):
            return symbolic_bounds(query, form)
        low, high = query.known.bounds(form)
        first: End | int = NEG_INF if low is None else low
        last: End | int = POS_INF if high is None else high
        if is_independent(query, form):
            return Bounds(first, last, True, "linear")
        if low is None or high is None:
            return Bounds(first, last, False, "linear")
        tight = witness(query, low, -1) is not None and witness(query, high, 1) is not None
        return Bounds(low, high, tight, "linear")

    def _best_of(self, query: Query, cheap: Bounds, exact: Bounds) -> Bounds:
        """The tighter of two sound answers, end by end, each certified by a witness where one is found."""
        ends: list[End] = []
        certified = not has_parameters(query, query.forms[0])  # a witness speaks of one value of the parameters only
        for k, side in ((0, -1), (1, 1)):
            a, b = cheap[k], exact[k]
            numbers = [end.data for end in (a, b) if isinstance(end, Expr) and end.is_const]
            if not numbers:
                ends.append(a if isinstance(a, Expr) else b)
                certified = False
                continue
            best = max(numbers) if side < 0 else min(numbers)
            ends.append(Linear(best, {}).expr())
            certified = certified and witness(query, best, side) is not None
        return Bounds(ends[0], ends[1], certified, exact.by, () if certified else exact.notes)

    def image(self, query: Query) -> IntSet:
        if query.is_empty:
            return empty_set(self.name)
        certified: IntSet | None = structural_image(query)
        if certified is None and has_parameters(query, query.forms[0]):
            certified = dense_image(query)
        if certified is not None:
            return certified
        few = points_image(query, FEW_POINTS)
        if few is not None:
            return few
        exact = set_of_points(query, self.top())
        if exact.is_exact:
            return exact
        listed = _POINTS.image(query)
        if listed.is_exact:
            return listed
        cheap = self._cheap_bounds(query, query.forms[0])
        bounds = cheap if cheap.is_tight else self._best_of(query, cheap, Bounds(*exact.ends(), False, exact.by))
        same = all(a is b for a, b in zip(bounds, exact.ends(), strict=True))
        if isinstance(exact, IntervalSet) or exact.params or not same:
            return IntervalSet(*bounds, by=bounds.by, is_tight=bounds.is_tight, notes=exact.notes)
        exact.is_tight = bounds.is_tight
        return exact

    def region(self, query: Query) -> Region:
        found = region_of_points(query, self.top())
        found.sides = Sides(query, self.bounds)
        return found
