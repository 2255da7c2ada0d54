"""`Region`: a set of n-dimensional points with claims, and the algebra on it.

A `Shape` is exact or refuses (`intset.regions`); a region is a sound superset of what was asked for. So an operation on
regions is exact when it is on the shapes and the regions are; where a shape refuses, or a region is a superset that
would make the answer wrong, the answer is a superset with a note, or where that would be unsound a typed refusal:

=====================  ==================================================================================
union, projection      the box
intersection           the box
difference             the left side, also when the right one is a superset: it may hold points that are to stay
emptiness, inclusion   not known to be
extremum, sample,      `UndecidedError`
pieces
=====================  ==================================================================================
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import SupportsIndex, TypeVar

from intset.config import all_as_configured
from intset.domains.sets import order
from intset.domains.sets.base import IntervalSet, IntSet, empty_set
from intset.domains.sets.bounds import (
    SHARE,
    Enclosure,
    Ends,
    Side,
    check_countable,
    condition_of,
    count_of,
    has_point,
    is_empty,
    joined,
    own_budget,
    placed,
    range_between,
)
from intset.domains.sets.ends import End, Sides, by_parameter
from intset.domains.sets.nonempty import Excludable, note
from intset.errors import BudgetError, CountError, InputError, UndecidedError
from intset.expr.arguments import listed
from intset.expr.build import logical_and
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr, as_int, const
from intset.expr.range import Range
from intset.expr.text import shown
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.regions.account import collected
from intset.regions.derived import PerInstance, coordinates
from intset.regions.shape import Shape

T = TypeVar("T")
MAX_PIECES = 64


@all_as_configured
class Region(Excludable, order.Ordered):
    """A set of n-dimensional integer points, possibly depending on parameters.

    Attributes
    ----------
    dims: the number of dimensions.
    box: for each dimension the `Range` of the bounding box, over `params`.
    is_exact: proved equal to the true set.
    is_tight: every side of the box is attained.
    params: the variables the region depends on (kept variables and sizes).
    """

    _kind = "region"
    by: str
    is_exact: bool
    notes: tuple[str, ...]
    sides: Sides | None = None  # what is known of each coordinate alone, where that may be more

    @property
    def is_tight(self) -> bool:
        """Whether every side of the box is known to be attained."""
        return False

    @property
    @abstractmethod
    def params(self) -> tuple[Var, ...]: ...

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the region is empty for all values of the parameters."""

    @property
    @abstractmethod
    def box(self) -> tuple[Range, ...]: ...

    @abstractmethod
    def count(self) -> int | Infinity | Expr:
        """The number of points: an `int`, `POS_INF`, or an expression over `params`.

        Raises
        ------
        CountError: the region is not exact, or the number is not known in closed form or out of the budget.
        """

    def at(self, values: Mapping[Var, IntLike]) -> Region:
        """The region at the given values of parameters, `{n: 5}` or by name `{"n": 5}`.

        At values that a fact or a declared bound excludes the region is empty, and a note names the fact.

        Raises
        ------
        InputError: a key that does not say which parameter is meant, a value that is no integer.
        """
        table = by_parameter(values, self._spoken_of())
        if excluding := self._excluding(table):
            return empty_region(self.dims, self.by, (note(excluding, table),))
        return self.substituted(table)

    def substituted(self, values: Mapping[Var, Expr]) -> Region:
        """Put allowed values into the shape; into the box if that exceeds the budget."""
        enclosure = self.enclosure().at(values)
        try:
            return made(placed(self.shape, values), self.is_exact, self.notes, enclosure, self.by)
        except BudgetError as error:
            return product_of(
                enclosure.sides, self.by, (*self.notes, f"the values were put into the box alone: {error}")
            )

    @abstractmethod
    def condition(self, point: Sequence[IntLike]) -> Cond:
        """The condition that `point` is an element of the region represented."""

    def __or__(self, other: Region) -> Region:
        """The union of the regions represented, or a box around it when it has no representation."""
        return self._joined_with(other, _union) if isinstance(other, Region) else NotImplemented

    def __and__(self, other: Region) -> Region:
        """The intersection of the regions represented, or a box around it when it has no representation."""
        return self._joined_with(other, _intersection) if isinstance(other, Region) else NotImplemented

    def __sub__(self, other: Region) -> Region:
        """The points of this region that are not in `other`; more where one of them is not exact."""
        return self._joined_with(other, _difference) if isinstance(other, Region) else NotImplemented

    def project(self, dims: Sequence[int]) -> Region:
        """The region in some of its dimensions, in the order given."""
        chosen = tuple(as_int(k, "a dimension") for k in listed(dims, "the dimensions"))
        if any(not 0 <= k < self.dims for k in chosen) or len(set(chosen)) < len(chosen):
            raise InputError(f"dimensions of a region of {self.dims} are different numbers from 0, not {shown(chosen)}")
        enclosure = Enclosure(lambda: [self.enclosure().sides[k] for k in chosen])
        try:
            shape = self.shape
            with own_budget(shape):
                found = shape.project(chosen)
        except BudgetError as error:
            return product_of(enclosure.sides, self.by, (*self.notes, f"projected as a box: {error}"))
        return made(found, self.is_exact, self.notes, enclosure, self.by)

    def hull(self) -> Region:
        """The box around the region, for each value of the parameters."""
        try:
            shape = self.shape
            with own_budget(shape):
                found = shape.hull()
        except BudgetError as error:
            return product_of(self.enclosure().sides, self.by, (*self.notes, f"the box of all instances: {error}"))
        return made(found, self.is_exact, self.notes, self.enclosure(), self.by)

    def lexmin(self) -> tuple[Expr, ...] | None:
        """The lexicographically smallest point, over `params`; right where the region is not empty, `None` where it is
        for all of them.

        Raises
        ------
        UndecidedError: there is no end, or the region is not exact, or the budget does not suffice.
        """
        return self._extremum(-1, "the smallest point")

    def lexmax(self) -> tuple[Expr, ...] | None:
        """The lexicographically largest point, as `lexmin` gives the smallest."""
        return self._extremum(1, "the largest point")

    def _extremum(self, side: int, what: str) -> tuple[Expr, ...] | None:
        def found(shape: Shape) -> tuple[Expr, ...] | None:
            if shape.is_empty():
                return None
            point = shape.lexmin() if side < 0 else shape.lexmax()
            ends = [point.end(k, side) for k in range(self.dims)]
            if any(isinstance(e, Infinity) for e in ends):
                raise BudgetError("there is no end to it")
            return tuple(e for e in ends if isinstance(e, Expr))

        return self._decided(what, found)

    def sample(self) -> tuple[int, ...] | None:
        """A point of the region, at some values of the parameters; `None` where it is empty for all of them.

        Raises
        ------
        UndecidedError: the region is not exact, or the budget does not suffice.
        """
        return self._decided("a point", lambda shape: shape.sample())

    def pieces(self, order: Sequence[int] | None = None) -> tuple[Region, ...]:
        """Disjoint convex regions that are this one together, for loops over its dimensions in the order given.

        Raises
        ------
        UndecidedError: they are too many, or the budget does not suffice.
        """
        turned = self if order is None else self.project(order)
        if turned.dims != self.dims:
            raise InputError(f"the order of a region of {self.dims} dimensions names all of them")

        def found(shape: Shape) -> tuple[Region, ...]:
            parts = shape.pieces(MAX_PIECES)
            if parts is None:
                raise BudgetError(f"no {MAX_PIECES} disjoint pieces were found")
            return tuple(made(part, self.is_exact, self.notes, None, self.by) for part in parts)

        return turned._decided("disjoint pieces", found, exact=False)

    def _decided(self, what: str, answer: Callable[[Shape], T], exact: bool = True) -> T:
        """What the shape answers; refused with the budget, and where it would be wrong of a superset."""
        if exact and not self.is_exact:
            raise UndecidedError(f"{what} of a region that is not exact is not known")
        try:
            shape = self.shape
            with collected() as remarks, own_budget(shape):
                found = answer(shape)
        except BudgetError as error:
            raise UndecidedError(f"{what} of the region is not known: {error}") from error
        if remarks:
            self.notes = tuple(dict.fromkeys((*self._own_notes(), *remarks)))
        return found

    def _own_notes(self) -> tuple[str, ...]:
        """The notes, without what is found out when somebody asks."""
        return self.notes

    # -- as sets are ---------------------------------------------------------------------------------------------

    def conditions(self, point: Sequence[Expr]) -> tuple[Cond, ...]:
        return (self.condition(point),)

    def enclosure(self) -> Enclosure:
        """What is known of the region without its shape; its box is not asked for before somebody needs it."""
        return Enclosure(lambda: [_side(r) for r in self.box])

    @property
    def mentioned(self) -> Region:
        """The region at the values of parameters at which something is left (`domains.where_nonempty`)."""
        return self

    def _joined_with(self, other: Region, operation: Callable[[Region, Region], Region]) -> Region:
        """What an operation makes of this region and another."""
        return operation(self, other)

    def in_instances(self) -> Region:
        return self

    def _knows_where_empty(self) -> bool:
        """As for sets."""
        return True

    def __contains__(self, point: Sequence[SupportsIndex]) -> bool:
        """`(3, 4) in r`, for a region that does not depend on parameters."""
        if self.params:
            raise InputError(f"the region depends on {', '.join(p.name for p in self.params)}: use r.at({{...}})")
        return bool(evaluate(self.condition(self.place_of(point, as_int))))

    def place_of(self, point: object, as_number: Callable[[object, str], T]) -> tuple[T, ...]:
        """A point as a user gives it."""
        place = tuple(as_number(x, "a coordinate") for x in listed(point, "a point", f"{self.dims} coordinates"))
        if len(place) != self.dims:
            raise InputError(f"a point of a region of {self.dims} dimensions has no {len(place)} coordinates")
        return place

    def count_max(self) -> int | Infinity:
        """The largest number of points over the instances of `params`: their values at which the region is not empty.

        Raises
        ------
        CountError: as for `count`, and where the number depends on more than these.
        """
        return self._per_instance().max

    def count_total(self) -> int | Infinity:
        """The number of points summed over the instances of `params`; raises as `count_max` does."""
        return self._per_instance().total

    def _per_instance(self) -> PerInstance:
        """Both, of the region as a shape."""
        check_countable(self)
        try:
            shape = self.shape
            with own_budget(shape, 2 * SHARE):
                return shape.counts(self.params)
        except BudgetError as error:
            raise CountError(f"counting is out of budget: {error}") from error

    def __repr__(self) -> str:
        sides = " x ".join(f"[{r.min}, {r.max}]" for r in self.box)
        return f"<{type(self).__name__} {sides or '()'} {'exact' if self.is_exact else 'superset'} by {self.by}>"


@all_as_configured
class ProductRegion(Region):
    """The points whose k-th coordinate lies in the k-th of several sets, independently."""

    def __init__(
        self, sets: Sequence[IntSet], by: str, is_exact: bool, notes: Sequence[str] = (), sides: Sides | None = None
    ) -> None:
        self.sets, self.by, self.is_exact, self.notes = tuple(sets), by, is_exact, tuple(notes)
        self.sides = sides
        self.dims = len(self.sets)

    @property
    def params(self) -> tuple[Var, ...]:
        return tuple(dict.fromkeys(v for s in self.sets for v in s.params))

    @property
    def is_empty(self) -> bool:
        return any(s.is_empty for s in self.sets)

    @property
    def is_tight(self) -> bool:
        return all(s.is_tight for s in self.sets)

    @property
    def box(self) -> tuple[Range, ...]:
        return tuple(range_between(*self._side(k, s)) for k, s in enumerate(self.sets))

    def _side(self, k: int, s: IntSet) -> tuple[End, End]:
        return s.ends() if s.is_tight or self.sides is None else self.sides.within(k, s.ends())

    def count(self) -> int | Infinity | Expr:
        check_countable(self)
        counts = [s.count() for s in self.sets]
        if any(c == 0 for c in counts if isinstance(c, int)):
            return 0
        if any(isinstance(c, Infinity) for c in counts):
            return POS_INF
        return prod(c for c in counts if not isinstance(c, Infinity))

    def substituted(self, values: Mapping[Var, Expr]) -> ProductRegion:
        sides = None if self.sides is None else self.sides.at(values)
        placed_sets = [s.at(values) for s in self.sets]
        why = dict.fromkeys(text for s in placed_sets if s.is_empty for text in s.notes)
        return ProductRegion(placed_sets, self.by, self.is_exact, tuple({**dict.fromkeys(self.notes), **why}), sides)

    def condition(self, point: Sequence[IntLike]) -> Cond:
        return logical_and(*(s.condition(v) for s, v in zip(self.sets, self.place_of(point, as_expr), strict=True)))

    def _per_instance(self) -> PerInstance:
        number = None if self.params else self.count()
        return super()._per_instance() if number is None or isinstance(number, Expr) else PerInstance(number, number)


def empty_region(dims: int, by: str, notes: Sequence[str] = ()) -> ProductRegion:
    """The region without points; notes may say why."""
    return ProductRegion([empty_set(by)] * dims, by, True, notes)


def product_of(sides: Sequence[Side], by: str, notes: Sequence[str]) -> ProductRegion:
    """The box with these ends, as a superset of what was asked for; `notes` say why."""
    return ProductRegion([IntervalSet(low, high, by, notes=notes) for low, high in sides], by, False, notes)


@all_as_configured
class ShapeRegion(Region):
    """The points of a shape; `enclosure` answers where its budget does not do, `sides` where its ends are loose."""

    def __init__(
        self, shape: Shape, by: str, is_exact: bool, notes: Sequence[str] = (), enclosure: Enclosure | None = None
    ) -> None:
        self._shape, self.by, self.is_exact, self._notes = shape, by, is_exact, tuple(notes)
        self.dims, self._enclosure = shape.dims, enclosure
        self._ends = Ends(shape, self.dims, enclosure)

    @property
    def shape(self) -> Shape:
        return self._shape

    def enclosure(self) -> Enclosure:
        return super().enclosure() if self._enclosure is None else self._enclosure.outline()

    @property
    def params(self) -> tuple[Var, ...]:
        return self._shape.variables()

    @property
    def is_empty(self) -> bool:
        return is_empty(self._shape)

    @property
    def is_tight(self) -> bool:
        return self.is_exact and self._ends.are_attained()

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self._notes, *self._ends.notes_so_far())

    @notes.setter
    def notes(self, notes: tuple[str, ...]) -> None:
        self._notes = notes

    def _own_notes(self) -> tuple[str, ...]:
        return self._notes

    @property
    def box(self) -> tuple[Range, ...]:
        return tuple(range_between(*self._within(k, ends)) for k, ends in enumerate(self._ends.sides()))

    def _within(self, k: int, ends: tuple[End, End]) -> tuple[End, End]:
        is_best = self.is_exact and not self._ends.notes() and not any(isinstance(e, Infinity) for e in ends)
        return ends if self.sides is None or is_best else self.sides.within(k, ends)

    def count(self) -> int | Infinity | Expr:
        check_countable(self)
        return count_of(self._shape, self._enclosure)

    def substituted(self, values: Mapping[Var, Expr]) -> Region:
        enclosure = None if self._enclosure is None else self._enclosure.at(values)
        try:
            found = ShapeRegion(placed(self._shape, values), self.by, self.is_exact, self._notes, enclosure)
        except BudgetError as error:
            ends = [(NEG_INF, POS_INF)] * self.dims if enclosure is None else enclosure.sides
            return product_of(ends, self.by, (*self.notes, f"the values were put into the box alone: {error}"))
        found.sides = None if self.sides is None else self.sides.at(values)
        return found

    def condition(self, point: Sequence[IntLike]) -> Cond:
        return condition_of(self._shape, self.place_of(point, as_expr), "region")

    def __contains__(self, point: Sequence[SupportsIndex]) -> bool:
        if self.params:
            return super().__contains__(point)
        return has_point(self._shape, self.place_of(point, as_int))


def made(
    shape: Shape, is_exact: bool, notes: Sequence[str] = (), enclosure: Enclosure | None = None, by: str = ""
) -> Region:
    """A region of a shape."""
    return ShapeRegion(shape, by or shape.by, is_exact, tuple(dict.fromkeys(notes)), enclosure)


def extreme_targets(region: Region, sources: int, side: int) -> Region:
    """Of pairs (source, target) each source with the smallest (`side` -1) or largest (+1) of its targets."""

    def found(shape: Shape) -> Region:
        names = coordinates(sources, "s")
        fibres = shape.fibred(names)
        with collected() as remarks:
            ends = (fibres.lexmin() if side < 0 else fibres.lexmax()).lifted(names)
        return made(ends, True, (*region.notes, *remarks), region.enclosure(), region.by)

    return region._decided(f"the {'smallest' if side < 0 else 'largest'} targets", found)


def _union(a: Region, b: Region) -> Region:
    exact = a._knows_where_empty() and b._knows_where_empty()  # the union is not empty where one of them is
    return _joined(a, b, lambda x, y: x.union(y), lambda x, y: x.united(y), exact)


def _intersection(a: Region, b: Region) -> Region:
    return _joined(a, b, lambda x, y: x.intersect(y), lambda x, y: x.intersected(y), True)


def _joined(
    a: Region,
    b: Region,
    operation: Callable[[Shape, Shape], Shape],
    outlines: Callable[[Enclosure, Enclosure], Enclosure],
    exact: bool,
) -> Region:
    """What two regions give together, or a box around it; exact only when both are."""
    if a.dims != b.dims:
        raise InputError(f"a region of {a.dims} dimensions does not join one of {b.dims}")
    notes, enclosure = (*a.notes, *b.notes), outlines(a.enclosure(), b.enclosure())
    try:
        return made(joined(a, b, operation), exact and a.is_exact and b.is_exact, notes, enclosure)
    except BudgetError as error:
        return product_of(enclosure.sides, a.by, tuple(dict.fromkeys((*notes, f"joined as boxes: {error}"))))


def _difference(a: Region, b: Region) -> Region:
    if a.dims != b.dims:
        raise InputError(f"a region of {b.dims} dimensions cannot be taken from one of {a.dims}")
    if not (b.is_exact and b._knows_where_empty()):
        return _superset(a, "what was to be taken away is not known exactly, so nothing was")
    try:
        return made(joined(a, b, lambda x, y: x.subtract(y)), a.is_exact, a.notes, a.enclosure())
    except BudgetError as error:
        return _superset(a, f"nothing was taken away: {error}")


def _superset(region: Region, note: str) -> Region:
    """The same points, as more than what was asked for."""
    notes = (*region.notes, note)
    try:
        return made(region.shape, False, notes, region.enclosure(), region.by)
    except BudgetError:
        return product_of(region.enclosure().sides, region.by, notes)


def _side(r: Range) -> Side:
    return (POS_INF, NEG_INF) if isinstance(r.extent, Expr) and r.extent is const(0) else (r.min, r.max)
