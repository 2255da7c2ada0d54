"""`Region`: a set of n-dimensional points with proved claims, and the algebra of regions.

A `Shape` is exact or refuses (`intset.regions`). An operation on regions is exact if the operation on their shapes
succeeds and both regions are exact. Otherwise the answer is a superset with a note, or a typed refusal where a superset
would be unsound:

=====================  ==================================================================================
union, projection      the box
intersection           the box
difference             the left operand; also for a superset as the right operand
emptiness, inclusion   `False`
extremum, sample,      `UndecidedError`
pieces
=====================  ==================================================================================

A `Relation`, a set of pairs of tuples, is a region over the coordinates of both. A picture of a set or region shows the
blocks of its bounding box that have an element.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, Literal, SupportsIndex, TypeAlias, TypeVar

from intset.config import Configured, all_as_configured
from intset.domains.sets import base
from intset.domains.sets.base import ByShape, IntervalSet, IntSet, Ordered, empty_set, note
from intset.domains.sets.ends import by_parameter, product_of_counts
from intset.errors import BudgetError, CountError, InputError, UndecidedError
from intset.expr import Cond, Expr, IntLike, Range, Var, arguments, as_expr, const, dag, shown
from intset.expr.build import logical_and
from intset.expr.convert import set_text
from intset.expr.evaluate import evaluate
from intset.expr.node import NEG_INF, POS_INF, Infinity, as_int
from intset.facts import shown_notes
from intset.linear.canonical import Normalizer
from intset.regions.shape import COUNTED_POINTS, PerInstance, Shape, collected, coordinates
from intset.simplify.engine import simplified

DRAWN_LENGTH: Final = 1_200  # cells of a picture along one axis

Side: TypeAlias = tuple[int, int]  # first element, number of elements


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of a region, projected to the axes drawn.

    Attributes
    ----------
    count: the number of elements along all axes; `None` beyond the counting budget.
    box: the bounding box along the axes drawn.
    block: the extents of a block: 1 along each axis, or larger if the box is too large to list.
    blocks: the nonempty blocks, counted from the low corner of the box; `None`: the box is full.
    """

    count: int | None
    box: tuple[Side, ...]
    block: tuple[int, ...]
    blocks: frozenset[tuple[int, ...]] | None

    @property
    def is_empty(self) -> bool:
        return any(extent == 0 for _, extent in self.box)

    def cells(self) -> Iterator[tuple[Side, ...]]:
        """The boxes to fill, one per nonempty block."""
        if self.blocks is None:
            for point in itertools.product(*(range(low, low + extent) for low, extent in self.box)):
                yield tuple((x, 1) for x in point)
            return
        for block in sorted(self.blocks):
            yield tuple((low + k * b, b) for (low, _), k, b in zip(self.box, block, self.block, strict=True))


def elements_of(region: Ordered, drawn: Sequence[int], max_blocks: int, operations: int) -> Elements:
    """The elements of a region, free of parameters, projected to the axes `drawn`.

    Raises
    ------
    BudgetError: the region has no finite box, or takes more operations of its domain.
    """
    whole = region.shape
    with whole.budget(operations):
        seen = whole.without(whole.atoms()).project(drawn)
        try:
            number = whole.count()
        except CountError:
            number = None
        number = number if isinstance(number, int) else None
        sides: list[Side] = []
        for found in (base.range_between(*ends) for ends in seen.dim_bounds()):
            if not (isinstance(found.min, Expr) and isinstance(found.extent, Expr)):
                raise BudgetError("a region without end")
            sides.append((int(found.min), max(int(found.extent), 0)))
        box, ones = tuple(sides), (1,) * seen.dims
        if any(extent == 0 for _, extent in box):
            return Elements(0, box, ones, None)
        if seen.includes(seen.hull()):
            return Elements(number, box, ones, None)
        block = _block([extent for _, extent in box], max_blocks)
        if number is not None and number <= min(max_blocks, COUNTED_POINTS):
            points = seen.listed(number)
            places = (tuple((x - low) // b for x, (low, _), b in zip(at, box, block, strict=True)) for at in points)
            return Elements(number, box, block, frozenset(places))
        point = coordinates(seen.dims)
        block_of = [(x - low) // b for x, (low, _), b in zip(point, box, block, strict=True)]
        return Elements(number, box, block, frozenset(seen.image(point, block_of).listed(max_blocks)))


def _block(extents: Sequence[int], max_blocks: int) -> tuple[int, ...]:
    """The extents of a block. Blocks double along the longest axis until they are few enough."""
    block, numbers = [1] * len(extents), list(extents)
    while max(numbers) > DRAWN_LENGTH or prod(numbers) > max_blocks:
        k = numbers.index(max(numbers))
        block[k] *= 2
        numbers[k] = -(-extents[k] // block[k])
    return tuple(block)


REGION_PIECES: Final = 64  # disjoint pieces of a region

T = TypeVar("T")


@all_as_configured
class Region(Ordered):
    """A set of n-dimensional integer points, possibly depending on parameters.

    Attributes
    ----------
    dims: the number of dimensions.
    box: for each dimension the `Range` of the bounding box, over `params`.
    is_exact: proved equal to the true set.
    is_tight: every end of the box is attained.
    params: the variables that the region depends on: kept variables and sizes.
    point: the expressions whose values the coordinates are, of `Context.image`; otherwise empty.
    """

    _kind = "region"
    by: str
    is_exact: bool
    notes: tuple[str, ...]
    # bounds of each coordinate alone, by separate questions
    coordinate_bounds: base.DimensionBounds | None = None
    point: tuple[Expr, ...] = ()
    _preimage: Callable[[], int | Infinity | Expr | None] | None = None  # of a superset: counts what it is the image of

    @property
    def is_tight(self) -> bool:
        """Whether each nonempty instance attains every end of the box."""
        return False

    @property
    @abstractmethod
    def params(self) -> tuple[Var, ...]: ...

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the region is proved empty for all parameters."""

    @property
    @abstractmethod
    def box(self) -> tuple[Range, ...]: ...

    @abstractmethod
    def count(self) -> int | Infinity | Expr:
        """The number of points: an `int`, `POS_INF`, or an expression over `params`.

        A superset of an image under an injective map has as many true points as the context of the map.

        Raises
        ------
        CountError: the region is another superset, has no closed form of its count, or exceeds the budget.
        """

    def at(self, values: Mapping[Var, IntLike]) -> Region:
        """Substitute parameters: `{n: 5}` or by name `{"n": 5}`.

        At values that a fact or a declared bound excludes, the region is empty and a note names the fact.

        Raises
        ------
        InputError: an ambiguous or unknown name, or a value that is not an integer.
        """
        table = by_parameter(values, self._spoken_of())
        if excluding := self._excluding(table):
            return empty_region(self.dims, self.by, (note(excluding, table),))
        return self.substituted(table)

    def substituted(self, values: Mapping[Var, Expr]) -> Region:
        """Substitute allowed values in the shape, or in the box if the shape exceeds its budget."""
        outer = self.outer_box().at(values)
        return self._shaped(lambda shape: shape.at(values), outer, "the values were put into the box alone")

    def _shaped(self, change: Callable[[Shape], Shape], outer: base.DimensionBounds, instead: str) -> Region:
        """The region of the changed shape; beyond the budget the box `outer`, and a note of what was done `instead`."""
        try:
            shape = self.shape
            with base.own_budget(shape):
                changed = change(shape)
        except BudgetError as error:
            return product_of(outer.pairs, self.by, (*self.notes, f"{instead}: {error}"))
        return region_of_shape(changed, self.is_exact, self.notes, outer, self.by)

    @abstractmethod
    def condition(self, point: Sequence[IntLike]) -> Cond:
        """The condition of membership of `point`."""

    def constraints(self, point: Sequence[IntLike] | None = None) -> tuple[Cond, ...]:
        """Conditions that all hold exactly at the members, over `point` or over new variables `d0`, `d1` and so on."""
        return tuple(
            dag.conjuncts(self.condition([Var(f"d{k}") for k in range(self.dims)] if point is None else point))
        )

    def to_text(self, language: Literal["isl", "mlir", "python"] = "python") -> str:
        """isl's set, MLIR's integer set or a condition for `parse`, over coordinates `d0`, `d1` and so on.

        An InputError names what the language cannot state, such as a union in MLIR.
        """
        dims = [Var(f"d{k}") for k in range(self.dims)]
        return set_text(self.constraints(dims), dims, self.params, language)

    def __or__(self, other: Region) -> Region:
        """The union, or its box where no domain represents the union."""
        return self._combined_with(other, _union) if isinstance(other, Region) else NotImplemented

    def __and__(self, other: Region) -> Region:
        """The intersection, or its box where no domain represents the intersection."""
        return self._combined_with(other, _intersection) if isinstance(other, Region) else NotImplemented

    def __sub__(self, other: Region) -> Region:
        """The difference, or a superset for inexact operands."""
        return self._combined_with(other, _difference) if isinstance(other, Region) else NotImplemented

    def project(self, dims: Sequence[int]) -> Region:
        """Project onto the dimensions `dims`, in that order."""
        chosen = tuple(as_int(k, "a dimension") for k in arguments.listed(dims, "the dimensions"))
        if any(not 0 <= k < self.dims for k in chosen) or len(set(chosen)) < len(chosen):
            raise InputError(f"dimensions of a region of {self.dims} are different numbers from 0, not {shown(chosen)}")
        around = self.outer_box()
        outer = base.DimensionBounds(len(chosen), lambda k: around[chosen[k]])
        return self._shaped(lambda shape: shape.project(chosen), outer, "projected as a box")

    def hull(self) -> Region:
        """The bounding box of each instance."""
        return self._shaped(lambda shape: shape.hull(), self.outer_box(), "the box of all instances")

    def lexmin(self) -> tuple[Expr, ...] | None:
        """The lexicographically smallest point, over `params`, of each nonempty instance; `None` if all are empty.

        Raises
        ------
        UndecidedError: the region is unbounded, a superset, or exceeds the budget.
        """
        return self._extremum(-1, "the smallest point")

    def lexmax(self) -> tuple[Expr, ...] | None:
        """The lexicographically largest point; the rest as for `lexmin`."""
        return self._extremum(1, "the largest point")

    def _extremum(self, side: int, what: str) -> tuple[Expr, ...] | None:
        def extremum(shape: Shape) -> tuple[Expr, ...] | None:
            if shape.is_empty():
                return None
            point = shape.lexmin() if side < 0 else shape.lexmax()
            ends = [point.end(k, side) for k in range(self.dims)]
            if any(isinstance(e, Infinity) for e in ends):
                raise BudgetError("there is no end to it")
            return tuple(e for e in ends if isinstance(e, Expr))

        return self.decided(what, extremum)

    def sample(self) -> tuple[int, ...] | None:
        """A point of some instance of the region; `None` if all instances are empty.

        Raises
        ------
        UndecidedError: the region is a superset, or exceeds the budget.
        """
        return self.decided("a point", lambda shape: shape.sample())

    def pieces(self, order: Sequence[int] | None = None) -> tuple[Region, ...]:
        """Partition the region into disjoint convex regions, for loops over its dimensions in `order`.

        Raises
        ------
        UndecidedError: more than `REGION_PIECES` regions, or the budget is exceeded.
        """
        reordered = self if order is None else self.project(order)
        if reordered.dims != self.dims:
            raise InputError(f"the order of a region of {self.dims} dimensions names all of them")

        def partition(shape: Shape) -> tuple[Region, ...]:
            parts = shape.pieces(REGION_PIECES)
            if parts is None:
                raise BudgetError(f"no {REGION_PIECES} disjoint pieces were found", "REGION_PIECES")
            return tuple(region_of_shape(part, self.is_exact, self.notes, None, self.by) for part in parts)

        return reordered.decided("disjoint pieces", partition, exact=False)

    def decided(self, what: str, answer: Callable[[Shape], T], exact: bool = True) -> T:
        """Ask the shape a question under one budget; `exact`: an answer about a superset would be wrong."""
        if exact and not self.is_exact:
            raise UndecidedError(f"{what} of a region that is not exact is not known")
        with base.refusing(UndecidedError, f"{what} of the region is not known"), collected() as remarks:
            shape = self.shape
            with base.own_budget(shape):
                value = answer(shape)
        if remarks:
            self.notes = tuple(dict.fromkeys((*self._own_notes(), *remarks)))
        return value

    def _own_notes(self) -> tuple[str, ...]:
        """The notes of construction, without those of later queries."""
        return self.notes

    # -- the algebra of sets---------------------------------------------------------------------------------------

    def conditions(self, point: Sequence[Expr]) -> tuple[Cond, ...]:
        return (self.condition(point),)

    def _own_ends(self, k: int) -> base.Pair:
        side = self.box[k]
        is_empty = isinstance(side.extent, Expr) and side.extent is const(0)
        return (POS_INF, NEG_INF) if is_empty else (side.min, side.max)

    def __contains__(self, point: Sequence[SupportsIndex]) -> bool:
        """`(3, 4) in r`, for a region without parameters."""
        if self.params:
            raise InputError(f"the region depends on {', '.join(p.name for p in self.params)}: use r.at({{...}})")
        return bool(evaluate(self.condition(self.point_of(point, as_int))))

    def point_of(self, point: object, as_number: Callable[[object, str], T]) -> tuple[T, ...]:
        """Convert the coordinates of a point; raises `InputError` for a wrong number of them."""
        wanted = f"a tuple of length {self.dims}"
        converted = tuple(as_number(x, "a coordinate") for x in arguments.listed(point, "a point", wanted))
        if len(converted) != self.dims:
            raise InputError(f"a point of a region of {self.dims} dimensions has no {len(converted)} coordinates")
        return converted

    def _count_of_preimage(self) -> int | Infinity | Expr | None:
        return None if self.is_exact or self._preimage is None else self._preimage()

    def count_max(self) -> int | Infinity | Expr:
        """The largest number of points of an instance; raises `CountError` as `count` does, or for other variables."""
        return self._per_instance().max

    def count_total(self) -> int | Infinity | Expr:
        """The total number of points of all instances; raises as `count_max` does."""
        return self._per_instance().total

    def _per_instance(self) -> PerInstance:
        """The largest and the total number of points of the instances, by the shape."""
        base.check_countable(self)
        with base.refusing(CountError, base.OUT_OF_BUDGET), base.own_budget(self.shape, 2 * base.SET_SHARE):
            return self.shape.counts(self.params)

    def __repr__(self) -> str:
        ends = ((r.min, r.max if isinstance(r.max, Infinity) else simplified(r.max, Normalizer({}))) for r in self.box)
        sides = " x ".join(f"[{first}, {last}]" for first, last in ends)
        by = self.by + shown_notes(self.notes)
        return f"<{type(self).__name__} {sides or '()'} {'exact' if self.is_exact else 'superset'} by {by}>"


@all_as_configured
class ProductRegion(Region):
    """The Cartesian product of sets, one for each coordinate."""

    def __init__(
        self,
        sets: Sequence[IntSet],
        by: str,
        is_exact: bool,
        notes: Sequence[str] = (),
        coordinate_bounds: base.DimensionBounds | None = None,
    ) -> None:
        self.sets, self.by, self.is_exact, self.notes = tuple(sets), by, is_exact, tuple(notes)
        self.coordinate_bounds = coordinate_bounds
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
        ends = [s.ends() for s in self.sets]
        for k, s in enumerate(self.sets):
            if self.coordinate_bounds is not None and not s.is_tight:
                ends[k] = base.tightest(ends[k], self.coordinate_bounds[k])
        return tuple(base.range_between(*pair) for pair in ends)

    def count(self) -> int | Infinity | Expr:
        if (found := self._count_of_preimage()) is not None:
            return found
        base.check_countable(self)
        return product_of_counts([s.count() for s in self.sets])

    def substituted(self, values: Mapping[Var, Expr]) -> ProductRegion:
        alone = None if self.coordinate_bounds is None else self.coordinate_bounds.at(values)
        sets = [s.at(values) for s in self.sets]
        reasons = dict.fromkeys(text for s in sets if s.is_empty for text in s.notes)
        return ProductRegion(sets, self.by, self.is_exact, tuple({**dict.fromkeys(self.notes), **reasons}), alone)

    def condition(self, point: Sequence[IntLike]) -> Cond:
        return logical_and(*(s.condition(v) for s, v in zip(self.sets, self.point_of(point, as_expr), strict=True)))

    def _per_instance(self) -> PerInstance:
        number = None if self.params else self.count()
        return super()._per_instance() if number is None or isinstance(number, Expr) else PerInstance(number, number)


def empty_region(dims: int, by: str, notes: Sequence[str] = ()) -> ProductRegion:
    """The empty region; `notes` give the reason."""
    return ProductRegion([empty_set(by)] * dims, by, True, notes)


def product_of(ends: Sequence[base.Pair], by: str, notes: Sequence[str], is_exact: bool = False) -> ProductRegion:
    """The box with these ends, by default as a superset; `notes` give the reason."""
    return ProductRegion([IntervalSet(*pair, by, is_exact=is_exact, notes=notes) for pair in ends], by, is_exact, notes)


@all_as_configured
class ShapeRegion(ByShape, Region):
    """The points of a shape; `coordinate_bounds` may be tighter where its ends are loose."""

    def __init__(
        self,
        shape: Shape,
        by: str,
        is_exact: bool,
        notes: Sequence[str] = (),
        outer: base.DimensionBounds | None = None,
    ) -> None:
        super().__init__(shape, outer)
        self.dims, self.by, self.is_exact, self._notes = shape.dims, by, is_exact, tuple(notes)

    @property
    def is_tight(self) -> bool:
        return self.is_exact and self._ends.are_attained()

    def _own_notes(self) -> tuple[str, ...]:
        return self._notes

    @property
    def box(self) -> tuple[Range, ...]:
        alone, pairs = self.coordinate_bounds, list(self._ends.pairs())
        is_exact = self.is_exact and not self._ends.notes()
        for k, ends in enumerate(pairs):
            if alone is not None and not (is_exact and not any(isinstance(e, Infinity) for e in ends)):
                pairs[k] = base.tightest(ends, alone[k])
        return tuple(base.range_between(*ends) for ends in pairs)

    def count(self) -> int | Infinity | Expr:
        return super().count() if (found := self._count_of_preimage()) is None else found

    def substituted(self, values: Mapping[Var, Expr]) -> Region:
        outer = None if self._outer is None else self._outer.at(values)
        try:
            answer = ShapeRegion(base.shape_at(self._shape, values), self.by, self.is_exact, self._notes, outer)
        except BudgetError as error:
            ends = [(NEG_INF, POS_INF)] * self.dims if outer is None else outer.pairs
            return product_of(ends, self.by, (*self.notes, f"the values were put into the box alone: {error}"))
        answer.coordinate_bounds = None if self.coordinate_bounds is None else self.coordinate_bounds.at(values)
        return answer

    def condition(self, point: Sequence[IntLike]) -> Cond:
        return base.condition_of(self._shape, self.point_of(point, as_expr), "region")

    def __contains__(self, point: Sequence[SupportsIndex]) -> bool:
        if self.params:
            return super().__contains__(point)
        return base.has_point(self._shape, self.point_of(point, as_int))


def region_of_shape(
    shape: Shape, is_exact: bool, notes: Sequence[str] = (), outer: base.DimensionBounds | None = None, by: str = ""
) -> Region:
    """The region of the points of a shape; `by`: the domain that answered, by default the domain of the shape."""
    return ShapeRegion(shape, by or shape.by, is_exact, tuple(dict.fromkeys(notes)), outer)


def _union(a: Region, b: Region) -> Region:
    exact = a.knows_where_empty() and b.knows_where_empty()  # an empty union has two empty operands
    return _combined(a, b, lambda x, y: x.union(y), base.DimensionBounds.union, exact)


def _intersection(a: Region, b: Region) -> Region:
    return _combined(a, b, lambda x, y: x.intersect(y), base.DimensionBounds.intersection, True)


def _combined(
    a: Region,
    b: Region,
    operation: Callable[[Shape, Shape], Shape],
    bounds: Callable[[base.DimensionBounds, base.DimensionBounds], base.DimensionBounds],
    exact: bool,
) -> Region:
    """The region of a binary operation on shapes, or its box; exact only when both operands are."""
    if a.dims != b.dims:
        raise InputError(f"a region of {a.dims} dimensions does not join one of {b.dims}")
    return _of_both(a, b, operation, bounds(a.outer_box(), b.outer_box()), exact, "joined as boxes")


def _of_both(
    a: Region,
    b: Region,
    operation: Callable[[Shape, Shape], Shape],
    outer: base.DimensionBounds,
    exact: bool,
    instead: str,
) -> Region:
    """The region of an operation on two shapes; beyond the budget the box `outer`, and a note of what was done."""
    notes = (*a.notes, *b.notes)
    try:
        return region_of_shape(base.combined(a, b, operation), exact and a.is_exact and b.is_exact, notes, outer)
    except BudgetError as error:
        return product_of(outer.pairs, a.by, tuple(dict.fromkeys((*notes, f"{instead}: {error}"))))


def _difference(a: Region, b: Region) -> Region:
    if a.dims != b.dims:
        raise InputError(f"a region of {b.dims} dimensions cannot be taken from one of {a.dims}")
    if not (b.is_exact and b.knows_where_empty()):
        return _superset(a, "what was to be taken away is not known exactly, so nothing was")
    try:
        return region_of_shape(base.combined(a, b, lambda x, y: x.subtract(y)), a.is_exact, a.notes, a.outer_box())
    except BudgetError as error:
        return _superset(a, f"nothing was taken away: {error}")


def _superset(region: Region, note: str) -> Region:
    """The same points, not claimed exact."""
    notes = (*region.notes, note)
    try:
        return region_of_shape(region.shape, False, notes, region.outer_box(), region.by)
    except BudgetError:
        return product_of(region.outer_box().pairs, region.by, notes)


@all_as_configured
class Relation(Configured):
    """A set of pairs (source, target) of integer tuples, possibly depending on parameters.

    Guarantee: an operation that has no exact answer returns a superset with a note; an extremum is refused instead.

    Attributes
    ----------
    sources, targets: the number of coordinates of each.
    pairs: the region of the points `(*source, *target)`.
    params, is_exact, notes, by, is_empty: those of `pairs`.

    Raises
    ------
    InputError: tuples of the wrong length.
    UndecidedError: an extremum of an unbounded relation, or beyond the budget.

    Example: which iteration stored what iteration `(i, j)` reads from `A[i*4 + j - 1]`?

    >>> from intset import Context, Range, Var
    >>> i, j = Var("i"), Var("j")
    >>> loops = Context({i: Range(0, 4), j: Range(0, 4)})
    >>> stores, loads = loops.relation((i, j), (i * 4 + j,)), loops.relation((i, j), (i * 4 + j - 1,))
    >>> source = loads.then(stores.inverse())
    >>> source.contains((2, 0), (1, 3)), source.domain().count()
    (True, 15)
    """

    def __init__(self, pairs: Region, sources: int) -> None:
        arguments.of_kind(Region, pairs, "the pairs of a relation")
        if not 0 <= as_int(sources, "the number of sources") <= pairs.dims:
            raise InputError(f"a relation over {pairs.dims} coordinates has no source of {shown(sources)}")
        self.pairs, self.sources, self.targets = pairs, sources, pairs.dims - sources

    # -- claims -------------------------------------------------------------------------------------------------

    @property
    def params(self) -> tuple[Var, ...]:
        return self.pairs.params

    @property
    def is_exact(self) -> bool:
        return self.pairs.is_exact

    @property
    def notes(self) -> tuple[str, ...]:
        return self.pairs.notes

    @property
    def by(self) -> str:
        return self.pairs.by

    @property
    def is_empty(self) -> bool:
        return self.pairs.is_empty

    # -- the two sides ------------------------------------------------------------------------------------------

    def domain(self) -> Region:
        """The sources of all pairs."""
        return self.pairs.project(range(self.sources))

    def range(self) -> Region:
        """The targets of all pairs."""
        return self.pairs.project(range(self.sources, self.pairs.dims))

    def inverse(self) -> Relation:
        """The relation with sources and targets exchanged."""
        order = [*range(self.sources, self.pairs.dims), *range(self.sources)]
        return Relation(self.pairs.project(order), self.targets)

    def then(self, other: Relation) -> Relation:
        """The composition: pairs `(a, c)` with `(a, b)` in this relation and `(b, c)` in `other`, for some `b`."""
        if not isinstance(other, Relation) or other.sources != self.targets:
            raise InputError(f"a relation to {self.targets} coordinates cannot be followed by {shown(other)}")
        return Relation(_composed(self.pairs, other.pairs, self.targets), self.sources)

    def apply(self, region: Region) -> Region:
        """The image of a region under the relation."""
        if arguments.of_kind(Region, region, "what a relation is applied to").dims != self.sources:
            raise InputError(f"a region of {region.dims} dimensions is no set of sources of {self.sources}")
        return _composed(region, self.pairs, self.sources)

    # -- extrema ------------------------------------------------------------------------------------------------

    def lexmin(self) -> Relation:
        """Pair each source with its lexicographically smallest target."""
        return Relation(_extreme_targets(self.pairs, self.sources, -1), self.sources)

    def lexmax(self) -> Relation:
        """Pair each source with its lexicographically largest target."""
        return Relation(_extreme_targets(self.pairs, self.sources, 1), self.sources)

    # -- the rest -----------------------------------------------------------------------------------------------

    def at(self, values: Mapping[Var, IntLike]) -> Relation:
        """Substitute parameters, as `Region.at` does."""
        return Relation(self.pairs.at(values), self.sources)

    def condition(self, source: Sequence[IntLike], target: Sequence[IntLike]) -> Cond:
        """The condition of membership of a pair."""
        return self.pairs.condition(self._pair(source, target))

    def contains(self, source: Sequence[IntLike], target: Sequence[IntLike]) -> bool:
        """Membership of a pair of constants, for a relation without parameters."""
        return [int(x) for x in self._pair(source, target)] in self.pairs

    def _pair(self, source: Sequence[IntLike], target: Sequence[IntLike]) -> list[Expr]:
        source = arguments.listed(source, "the source", "a point")
        target = arguments.listed(target, "the target", "a point")
        if len(source) != self.sources or len(target) != self.targets:
            raise InputError(
                f"a pair has {self.sources} and {self.targets} coordinates, not {len(source)}, {len(target)}"
            )
        return [as_expr(x) for x in (*source, *target)]

    def __or__(self, other: Relation) -> Relation:
        return self._combined(other, self.pairs.__or__)

    def __and__(self, other: Relation) -> Relation:
        return self._combined(other, self.pairs.__and__)

    def __sub__(self, other: Relation) -> Relation:
        return self._combined(other, self.pairs.__sub__)

    def _combined(self, other: Relation, operation: Callable[[Region], Region]) -> Relation:
        if not isinstance(other, Relation):
            return NotImplemented
        self._comparable(other)
        return Relation(operation(other.pairs), self.sources)

    def _comparable(self, other: Relation) -> None:
        if (other.sources, other.targets) != (self.sources, self.targets):
            raise InputError(f"{shown(self)} and {shown(other)} have pairs of different lengths")

    def __le__(self, other: Relation) -> bool:
        """Whether this relation is a proved subset of `other`."""
        if not isinstance(other, Relation):
            return NotImplemented
        self._comparable(other)
        return self.pairs <= other.pairs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Relation) and self.sources == other.sources and self.pairs == other.pairs

    def __repr__(self) -> str:
        kind = "exact" if self.is_exact else "superset"
        return f"<Relation of {self.sources} to {self.targets} coordinates, {kind} by {self.by}>"


def _extreme_targets(region: Region, sources: int, side: int) -> Region:
    """Pair each source with the lexicographically smallest (`side` -1) or largest (+1) of its targets."""

    def targets(shape: Shape) -> Region:
        names = coordinates(sources, "s")
        fibres = shape.dims_to_params(names)
        with collected() as remarks:
            ends = (fibres.lexmin() if side < 0 else fibres.lexmax()).params_to_dims(names)
        return region_of_shape(ends, True, (*region.notes, *remarks), region.outer_box(), region.by)

    return region.decided(f"the {'smallest' if side < 0 else 'largest'} targets", targets)


def _composed(a: Region, b: Region, shared: int) -> Region:
    """The points `(x, z)` with `(x, y)` in `a` and `(y, z)` in `b`, for some `y` of `shared` coordinates."""
    first, last = a.dims - shared, b.dims - shared
    left_box, right_box = a.outer_box(), b.outer_box()
    outer = base.DimensionBounds(first + last, lambda k: left_box[k] if k < first else right_box[k - first + shared])
    kept = [*range(first), *range(first + shared, first + shared + last)]
    return _of_both(a, b, lambda x, y: x.product_with(y, shared).project(kept), outer, True, "composed as boxes")
