"""`Shape`: the abstract class of sets of integer points with parameters.

A shape answers exactly or raises `BudgetError`; the caller (`Region`) then chooses a sound superset. A domain
implements the nine core methods; subclasses may override the default implementations of the others.

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

The types of its methods' arguments, results and records precede it: counts of instances, upper bounds of polynomials,
products of intervals, fresh coordinates; the operations that one question spent, and refused wrong answers of a
library. `ListedPoints` holds finite sets without parameters, for enumerated images.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import reduce
from itertools import product as points_of
from math import prod
from typing import Any, ClassVar, Final, NamedTuple

from intset.errors import BudgetError, CountError
from intset.expr import NEG_INF, POS_INF, Cond, Expr, Infinity, IntLike, Var, as_expr, const, constant_value, dag, ops
from intset.expr.build import logical_and, logical_or, maximum
from intset.expr.evaluate import all_hold, compiled, length, value_or_none
from intset.linear.assumptions import narrow
from intset.linear.bounds import meet
from intset.linear.canonical import Normalizer, form_of
from intset.linear.form import Linear
from intset.linear.lattice import Lattice, Vector
from intset.linear.lattice import everything as whole_lattice

COUNTED_POINTS: Final = 20_000  # points that isl visits in one count


class PerInstance(NamedTuple):
    """The largest and the total number of points of the instances of a set."""

    max: int | Infinity
    total: int | Infinity


class Ceiling(NamedTuple):
    """An upper bound of a polynomial over the points of a set, for some values of its parameters.

    Attributes
    ----------
    where: the condition on the parameters; those of several ceilings exclude one another.
    values: the bound is their maximum; each paired with a flag: the polynomial takes this value at all these
        parameters.
    """

    where: Cond
    values: dict[Expr, bool]


def coordinates(dims: int, letter: str = "x") -> list[Var]:
    """Fresh variables for the coordinates."""
    return [Var(f"{letter}{k}") for k in range(dims)]


def instance_spans(alive: Cond, varying: Sequence[Var]) -> list[range]:
    """Values of each variable under a condition and its declared bounds; `CountError` for an unbounded variable."""
    known = narrow(Normalizer(dict.fromkeys(varying, (None, None))), (alive,))
    spans = []
    for v in varying:
        first, last, step = v.declared()
        low, high = meet(known.atom_bounds(v), (first, last))
        if low is None or high is None:
            raise CountError(f"the instances of the region are not bounded: {v} is not")
        spans.append(range(low + -low % step, high + 1, step))
    return spans


Sides = tuple[list[Linear], list[Linear]]


class Product(NamedTuple):
    """A product of intervals, each from the maximum of its lower forms to the minimum of its upper forms.

    Empty unless all forms `where` are at least 0 and all conditions `also` hold.
    """

    sides: list[Sides]
    where: list[Linear]
    also: list[Cond]


def has_select(e: Expr) -> bool:
    """Whether an expression contains a `select`."""
    return any(node.op is ops.SELECT for node in dag.postorder((e,)))


def parts_of(e: Expr, op: ops.Op) -> list[Linear]:
    """The linear forms of a chain of maxima or minima."""
    return [form_of(part) for part in dag.chain(op, e)]


class Account:
    """A number of operations shared by several budgets.

    Invariant: a budget gets the remaining operations, at least `least`.

    Example
    -------
    >>> account = Account(1_000_000, least=5_000)
    >>> with shape.budget(200_000, account):  # doctest: +SKIP
    ...     shape.includes(other)
    """

    __slots__ = ("_is_open", "least", "left")

    def __init__(self, operations: int, least: int) -> None:
        self.left, self.least, self._is_open = operations, least, True

    def allowed(self, max_operations: int) -> int:
        """The operations granted to a budget of `max_operations`."""
        return min(max_operations, max(self.left, self.least))

    @property
    def is_spent(self) -> bool:
        """Whether budgets get no more than the least."""
        return self.left <= self.least

    def charge(self, operations: int) -> None:
        if self._is_open:
            self.left -= operations

    def close(self) -> None:
        """Stop charging, so that later questions get the same answers in any order."""
        self._is_open = False


_COLLECTED: ContextVar[dict[str, None] | None] = ContextVar("intset_remarks", default=None)


def remark(text: str) -> None:
    """Record a remark in every open `collected` block."""
    collected = _COLLECTED.get()
    if collected is not None:
        collected[text] = None


@contextmanager
def collected() -> Iterator[dict[str, None]]:
    """Collect the distinct remarks of a `with` block, in order; outer blocks receive them, too."""
    outer, own = _COLLECTED.get(), dict[str, None]()
    token = _COLLECTED.set(own)
    try:
        yield own
    finally:
        _COLLECTED.reset(token)
        if outer is not None:
            outer.update(own)


SHAPE_POINTS: Final = 40_000  # points of a box, or instances, that one count enumerates

End = Expr | Infinity


class Shape(ABC):
    """A set of points with `dims` coordinates; other variables are its parameters.

    Guarantee: every answer is exact, for all parameter values within their declared bounds.

    Binary operations take shapes of one domain (`like` converts) with equal `dims`.

    Raises
    ------
    BudgetError: from any method, beyond the budget or the abilities of the domain.
    """

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
        point = coordinates(self.dims)
        return f"{{({', '.join(map(str, point))}): {self.condition(point)}}}"

    def product_with(self, other: Shape, shared: int) -> Shape:
        """The join on shared coordinates: `(x, y, z)` with `(x, y)` in this set and `(y, z)` in `other`."""
        first = self.dims - shared
        return self._of_condition(
            first + other.dims,
            lambda point: logical_and(self.condition(point[: self.dims]), other.condition(point[first:])),
        )

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

        def inside(point: Sequence[Var]) -> Cond:
            parts = [form.expr() >= 0 for form in where]
            for x, (lows, highs) in zip(point, sides, strict=True):
                parts += [x >= form.expr() for form in lows] + [x <= form.expr() for form in highs]
            return logical_and(*parts)

        return self._of_condition(len(sides), inside)

    def listing(self, points: Sequence[tuple[int, ...]], names: Sequence[Var], dims: int) -> Shape:
        """The set of listed points, in sorted order; each begins with values of the parameters `names`."""

        def inside(point: Sequence[Var]) -> Cond:
            place = [*names, *point]
            return logical_or(*(logical_and(*(x.eq(v) for x, v in zip(place, row, strict=True))) for row in points))

        return self._of_condition(dims, inside)

    def variables(self) -> tuple[Var, ...]:
        """The variables among the parameters."""
        point = coordinates(self.dims)
        inside = set(point)
        return tuple(v for v in self.condition(point).free_vars() if v not in inside)

    def atoms(self) -> tuple[Expr, ...]:
        """The parameters: variables, and non-affine terms of variables."""
        return self.variables()

    def like(self, other: Shape) -> Shape:
        """Convert to the domain of `other`."""
        if type(self) is type(other):
            return self
        return other._of_condition(self.dims, self.condition)

    def includes(self, other: Shape) -> bool:
        """Whether this set contains `other`, for all parameters."""
        return other.subtract(self).is_empty()

    def at(self, values: Mapping[Var, IntLike]) -> Shape:
        """Substitute values or expressions for parameters."""
        table = {var: as_expr(value) for var, value in values.items()}
        return self._of_condition(self.dims, lambda point: dag.substitute(self.condition(point), table))

    def intersect_params(self, allowed: Shape) -> Shape:
        """Filter the parameters: keep the instances in `allowed`, a set without coordinates."""
        point = coordinates(self.dims)
        return self.filter(point, allowed.condition(()))

    def params_to_dims(self, params: Sequence[Var]) -> Shape:
        """Turn parameters into the first coordinates."""
        first = len(params)

        def inside(point: Sequence[Var]) -> Cond:
            found: Cond = dag.substitute(self.condition(point[first:]), dict(zip(params, point, strict=False)))
            return found

        return self._of_condition(first + self.dims, inside)

    def dims_to_params(self, names: Sequence[Var]) -> Shape:
        """Turn the first coordinates into parameters of these names."""
        return self._of_condition(self.dims - len(names), lambda point: self.condition([*names, *point]))

    def without(self, params: Collection[Expr]) -> Shape:
        """Project parameters out: the union over their values."""
        own = [v for v in self.variables() if v in params]
        if any(not isinstance(e, Var) for e in params):
            raise BudgetError("a parameter that is a term of variables cannot be left out")
        return self.params_to_dims(own).project(range(len(own), len(own) + self.dims)) if own else self

    def image(self, point: Sequence[Var], exprs: Sequence[Expr]) -> Shape:
        """The image of the set under expressions over the coordinates `point`."""
        first = len(exprs)

        def inside(both: Sequence[Var]) -> Cond:
            table = dict(zip(point, both[first:], strict=True))
            values = [y.eq(dag.substitute(e, table)) for y, e in zip(both, exprs, strict=False)]
            return logical_and(self.condition(both[first:]), *values)

        return self._of_condition(first + self.dims, inside).project(range(first))

    def preimage(self, point: Sequence[Var], exprs: Sequence[Expr]) -> Shape:
        """The preimage of the set under expressions over the coordinates `point`."""
        return self.everything(len(point)).filter(point, self.condition(exprs))

    def hull(self) -> Shape:
        """The bounding box of each instance."""
        sides = self.dim_bounds()

        def inside(point: Sequence[Var]) -> Cond:
            lows = [x >= low for x, (low, _) in zip(point, sides, strict=True) if isinstance(low, Expr)]
            highs = [x <= high for x, (_, high) in zip(point, sides, strict=True) if isinstance(high, Expr)]
            return logical_and(self.project(()).condition(()), *lows, *highs)

        return self._of_condition(self.dims, inside)

    def product(self) -> Product | None:
        """The set as an exact product of intervals; `None` if no such product is found."""
        try:
            ends = self._finite_bounds()
        except BudgetError:
            return None
        if any(has_select(e) for pair in ends for e in pair) or not self.includes(self.hull()):
            return None
        alive = self.project(()).condition(())
        also = [] if alive.op is ops.BOOL and alive.data else [alive]
        return Product([(parts_of(low, ops.MAX), parts_of(high, ops.MIN)) for low, high in ends], [], also)

    def loops(self, names: Sequence[Var]) -> list[Product] | None:
        """The set as a loop nest: an interval for each coordinate, over parameters and the outer coordinates `names`.

        Returns one single-sided `Product` a coordinate; `None` if the set is no such nest. `where` and `also` of the
        first restrict the nest; those of the others follow from outer ones.
        """
        found = []
        for k in range(self.dims):
            side = self.project(range(k + 1)).dims_to_params(names[:k]).product()
            if side is None:
                return None
            found.append(side)
        return found

    def widest(self, k: int, varying: Collection[Expr]) -> Expr | None:
        """The largest extent along a coordinate over all values of the parameters `varying`; 0 for an empty set.

        An expression over the other parameters; `None` for an unbounded extent or one without a closed form.
        """
        line = self.project((k,))
        if line.is_empty():
            return as_expr(0)
        ((low, high),) = line.dim_bounds()
        if not isinstance(low, Expr) or not isinstance(high, Expr):
            return None
        extent = form_of(high - low + 1).expr()
        if not any(v in varying for v in extent.free_vars()):
            return extent
        d = Var("d")
        extents = line.everything(1).filter((d,), logical_and(line.project(()).condition(()), d.eq(extent)))
        ((_, most),) = extents.without([v for v in extents.variables() if v in varying]).dim_bounds()
        return most if isinstance(most, Expr) else None

    def lattice(self) -> tuple[Lattice, tuple[Expr, ...]] | None:
        """A lattice that contains the points `(params, coordinates)`, and the parameters; `None` for the empty set."""
        if self.is_empty():
            return None
        names = self.variables()
        return whole_lattice(len(names) + self.dims), names

    def change_basis(self, origin: Vector, vectors: Sequence[tuple[int | None, Vector]]) -> Shape:
        """Change of basis to a lattice: the coordinates of a point become the multiples of its vectors.

        Parameters
        ----------
        origin: the origin of the lattice.
        vectors: pairs (coordinate of the result or `None`, vector); a coordinate without a vector is 0.
        """
        names = self.lattice()
        first = 0 if names is None else len(names[1])
        if first or any(place is None for place, _ in vectors):
            raise BudgetError("a lattice that moves with parameters")
        dims = self.dims
        times = coordinates(dims, "t")
        counting = {place for place, _ in vectors}
        exprs: list[Expr] = []
        for k in range(dims):
            total = as_expr(origin[k])
            for place, vector in vectors:
                if vector[k] and place is not None:
                    total = total + times[place] * vector[k]
            exprs.append(total)
        unused = [times[k].eq(0) for k in range(dims) if k not in counting]
        return self.preimage(times, exprs).filter(times, logical_and(*unused))

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
        return self.lexicographic(-1)

    def lexmax(self) -> Shape:
        """The lexicographically largest point of each nonempty instance."""
        return self.lexicographic(1)

    def lexicographic(self, side: int) -> Shape:
        """`lexmin` (`side` -1) or `lexmax` (+1), coordinate by coordinate."""
        point, left = coordinates(self.dims), self
        for k, x in enumerate(point):
            end = left.dim_bounds()[k][side > 0]
            if not isinstance(end, Expr):
                if left.is_empty():
                    return left
                raise BudgetError("a region without end has no lexicographic extremum")
            left = left.filter(point, x.eq(end))
        return left

    def functions(self, names: Sequence[Var]) -> list[tuple[Shape, tuple[Expr, ...]]]:
        """The set as a piecewise function of its first coordinates `names`: (disjoint domain, other coordinates).

        Raises
        ------
        BudgetError: beyond the budget, or for a multi-valued set.
        """
        fibres = self.dims_to_params(names)
        if fibres.is_empty():
            return []
        ends = fibres.dim_bounds()
        values = tuple(low for low, _ in ends if isinstance(low, Expr))
        point = coordinates(fibres.dims)
        single = fibres.filter(point, logical_and(*(x.eq(e) for x, e in zip(point, values, strict=False))))
        if len(values) < fibres.dims or not single.includes(fibres):
            raise BudgetError("a relation that is no function")
        return [(self.project(range(len(names))), values)]

    def sample(self) -> tuple[int, ...] | None:
        """A point of a set without parameters; `None` for the empty set."""
        if self.is_empty():
            return None
        point, left, values = coordinates(self.dims), self, list[int]()
        for k, x in enumerate(point):
            low, high = left.dim_bounds()[k]
            end = low if isinstance(low, Expr) else high
            value = constant_value(end) if isinstance(end, Expr) else left._value_near_0(k)
            if value is None:
                raise BudgetError("the set depends on parameters")
            values.append(value)
            left = left.filter(point, x.eq(value))
        return tuple(values)

    def _value_near_0(self, k: int) -> int:
        """A value of an unbounded coordinate near 0."""
        point = coordinates(self.dims)
        for reach in (1, 64, 1 << 12, 1 << 24, 1 << 48):
            near = self.filter(point, (point[k] >= -reach) & (point[k] <= reach))
            if not near.is_empty():
                low = near.dim_bounds()[k][0]
                assert isinstance(low, Expr)
                return int(low)
        raise BudgetError("no point was found near 0")

    def has(self, point: Sequence[int]) -> bool:
        """Membership of a point in a set without parameters."""
        return all_hold([self.condition([as_expr(x) for x in point])], {})

    def listed(self, most: int = SHAPE_POINTS) -> list[tuple[int, ...]]:
        """The points of a set without parameters in lexicographic order; `BudgetError` beyond about `most`."""
        point = coordinates(self.dims)
        if self.is_empty():
            return []
        spans = [range(int(low), int(high) + 1) for low, high in self._finite_bounds()]
        if prod(map(length, spans)) > most:
            raise BudgetError(f"more than {most} points would have to be looked at")
        inside = compiled(self.condition(point), point)
        return [x for x in points_of(*spans) if inside(*x)]

    def count(self) -> int | Infinity | Expr:
        """The number of points, an expression over the parameters."""
        if self.is_empty():
            return 0
        ends: Sequence[tuple[End, End]] = self.dim_bounds()
        if not self.variables():
            if any(low is NEG_INF or high is POS_INF for low, high in ends):
                return POS_INF
            return len(self.listed())
        product = self.product()
        if product is None or product.where or product.also:
            raise CountError("the number of points has no closed form here: use at(...) to fix sizes")
        total = as_expr(1)
        for low, high in ends:
            total = total * maximum(as_expr(high) - as_expr(low) + 1, 0)
        return total

    def ceilings(self, e: Expr, varying: Sequence[Var]) -> list[Ceiling]:
        """Bound `e` from above over the points, whose coordinates are `varying`, for each value of the parameters.

        Guarantee: outside of all conditions the set is empty. By default no shape knows.

        Raises
        ------
        BudgetError: an operation that is not polynomial, a set without end, or a bound beyond the budget.
        """
        raise BudgetError(f"no upper bounds of polynomials by {self.by}")

    def counts(self, varying: Sequence[Var], most: int = SHAPE_POINTS) -> PerInstance:
        """The largest and the total number of points of the instances; `varying` are all parameters.

        Visits at most about `most` points.
        """
        others = [v for v in self.variables() if v not in varying]
        if others:
            raise CountError(f"the count depends on {others[0]}: fix the sizes with at={{...}}")
        if self.is_empty():
            return PerInstance(0, 0)
        spans = instance_spans(self.project(()).condition(()), varying)
        if prod(map(length, spans)) > most:
            raise CountError(f"the region has more than {most} instances")
        number_at = self._count_function(varying)
        largest = total = 0
        for values in points_of(*spans):
            number = number_at(*values)
            if not isinstance(number, int):
                return PerInstance(POS_INF, POS_INF)
            largest, total = max(largest, number), total + number
        return PerInstance(largest, total)

    def _count_function(self, varying: Sequence[Var]) -> Callable[..., object]:
        """The number of points as a function of parameters: compiled from a closed form, else instance by instance."""
        try:
            number = self.count()
        except (BudgetError, CountError):
            number = POS_INF
        if isinstance(number, Infinity):
            return lambda *values: self.at(dict(zip(varying, values, strict=True))).count()
        return compiled(number, varying) if isinstance(number, Expr) else lambda *values: number

    def _of_condition(self, dims: int, condition_of: Callable[[Sequence[Var]], Cond]) -> Shape:
        """The universe of `dims` coordinates, filtered by a condition on them."""
        point = coordinates(dims)
        return self.everything(dims).filter(point, condition_of(point))

    def _finite_bounds(self) -> list[tuple[Expr, Expr]]:
        """Both ends of each coordinate; `BudgetError` for an infinite one."""
        bounds = self.dim_bounds()
        if any(isinstance(end, Infinity) for pair in bounds for end in pair):
            raise BudgetError("a region without end")
        return [(as_expr(low), as_expr(high)) for low, high in bounds]


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
        if not set(condition.free_vars()) <= set(point) or dag.opaque_terms(condition):
            raise BudgetError("a list of points has no parameters")
        holds = compiled(condition, point)
        return self._of(x for x in self.points if value_or_none(holds, *x))

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
        if any(not set(e.free_vars()) <= set(point) or dag.opaque_terms(e) for e in exprs):
            return super().image(point, exprs)
        functions = [compiled(e, point) for e in exprs]
        rows: list[tuple[Any, ...]] = [tuple(value_or_none(value, *x) for value in functions) for x in self.points]
        return ListedPoints(len(exprs), {row for row in rows if None not in row})

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
