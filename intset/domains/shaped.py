"""`ShapeRegion`: the region that a shape of any domain is; what the shape refuses is answered as `algebra.py` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from intset import config as configuration
from intset.domains.base import End
from intset.domains.box import product_of
from intset.domains.outline import Outline
from intset.domains.region import Region
from intset.errors import BudgetError, CountError, UndecidedError
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr
from intset.expr.range import Range
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.regions.derived import PerInstance
from intset.regions.shape import Shape

SHARE = 4  # of the operations of a query, for one operation on a region


def own_budget(shape: Shape, share: int = SHARE) -> AbstractContextManager[None]:
    """The budget of one operation, by the configuration in force."""
    return shape.budget(max(1, share * configuration.current().isl_operations))


class ShapeRegion(Region):
    """The points of a shape; `outline` answers where the budget of the shape does not suffice."""

    def __init__(
        self, shape: Shape, by: str, is_exact: bool, notes: Sequence[str] = (), outline: Outline | None = None
    ) -> None:
        self.shape, self.by, self.is_exact, self.notes = shape, by, is_exact, tuple(notes)
        self.dims, self.outline = shape.dims, outline
        self._ends: list[tuple[End, End]] | None = None

    @property
    def params(self) -> tuple[Var, ...]:
        return self.shape.variables()

    @property
    def is_empty(self) -> bool:
        try:
            with own_budget(self.shape):
                return self.shape.is_empty()
        except BudgetError:
            return False

    @property
    def is_tight(self) -> bool:
        sides = self._sides()
        open_end = any(isinstance(end, Infinity) for side in sides for end in side)
        return self.is_exact and self._ends is not None and not (open_end and self.params)

    @property
    def box(self) -> tuple[Range, ...]:
        return tuple(_between(*side) for side in self._sides())

    def _sides(self) -> list[tuple[End, End]]:
        if self._ends is None:
            try:
                with own_budget(self.shape):
                    found = self.shape.sides()
            except BudgetError:
                return self._outer()
            self._ends = found
        return self._ends

    def _outer(self) -> list[tuple[End, End]]:
        return [(NEG_INF, POS_INF)] * self.dims if self.outline is None else list(self.outline.sides)

    def count(self) -> int | Infinity | Expr:
        try:
            with own_budget(self.shape):
                return self.shape.count()
        except BudgetError as error:
            raise CountError(f"counting is out of budget: {error}") from error

    def count_max(self) -> int | Infinity:
        return self._counts().max

    def count_total(self) -> int | Infinity:
        return self._counts().total

    def _counts(self) -> PerInstance:
        try:
            with own_budget(self.shape, 2 * SHARE):
                return self.shape.counts(self.params)
        except BudgetError as error:
            raise CountError(f"counting is out of budget: {error}") from error

    def at(self, values: Mapping[Var, IntLike]) -> Region:
        outline = None if self.outline is None else self.outline.at(values)
        try:
            with own_budget(self.shape):
                return ShapeRegion(self.shape.at(values), self.by, self.is_exact, self.notes, outline)
        except BudgetError as error:
            notes = (*self.notes, f"the values were put into the box alone: {error}")
            sides = [(NEG_INF, POS_INF)] * self.dims if outline is None else outline.sides
            return product_of(sides, self.by, notes)

    def condition(self, point: Sequence[IntLike]) -> Cond:
        try:
            with own_budget(self.shape):
                return self.shape.condition([as_expr(x) for x in point])
        except BudgetError as error:
            raise UndecidedError(f"the region has no condition that could be written: {error}") from error


def _between(low: End, high: End) -> Range:
    if low is POS_INF or high is NEG_INF:
        return Range(0, 0)
    if isinstance(low, Infinity):
        return Range.everything()
    return Range(low, POS_INF if isinstance(high, Infinity) else high - low + 1)
