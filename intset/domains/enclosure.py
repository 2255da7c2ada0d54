"""What is known of a set or region without isl: where isl gives up on an operation, the answer comes from here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from intset.domains.consistency import values_of
from intset.domains.end_arithmetic import end_at, larger, smaller
from intset.domains.ends import Bounds, End
from intset.domains.linear_ends import has_parameters, symbolic_bounds
from intset.domains.query import Query
from intset.expr.node import IntLike, Var
from intset.infinity import NEG_INF, POS_INF

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
