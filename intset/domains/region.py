"""`Region`: a set of n-dimensional points with claims, and the algebra on it (`algebra.py` says what it answers)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, SupportsIndex

from intset.errors import CountError, InputError
from intset.expr.node import Cond, Expr, IntLike, Var, as_int
from intset.expr.range import Range
from intset.infinity import Infinity

if TYPE_CHECKING:
    from intset.domains.sides import Sides


class Region(ABC):
    """A set of n-dimensional integer points, possibly depending on parameters.

    Attributes
    ----------
    dims: the number of dimensions.
    box: for each dimension the `Range` of the bounding box, over `params`.
    is_exact: proved equal to the true set.
    is_tight: every side of the box is attained.
    params: the variables the region depends on (kept variables and sizes).
    """

    dims: int
    by: str
    is_exact: bool
    notes: tuple[str, ...]
    sides: Sides | None = None  # what is known of each coordinate alone, where that may be more

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
        CountError: the number is not known in closed form, or out of the budget.
        """

    @abstractmethod
    def at(self, values: Mapping[Var, IntLike]) -> Region:
        """The region at the given values of parameters."""

    @abstractmethod
    def condition(self, point: Sequence[IntLike]) -> Cond:
        """The condition that `point` is an element of the region represented."""

    def __or__(self, other: Region) -> Region:
        """The union of the regions represented, or a box around it when it has no representation."""
        from intset.domains.combine import combine_regions

        return combine_regions(self, other, "union")

    def __and__(self, other: Region) -> Region:
        """The intersection of the regions represented, or a box around it when it has no representation."""
        from intset.domains.combine import combine_regions

        return combine_regions(self, other, "intersect")

    def __sub__(self, other: Region) -> Region:
        """The points of this region that are not in `other`; more where one of them is not exact."""
        from intset.domains import algebra

        return algebra.difference(self, other) if isinstance(other, Region) else NotImplemented

    def project(self, dims: Sequence[int]) -> Region:
        """The region in some of its dimensions, in the order given."""
        from intset.domains import algebra

        return algebra.project(self, dims)

    def hull(self) -> Region:
        """The box around the region, for each value of the parameters."""
        from intset.domains import algebra

        return algebra.hull(self)

    def lexmin(self) -> tuple[Expr, ...] | None:
        """The lexicographically smallest point, over `params`; right where the region is not empty, `None` where it is
        for all of them.

        Raises
        ------
        UndecidedError: there is no end, or the region is not exact, or the budget does not suffice.
        """
        from intset.domains import algebra

        return algebra.extremum(self, -1)

    def lexmax(self) -> tuple[Expr, ...] | None:
        """The lexicographically largest point, as `lexmin` gives the smallest."""
        from intset.domains import algebra

        return algebra.extremum(self, 1)

    def sample(self) -> tuple[int, ...] | None:
        """A point of the region, at some values of the parameters; `None` where it is empty for all of them.

        Raises
        ------
        UndecidedError: the region is not exact, or the budget does not suffice.
        """
        from intset.domains import algebra

        return algebra.sample(self)

    def pieces(self, order: Sequence[int] | None = None) -> tuple[Region, ...]:
        """Disjoint convex regions that are this one together, for loops over its dimensions in the order given.

        Raises
        ------
        UndecidedError: they are too many, or the budget does not suffice.
        """
        from intset.domains import algebra

        return algebra.pieces(self, order)

    def in_instances(self) -> Region:
        """The region where its parameters are among the instances it is known to have; elsewhere empty."""
        return self

    def __le__(self, other: Region) -> bool:
        """Whether every element of this region is known to be one of `other`, for all parameters (comparing what is
        represented)."""
        from intset.domains.order import is_subset

        return is_subset(self, other) if isinstance(other, Region) else NotImplemented

    def __lt__(self, other: Region) -> bool:
        """Whether this region is known to be a subset of `other`, and to differ from it for some parameters."""
        from intset.domains.order import is_proper_subset

        return is_proper_subset(self, other) if isinstance(other, Region) else NotImplemented

    def __ge__(self, other: Region) -> bool:
        return other <= self if isinstance(other, Region) else NotImplemented

    def __gt__(self, other: Region) -> bool:
        return other < self if isinstance(other, Region) else NotImplemented

    def __eq__(self, other: object) -> bool:
        """Whether both are known to have the same elements, for all parameters."""
        return isinstance(other, Region) and self.dims == other.dims and self <= other and other <= self

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, point: Sequence[SupportsIndex]) -> bool:
        """`(3, 4) in r`, for a region that does not depend on parameters."""
        if self.params:
            raise InputError(f"the region depends on {', '.join(p.name for p in self.params)}: use r.at({{...}})")
        from intset.expr.evaluate import evaluate

        values = [as_int(v, "a coordinate") for v in point]
        return bool(evaluate(self.condition(values)))

    def count_max(self) -> int | Infinity:
        """The largest number of points over the instances of `params`, when these are bounded."""
        raise CountError("the instances of this region are not known")

    def count_total(self) -> int | Infinity:
        """The number of points summed over the instances of `params`, when these are bounded."""
        raise CountError("the instances of this region are not known")

    def __repr__(self) -> str:
        sides = " x ".join(f"[{r.min}, {r.max}]" for r in self.box)
        return f"<{type(self).__name__} {sides or '()'} {'exact' if self.is_exact else 'superset'} by {self.by}>"
