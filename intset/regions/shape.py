"""`Shape`: a set of integer points with parameters, as one domain keeps it.

A shape does exactly what is asked of it, or refuses with a `BudgetError`; who asks decides what is sound then (`Region`
does). The core that a domain has to implement is the nine methods below; all else stands on them (`derived.py`), and a
domain that knows a better way overrides it.

An implementation that keeps a list of points, whole:

>>> class Listed(Shape):
...     def __init__(self, dims, points): self.dims, self.points = dims, frozenset(points)
...     def union(self, other): return Listed(self.dims, self.points | other.points)
...     def intersect(self, other): return Listed(self.dims, self.points & other.points)
...     def subtract(self, other): return Listed(self.dims, self.points - other.points)
...     def project(self, dims): return Listed(len(dims), {tuple(x[k] for k in dims) for x in self.points})
...     def restricted(self, point, condition): ...   # the points where the condition holds
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
from typing import TYPE_CHECKING, ClassVar

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


class Shape(ABC):
    """A set of points with `dims` coordinates; what else its methods mention are its parameters.

    Two shapes that are combined have the same number of coordinates and are of one domain (`like` brings them there).

    Guarantee: every answer is exact, for all values of the parameters within what these declare.

    Raises
    ------
    BudgetError: from any method, for an answer that the domain cannot give or that is out of its budget.
    """

    dims: int
    by: ClassVar[str] = "shape"  # the name of the domain, for answers that came about here

    # -- the core -----------------------------------------------------------------------------------------------

    @abstractmethod
    def union(self, other: Shape) -> Shape:
        """The points of either."""

    @abstractmethod
    def intersect(self, other: Shape) -> Shape:
        """The points of both."""

    @abstractmethod
    def subtract(self, other: Shape) -> Shape:
        """The points of this one that are none of the other."""

    @abstractmethod
    def project(self, dims: Sequence[int]) -> Shape:
        """The points in these coordinates alone, in this order; with none of them, the parameter values at which the
        set is not empty."""

    @abstractmethod
    def restricted(self, point: Sequence[Var], condition: Cond) -> Shape:
        """The points at which a condition on them, called `point`, and on parameters holds; where it has no value it
        does not hold."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no point, for any parameters."""

    @abstractmethod
    def condition(self, point: Sequence[Expr]) -> Cond:
        """The condition that `point` is an element."""

    @abstractmethod
    def end(self, k: int, side: int) -> End:
        """The first (`side` -1) or last (+1) value of a coordinate, right for all parameters at which the set is not
        empty; infinite where there is none for some of these, and crossed infinities for a set that is empty."""

    @abstractmethod
    def everything(self, dims: int) -> Shape:
        """All points with so many coordinates, as a shape of the same kind."""

    # -- what follows from it -----------------------------------------------------------------------------------

    def united(self, others: Sequence[Shape]) -> Shape:
        """The points of this set or of any of the others."""
        return reduce(lambda total, other: total.union(other), others, self)

    def sides(self) -> list[tuple[End, End]]:
        """Both ends of each coordinate."""
        return [(self.end(k, -1), self.end(k, 1)) for k in range(self.dims)]

    def attains(self, k: int, ends: tuple[End, End]) -> bool:
        """Whether both `ends` of a coordinate, as `end` gave them, are there for all parameters at which the set is not
        empty: it may be that only some have an infinite one."""
        return not any(isinstance(end, Infinity) for end in ends) or not self.variables()

    def where(self, point: Sequence[Var], condition: Cond) -> Shape:
        """All points, called `point`, at which a condition holds; as a shape of the same kind."""
        return self.everything(len(point)).restricted(point, condition)

    def describe(self) -> str:
        """The set in words or formulas."""
        point = derived.coordinates(self.dims)
        return f"{{({', '.join(map(str, point))}): {self.condition(point)}}}"

    def product_with(self, other: Shape, shared: int) -> Shape:
        """The points `(x, y, z)` with `(x, y)` in this set and `(y, z)` in the other, where `y` has `shared`
        coordinates."""
        return derived.product_with(self, other, shared)

    def budget(self, operations: int, account: Account | None = None) -> AbstractContextManager[None]:
        """`with shape.budget(n):` lets the domain do at most so many operations in the block, and no more than an
        account has left, which is charged.

        Raises
        ------
        BudgetError: at the end of the block, when more were needed; nothing that was computed inside counts then.
        """
        return nullcontext()

    def is_limited(self) -> bool:
        """Whether such a block is open around this, so that a refusal may be another's."""
        return False

    def box(self, sides: Sequence[tuple[Iterable[Linear], Iterable[Linear]]], where: Iterable[Linear] = ()) -> Shape:
        """A product of intervals, each from the largest of the first forms to the smallest of the second, where all
        forms `where` are at least 0; as a shape of the same kind."""
        return derived.box(self, sides, where)

    def listing(self, points: Sequence[tuple[int, ...]], names: Sequence[Var], dims: int) -> Shape:
        """The set of these points, sorted, which begin with values of the parameters `names`; of the same kind."""
        return derived.listing(self, points, names, dims)

    def variables(self) -> tuple[Var, ...]:
        """The variables that the set depends on."""
        return derived.variables(self)

    def atoms(self) -> tuple[Expr, ...]:
        """The parameters as the set knows them: variables, and terms of variables that are not affine."""
        return self.variables()

    def like(self, other: Shape) -> Shape:
        """The same set in the domain of `other`."""
        return derived.like(self, other)

    def includes(self, other: Shape) -> bool:
        """Whether every point of `other` is one of this set, for all parameters."""
        return other.subtract(self).is_empty()

    def at(self, values: Mapping[Var, IntLike]) -> Shape:
        """The set with parameters replaced by values or expressions."""
        return derived.at(self, values)

    def within(self, allowed: Shape) -> Shape:
        """The set at the parameter values that `allowed`, a set without coordinates, has."""
        return derived.within(self, allowed)

    def lifted(self, params: Sequence[Var]) -> Shape:
        """The set with parameters as its first coordinates."""
        return derived.lifted(self, params)

    def fibred(self, names: Sequence[Var]) -> Shape:
        """The set with its first coordinates as parameters of these names."""
        return derived.fibred(self, names)

    def without(self, params: Collection[Expr]) -> Shape:
        """The points that are in the set for some value of these parameters."""
        return derived.without(self, params)

    def image(self, point: Sequence[Var], exprs: Sequence[Expr]) -> Shape:
        """The tuples that the expressions give at the points of the set, called `point`."""
        return derived.image(self, point, exprs)

    def preimage(self, point: Sequence[Var], exprs: Sequence[Expr]) -> Shape:
        """The points, called `point`, at which the expressions give an element of the set."""
        return derived.preimage(self, point, exprs)

    def hull(self) -> Shape:
        """The bounding box, for each value of the parameters."""
        return derived.hull(self)

    def product(self) -> Product | None:
        """The set as a product of intervals, exactly; `None` where it is none, or not seen to be one."""
        return derived.product(self)

    def loops(self, names: Sequence[Var]) -> list[Product] | None:
        """The set as nested intervals: one `Product` of one side a coordinate, its ends over parameters and the
        coordinates before it, which are called `names`; `None` where it is no such nest.

        Given the coordinates before it, each runs over all of its interval and nothing else; what a `Product` says in
        `where` and `also` matters for the first alone, for the others it follows from those before.
        """
        return derived.loops(self, names)

    def widest(self, k: int, varying: Collection[Expr]) -> Expr | None:
        """The largest extent along a coordinate over all values of the parameters `varying`.

        An expression in the other parameters, right where some instance is not empty; `None` when there is no end to
        it, or no expression for it. An empty set has the extent 0.
        """
        return derived.widest(self, k, varying)

    def lattice(self) -> tuple[Lattice, tuple[Expr, ...]] | None:
        """A lattice around the points `(params, coordinates)`, and what its first coordinates, the parameters, are;
        `None` for the empty set. A superset only loses strides."""
        return derived.lattice(self)

    def counted(self, origin: Vector, vectors: Sequence[tuple[int | None, Vector]]) -> Shape:
        """The set in the coordinates of a lattice: each point `(params, coordinates)` by how often it takes each
        vector, in the coordinate named with it. A vector named `None` is counted by nobody; a coordinate that counts
        nothing is 0. The parameters are those of `lattice`, and keep their meaning."""
        return derived.counted(self, origin, vectors)

    def pieces(self, most: int) -> list[Shape] | None:
        """At most so many disjoint convex sets that are this one together, in the order of their smallest coordinates;
        `None` where that is not seen."""
        return [self] if self.parts() == 1 else None

    def parts(self) -> int:
        """In how many parts the set is kept: a measure of what it costs."""
        return 1

    def coalesced(self) -> Shape:
        """The same set, kept in fewer parts where that is found."""
        return self

    def disjoint(self) -> Shape:
        """The same set, kept in parts that have no point in common."""
        return self

    def simplified(self, within: Shape) -> Shape:
        """A set that is written more shortly, equal to this one inside `within`."""
        return self

    def lexmin(self) -> Shape:
        """The lexicographically smallest point, for each value of the parameters at which there is one."""
        return derived.lexicographic(self, -1)

    def lexmax(self) -> Shape:
        """The lexicographically largest point, for each value of the parameters at which there is one."""
        return derived.lexicographic(self, 1)

    def functions(self, names: Sequence[Var]) -> list[tuple[Shape, tuple[Expr, ...]]]:
        """The set as a function of its first coordinates, called `names`: disjoint sets of them that are together its
        domain, each with the other coordinates there.

        Raises
        ------
        BudgetError: also where some values of the first coordinates have more than one value.
        """
        return derived.functions(self, names)

    def sample(self) -> tuple[int, ...] | None:
        """A point of a set without parameters; `None` where it has none."""
        return derived.sample(self)

    def has(self, point: Sequence[int]) -> bool:
        """Whether a point is in a set without parameters."""
        return derived.has(self, point)

    def listed(self, most: int = derived.MAX_POINTS) -> list[tuple[int, ...]]:
        """The points of a set without parameters, at most about so many, in lexicographic order."""
        return derived.listed(self, most)

    def count(self) -> int | Infinity | Expr:
        """The number of points: an expression where it depends on parameters."""
        return derived.count(self)

    def counts(self, varying: Sequence[Var], most: int = derived.MAX_POINTS) -> PerInstance:
        """The most points for one value of the parameters `varying`, and all of them together; the set has no other
        parameters. At most about so many points are looked at."""
        return derived.counts(self, varying, most)
