"""`Isl`: images, consistency and decisions by isl, as shapes.

`IslShape`: a Presburger set as a `Shape`, with isl's own way for most of the algebra.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from intset import config as configuration
from intset.budgets import COUNTED_POINTS
from intset.domains.certified.witness import facts_hold
from intset.domains.isl import presburger
from intset.domains.isl.bernstein import Maximum, cases
from intset.domains.isl.count import count, count_symbolic, max_over
from intset.domains.isl.presburger import Presburger, are_attained, declared, extreme_of, listed_shape
from intset.domains.isl.session import (
    MAX_BITS,
    NAME,
    SpentError,
    budget,
    budget_aside,
    coalesced,
    context,
    difference_of,
    function_of,
    is_limited,
    isl,
    lexicographic_extremum,
    number,
    sample_of,
    solving,
    val,
)
from intset.domains.isl.translate import Translation, aff_to_expr, image_of, param_name, set_to_cond
from intset.domains.query import Points, Query, TierVerdict
from intset.domains.sets.ends import End
from intset.errors import BudgetError, CountError
from intset.expr import ops
from intset.expr.build import logical_and
from intset.expr.dag import free_vars
from intset.expr.definedness import definedness, is_partial, total
from intset.expr.node import Cond, Expr, IntLike, Var
from intset.expr.printer import to_text
from intset.expr.range import Range
from intset.infinity import Infinity
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from intset.linear.lattice import Lattice, Vector
from intset.regions.shape import Account, Ceiling, PerInstance, Product, Shape, coordinates

if TYPE_CHECKING:
    from islpy import Set


class IslShape(Presburger, Shape):
    """A Presburger set: exact in all of the algebra, under budgets of isl's operations."""

    __slots__ = ()
    by: ClassVar[str] = NAME

    @property
    def dims(self) -> int:  # type: ignore[override]  # computed from the isl set
        return int(self.shared().dim(isl().dim_type.set))

    def _with(self, isl_set: Set, *others: Presburger) -> IslShape:
        """A result over the parameters of all operands."""
        return IslShape(isl_set, tuple(dict.fromkeys(p for shape in (self, *others) for p in shape.params)))

    def __reduce__(self) -> tuple[Callable[..., IslShape], tuple[Any, ...]]:
        return of, (Presburger(self.get(), self.params, self.written),)

    # -- the core -----------------------------------------------------------------------------------------------

    def union(self, other: Shape) -> IslShape:
        both = of(other)
        return self._with(coalesced(self.get().union(both.get())), both)

    def intersect(self, other: Shape) -> IslShape:
        both = of(other)
        return self._with(coalesced(self.get().intersect(both.get())), both)

    def union_all(self, others: Sequence[Shape]) -> IslShape:
        total, more = self.get(), [of(other) for other in others]
        for other in more:
            total = total.union(other.get())
        return self._with(coalesced(total), *more)

    def subtract(self, other: Shape) -> IslShape:
        both = of(other)
        return self._with(coalesced(difference_of(self.get(), both.get())), both)

    def project(self, dims: Sequence[int]) -> IslShape:
        kinds = isl().dim_type
        current = self.get()
        if not len(dims):
            return self._with(isl().Set.from_params(current.params()))
        end = current.dim(kinds.set)
        for k in (*sorted(dims, reverse=True), -1):
            if k + 1 < end:
                current = current.project_out(kinds.set, k + 1, end - k - 1)
            end = k
        left = sorted(dims)
        rest = self._with(current if len(left) == self.dims else coalesced(current))
        return of(presburger.permuted(rest, [left.index(k) for k in dims]))

    def filter(self, point: Sequence[Var], condition: Cond) -> IslShape:
        inside = translated(point, condition)
        return self._with(coalesced(self.get().intersect(inside.get())), inside)

    def is_empty(self) -> bool:
        current = self.shared()
        with solving(current):
            return bool(current.is_empty() or (self.params and current.intersect_params(declared(self)).is_empty()))

    def condition(self, point: Sequence[Expr]) -> Cond:
        """The condition that a point belongs to the set.

        Guarantee: it is defined everywhere, so negation is sound. Where a parameter such as `6 // n` is undefined, the
        constraints decide independently of its value.
        """
        current = self.afresh()
        params = [total(param) for param in self.ordered_params(current)]
        found = set_to_cond(current, point, params, context=declared(self))
        if found is None:
            raise BudgetError("the set has no quantifier-free condition within the budget")
        return found

    def end(self, k: int, side: int) -> End:
        return extreme_of(self, k, side)

    def attains(self, k: int, ends: tuple[End, End]) -> bool:
        return are_attained(self, k, ends)

    def product_with(self, other: Shape, shared: int) -> IslShape:
        kinds = isl().dim_type
        right = of(other)
        first, last = self.dims - shared, right.dims - shared
        left = self.get().add_dims(kinds.set, last)
        return self._with(coalesced(left.intersect(right.get().insert_dims(kinds.set, 0, first))), right)

    def everything(self, dims: int) -> IslShape:
        return universe(dims)

    def where(self, point: Sequence[Var], condition: Cond) -> IslShape:
        return translated(point, condition)

    def describe(self) -> str:
        """isl's own notation, with the parameters' real names."""
        text = self.text()
        for param in self.params:
            text = text.replace(param_name(param), param.name if isinstance(param, Var) else f"({param})")
        return text

    def is_limited(self) -> bool:
        return is_limited()

    # -- parameters ---------------------------------------------------------------------------------------------

    def budget(self, operations: int, account: Account | None = None) -> AbstractContextManager[None]:
        return budget(operations, account)

    def atoms(self) -> tuple[Expr, ...]:
        return self.used_params()

    def variables(self) -> tuple[Var, ...]:
        return self.free_params()

    def includes(self, other: Shape) -> bool:
        both = of(other)
        inside, around = both.shared(), self.shared()
        if inside.is_subset(around) or not (self.params or both.params):
            return bool(inside.is_subset(around))
        return bool(inside.intersect_params(declared(self, both)).is_subset(around))

    def at(self, values: Mapping[Var, IntLike]) -> IslShape:
        return of(self.placed(values))

    def intersect_params(self, allowed: Shape) -> IslShape:
        around = of(allowed)
        return self._with(self.get().intersect_params(around.get().params()), around)

    def params_to_dims(self, params: Sequence[Var]) -> IslShape:
        kinds = isl().dim_type
        self._only_variables(params)
        current, shape = self.get(), self
        for place, v in enumerate(params):
            position = current.find_dim_by_name(kinds.param, param_name(v))
            current = current.insert_dims(kinds.set, place, 1)
            if position >= 0:  # a moved dimension would keep its name, and isl distinguishes spaces by names
                current = current.equate(kinds.set, place, kinds.param, position)
                current = current.project_out(kinds.param, position, 1)
        return IslShape(current, tuple(p for p in shape.params if p not in params))

    def _only_variables(self, params: Collection[Expr]) -> None:
        """Refuse if a parameter such as `n*m` mentions a variable that becomes a dimension."""
        for e in self.used_params():
            if not isinstance(e, Var) and any(v in params for v in e.free_vars()) and e not in params:
                raise BudgetError(f"{e} is not affine")

    def dims_to_params(self, names: Sequence[Var]) -> IslShape:
        kinds = isl().dim_type
        if not names:
            return self
        current = self.get()
        start = current.dim(kinds.param)
        current = current.move_dims(kinds.param, start, kinds.set, 0, len(names))
        for k, v in enumerate(names):
            current = current.set_dim_name(kinds.param, start + k, param_name(v))
        return IslShape(current, (*self.params, *names))

    def without(self, params: Collection[Expr]) -> IslShape:
        kinds = isl().dim_type
        current = self.get()
        for e in params:
            position = current.find_dim_by_name(kinds.param, param_name(e))
            if position >= 0:
                current = current.project_out(kinds.param, position, 1)
        return IslShape(current, tuple(p for p in self.params if p not in params))

    # -- boxes --------------------------------------------------------------------------------------------------

    def box(self, sides: Sequence[tuple[Iterable[Linear], Iterable[Linear]]], where: Iterable[Linear] = ()) -> IslShape:
        return of(presburger.box_shape(sides, where))

    def listing(self, points: Sequence[tuple[int, ...]], names: Sequence[Var], dims: int) -> IslShape:
        if not points:
            return IslShape(isl().Set.empty(universe(dims).get().get_space()), ())
        return of(listed_shape(points, names))

    def hull(self) -> IslShape:
        found = presburger.hull_shape(self)
        if found is None:
            raise BudgetError("a region without end")
        return of(found)

    def product(self) -> Product | None:
        return presburger.as_product(self)

    def loops(self, names: Sequence[Var]) -> list[Product] | None:
        return presburger.loops_of(self, names)

    def widest(self, k: int, varying: Collection[Expr]) -> Expr | None:
        return presburger.widest(self, k, varying)

    def lattice(self) -> tuple[Lattice, tuple[Expr, ...]] | None:
        found = presburger.lattice_of(self)
        return None if found is None else (found[0], tuple(found[1]))

    def change_basis(self, origin: Vector, vectors: Sequence[tuple[int | None, Vector]]) -> IslShape:
        return of(presburger.in_coordinates(self, origin, vectors))

    def pieces(self, most: int) -> list[Shape] | None:
        found = presburger.disjoint_pieces(self._with(self.afresh()), most)  # the cuts depend on the representation
        return None if found is None else [of(part) for part in found]

    def disjuncts(self) -> int:
        return int(self.shared().n_basic_set())

    def coalesced(self) -> IslShape:
        if self.disjuncts() == 1:
            return self
        return self._with(coalesced(self.get()))

    def disjoint(self) -> IslShape:
        return self._with(coalesced(self.get().make_disjoint()))

    def simplified(self, within: Shape) -> IslShape:
        return of(presburger.simplified_in(self, of(within)))

    # -- points -------------------------------------------------------------------------------------------------

    def lexmin(self) -> IslShape:
        return self._extreme(-1)

    def lexmax(self) -> IslShape:
        return self._extreme(1)

    def _extreme(self, side: int) -> IslShape:
        """The checked extremum: by isl, else coordinate by coordinate, else by enumeration.

        The set is parsed from text, so a copy in another process exhausts the budget at the same operation.
        """
        others = [lambda: of(self.lexicographic(side)).get(), lambda: self._extreme_listed(side).get()]
        return self._with(lexicographic_extremum(self.afresh(), side, others))

    def _extreme_listed(self, side: int) -> IslShape:
        if self.used_params():
            raise BudgetError("the points of a set with parameters are not listed")
        points = self.listed()
        return of(self.listing([points[0 if side < 0 else -1]] if points else [], (), self.dims))

    def functions(self, names: Sequence[Var]) -> list[tuple[Shape, tuple[Expr, ...]]]:
        m = isl()
        kinds = m.dim_type
        pairs = m.Map.from_range(self.get()).move_dims(kinds.in_, 0, kinds.out, 0, len(names))
        if not pairs.is_single_valued():
            raise BudgetError("a relation that is no function")
        found: list[tuple[Shape, tuple[Expr, ...]]] = []
        parts: list[tuple[Any, Any]] = []
        function_of(pairs).foreach_piece(lambda domain, values: parts.append((domain, values)))
        for domain, values in parts:
            params = self.ordered_params(domain)
            exprs = [aff_to_expr(values.get_aff(k), names, params) for k in range(self.dims - len(names))]
            found.append((self._with(domain), tuple(exprs)))
        return found

    def sample(self) -> tuple[int, ...] | None:
        kinds = isl().dim_type
        current = self.afresh()  # the choice of the point depends on the representation
        if self.params:
            current = current.intersect_params(declared(self))
        point = sample_of(current)
        if point.is_void():
            return None
        terms = [e for e in self.used_params() if not isinstance(e, Var) and e.free_vars()]
        if terms:  # sample again at values of their variables
            given = {
                e: number(point.get_coordinate_val(kinds.param, k)) for k, e in enumerate(self.ordered_params(current))
            }
            found = self.at({v: given.get(v, _near_one(v)) for v in free_vars(*terms)}).sample()
            if found is None:
                raise BudgetError(f"{terms[0]} is not affine")
            return found
        return tuple(number(point.get_coordinate_val(kinds.set, k)) for k in range(self.dims))

    def has(self, point: Sequence[int]) -> bool:
        kinds = isl().dim_type
        current = self.shared()
        for k, coordinate in enumerate(point):
            current = current.fix_val(kinds.set, k, val(coordinate, max(MAX_BITS, coordinate.bit_length())))
        with solving(current):
            return not current.is_empty()

    def listed(self, most: int = COUNTED_POINTS) -> list[tuple[int, ...]]:
        kinds, found = isl().dim_type, []
        current = self.get()
        number_of_points = count(current.project_out(kinds.param, 0, current.dim(kinds.param)))
        if not isinstance(number_of_points, int) or number_of_points > most:
            raise BudgetError(f"more than {most} points")
        self.get().foreach_point(
            lambda point: found.append(tuple(number(point.get_coordinate_val(kinds.set, k)) for k in range(self.dims)))
        )
        if len(set(found)) != number_of_points:
            raise BudgetError("isl visited another number of points than it counted")
        return sorted(found)

    def count(self) -> int | Infinity | Expr:
        kinds = isl().dim_type
        current = self.get()
        if self.free_params():
            current = self.afresh()
            try:
                found = count_symbolic(current, self.ordered_params(current), context=declared(self))
                reason = ""
            except BudgetError as error:
                found, reason = None, f" ({error})"
            if found is None:
                raise CountError(f"the number of points has no closed form here{reason}: use at(...) to fix sizes")
            return found
        return count(current.project_out(kinds.param, 0, current.dim(kinds.param)))

    def counts(self, varying: Sequence[Var], most: int = COUNTED_POINTS) -> PerInstance:
        # Declared bounds restrict parameters only.
        named = universe(len(varying)).dims_to_params(varying)
        whole = self._with(self.get().intersect_params(declared(self, named)), named).params_to_dims(varying)
        if free := whole.free_params():
            raise CountError(f"the count depends on {free[0]}: fix the sizes with at={{...}}")
        kinds = isl().dim_type
        current = whole.get()
        current = current.project_out(kinds.param, 0, current.dim(kinds.param))
        return max_over(current, len(varying), most)

    def ceilings(self, e: Expr, varying: Sequence[Var]) -> list[Ceiling]:
        found = Maximum()
        for case in cases(e):
            inside, names = self, (*varying, *case.extra)
            if case.conditions:
                cube = self.product_with(universe(len(case.extra)), 0)
                inside = cube.intersect(translated(names, logical_and(*case.conditions)))
            if not inside.is_empty():
                current = inside.get()
                found.add(case, current, inside.ordered_params(current), names)
        return found.ceilings()


def of(shape: Presburger | Shape) -> IslShape:
    """Convert a shape to an `IslShape`, by its condition if it belongs to another domain."""
    if isinstance(shape, IslShape):
        return shape
    if isinstance(shape, Presburger):
        return IslShape(shape.get(), shape.params, shape.written)
    point = coordinates(shape.dims)
    return translated(point, shape.condition(point))


def _near_one(var: Var) -> int:
    """The smallest positive value within declared bounds, else the largest; 1 leaves products unchanged."""
    low, high, step = var.declared()
    least = 1 if low is None else max(low, 1)
    return least + -least % step if high is None or least + -least % step <= high else high - high % step


def universe(dims: int) -> IslShape:
    """The universe of `dims` coordinates."""
    return IslShape(isl().Set.universe(isl().Space.set_alloc(context(), 0, dims)), ())


def translated(point: Sequence[Var], condition: Cond) -> IslShape:
    """The set of points that satisfy a condition; an undefined condition is false.

    Raises
    ------
    BudgetError: the condition is not affine.
    """
    plain = Normalizer(dict.fromkeys(point, (None, None)))
    ranges = dict.fromkeys(point, Range.everything())
    needs = definedness((condition,)) if is_partial(condition) else ()
    query = Query(point, ranges, needs, (), plain, plain, configuration.current())
    translation = Translation(query, conditions=(condition,), seeds=needs)
    if translation.relaxed_terms:
        raise BudgetError(f"{translation.relaxed_terms[0]} is not affine")
    return IslShape(image_of(translation), translation.params)


@cache
def _prototype() -> IslShape:
    """The 0-dimensional universe, cached: every query opens its budget on it."""
    return universe(0)


class Isl:
    """Images and conditions as Presburger sets.

    Guarantee: the points contain the true image, and equal it if there are no notes.
    """

    name: ClassVar[str] = NAME

    strength: ClassVar[int] = 100

    def is_installed(self) -> bool:
        try:
            isl()
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
            with budget(query.config.isl_operations):
                translation = Translation(query, roots=(goal,), seeds=seeds)
                fails = translation.domain.subtract(translation.cond(query.known, goal))
                leftover = judged(query, translation.leftover)
                if leftover == "empty":
                    return TierVerdict("proved", vacuous=True)
                with solving(fails):
                    proved = fails.is_empty()
                if proved:
                    return TierVerdict("proved", vacuous=bool(translation.domain.is_empty()))
                points = [point for part in _first_parts(fails) if (point := _sample(translation, part)) is not None]
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
    notes = [
        f"the term {to_text(e, limit=120)} is not affine: only its bounds were used" for e in translation.relaxed_terms
    ]
    if translation.leftover and judged(query, translation.leftover) == "unknown":
        notes.append("facts on other variables may exclude one another")
    return tuple(notes)


def judged(query: Query, facts: Sequence[Cond]) -> str:
    """Satisfiability of facts that share no variable with the query: "holds", "empty" or "unknown".

    The verdict is cached for other queries, and therefore decided under a separate budget.
    """
    try:
        return _verdict(query, facts) if facts else "holds"
    except SpentError:
        return "unknown"


def _verdict(query: Query, facts: Sequence[Cond]) -> str:
    """The cached verdict on facts: that of their parts, which other questions share."""
    key = (NAME, tuple(facts), query.keep, query.config.isl_operations, query.config.points)
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
        with budget_aside(query.config.isl_operations):
            translation = Translation(query, seeds=query.facts)
            with solving(translation.domain):
                empty = translation.domain.is_empty()
        found = "empty" if empty else "unknown" if translation.relaxed_terms else "holds"
    except SpentError:
        raise
    except BudgetError:
        found = "unknown"
    return facts_hold(query, query.facts) if found == "unknown" else found


def _first_parts(fails: Set) -> list[Set]:
    """The set, then up to 8 disjuncts: each may have another sample."""
    basic = fails.get_basic_sets()
    return [fails, *(part.to_set() for part in basic)] if 1 < len(basic) <= 8 else [fails]


def _elsewhere(query: Query, leftover: list[Cond]) -> dict[Expr, int]:
    """Values for variables of facts irrelevant to the query."""
    alone = Query((), query.ranges, leftover, (), query.base, query.known, query.config)
    translation = Translation(alone, seeds=leftover)
    return _sample(translation, translation.domain) or {}


def _sample(translation: Translation, points: Set) -> dict[Expr, int] | None:
    """Values of variables and loads at one of these points of the domain; `None` for the empty set."""
    kinds = isl().dim_type
    inside = translation.domain.intersect(points)
    with solving(inside):
        point = inside.sample_point()
    if point.is_void():
        return None
    places = [(e, kinds.set, k) for k, e in enumerate(translation.dims)]
    places += [(e, kinds.param, k) for k, e in enumerate(translation.params)]
    named = [place for place in places if place[0].op in (ops.VAR, ops.LOAD)]
    return {e: number(point.get_coordinate_val(kind, k)) for e, kind, k in named}
