"""Operations between sets of any two kinds: through isl where both are Presburger, else a sound interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from intset.domains.base import End, IntervalSet, IntSet, empty_set
from intset.domains.outline import Outline
from intset.domains.region import Region
from intset.domains.sides import end_at
from intset.errors import BudgetError, EvaluationError, InputError, UndecidedError
from intset.expr.node import Cond, Expr, IntLike, Var, as_cond, as_expr, const
from intset.expr.range import Range
from intset.expr.walk import free_vars, substitute
from intset.infinity import NEG_INF, POS_INF

if TYPE_CHECKING:
    from intset.domains.isl.sets import Presburger


def shape_of(s: IntSet) -> Presburger | None:
    """The set represented, as a Presburger set; `None` where it is none (ends that are products of sizes)."""
    from intset.domains.isl.sets import IslSet

    if isinstance(s, IslSet):
        return s.shape
    element = Var("element")
    try:
        return presburger((element,), conditions(s, (element,)))
    except UndecidedError:
        return None


def conditions(s: IntSet | Region, point: Sequence[Expr]) -> tuple[Cond, ...]:
    """What holds of `point` and the parameters where `point` is an element of `s`."""
    return (s.condition(point),) if isinstance(s, Region) else (*s.where, s.condition(point[0]))


def presburger(point: Sequence[Var], inside: Sequence[Cond]) -> Presburger | None:
    """The values of `point` at which all the conditions hold; `None` where that is no Presburger set.

    Conditions are part of the set whatever they mention: one without variables, `False`, makes it empty.
    """
    from intset.context import Context
    from intset.domains.isl.presburger import Presburger, own_budget
    from intset.domains.isl.translate import Translation, image_of

    query = query_in(Context(dict.fromkeys(point)).frame, tuple(point))
    try:
        with own_budget():
            translation = Translation(query, conditions=inside)
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
    both = operation == "intersect"  # a union has elements where one of them has
    where = tuple(cond for cond in dict.fromkeys((*a.where, *b.where)) if both or (cond in a.where and cond in b.where))
    by = a.by if a.by == b.by else "isl"
    if a.is_empty or b.is_empty:
        if operation == "union":
            return b if a.is_empty else a
        return empty_set(by)
    first, second = shape_of(a), shape_of(b)
    if first is not None and second is not None:
        try:
            shape = first.join(second, operation)
            outline = outline_of(a).joined(outline_of(b), operation)
            joined = IslSet(shape, by, is_exact=exact, notes=notes, where=where, outline=outline)
        except BudgetError:
            pass
        else:
            return empty_set(by) if joined.is_empty else joined
    note = "joined as intervals: the sets are not Presburger, or too many operations were needed"
    return IntervalSet(
        *outline_of(a).joined(outline_of(b), operation).sides[0], by=by, notes=(*notes, note), where=where
    )


def outline_of(s: IntSet | Region) -> Outline:
    """What is known of a set or region without isl; it is not asked for its ends before somebody needs them."""
    known: Outline | None = getattr(s, "outline", None)
    if known is not None:
        return known
    return Outline(lambda: [_side(r) for r in s.box] if isinstance(s, Region) else [s.ends()])


def _side(r: Range) -> tuple[End, End]:
    return (POS_INF, NEG_INF) if isinstance(r.extent, Expr) and r.extent is const(0) else (r.min, r.max)


def set_at(s: IntSet, values: Mapping[Var, IntLike]) -> IntSet:
    """The set with parameters replaced by values or expressions, all at once; a set that has none of them is itself."""
    table = {var: as_expr(value) for var, value in values.items()}
    if table.keys().isdisjoint((*s.params, *free_vars(*s.where))):
        return s
    where = tuple(as_cond(substitute(cond, table)) for cond in s.where)
    if any(_is_false(cond) for cond in where if not free_vars(cond)):
        return empty_set(s.by)
    found = s.substituted(table)
    found.where = where
    return found


def _is_false(cond: Cond) -> bool:
    """Whether a condition without variables does not hold; where it has no value, nothing holds."""
    from intset.expr.evaluate import evaluate

    try:
        return not evaluate(cond)
    except EvaluationError:
        return True


def hull_at(s: IntSet, table: Mapping[Var, IntLike]) -> IntSet:
    """What is left of a set of any kind at given values: its ends, and its elements where it is Presburger."""
    from intset.domains.isl.sets import IslSet

    shape = shape_of(s)
    if shape is not None:
        try:
            flags = {"is_exact": s.is_exact, "is_tight": s.is_tight, "notes": s.notes}
            return IslSet(shape.at(table), s.by, outline=outline_of(s).at(table), **flags)
        except BudgetError:
            pass
    return interval_at(s, table, False, (*s.notes, "the elements are not known at given values, only their ends"))


def interval_at(s: IntSet, table: Mapping[Var, IntLike], is_exact: bool, notes: Sequence[str]) -> IntSet:
    """The interval between the ends of `s` at given values."""
    low, high = (end_at(end, table) for end in s.ends())
    if low is None or high is None:
        return empty_set(s.by)
    return IntervalSet(low, high, by=s.by, is_tight=s.is_tight, is_exact=is_exact, notes=notes)


def region_shape(region: Region) -> Presburger | None:
    """The region represented, as a Presburger set; `None` where it is none."""
    from intset.domains.isl.sets import IslRegion

    if isinstance(region, IslRegion):
        return region.shape
    as_isl = getattr(region, "as_isl", None)
    try:
        if as_isl is not None:
            return region_shape(as_isl())
        point = tuple(Var(f"x{k}") for k in range(region.dims))
        return presburger(point, conditions(region, point))
    except UndecidedError:
        return None


def combine_regions(a: Region, b: Region, operation: str) -> Region:
    """The union or intersection of what two regions represent, or a box around it; exact only when both are."""
    from intset.domains.box import product_of
    from intset.domains.isl.sets import IslRegion

    if not isinstance(b, Region):
        return NotImplemented
    if a.dims != b.dims:
        raise InputError(f"a region of {a.dims} dimensions does not join one of {b.dims}")
    notes = tuple(dict.fromkeys((*a.notes, *b.notes)))
    outline = outline_of(a).joined(outline_of(b), operation)
    first, second = region_shape(a), region_shape(b)
    why = "the regions are not Presburger"
    if first is not None and second is not None:
        try:
            shape = first.join(second, operation)
            return IslRegion(shape, "isl", a.is_exact and b.is_exact, notes, a.dims, outline)
        except BudgetError as error:
            why = str(error)
    return product_of(outline.sides, a.by, (*notes, f"joined as boxes: {why}"))
