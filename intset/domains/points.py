"""The `points` domain: enumeration of a small box, exact for every operation."""

from collections.abc import Sequence
from math import gcd
from typing import Any, ClassVar

from intset.domains.query import Query
from intset.domains.ranked import values_of
from intset.domains.sets.base import End, IntSet, StrideSum, as_end, bounds_of, empty_set, outer_interval
from intset.domains.sets.ends import Bounds
from intset.domains.witness import runs
from intset.expr import NEG_INF, POS_INF, Cond, IntLike, as_expr
from intset.expr.build import logical_or
from intset.expr.node import as_int, truth
from intset.expr.printer import number_text


class PointSet(IntSet):
    """Finitely many integers, listed."""

    def __init__(self, values: Sequence[int], by: str = "points", **flags: Any) -> None:
        super().__init__(by, flags.pop("is_tight", False), flags.pop("is_exact", False), **flags)
        self.values = tuple(sorted(set(values)))

    def ends(self) -> tuple[End, End]:
        return (as_end(self.values[0]), as_end(self.values[-1])) if self.values else (POS_INF, NEG_INF)

    def _structure(self) -> StrideSum | None:
        steps = [(last - first, step) for first, last, step in runs(self.values)]
        if len(steps) != 1:
            return None
        ((reach, step),) = steps
        return StrideSum(as_expr(self.values[0]), (step,) if reach else (), (reach // step + 1,) if reach else ())

    def _congruence(self) -> tuple[int, int] | None:
        if not self.values:
            return None
        modulus, first = gcd(*(value - self.values[0] for value in self.values)), self.values[0]
        return modulus, first % modulus if modulus else first

    def condition(self, e: IntLike) -> Cond:
        point = as_expr(e)
        parts: list[Cond] = []
        for first, last, step in runs(self.values):
            inside = point.eq(first) if first == last else (point >= first) & (point <= last)
            parts.append(inside if step <= 1 else inside & ((point - first) % step).eq(0))
        return logical_or(*parts) if parts else truth(False)

    def count(self) -> int:
        return len(self.values)

    def __contains__(self, value: object) -> bool:
        return as_int(value, "an element") in self.values

    def describe(self) -> str:
        shown = ", ".join(map(number_text, self.values[:12]))
        return f"{{{shown}{', ...' if len(self.values) > 12 else ''}}}"


def points_image(query: Query, limit: int | None = None) -> PointSet | None:
    """The image by enumeration; `None` for a symbolic or unbounded box, or one of more than `limit` points."""
    values = values_of(query, limit)
    return None if values is None else PointSet([value for (value,) in values], is_exact=True)


def points_bounds(query: Query, limit: int | None = None) -> Bounds | None:
    """The ends of `points_image`."""
    found = points_image(query, limit)
    return None if found is None else bounds_of(found)


class PointsDomain:
    """Images by enumeration.

    Guarantee: exact for bounded variables and a box of at most `Config.points` points; otherwise the interval of the
    linear form, with a note.
    """

    name: ClassVar[str] = "points"
    exact_on: ClassVar[str] = "every operation on small boxes without symbolic sizes"

    def image(self, query: Query) -> IntSet:
        if query.is_empty:
            return empty_set(self.name)
        listed = points_image(query)
        if listed is not None:
            return listed
        return outer_interval(query, self.name, "the box is symbolic, unbounded or larger than the budget of points")
