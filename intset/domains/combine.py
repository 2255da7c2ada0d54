"""Operations between sets of any two kinds: through isl where both are Presburger, else a sound interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from intset.domains.base import End, IntervalSet, IntSet, Region, empty_set
from intset.errors import BudgetError
from intset.expr.build import maximum, minimum
from intset.expr.node import Expr, IntLike, Var, as_cond, as_expr
from intset.expr.walk import free_vars, substitute
from intset.infinity import NEG_INF, POS_INF, Infinity

if TYPE_CHECKING:
    from intset.domains.isl.sets import Presburger


def shape_of(s: IntSet) -> Presburger | None:
    """The set represented, as a Presburger set; `None` where it is none (ends that are products of sizes)."""
    from intset.domains.isl.sets import IslSet

    if isinstance(s, IslSet):
        return s.shape
    element = Var("element")
    return presburger(s, element)


def presburger(s: IntSet, element: Var) -> Presburger | None:
    from intset.context import Context
    from intset.domains.isl.session import budget
    from intset.domains.isl.sets import END_BUDGET, Presburger
    from intset.domains.isl.translate import Translation

    frame = Context({element: None}, assume=s.where).extended(facts=[s.condition(element)])._frame
    if frame.known.empty:
        frame = Context({element: None})._frame
    query = query_in(frame, (element,))
    query.facts = (*s.where, s.condition(element))
    from intset.domains.isl.domain import image_of

    try:
        with budget(END_BUDGET):
            translation = Translation(query)
            if translation.relaxed_terms:
                return None
            return Presburger(image_of(translation), translation.params)
    except BudgetError:
        return None


def query_in(frame: Any, exprs: tuple[Expr, ...]) -> Any:
    from intset import config
    from intset.domains.query import Query

    return Query(exprs, frame.ranges, frame.conditions, (), frame.base, frame.known, config.current())


def combine(a: IntSet, b: IntSet, operation: str) -> IntSet:
    """The union or intersection of what two sets represent; `is_exact` only when both are."""
    if not isinstance(b, IntSet):
        return NotImplemented
    from intset.domains.isl.sets import IslSet

    exact = a.is_exact and b.is_exact
    notes = tuple(dict.fromkeys((*a.notes, *b.notes)))
    where = tuple(dict.fromkeys((*a.where, *b.where)))
    by = a.by if a.by == b.by else "isl"
    if a.is_empty or b.is_empty:
        if operation == "union":
            return b if a.is_empty else a
        return empty_set(by)
    first, second = shape_of(a), shape_of(b)
    if first is not None and second is not None:
        try:
            joined = IslSet(first.join(second, operation), by, is_exact=exact, notes=notes, where=where)
        except BudgetError:
            pass
        else:
            return empty_set(by) if joined.is_empty else joined
    (low, high), (low2, high2) = a.ends(), b.ends()
    note = "joined as intervals: the sets are not Presburger"
    if operation == "union":
        ends = _smaller(low, low2), _larger(high, high2)
    else:
        ends = _larger(low, low2), _smaller(high, high2)
    return IntervalSet(*ends, by=by, notes=(*notes, note), where=where)


def _smaller(a: End, b: End) -> End:
    if isinstance(a, Infinity) or isinstance(b, Infinity):
        return a if a is NEG_INF or b is POS_INF else b
    return a if a is b else minimum(a, b)


def _larger(a: End, b: End) -> End:
    if isinstance(a, Infinity) or isinstance(b, Infinity):
        return a if a is POS_INF or b is NEG_INF else b
    return a if a is b else maximum(a, b)


def is_subset(a: IntSet, b: IntSet) -> bool:
    """Whether every element that `a` represents is one that `b` represents (False when that is not known)."""
    from intset.domains.isl.session import budget
    from intset.domains.isl.sets import END_BUDGET

    if a.is_empty:
        return True
    first, second = shape_of(a), shape_of(b)
    if first is not None and second is not None:
        try:
            with budget(END_BUDGET):
                return bool(first.get().is_subset(second.get()))
        except BudgetError:
            return False
    from intset.context import Context

    element = Var("element")
    inside = Context({element: None}, assume=a.where).extended(facts=[a.condition(element)])
    return inside.prove(b.condition(element)).status == "proved"


def set_at(s: IntSet, values: Mapping[Var, IntLike]) -> IntSet:
    """The set with parameters replaced by values or expressions."""
    from intset.domains.isl.sets import IslSet

    if isinstance(s, IslSet):
        return IslSet(s.shape.at(values), s.by, is_exact=s.is_exact, is_tight=s.is_tight, notes=s.notes)
    table = {var: as_expr(value) for var, value in values.items()}
    from intset.context import Context

    simplify = Context().simplify
    ends = [simplify(substitute(end, table)) if isinstance(end, Expr) else end for end in s.ends()]
    where = tuple(as_cond(substitute(cond, table)) for cond in s.where)
    if any(Context().prove(~cond) for cond in where if not free_vars(cond)):
        return empty_set(s.by)
    if isinstance(s, IntervalSet):
        return IntervalSet(
            ends[0], ends[1], by=s.by, is_tight=s.is_tight, is_exact=s.is_exact, notes=s.notes, where=where
        )
    return s


def region_shape(region: Region) -> Presburger:
    from intset.domains.isl.sets import IslRegion

    if isinstance(region, IslRegion):
        return region.shape
    return region.as_isl().shape  # type: ignore[attr-defined,no-any-return]
