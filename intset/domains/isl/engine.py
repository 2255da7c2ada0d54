"""`Isl`: images, consistency and decisions by isl, as shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from intset.domains.certified.witness import facts_hold
from intset.domains.isl import session
from intset.domains.isl.bindings import PARAM, SET
from intset.domains.isl.presburger import IslShape, universe
from intset.domains.isl.translate import Translation, image_of
from intset.domains.query import Points, Query, TierVerdict, notes_of_bounds
from intset.errors import BudgetError
from intset.expr import Cond, Expr, Var, ops
from intset.regions.shape import Shape

if TYPE_CHECKING:
    from islpy import Set


@cache
def _prototype() -> IslShape:
    """The 0-dimensional universe, cached: every query opens its budget on it."""
    return universe(0)


class Isl:
    """Images and conditions as Presburger sets.

    Guarantee: the points contain the true image, and equal it if there are no notes.
    """

    name: ClassVar[str] = session.NAME

    strength: ClassVar[int] = 100

    def is_installed(self) -> bool:
        try:
            session.isl()
        except BudgetError:
            return False
        return True

    def everything(self, dims: int) -> Shape:
        return universe(dims) if dims else _prototype()

    def points(self, query: Query) -> Points:
        translation = Translation(query)
        found = IslShape(image_of(translation), translation.params)
        if judged(query, translation.leftover) == "empty":
            found = IslShape(found.get().subtract(found.get()), translation.params)
        return Points(found, relaxation_notes(query, translation))

    def judge(self, query: Query, facts: Sequence[Cond]) -> str:
        return judged(query, facts)

    def decide(
        self, query: Query, goal: Cond, seeds: Sequence[Var], refutes: Callable[[dict[Expr, int]], bool]
    ) -> TierVerdict:
        try:
            with session.budget(query.config.isl_operations):
                translation = Translation(query, roots=(goal,), seeds=seeds)
                fails = translation.domain.subtract(translation.cond(query.known, goal))
                leftover = judged(query, translation.leftover)
                if leftover == "empty":
                    return TierVerdict("proved", vacuous=True)
                with session.solving(fails):
                    proved = fails.is_empty()
                if proved:
                    return TierVerdict("proved", vacuous=bool(translation.domain.is_empty()))
                basic = fails.get_basic_sets()  # each may have another sample
                parts = [fails, *(part.to_set() for part in basic)] if 1 < len(basic) <= 8 else [fails]
                points = [point for part in parts if (point := _sample(translation, part)) is not None]
                elsewhere = _elsewhere(query, translation.leftover) if points and translation.leftover else {}
                for part in points:
                    point = {**elsewhere, **part}  # `refutes` adds the variables that the goal lost
                    if refutes(point):
                        return TierVerdict("refuted", point)
        except BudgetError as error:
            return TierVerdict("unknown", reason=f"isl gave up: {error}", budget=error.budget)
        return TierVerdict("unknown", reason="it is not affine, and the points where it may fail are not real")


def relaxation_notes(query: Query, translation: Translation) -> tuple[str, ...]:
    """The reasons for an inexact image; empty for an exact one."""
    notes = notes_of_bounds(translation.relaxed_terms)
    if translation.leftover and judged(query, translation.leftover) == "unknown":
        notes.append("facts on other variables may exclude one another")
    return tuple(notes)


def judged(query: Query, facts: Sequence[Cond]) -> str:
    """Satisfiability of facts that share no variable with the query: "holds", "empty" or "unknown".

    The verdict is cached for other queries, and therefore decided under a separate budget.
    """
    try:
        return _verdict(query, facts) if facts else "holds"
    except session.SpentError:
        return "unknown"


def _verdict(query: Query, facts: Sequence[Cond]) -> str:
    """The cached verdict on facts: that of their parts, which other questions share."""
    key = (session.NAME, tuple(facts), query.keep, query.config.isl_operations, query.config.points)
    found = query.verdicts.get(key)
    if found is None:
        alone = Query((), query.ranges, facts, tuple(query.keep), query.base, query.known, query.config)
        parts = list(_separate(alone))
        own = {_verdict(query, part) for part in parts} if len(parts) > 1 else {_satisfiable(alone)}
        found = query.verdicts[key] = "empty" if "empty" in own else "unknown" if "unknown" in own else "holds"
    return found


def _separate(query: Query) -> Iterator[list[Cond]]:
    """The facts of a question, in parts that share no variable."""
    left: Sequence[Cond] = query.facts
    while left:
        first, *others = left
        alone = Query((), query.ranges, others, tuple(query.keep), query.base, query.known, query.config)
        _, _, touching, left = alone.split_relevant((first,))
        yield [first, *touching]


def _satisfiable(query: Query) -> str:
    try:
        with session.budget_aside(query.config.isl_operations):
            translation = Translation(query, seeds=query.facts)
            with session.solving(translation.domain):
                empty = translation.domain.is_empty()
        found = "empty" if empty else "unknown" if translation.relaxed_terms else "holds"
    except session.SpentError:
        raise
    except BudgetError:
        found = "unknown"
    return facts_hold(query, query.facts) if found == "unknown" else found


def _elsewhere(query: Query, leftover: list[Cond]) -> dict[Expr, int]:
    """Values for variables of facts irrelevant to the query."""
    alone = Query((), query.ranges, leftover, (), query.base, query.known, query.config)
    translation = Translation(alone, seeds=leftover)
    return _sample(translation, translation.domain) or {}


def _sample(translation: Translation, points: Set) -> dict[Expr, int] | None:
    """Values of variables and loads at one of these points of the domain; `None` for the empty set."""
    inside = translation.domain.intersect(points)
    with session.solving(inside):
        point = inside.sample_point()
    if point.is_void():
        return None
    places = [(e, SET, k) for k, e in enumerate(translation.dims)]
    places += [(e, PARAM, k) for k, e in enumerate(translation.params)]
    named = [place for place in places if place[0].op in (ops.VAR, ops.LOAD)]
    return {e: session.number(point.get_coordinate_val(kind, k)) for e, kind, k in named}
