"""The `isl` domain: exact wherever the question is Presburger arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from intset.domains.base import Bounds, IntervalSet, IntSet, Points, empty_set
from intset.domains.box import product_of
from intset.domains.isl.coalesced import coalesced
from intset.domains.isl.listed import listed_shape
from intset.domains.isl.session import SpentError, budget, budget_aside, context, isl, number
from intset.domains.isl.sets import IslRegion, IslSet, Presburger, summary_of
from intset.domains.isl.shape import IslShape, universe
from intset.domains.isl.translate import Translation, image_of
from intset.domains.outline import of_query, outer_ends
from intset.domains.points import values_of
from intset.domains.query import Query
from intset.domains.region import Region
from intset.domains.sides import Sides
from intset.errors import BudgetError
from intset.expr.node import Cond, Expr
from intset.expr.printer import to_text
from intset.regions.shape import Shape

MAX_LISTED = 1000  # points of a box that are listed where isl gives up
OPEN_END = ("no end was found that is there for all parameters",)


class IslDomain:
    """Images as Presburger sets: exact unless a term is not affine (then a fresh bounded variable) or the budget ends.

    Guarantee: the answer contains the true image; where `is_exact` is claimed, it is the image.
    """

    name: ClassVar[str] = "isl"
    strength: ClassVar[int] = 100

    def image(self, query: Query) -> IntSet:
        if query.is_empty:
            return empty_set(self.name)
        try:
            with budget(query.config.isl_operations):
                translation = Translation(query)
                image = image_of(translation)
                if consistency(query, translation.leftover) == "empty" or image.is_empty():
                    return empty_set(self.name)
                image = coalesced(image)
            notes = relaxation_notes(query, translation)
            shape = Presburger(image, translation.params)
            return IslSet(shape, self.name, is_exact=not notes, notes=notes, outline=of_query(query, not notes))
        except BudgetError as error:
            return IntervalSet(*outer_ends(query, 0), "interval", notes=(f"isl gave up: {error}",))

    def everything(self, dims: int) -> Shape:
        return universe(dims)

    def points(self, query: Query) -> Points:
        translation = Translation(query)
        found = IslShape(image_of(translation), translation.params)
        return Points(found, relaxation_notes(query, translation))

    def bounds(self, query: Query) -> Bounds:
        answer = self.image(query)
        if not isinstance(answer, IslSet):
            return Bounds(*answer.ends(), answer.is_tight, self.name, answer.notes)
        ends, is_tight, notes = summary_of(answer)
        open_end = answer.is_exact and not is_tight and not notes
        return Bounds(*ends, is_tight, self.name, OPEN_END if open_end else notes)

    def region(self, query: Query) -> Region:
        if query.is_empty:
            return nothing(len(query.exprs), self.name)
        try:
            with budget(query.config.isl_operations):
                translation = Translation(query)
                image = coalesced(image_of(translation))
                if consistency(query, translation.leftover) == "empty":
                    return nothing(len(query.exprs), self.name)
            notes = relaxation_notes(query, translation)
        except BudgetError as error:
            return self._given_up(query, error)
        shape, dims = Presburger(image, translation.params), len(query.exprs)
        found = IslRegion(shape, self.name, not notes, notes, dims, of_query(query, not notes))
        found.sides = Sides(query, self)
        return found

    def _given_up(self, query: Query, error: BudgetError) -> Region:
        """The points listed, where they are few; else the box of what the linear forms say."""
        values = values_of(query, MAX_LISTED)
        if values is not None:
            try:
                shape = listed_shape(sorted(values), (), max(1, query.config.isl_operations))
                return IslRegion(shape, "points", True, (), len(query.exprs), of_query(query, True))
            except BudgetError:
                pass
        sides = [outer_ends(query, k) for k in range(len(query.exprs))]
        return product_of(sides, "interval", (f"isl gave up: {error}",))


def nothing(dims: int, by: str) -> Region:
    """The region of `dims` dimensions without points."""
    m = isl()
    return IslRegion(Presburger(m.Set.empty(m.Space.set_alloc(context(), 0, dims)), ()), by, dims=dims)


def relaxation_notes(query: Query, translation: Translation) -> tuple[str, ...]:
    """Why the image may be larger than the truth, in words; empty when it is exact."""
    notes = [
        f"the term {to_text(e, limit=120)} is not affine: only its bounds were used" for e in translation.relaxed_terms
    ]
    if translation.leftover and consistency(query, translation.leftover) == "unknown":
        notes.append("facts on other variables may exclude one another")
    return tuple(notes)


def consistency(query: Query, facts: Sequence[Cond]) -> str:
    """Whether facts that share no variable with the question hold together: "holds", "empty" or "unknown".

    It is asked with a budget of its own, for it is kept for other questions.
    """
    if not facts:
        return "holds"
    key = (tuple(facts), query.keep, query.config.isl_operations, query.config.points)
    found = query.verdicts.get(key)
    if found is None:
        alone = Query((), query.ranges, facts, tuple(query.keep), query.base, query.known, query.config)
        try:
            with budget_aside(query.config.isl_operations):
                translation = Translation(alone, seeds=facts)
                empty = translation.domain.is_empty()
                found = "empty" if empty else "unknown" if translation.relaxed_terms else "holds"
        except SpentError:
            return "unknown"
        except BudgetError:
            found = "unknown"
        if found == "unknown":
            from intset.domains.points import facts_hold

            found = facts_hold(query, facts)
        query.verdicts[key] = found
    return found


def domain_sample(translation: Translation, restriction: Any = None) -> dict[Expr, int] | None:
    """One point of the domain (of its part in `restriction`), as values of dimensions and parameters."""
    m = isl()
    points = translation.domain if restriction is None else translation.domain.intersect(restriction)
    point = points.sample_point()
    if point.is_void():
        return None
    values: dict[Expr, int] = {}
    for k, e in enumerate(translation.dims):
        values[e] = number(point.get_coordinate_val(m.dim_type.set, k))
    for k, e in enumerate(translation.params):
        values[e] = number(point.get_coordinate_val(m.dim_type.param, k))
    return values
