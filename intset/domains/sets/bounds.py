"""Per-dimension bounds of sets, and queries of shapes under a budget of their own.

A shape may refuse a query (`BudgetError`). The functions here then answer with the outer box, list the points, or raise
the error that states which question is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol, TypeAlias

from intset import config as configuration
from intset.domains.attained import has_parameters, symbolic_bounds
from intset.domains.query import Query
from intset.domains.ranked import strongest, values_of
from intset.domains.sets.ends import Bounds, End, as_end, as_number, end_at, larger, numeric_ends, smaller
from intset.errors import BudgetError, CountError, IntSetError, UndecidedError
from intset.expr import NEG_INF, POS_INF, Cond, Expr, Infinity, IntLike, Range, Var, as_expr, shown
from intset.expr.build import logical_and
from intset.linear.canonical import Normalizer
from intset.regions.shape import PerInstance, Shape, coordinates

SET_SHARE: Final = 4  # budget of one operation on a set, in multiples of a question's; counting gets two

Pair: TypeAlias = tuple[End, End]
OUT_OF_BUDGET: Final = "counting is out of budget"


class DimensionBounds:
    """Both ends of each coordinate of a set; a pair is computed when it is first read.

    Invariant: every element of the set lies between the ends.

    Parameters
    ----------
    dims: the number of coordinates.
    pair_of: the ends of a coordinate.
    number: the number of elements, found by enumeration; `None` if they cannot be enumerated.
    """

    __slots__ = ("_number", "_pair_of", "_pairs", "dims")

    def __init__(
        self, dims: int, pair_of: Callable[[int], Pair], number: Callable[[], int | None] | None = None
    ) -> None:
        self.dims, self._pair_of, self._number = dims, pair_of, number
        self._pairs: dict[int, Pair] = {}

    def __getitem__(self, k: int) -> Pair:
        pair = self._pairs.get(k)
        if pair is None:
            pair = self._pairs[k] = self._pair_of(k)
        return pair

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The ends of all coordinates."""
        return tuple([self[k] for k in range(self.dims)])

    def number(self) -> int | None:
        """The number of elements; `None` where they cannot be enumerated."""
        return None if self._number is None else self._number()

    def ends_alone(self) -> DimensionBounds:
        """The same ends, without the number of elements: bounds of a subset or superset."""
        return DimensionBounds(self.dims, self.__getitem__)

    def union(self, other: DimensionBounds) -> DimensionBounds:
        """Bounds of the union: the smaller lower and the larger upper ends."""

        def loosest(k: int) -> Pair:
            return smaller(self[k][0], other[k][0]), larger(self[k][1], other[k][1])

        return DimensionBounds(self.dims, loosest)

    def intersection(self, other: DimensionBounds) -> DimensionBounds:
        """Bounds of the intersection: the larger lower and the smaller upper ends."""
        return DimensionBounds(self.dims, lambda k: tightest(self[k], other[k]))

    def at(self, values: Mapping[Var, IntLike]) -> DimensionBounds:
        """Bounds at values of parameters; crossed where an end has no value, because the set is empty there."""
        given = dict(values)

        def pair_of(k: int) -> Pair:
            low, high = (end_at(end, given) for end in self[k])
            return (POS_INF, NEG_INF) if low is None or high is None else (low, high)

        return DimensionBounds(self.dims, pair_of)

    def __reduce__(self) -> tuple[object, ...]:
        return _of_pairs, (self.pairs,)


def _of_pairs(pairs: Sequence[Pair]) -> DimensionBounds:
    return DimensionBounds(len(pairs), pairs.__getitem__)


def outer_box_of(query: Query, is_exact: bool) -> DimensionBounds:
    """Bounds of the image by linear forms.

    Parameters
    ----------
    is_exact: whether the set is the image, so that enumeration of the image counts its elements.
    """

    def number() -> int | None:
        values = values_of(query)
        return None if values is None else len(values)

    return DimensionBounds(len(query.exprs), lambda k: outer_ends(query, k), number if is_exact else None)


def coordinate_bounds(query: Query, bounds: Callable[[Query], Pair]) -> DimensionBounds:
    """Bounds by a separate question for each expression; possibly tighter than the ends of the image's shape."""

    def pair_of(k: int) -> Pair:
        pair = bounds(query.of(query.exprs[k]))
        return tightest(pair, bounds(query.alone[k])) if query.alone else pair

    return DimensionBounds(len(query.exprs), pair_of)


def outer_ends(query: Query, k: int) -> Bounds:
    """Ends of the k-th expression by its linear form."""
    form = query.forms[k]
    if has_parameters(query, form):
        return symbolic_bounds(query.of(query.exprs[k]), form)
    return Bounds(*numeric_ends(*query.known.bounds(form)), False)


def tightest(a: Pair, b: Pair) -> Pair:
    """The larger lower and the smaller upper end."""
    return larger(a[0], b[0]), smaller(a[1], b[1])


# -- queries of shapes -------------------------------------------------------------------------------------------


def own_budget(shape: Shape, share: int = SET_SHARE) -> AbstractContextManager[None]:
    """The budget of one operation on a shape: `share` times `Config.isl_operations` of the current configuration."""
    return shape.budget(max(1, share * configuration.current().isl_operations))


@contextmanager
def refusing(refusal: type[IntSetError], what: str) -> Iterator[None]:
    """Raise `refusal`, with `what` as its subject, in place of a `BudgetError` of the block."""
    try:
        yield
    except BudgetError as error:
        raise refusal(f"{what}: {error}") from error


class Represented(Protocol):
    """A set or a region: its elements as a shape, and the conditions of membership."""

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
    """Build the shape of a set from its conditions, in the strongest domain with regions.

    Raises
    ------
    BudgetError: the set has no conditions, or the domain cannot represent them within its budget.
    """
    point = coordinates(s.dims)
    kind = strongest().everything(0)
    try:
        with own_budget(kind):
            return kind.where(point, logical_and(*s.conditions(point)))
    except UndecidedError as error:
        raise BudgetError(str(error)) from error


def combined(a: Represented, b: Represented, operation: Callable[[Shape, Shape], Shape]) -> Shape:
    """Apply a binary operation to two shapes, in the domain of the first or else of the second.

    Raises
    ------
    BudgetError: the operation exceeds the budget in both domains.
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
    """The condition of membership of a point; raises `UndecidedError` where the shape has none within its budget."""
    with refusing(UndecidedError, f"the {what} has no condition that could be written"), own_budget(shape):
        return shape.condition([as_expr(x) for x in point])


def has_point(shape: Shape, point: Sequence[int]) -> bool:
    """Membership of a point in a shape without parameters; raises `UndecidedError` beyond the budget."""
    with refusing(UndecidedError, f"whether {shown(tuple(point))} is an element is not known"), own_budget(shape):
        return shape.has(point)


def is_empty(shape: Shape) -> bool:
    """Whether the shape is proved empty for all parameters; false beyond the budget."""
    try:
        with own_budget(shape):
            return shape.is_empty()
    except BudgetError:
        return False


def check_countable(s: Represented) -> None:
    """Raise `CountError` for a superset: the number of its elements is not the number of true elements."""
    if not s.is_exact and not s.is_empty:
        raise CountError("the elements of a superset are not counted: some may not be true elements")


def count_of(shape: Shape, outer: DimensionBounds | None = None) -> int | Infinity | Expr:
    """The number of points: by the shape within a small budget, by enumeration, by the shape within a large budget."""
    try:
        with own_budget(shape, 1):
            return as_number(shape.count())
    except BudgetError:
        listed = None if outer is None else outer.number()
    if listed is not None:
        return listed
    with refusing(CountError, OUT_OF_BUDGET), own_budget(shape, 2 * SET_SHARE):
        return as_number(shape.count())


def counts_of(s: Represented, varying: Sequence[Var]) -> PerInstance:
    """The largest and the total number of points of the instances; raises `CountError` beyond the budget."""
    with refusing(CountError, OUT_OF_BUDGET), own_budget(s.shape, 2 * SET_SHARE):
        return s.shape.counts(varying)


def shape_at(shape: Shape, values: Mapping[Var, IntLike]) -> Shape:
    """Substitute parameters of a shape; raises `BudgetError` beyond its budget."""
    with own_budget(shape):
        return shape.at(values)


class ShapeEnds:
    """The ends of a shape in each dimension, computed once for each budget; the outer box replaces a refused end.

    Guarantee: an answer without notes holds the exact ends of the shape.
    """

    __slots__ = ("_by_budget", "_outer", "dims", "shape")

    def __init__(self, shape: Shape, dims: int, outer: DimensionBounds | None) -> None:
        self.shape, self.dims, self._outer = shape, dims, outer
        self._by_budget: dict[int, tuple[tuple[Pair, ...], tuple[str, ...]]] = {}

    def pairs(self) -> tuple[Pair, ...]:
        """The ends of each dimension."""
        return self.evaluated()[0]

    def notes(self) -> tuple[str, ...]:
        """Why ends may be loose; empty when they are those of the shape."""
        return self.evaluated()[1]

    def notes_so_far(self) -> tuple[str, ...]:
        """`notes` if the ends were evaluated under the current budget, else none."""
        evaluated = self._by_budget.get(configuration.current().isl_operations)
        return () if evaluated is None else evaluated[1]

    def are_attained(self) -> bool:
        """Whether every end is proved to be attained by each nonempty instance."""
        pairs, notes = self.evaluated()
        return not notes and self.attains(pairs)

    def attains(self, pairs: Sequence[Pair]) -> bool:
        """Whether ends evaluated without a note are attained for all parameters; infinite ones may not be."""
        if not any(isinstance(end, Infinity) for pair in pairs for end in pair):
            return True
        try:
            with own_budget(self.shape):
                return all(self.shape.attains(k, pair) for k, pair in enumerate(pairs))
        except BudgetError:
            return False

    def evaluated(self, operations: int | None = None) -> tuple[tuple[Pair, ...], tuple[str, ...]]:
        """The ends and the notes under a budget of operations (default: the current configuration's)."""
        if operations is None:
            operations = configuration.current().isl_operations
        answer = self._by_budget.get(operations)
        if answer is None:
            answer = self._evaluate(operations)
            if not answer[1] or not self.shape.is_limited():  # refusals under an outer budget are not cached
                self._by_budget[operations] = answer
        return answer

    def _evaluate(self, operations: int) -> tuple[tuple[Pair, ...], tuple[str, ...]]:
        pairs: list[Pair] = []
        notes: dict[str, None] = {}
        for k in range(self.dims):
            ends: list[End] = []
            for side in (-1, 1):
                try:
                    # after one refusal: a quarter of the budget for each further end
                    with self.shape.budget(max(1, operations // 4 if notes else operations)):
                        end = self.shape.end(k, side)
                    ends.append(as_end(end))
                except BudgetError as error:
                    notes[f"the ends were given up: {error}"] = None
                    outer = (NEG_INF, POS_INF) if self._outer is None else self._outer[k]
                    ends.append(outer[side > 0])
            pairs.append((ends[0], ends[1]))
        return tuple(pairs), tuple(notes)

    def __reduce__(self) -> tuple[type[ShapeEnds], tuple[object, ...]]:
        return ShapeEnds, (self.shape, self.dims, self._outer)


def range_between(low: End, high: End) -> Range:
    """The `Range` from `low` to `high`, both included; empty for crossed infinities."""
    if low is POS_INF or high is NEG_INF:
        return Range(0, 0)
    if isinstance(low, Infinity):
        return Range.up_to(high)
    if isinstance(high, Infinity):
        return Range(low, POS_INF)
    return Range.of_extent(low, Normalizer({}).form(high - low + 1).expr())  # crossed ends: no element
