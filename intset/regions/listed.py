"""`ListedPoints`: finite sets without parameters, for enumerated images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Final

from intset.errors import BudgetError, EvaluationError
from intset.expr.build import logical_and, logical_or
from intset.expr.dag import opaque_terms
from intset.expr.evaluate import compiled
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr, const
from intset.infinity import NEG_INF, POS_INF
from intset.regions.derived import PerInstance
from intset.regions.shape import End, Shape

WRITTEN_POINTS: Final = 1000  # points in a condition, or converted to another domain


class ListedPoints(Shape):
    """A list of points.

    Guarantee: exact for questions without parameters; others are refused.
    """

    by: ClassVar[str] = "points"

    def __init__(self, dims: int, points: Iterable[tuple[int, ...]]) -> None:
        self.dims, self.points = dims, frozenset(points)

    def _of(self, points: Iterable[tuple[int, ...]]) -> ListedPoints:
        return ListedPoints(self.dims, points)

    def union(self, other: Shape) -> ListedPoints:
        return self._of(self.points | _points_of(other))

    def intersect(self, other: Shape) -> ListedPoints:
        return self._of(self.points & _points_of(other))

    def subtract(self, other: Shape) -> ListedPoints:
        return self._of(self.points - _points_of(other))

    def project(self, dims: Sequence[int]) -> ListedPoints:
        return ListedPoints(len(dims), {tuple(point[k] for k in dims) for point in self.points})

    def filter(self, point: Sequence[Var], condition: Cond) -> ListedPoints:
        if not set(condition.free_vars()) <= set(point) or opaque_terms(condition):
            raise BudgetError("a list of points has no parameters")
        holds = compiled(condition, point)
        return self._of(x for x in self.points if _holds(holds, x))

    def is_empty(self) -> bool:
        return not self.points

    def condition(self, point: Sequence[Expr]) -> Cond:
        self._check_short()
        rows = (logical_and(*(e.eq(v) for e, v in zip(point, row, strict=True))) for row in sorted(self.points))
        return logical_or(*rows)

    def end(self, k: int, side: int) -> End:
        if not self.points:
            return POS_INF if side < 0 else NEG_INF
        return const((min if side < 0 else max)(point[k] for point in self.points))

    def everything(self, dims: int) -> Shape:
        raise BudgetError("there is no list of all points")

    def like(self, other: Shape) -> Shape:
        if isinstance(other, ListedPoints):
            return self
        self._check_short()
        return other.listing(sorted(self.points), (), self.dims)

    def _check_short(self) -> None:
        if len(self.points) > WRITTEN_POINTS:
            raise BudgetError(f"a list of {len(self.points)} points is not written out", "WRITTEN_POINTS")

    # -- overridden methods ------------------------------------------------------------------------------------

    def variables(self) -> tuple[Var, ...]:
        return ()

    def at(self, values: Mapping[Var, IntLike]) -> ListedPoints:
        return self

    def includes(self, other: Shape) -> bool:
        return self.points >= _points_of(other)

    def image(self, point: Sequence[Var], exprs: Sequence[Expr]) -> Shape:
        if any(not set(e.free_vars()) <= set(point) or opaque_terms(e) for e in exprs):
            return super().image(point, exprs)
        functions = [compiled(e, point) for e in exprs]
        found = (_values(functions, x) for x in self.points)
        return ListedPoints(len(exprs), {values for values in found if values is not None})

    def lexmin(self) -> ListedPoints:
        return self._of([min(self.points)] if self.points else ())

    def lexmax(self) -> ListedPoints:
        return self._of([max(self.points)] if self.points else ())

    def sample(self) -> tuple[int, ...] | None:
        return min(self.points, default=None)

    def has(self, point: Sequence[int]) -> bool:
        return tuple(point) in self.points

    def listed(self, most: int = WRITTEN_POINTS) -> list[tuple[int, ...]]:
        return sorted(self.points)

    def count(self) -> int:
        return len(self.points)

    def counts(self, varying: Sequence[Var], most: int = WRITTEN_POINTS) -> PerInstance:
        return PerInstance(len(self.points), len(self.points))

    def disjuncts(self) -> int:
        return len(self.points)

    def pieces(self, most: int) -> list[Shape] | None:
        return [self._of([point]) for point in sorted(self.points)] if len(self.points) <= most else None

    def describe(self) -> str:
        first = ", ".join(str(tuple(map(as_expr, point))) for point in sorted(self.points)[:4])
        return f"{{{first}{', ...' if len(self.points) > 4 else ''}}}"


def _points_of(shape: Shape) -> frozenset[tuple[int, ...]]:
    return shape.points if isinstance(shape, ListedPoints) else frozenset(shape.listed())


def _holds(condition: Callable[..., object], point: tuple[int, ...]) -> bool:
    try:
        return bool(condition(*point))
    except (EvaluationError, ZeroDivisionError):
        return False


def _values(functions: Sequence[Callable[..., int]], point: tuple[int, ...]) -> tuple[int, ...] | None:
    """The tuple of values; `None` if one is undefined."""
    try:
        return tuple(function(*point) for function in functions)
    except (EvaluationError, ZeroDivisionError):
        return None
