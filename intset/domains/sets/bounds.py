"""What is known of a set or region without isl: where isl gives up on an operation, the answer comes from here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from intset import config as configuration
from intset.domains.certified.consistency import values_of
from intset.domains.certified.structure import has_parameters, symbolic_bounds
from intset.domains.query import Query
from intset.domains.ranked import strongest
from intset.domains.sets.ends import Bounds, End, end_at, larger, smaller
from intset.errors import BudgetError, CountError, UndecidedError
from intset.expr.build import logical_and
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr
from intset.expr.range import Range
from intset.expr.text import shown
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.linear.canonical import Normalizer
from intset.regions.derived import coordinates
from intset.regions.shape import Shape

Side = tuple[End, End]


class Enclosure:
    """For each coordinate two ends, between which every element lies, and elements counted by listing them.

    Both are computed when they are asked for: mostly isl answers, and nobody asks.
    """

    __slots__ = ("_counted", "_make", "_sides")

    def __init__(self, make: Callable[[], Sequence[Side]], counted: Callable[[], int | None] | None = None) -> None:
        self._make: Callable[[], Sequence[Side]] | None = make
        self._counted = counted
        self._sides: tuple[Side, ...] = ()

    @property
    def sides(self) -> tuple[Side, ...]:
        if self._make is not None:
            self._sides, self._make = tuple(self._make()), None
        return self._sides

    def outline(self) -> Enclosure:
        """The ends alone: they lie around other sets, too, whose elements are not those that are listed here."""
        return Enclosure(lambda: self.sides)

    def counted(self) -> int | None:
        """The number of elements; `None` where they cannot be listed."""
        return None if self._counted is None else self._counted()

    def united(self, other: Enclosure) -> Enclosure:
        """That of the union."""
        return self._joined(other, union_of_ends)

    def intersected(self, other: Enclosure) -> Enclosure:
        """That of the intersection."""
        return self._joined(other, intersection_of_ends)

    def _joined(self, other: Enclosure, join: Callable[[Side, Side], Side]) -> Enclosure:
        return Enclosure(lambda: [join(a, b) for a, b in zip(self.sides, other.sides, strict=True)])

    def at(self, values: Mapping[Var, IntLike]) -> Enclosure:
        return Enclosure(lambda: [ends_at(side, values) for side in self.sides])

    def __reduce__(self) -> tuple[Callable[..., Enclosure], tuple[tuple[Side, ...]]]:
        return of_sides, (self.sides,)


def of_sides(sides: Sequence[Side]) -> Enclosure:
    return Enclosure(lambda: sides)


def of_query(query: Query, is_exact: bool) -> Enclosure:
    """The enclosure of an image; `is_exact`: whether the set is the image, so that its elements are those listed."""

    def counted() -> int | None:
        values = values_of(query)
        return None if values is None else len(values)

    return Enclosure(lambda: [outer_ends(query, k) for k in range(len(query.exprs))], counted if is_exact else None)


def outer_ends(query: Query, k: int) -> Bounds:
    """Ends of the k-th expression from its linear form."""
    form = query.forms[k]
    if has_parameters(query, form):
        return symbolic_bounds(query.of(query.exprs[k]), form)
    low, high = query.known.bounds(form)
    return Bounds(NEG_INF if low is None else low, POS_INF if high is None else high, False)


def union_of_ends(a: Side, b: Side) -> Side:
    return smaller(a[0], b[0]), larger(a[1], b[1])


def intersection_of_ends(a: Side, b: Side) -> Side:
    return larger(a[0], b[0]), smaller(a[1], b[1])


def ends_at(side: Side, values: Mapping[Var, IntLike]) -> Side:
    """The ends at values of parameters; crossed where one has no value, since the set is empty there."""
    low, high = end_at(side[0], values), end_at(side[1], values)
    return (POS_INF, NEG_INF) if low is None or high is None else (low, high)


SHARE = 4  # of the operations of a query, for one operation on a set; one that is hard to count gets twice that


def own_budget(shape: Shape, share: int = SHARE) -> AbstractContextManager[None]:
    """The budget of one operation, by the configuration in force where it is asked for."""
    return shape.budget(max(1, share * configuration.current().isl_operations))


class Represented(Protocol):
    """A set or a region, as far as its elements go."""

    @property
    def shape(self) -> Shape: ...

    @property
    def dims(self) -> int: ...

    @property
    def is_exact(self) -> bool: ...

    @property
    def is_empty(self) -> bool: ...

    def conditions(self, point: Sequence[Expr]) -> tuple[Cond, ...]: ...

    def in_instances(self) -> Represented: ...


def shape_of_conditions(s: Represented) -> Shape:
    """What is represented, as the strongest domain with regions keeps it.

    Conditions are part of it whatever they mention: one without variables, `False`, makes it empty.

    Raises
    ------
    BudgetError: it has no conditions, or they are beyond that domain or its budget.
    """
    point = coordinates(s.dims)
    kind = strongest().everything(0)
    try:
        with own_budget(kind):
            return kind.where(point, logical_and(*s.conditions(point)))
    except UndecidedError as error:
        raise BudgetError(str(error)) from error


def joined(a: Represented, b: Represented, operation: Callable[[Shape, Shape], Shape]) -> Shape:
    """An operation on two shapes, in the domain that can do it.

    Raises
    ------
    BudgetError: neither can.
    """
    left, right = a.shape, b.shape
    if type(left) is type(right):
        with own_budget(left):
            return operation(left, right)
    try:
        with own_budget(left):
            return operation(left, right.like(left))
    except BudgetError:
        with own_budget(right):
            return operation(left.like(right), right)


def condition_of(shape: Shape, point: Sequence[IntLike], what: str) -> Cond:
    """The condition that a point is an element."""
    try:
        with own_budget(shape):
            return shape.condition([as_expr(x) for x in point])
    except BudgetError as error:
        raise UndecidedError(f"the {what} has no condition that could be written: {error}") from error


def has_point(shape: Shape, point: Sequence[int]) -> bool:
    """Whether a point is an element, for a shape without parameters."""
    try:
        with own_budget(shape):
            return shape.has(point)
    except BudgetError as error:
        raise UndecidedError(f"whether {shown(tuple(point))} is an element is not known: {error}") from error


def is_empty(shape: Shape) -> bool:
    """Whether there is no element, for any values of the parameters; not known to be counts as no."""
    try:
        with own_budget(shape):
            return shape.is_empty()
    except BudgetError:
        return False


def check_countable(s: Represented) -> None:
    """That the elements represented may be counted: their number would be said of the true ones.

    Raises
    ------
    CountError: they are not known to be the true ones.
    """
    if not s.is_exact and not s.is_empty:
        raise CountError("only a part of these may be true elements: what is not exact is not counted")


def count_of(shape: Shape, enclosure: Enclosure | None = None) -> int | Infinity | Expr:
    """The number of points, by the shape; where its budget does not suffice, by listing; then under a larger one."""
    try:
        with own_budget(shape, 1):
            return shape.count()
    except BudgetError:
        listed = None if enclosure is None else enclosure.counted()
    if listed is not None:
        return listed
    try:
        with own_budget(shape, 2 * SHARE):
            return shape.count()
    except BudgetError as error:
        raise CountError(f"counting is out of budget: {error}") from error


def placed(shape: Shape, values: Mapping[Var, IntLike]) -> Shape:
    """The shape with parameters replaced.

    Raises
    ------
    BudgetError: that needs too many operations.
    """
    with own_budget(shape):
        return shape.at(values)


class Ends:
    """The ends of a shape in each dimension, found once; where it refuses one, that of an enclosure.

    `sides` may differ between configurations, so what was found is kept with the budget it was found under.
    """

    __slots__ = ("_found", "_known", "dims", "shape")

    def __init__(self, shape: Shape, dims: int, enclosure: Enclosure | None) -> None:
        self.shape, self.dims, self._known = shape, dims, enclosure
        self._found: dict[int, tuple[tuple[Side, ...], tuple[str, ...]]] = {}

    def sides(self) -> tuple[Side, ...]:
        return self.found()[0]

    def notes(self) -> tuple[str, ...]:
        """What was given up; empty when the ends are those of the set represented."""
        return self.found()[1]

    def notes_so_far(self) -> tuple[str, ...]:
        """As `notes`, if somebody has asked for the ends."""
        found = self._found.get(configuration.current().isl_operations)
        return () if found is None else found[1]

    def are_attained(self) -> bool:
        """Whether all ends are those of the set, and none is infinite for some parameters only; not known counts as
        no."""
        sides, notes = self.found()
        return not notes and self.attains(sides)

    def attains(self, sides: Sequence[Side]) -> bool:
        """The same of ends that were found without a note."""
        if not any(isinstance(end, Infinity) for side in sides for end in side):
            return True
        try:
            with own_budget(self.shape):
                return all(self.shape.attains(k, side) for k, side in enumerate(sides))
        except BudgetError:
            return False

    def found(self, operations: int | None = None) -> tuple[tuple[Side, ...], tuple[str, ...]]:
        """The ends and the notes, within so many operations, or as many as the configuration in force gives."""
        if operations is None:
            operations = configuration.current().isl_operations
        found = self._found.get(operations)
        if found is None:
            found = self._answer(operations)
            if not found[1] or not self.shape.is_limited():  # what a budget around this one cut short is asked again
                self._found[operations] = found
        return found

    def _answer(self, operations: int) -> tuple[tuple[Side, ...], tuple[str, ...]]:
        sides: list[Side] = []
        notes: dict[str, None] = {}
        for k in range(self.dims):
            ends = []
            for side in (-1, 1):
                try:
                    # where one end was out of reach, as much is not spent on each of the others
                    with self.shape.budget(max(1, operations // 4 if notes else operations)):
                        end = self.shape.end(k, side)
                    ends.append(end)
                except BudgetError as error:
                    notes[f"the ends were given up: {error}"] = None
                    ends.append(self._outer(k, side))
            sides.append((ends[0], ends[1]))
        return tuple(sides), tuple(notes)

    def _outer(self, k: int, side: int) -> End:
        if self._known is None:
            return NEG_INF if side < 0 else POS_INF
        return self._known.sides[k][side > 0]

    def __reduce__(self) -> tuple[type[Ends], tuple[object, ...]]:
        return Ends, (self.shape, self.dims, self._known)


def range_between(low: End, high: End) -> Range:
    """The `Range` from `low` to `high`, both included; empty when they cross as infinities."""
    if low is POS_INF or high is NEG_INF:
        return Range(0, 0)
    if isinstance(low, Infinity):
        return Range.up_to(high)
    if isinstance(high, Infinity):
        return Range(low, POS_INF)
    extent = Normalizer({}).form(high - low + 1)
    return Range(low, 0 if extent.is_const and extent.const < 0 else extent.expr())  # crossed: no element
