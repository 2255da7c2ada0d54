"""`Shape`: the abstract class of sets of integer points with parameters.

A shape answers exactly or raises `BudgetError`; the caller (`Region`) then chooses a sound superset. A domain
implements the nine core methods; the others are derived from them (`derived.py`), and may be overridden.

A complete implementation by a list of points:

>>> class Listed(Shape):
...     def __init__(self, dims, points): self.dims, self.points = dims, frozenset(points)
...     def union(self, other): return Listed(self.dims, self.points | other.points)
...     def intersect(self, other): return Listed(self.dims, self.points & other.points)
...     def subtract(self, other): return Listed(self.dims, self.points - other.points)
...     def project(self, dims): return Listed(len(dims), {tuple(x[k] for k in dims) for x in self.points})
...     def filter(self, point, condition): ...   # the points where the condition holds
...     def is_empty(self): return not self.points
...     def condition(self, point): ...               # a disjunction over the points
...     def end(self, k, side): return (min if side < 0 else max)(x[k] for x in self.points)
...     def everything(self, dims): raise BudgetError("there is no list of all points")
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Final

from intset.deprecation import adopt_old_names, serve_old_methods
from intset.expr.node import Cond, Expr, IntLike, Var
from intset.infinity import Infinity
from intset.regions import derived
from intset.regions.account import Account
from intset.regions.derived import Product

if TYPE_CHECKING:
    from intset.linear.form import Linear
    from intset.linear.lattice import Lattice, Vector
    from intset.regions.derived import PerInstance

End = Expr | Infinity
_OLD_NAMES: Final = {
    "counted": "change_basis",
    "fibred": "dims_to_params",
    "lifted": "params_to_dims",
    "parts": "disjuncts",
    "restricted": "filter",
    "sides": "dim_bounds",
    "united": "union_all",
    "within": "intersect_params",
}


class Shape(ABC):
    """A set of points with `dims` coordinates; other variables are its parameters.

    Guarantee: every answer is exact, for all parameter values within their declared bounds.

    Binary operations take shapes of one domain (`like` converts) with equal `dims`.

    Raises
    ------
    BudgetError: from any method, beyond the budget or the abilities of the domain.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        adopt_old_names(cls, _OLD_NAMES)

    dims: int
    by: ClassVar[str] = "shape"  # the name of the domain, for answers that came about here

    # -- the core -----------------------------------------------------------------------------------------------

    @abstractmethod
    def union(self, other: Shape) -> Shape:
        """The union."""

    @abstractmethod
    def intersect(self, other: Shape) -> Shape:
        """The intersection."""

    @abstractmethod
    def subtract(self, other: Shape) -> Shape:
        """The difference: the points of this set outside `other`."""

    @abstractmethod
    def project(self, dims: Sequence[int]) -> Shape:
        """Project onto coordinates, in the order of `dims`; without any, the parameters of nonempty instances."""

    @abstractmethod
    def filter(self, point: Sequence[Var], condition: Cond) -> Shape:
        """Filter by a condition on the coordinates `point` and on parameters; an undefined condition is false."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether every instance is empty."""

    @abstractmethod
    def condition(self, point: Sequence[Expr]) -> Cond:
        """The condition of membership of `point`."""

    @abstractmethod
    def end(self, k: int, side: int) -> End:
        """The smallest (`side` -1) or largest (+1) value of a coordinate, for each nonempty instance.

        Infinite if some instance is unbounded; crossed infinities for an empty set.
        """

    @abstractmethod
    def everything(self, dims: int) -> Shape:
        """The universe of `dims` coordinates, as a shape of this class."""

    # -- derived methods ---------------------------------------------------------------------------------------

    def union_all(self, others: Sequence[Shape]) -> Shape:
        """The union of this set and all others."""
        return reduce(lambda total, other: total.union(other), others, self)

    def dim_bounds(self) -> list[tuple[End, End]]:
        """Both ends of each coordinate."""
        return [(self.end(k, -1), self.end(k, 1)) for k in range(self.dims)]

    def attains(self, k: int, ends: tuple[End, End]) -> bool:
        """Whether every nonempty instance attains both `ends` (from `end`); some instances may lack an infinite one."""
        return not any(isinstance(end, Infinity) for end in ends) or not self.variables()

    def where(self, point: Sequence[Var], condition: Cond) -> Shape:
        """The universe filtered by a condition on the coordinates `point`."""
        return self.everything(len(point)).filter(point, condition)

    def describe(self) -> str:
        """The set as a formula."""
        point = derived.coordinates(self.dims)
        return f"{{({', '.join(map(str, point))}): {self.condition(point)}}}"

    def product_with(self, other: Shape, shared: int) -> Shape:
        """The join on shared coordinates: `(x, y, z)` with `(x, y)` in this set and `(y, z)` in `other`."""
        return derived.product_with(self, other, shared)

    def budget(self, operations: int, account: Account | None = None) -> AbstractContextManager[None]:
        """Limit the domain to `operations` in a `with` block, and to the rest of `account`, which is charged.

        Raises
        ------
        BudgetError: at the end of the block, beyond the limit; results of the block are then invalid.
        """
        return nullcontext()

    def is_limited(self) -> bool:
        """Whether an outer `budget` block is open, so that its limit may cause a refusal."""
        return False

    def box(self, sides: Sequence[tuple[Iterable[Linear], Iterable[Linear]]], where: Iterable[Linear] = ()) -> Shape:
        """A product of intervals, each from the maximum of its lower forms to the minimum of its upper forms.

        Empty unless all forms `where` are at least 0.
        """
        return derived.box(self, sides, where)

    def listing(self, points: Sequence[tuple[int, ...]], names: Sequence[Var], dims: int) -> Shape:
        """The set of listed points, in sorted order; each begins with values of the parameters `names`."""
        return derived.listing(self, points, names, dims)

    def variables(self) -> tuple[Var, ...]:
        """The variables among the parameters."""
        return derived.variables(self)

    def atoms(self) -> tuple[Expr, ...]:
        """The parameters: variables, and non-affine terms of variables."""
        return self.variables()

    def like(self, other: Shape) -> Shape:
        """Convert to the domain of `other`."""
        return derived.like(self, other)

    def includes(self, other: Shape) -> bool:
        """Whether `other` is a subset of this set, for all parameters."""
        return other.subtract(self).is_empty()

    def at(self, values: Mapping[Var, IntLike]) -> Shape:
        """Substitute values or expressions for parameters."""
        return derived.at(self, values)

    def intersect_params(self, allowed: Shape) -> Shape:
        """Filter the parameters: keep the instances in `allowed`, a set without coordinates."""
        return derived.intersect_params(self, allowed)

    def params_to_dims(self, params: Sequence[Var]) -> Shape:
        """Turn parameters into the first coordinates."""
        return derived.params_to_dims(self, params)

    def dims_to_params(self, names: Sequence[Var]) -> Shape:
        """Turn the first coordinates into parameters of these names."""
        return derived.dims_to_params(self, names)

    def without(self, params: Collection[Expr]) -> Shape:
        """Project parameters out: the union over their values."""
        return derived.without(self, params)

    def image(self, point: Sequence[Var], exprs: Sequence[Expr]) -> Shape:
        """The image of the set under expressions over the coordinates `point`."""
        return derived.image(self, point, exprs)

    def preimage(self, point: Sequence[Var], exprs: Sequence[Expr]) -> Shape:
        """The preimage of the set under expressions over the coordinates `point`."""
        return derived.preimage(self, point, exprs)

    def hull(self) -> Shape:
        """The bounding box of each instance."""
        return derived.hull(self)

    def product(self) -> Product | None:
        """The set as an exact product of intervals; `None` if no such product is found."""
        return derived.product(self)

    def loops(self, names: Sequence[Var]) -> list[Product] | None:
        """The set as a loop nest: an interval for each coordinate, over parameters and the outer coordinates `names`.

        Returns one single-sided `Product` a coordinate; `None` if the set is no such nest. `where` and `also` of the
        first restrict the nest; those of the others follow from outer ones.
        """
        return derived.loops(self, names)

    def widest(self, k: int, varying: Collection[Expr]) -> Expr | None:
        """The largest extent along a coordinate over all values of the parameters `varying`; 0 for an empty set.

        An expression over the other parameters; `None` for an unbounded extent or one without a closed form.
        """
        return derived.widest(self, k, varying)

    def lattice(self) -> tuple[Lattice, tuple[Expr, ...]] | None:
        """A lattice that contains the points `(params, coordinates)`, and the parameters; `None` for the empty set."""
        return derived.lattice(self)

    def change_basis(self, origin: Vector, vectors: Sequence[tuple[int | None, Vector]]) -> Shape:
        """Change of basis to a lattice: the coordinates of a point become the multiples of its vectors.

        Parameters
        ----------
        origin: the origin of the lattice.
        vectors: pairs (coordinate of the result or `None`, vector); a coordinate without a vector is 0.
        """
        return derived.change_basis(self, origin, vectors)

    def pieces(self, most: int) -> list[Shape] | None:
        """Partition into at most `most` disjoint convex sets, in order of their smallest points; `None` without one."""
        return [self] if self.disjuncts() == 1 else None

    def disjuncts(self) -> int:
        """The number of disjuncts, a measure of cost."""
        return 1

    def coalesced(self) -> Shape:
        """The same set with fewer disjuncts, if possible."""
        return self

    def disjoint(self) -> Shape:
        """The same set with disjoint disjuncts."""
        return self

    def simplified(self, within: Shape) -> Shape:
        """A simpler set that equals this one inside `within` (isl: gist)."""
        return self

    def lexmin(self) -> Shape:
        """The lexicographically smallest point of each nonempty instance."""
        return derived.lexicographic(self, -1)

    def lexmax(self) -> Shape:
        """The lexicographically largest point of each nonempty instance."""
        return derived.lexicographic(self, 1)

    def functions(self, names: Sequence[Var]) -> list[tuple[Shape, tuple[Expr, ...]]]:
        """The set as a piecewise function of its first coordinates `names`: (disjoint domain, other coordinates).

        Raises
        ------
        BudgetError: also for a set that is not single-valued.
        """
        return derived.functions(self, names)

    def sample(self) -> tuple[int, ...] | None:
        """A point of a set without parameters; `None` for the empty set."""
        return derived.sample(self)

    def has(self, point: Sequence[int]) -> bool:
        """Membership of a point in a set without parameters."""
        return derived.has(self, point)

    def listed(self, most: int = derived.MAX_POINTS) -> list[tuple[int, ...]]:
        """The points of a set without parameters in lexicographic order; `BudgetError` beyond about `most`."""
        return derived.listed(self, most)

    def count(self) -> int | Infinity | Expr:
        """The number of points, an expression over the parameters."""
        return derived.count(self)

    def counts(self, varying: Sequence[Var], most: int = derived.MAX_POINTS) -> PerInstance:
        """The largest and the total number of points of the instances; `varying` are all parameters.

        Visits at most about `most` points.
        """
        return derived.counts(self, varying, most)


serve_old_methods(Shape, _OLD_NAMES)
