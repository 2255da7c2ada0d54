"""`IntSet`, the answer of every domain; intervals, one-dimensional shapes, and the algebra of sets of any two kinds.

The first part serves sets and regions: bounds of each dimension, and queries of shapes under their own budgets. A
shape may refuse a query (`BudgetError`). Then the functions here answer with the outer box, list the points, or raise
the error that states which question is undecided.

Guarantee: inclusion compares two sets, or two regions, of any kinds at all parameter values within their declared
bounds; an undecided comparison is false.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import gcd
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeGuard, TypeVar

from intset import config as configuration
from intset.config import CHEAPEST, Configured, all_as_configured, as_configured
from intset.domains.attained import has_parameters, symbolic_bounds
from intset.domains.query import Query
from intset.domains.ranked import strongest, values_of
from intset.domains.sets.ends import (
    Bounds,
    End,
    as_end,
    as_number,
    by_parameter,
    end_at,
    larger,
    numeric_ends,
    placed_conditions,
    smaller,
)
from intset.errors import BudgetError, CountError, InputError, IntSetError, UndecidedError
from intset.expr import Cond, Expr, IntLike, Range, Var, arguments, as_expr, const, constant_value, dag, ops, shown
from intset.expr.build import logical_and, maximum, select
from intset.expr.definedness import definedness, is_partial
from intset.expr.evaluate import evaluate
from intset.expr.node import NEG_INF, POS_INF, Infinity, as_int, truth
from intset.expr.printer import Drawn
from intset.expr.range import declared_conditions
from intset.facts import ASSUMED, DERIVED, Fact, shown_notes
from intset.frame import Frame
from intset.linear.canonical import form_of
from intset.linear.signs import is_met
from intset.prover.proof import Proof, prove_in, undecided
from intset.regions.shape import Shape, coordinates

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


def combined(a: Ordered, b: Ordered, operation: Callable[[Shape, Shape], Shape]) -> Shape:
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


def check_countable(s: Ordered) -> None:
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
    return Range.of_extent(low, form_of(high - low + 1).expr())  # crossed ends: no element


# -- inclusion ---------------------------------------------------------------------------------------------------------

Operand = TypeVar("Operand", bound="Ordered")


def included(a: Ordered, b: Ordered) -> bool | None:
    """Decide `a` <= `b` by shapes, then by the prover; `None` for undecided.

    Raises
    ------
    InputError: the dimensions of the sets differ.
    """
    if a.dims != b.dims:
        raise InputError(f"elements of {a.dims} dimensions are not compared with elements of {b.dims}")
    if a is b:
        return True
    try:
        a = a.in_instances()
        if a.is_empty:
            return True
        decided = _by_shapes(a, b)
        return _by_proof(a, b) if decided is None else decided
    except (BudgetError, UndecidedError):
        return None


def failing(facts: Iterable[Cond], values: Mapping[Var, IntLike]) -> tuple[Cond, ...]:
    """The facts and declared bounds that are false or undefined at `values`, each by itself."""
    declared = [cond for var in values for cond in declared_conditions(var)]
    asked = dict.fromkeys((*facts, *declared))
    return tuple(fact for fact in asked if placed_conditions((fact,), values) is None)


def note(facts: Iterable[Cond], values: Mapping[Var, IntLike]) -> str:
    """The note of an empty answer: which facts exclude the values."""
    reasons = tuple(facts)
    about = [v for v in dag.free_vars(*reasons) if v in values]
    point = ", ".join(f"{v.name} = {shown(as_expr(values[v]))}" for v in about) or "every value"
    return f"{point} is excluded by {' and '.join(shown(fact) for fact in reasons)}"


class Ordered(Configured, Drawn, ABC):
    """Base of sets and regions: elements as a shape, ordered by inclusion."""

    _kind: ClassVar[str]  # sets compare with sets, regions with regions
    dims: int
    is_exact: bool

    @property
    @abstractmethod
    def params(self) -> tuple[Var, ...]: ...

    @property
    @abstractmethod
    def is_empty(self) -> bool: ...

    @abstractmethod
    def conditions(self, point: Sequence[Expr]) -> tuple[Cond, ...]:
        """The conditions of membership, on `point` and on parameters."""

    def in_instances(self) -> Ordered:
        """The set restricted to the parameter values of its known instances; empty elsewhere."""
        return self

    @property
    def mentioned(self) -> Ordered:
        """The set without the condition that its domain is not empty (`sets.where`)."""
        return self

    def knows_where_empty(self) -> bool:
        """Whether every instance is empty whose true set is empty."""
        return True

    def _relied_on(self) -> tuple[Cond, ...]:
        """The conditions on parameters outside which the set is empty."""
        return ()

    def _spoken_of(self) -> tuple[Var, ...]:
        """The parameters, with variables of conditions on parameters."""
        return tuple(dict.fromkeys((*self.params, *dag.free_vars(*self._relied_on()))))

    def _excluding(self, values: Mapping[Var, Expr]) -> tuple[Cond, ...]:
        """The facts and declared bounds that exclude these values."""
        return failing(self._relied_on(), values)

    @abstractmethod
    def _own_ends(self, k: int) -> Pair:
        """The ends of a coordinate."""

    def outer_box(self) -> DimensionBounds:
        """Bounds that hold without the shape; evaluated on first use."""
        return DimensionBounds(self.dims, self._own_ends)

    def _combined_with(self: Operand, other: Operand, operation: Callable[[Operand, Operand], Operand]) -> Operand:
        """Apply a binary operation to this set and another."""
        return operation(self, other)

    @property
    @as_configured
    def shape(self) -> Shape:
        """The elements as a shape: by the conditions of membership, in the strongest domain with regions.

        Raises
        ------
        BudgetError: the set has no conditions, or the domain cannot represent them within its budget.
        """
        point, kind = coordinates(self.dims), strongest().everything(0)
        try:
            with own_budget(kind):
                return kind.where(point, logical_and(*self.conditions(point)))
        except UndecidedError as error:
            raise BudgetError(str(error)) from error

    def _is_comparable(self, other: object) -> TypeGuard[Ordered]:
        return isinstance(other, Ordered) and other._kind == self._kind

    @as_configured
    def __le__(self, other: Ordered) -> bool:
        """Whether the set is a proved subset of `other`, for all parameters."""
        if not self._is_comparable(other):
            return NotImplemented
        return included(self, other) is True

    @as_configured
    def __lt__(self, other: Ordered) -> bool:
        """Whether the set is a proved subset of `other`, proper for some parameters."""
        if not self._is_comparable(other):
            return NotImplemented
        return included(self, other) is True and included(other, self) is False

    @as_configured
    def __eq__(self, other: object) -> bool:
        """Whether both sets are proved equal, for all parameters."""
        if not self._is_comparable(other) or self.dims != other.dims:
            return False
        return included(self, other) is True and included(other, self) is True


COMPARED_POINTS: Final = 4_096  # of a set without parameters whose constraints do not decide in time


def _by_shapes(a: Ordered, b: Ordered) -> bool | None:
    try:
        left, right = a.shape, b.shape
        if _includes(right, left):
            return True
    except BudgetError:
        return None
    # Shapes treat a term such as n*m as independent of n, so a difference between them proves nothing.
    return False if all(isinstance(p, Var) for p in (*left.atoms(), *right.atoms())) else None


def _includes(a: Shape, b: Shape) -> bool:
    """Whether `a` has each point of `b`; without parameters, points decide where constraints take too long."""
    try:
        with own_budget(b):
            return a.like(b).includes(b)
    except BudgetError:
        if a.atoms() or b.atoms():
            raise
    with own_budget(b):
        return set(b.listed(COMPARED_POINTS)) <= set(a.like(b).listed(COMPARED_POINTS))


def _by_proof(a: Ordered, b: Ordered) -> bool | None:
    point = coordinates(a.dims)
    facts = [Fact(part, DERIVED) for cond in a.conditions(point) for part in dag.conjuncts(cond)]
    status = prove_in(Frame.of(dict.fromkeys(point), facts), logical_and(*b.conditions(point))).status
    return {"proved": True, "refuted": False}.get(status)


class StrideSum(NamedTuple):
    """The numbers `base + strides[0]*t0 + strides[1]*t1 + ...`, `0 <= tk < extents[k]`."""

    base: Expr
    strides: tuple[int, ...]
    extents: tuple[int | Expr | Infinity, ...]


class IntSet(Ordered):
    """A set of integers, possibly depending on parameters.

    Guarantee: the set contains every value of the expression asked about; claims are proved.

    Attributes
    ----------
    min, max: the ends, expressions over `params`, or `NEG_INF` / `POS_INF`.
    is_tight: every nonempty instance attains both ends.
    is_exact: proved equal to the true set.
    params: the variables that the set depends on.
    notes: reasons for a loss of precision, or the fact that excludes the values passed to `at`.
    by: the domain that answered.
    """

    by: str
    is_tight: bool
    is_exact: bool
    notes: tuple[str, ...]

    def __init__(self, by: str, is_tight: bool, is_exact: bool, notes: Sequence[str] = ()) -> None:
        self.by, self.is_exact = by, arguments.a_flag(is_exact, "is_exact")
        self.is_tight = arguments.a_flag(is_tight, "is_tight") or self.is_exact
        self.notes = notes if type(notes) is tuple else arguments.listed(notes, "notes")

    # -- the abstract methods -----------------------------------------------------------------------------------

    @abstractmethod
    def ends(self) -> tuple[End, End]:
        """The pair (min, max); `(POS_INF, NEG_INF)` for a set that is empty for all parameters."""

    @abstractmethod
    def condition(self, e: IntLike) -> Cond:
        """The condition of membership of `e`."""

    @abstractmethod
    def count(self) -> int | Infinity | Expr:
        """The number of elements: an `int`, `POS_INF`, or an expression over `params`.

        Raises
        ------
        CountError: the set is a superset, has no closed form of its count, or exceeds the budget.
        """

    # -- derived methods -----------------------------------------------------------------------------------------

    @property
    def min(self) -> End:
        return self.ends()[0]

    @property
    def max(self) -> End:
        return self.ends()[1]

    @property
    def params(self) -> tuple[Var, ...]:
        return dag.free_vars(*(end for end in self.ends() if isinstance(end, Expr)))

    @property
    def is_empty(self) -> bool:
        """Whether the set is proved empty for all parameters."""
        return self.ends()[0] is POS_INF

    @property
    def is_everything(self) -> bool:
        low, high = self.ends()
        try:
            return low is NEG_INF and high is POS_INF and self.condition(Var("element")).op is ops.BOOL
        except UndecidedError:
            return False

    def _structure(self) -> StrideSum | None:
        """The steps of the elements; `None` where the representation has none."""
        return None

    def _congruence(self) -> tuple[int, int] | None:
        """(modulus, remainder) of all elements; `None` for an empty set or without a known congruence."""
        steps = self._structure()
        if steps is None or self.is_empty:
            return None
        modulus, first = gcd(*steps.strides), constant_value(steps.base)
        if first is not None:
            return modulus, first % modulus if modulus else first
        return (1, 0) if modulus == 1 else None

    @property
    def base(self) -> Expr | None:
        """The first element, if each is `base + strides[0]*t0 + ...` with `0 <= tk < extents[k]`; else `None`."""
        return None if (steps := self._structure()) is None else steps.base

    @property
    def strides(self) -> tuple[int, ...] | None:
        """The strides from `base` on, ascending; `None` without `base`."""
        return None if (steps := self._structure()) is None else steps.strides

    @property
    def extents(self) -> tuple[int | Expr | Infinity, ...] | None:
        """The number of multiples of each stride; `None` without `base`."""
        return None if (steps := self._structure()) is None else steps.extents

    @property
    def modulus(self) -> int | None:
        """A number modulo which all elements equal `remainder`, 0 for a single one; `None` if none is known."""
        return None if (found := self._congruence()) is None else found[0]

    @property
    def remainder(self) -> int | None:
        """The remainder of all elements modulo `modulus`, or the single element."""
        return None if (found := self._congruence()) is None else found[1]

    @property
    def is_single_point(self) -> bool:
        low, high = self.ends()
        return isinstance(low, Expr) and low is high

    def __contains__(self, value: object) -> bool:
        """`5 in s`, for a set without parameters."""
        if self.params:
            raise InputError(f"the set depends on {', '.join(p.name for p in self.params)}: use s.contains(e)")
        return bool(evaluate(self.condition(as_int(value, "an element"))))

    @as_configured
    def contains(self, e: IntLike) -> Proof:
        """Prove that `e` is an element, or refute it by a counterexample; unknown if membership has no condition."""
        try:
            inside = self.condition(as_expr(e))
        except UndecidedError as error:
            return undecided(str(error))
        return prove_in(self._frame(), inside)

    def _frame(self) -> Frame:
        """The scope of a proof about the set: its conditions on parameters as facts."""
        return Frame({}, tuple(Fact(part, ASSUMED) for part in self._relied_on()))

    @as_configured
    def at(self, values: Mapping[Var, IntLike]) -> IntSet:
        """Substitute parameters: `{n: 5}` or by name `{"n": 5}`.

        At values that a fact or a declared bound excludes, the set is empty and a note names the fact.

        Raises
        ------
        InputError: an ambiguous or unknown name, or a value that is not an integer.
        """
        params = self._spoken_of()
        table = by_parameter(values, params)
        if excluding := self._excluding(table):
            return empty_set(self.by, (note(excluding, table),))
        if table.keys().isdisjoint(params):
            return self
        return self.substituted(table)

    @as_configured
    def substituted(self, values: Mapping[Var, Expr]) -> IntSet:
        """Substitute allowed values of parameters in the shape of the set, or in its ends where it has no shape."""
        try:
            shape = shape_at(self.shape, values)
        except BudgetError:
            note = "the elements are not known at given values, only their ends"
            return _interval_at(self, values, False, (*self.notes, note))
        flags = {"is_exact": self.is_exact, "is_tight": self.is_tight, "notes": self.notes}
        return ShapeSet(shape, self.by, outer=self.outer_box().at(values), **flags)

    # -- the algebra of sets -------------------------------------------------------------------------------------

    _kind, dims = "set", 1

    def conditions(self, point: Sequence[Expr]) -> tuple[Cond, ...]:
        return (self.condition(point[0]),)

    def _own_ends(self, k: int) -> Pair:
        return self.ends()

    @as_configured
    def __or__(self, other: IntSet) -> IntSet:
        """The union, or an interval around it where no domain represents the union."""
        return self._combined_with(other, _union) if isinstance(other, IntSet) else NotImplemented

    @as_configured
    def __and__(self, other: IntSet) -> IntSet:
        """The intersection, or an interval around it where no domain represents the intersection."""
        return self._combined_with(other, _intersection) if isinstance(other, IntSet) else NotImplemented

    def describe(self) -> str:
        """The elements as a formula."""
        low, high = self.ends()
        if self.is_empty:
            return "{}"
        return f"{{{low}}}" if low is high else f"[{low}, {high}]"

    def __repr__(self) -> str:
        flag = "exact" if self.is_exact else "tight" if self.is_tight else "superset"
        return f"<{type(self).__name__} {self.describe()} {flag} by {self.by}{shown_notes(self.notes)}>"


class IntervalSet(IntSet):
    """All integers from `low` to `high`, both included; the ends may be symbolic or infinite."""

    def __init__(
        self,
        low: End | int,
        high: End | int,
        by: str = "interval",
        is_tight: bool = False,
        is_exact: bool = False,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(by, is_tight, is_exact, notes)
        self.low, self.high = as_end(low), as_end(high)
        first, last = (constant_value(end) if isinstance(end, Expr) else None for end in (self.low, self.high))
        self._is_crossed = first is not None and last is not None and first > last

    def substituted(self, values: Mapping[Var, Expr]) -> IntSet:
        return _interval_at(self, values, self.is_exact, self.notes)

    def _structure(self) -> StrideSum | None:
        low, high = self.ends()
        if isinstance(low, Infinity):
            return None
        if low is high:
            return StrideSum(low, (), ())
        extent = POS_INF if isinstance(high, Infinity) else self._frame().canonical(high - low + 1)
        return StrideSum(low, (1,), (as_number(extent),))

    def _congruence(self) -> tuple[int, int] | None:
        return super()._congruence() or (None if self.is_empty else (1, 0))

    def ends(self) -> tuple[End, End]:
        return (POS_INF, NEG_INF) if self._is_crossed else (self.low, self.high)

    def condition(self, e: IntLike) -> Cond:
        if self._is_crossed or self.low is POS_INF or self.high is NEG_INF:
            return truth(False)
        ends = [end for end in (self.low, self.high) if isinstance(end, Expr)]
        # an interval without ends has no elements
        parts: list[Cond] = [*definedness([end for end in ends if is_partial(end)])]
        if isinstance(self.low, Expr):
            parts.append(as_expr(e) >= self.low)
        if isinstance(self.high, Expr):
            parts.append(as_expr(e) <= self.high)
        return logical_and(*parts)

    def count(self) -> int | Infinity | Expr:
        if self.is_empty:
            return 0
        check_countable(self)
        if isinstance(self.low, Infinity) or isinstance(self.high, Infinity):
            return POS_INF
        frame = self._frame()
        extent = frame.canonical(self.high - self.low + 1)
        number = constant_value(extent)
        if number is not None:
            length = const(max(number, 0))
        else:
            length = extent if frame.known.is_nonneg(frame.known.form(extent)) else maximum(extent, 0)
        needs = [need for need in definedness([self.low, self.high]) if not is_met(frame.known, need)]
        if needs and not is_partial(length):  # no element where an end has no value
            return select(logical_and(*needs), length, 0)
        return length if number is None else length.data


@all_as_configured
class ByShape(Ordered):
    """Base of sets and regions whose elements are the points of a shape; `outer` bounds them where it refuses."""

    def __init__(self, shape: Shape, outer: DimensionBounds | None) -> None:
        self._shape, self._outer, self._ends = shape, outer, ShapeEnds(shape, shape.dims, outer)

    @property
    def shape(self) -> Shape:
        return self._shape

    def outer_box(self) -> DimensionBounds:
        return super().outer_box() if self._outer is None else self._outer.ends_alone()

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self._notes, *self._ends.notes_so_far())

    @notes.setter
    def notes(self, notes: tuple[str, ...]) -> None:
        self._notes = notes

    @property
    def is_empty(self) -> bool:
        """Whether the shape is proved empty for all parameters; false beyond the budget."""
        try:
            with own_budget(self._shape):
                return self._shape.is_empty()
        except BudgetError:
            return False

    @property
    def params(self) -> tuple[Var, ...]:
        return self._shape.variables()

    def count(self) -> int | Infinity | Expr:
        """The number of elements, by the shape."""
        check_countable(self)
        return count_of(self._shape, self._outer)


@all_as_configured
class ShapeSet(ByShape, IntSet):
    """The points of a one-dimensional shape.

    Invariant: `is_tight` is false for ends that come from `outer`.
    """

    def __init__(self, shape: Shape, by: str, outer: DimensionBounds | None = None, **flags: Any) -> None:
        ByShape.__init__(self, shape, outer)
        IntSet.__init__(self, by, flags.pop("is_tight", False), flags.pop("is_exact", False), **flags)

    def ends(self) -> tuple[End, End]:
        return self._ends.pairs()[0]

    @property
    def is_tight(self) -> bool:
        """Checked on first use: some instances may lack an infinite end."""
        return self._claims_tight and self._ends.are_attained()

    @is_tight.setter
    def is_tight(self, claim: bool) -> None:
        self._claims_tight = claim

    def bounds(self, operations: int | None = None) -> Bounds:
        """Evaluate the ends under a budget of operations; notes give the reason for loose ends."""
        pairs, given_up = self._ends.evaluated(operations)
        is_tight = self._claims_tight and not given_up and self._ends.attains(pairs)
        return Bounds(*pairs[0], is_tight, self.by, (*self._notes, *given_up))

    def condition(self, e: IntLike) -> Cond:
        return condition_of(self._shape, (e,), "set")

    def __contains__(self, value: object) -> bool:
        return super().__contains__(value) if self.params else has_point(self._shape, (as_int(value, "an element"),))

    def substituted(self, values: Mapping[Var, Expr]) -> IntSet:
        outer = None if self._outer is None else self._outer.at(values)
        try:
            shape = shape_at(self._shape, values)
        except BudgetError as error:
            low, high = (NEG_INF, POS_INF) if outer is None else outer[0]
            notes = (*self.notes, f"the values were put into the ends alone: {error}")
            return IntervalSet(low, high, self.by, notes=notes)
        flags = {"is_exact": self.is_exact, "is_tight": self._claims_tight, "notes": self._notes}
        return ShapeSet(shape, self.by, outer, **flags)

    def describe(self) -> str:
        return self._shape.describe()

    def __repr__(self) -> str:
        flag = "exact" if self.is_exact else "tight" if self._claims_tight else "superset"
        return f"<{type(self).__name__} {self.describe()} {flag} by {self.by}{shown_notes(self.notes)}>"


def _interval_at(s: IntSet, table: Mapping[Var, IntLike], is_exact: bool, notes: Sequence[str]) -> IntSet:
    """The interval between the ends of `s`, with parameters substituted."""
    low, high = (end_at(end, table) for end in s.ends())
    if low is None or high is None:
        return empty_set(s.by)
    return IntervalSet(low, high, by=s.by, is_tight=s.is_tight, is_exact=is_exact, notes=notes)


def _union(a: IntSet, b: IntSet) -> IntSet:
    if a.is_empty or b.is_empty:
        return b if a.is_empty else a
    exact = a.knows_where_empty() and b.knows_where_empty()  # the union is empty only where both are
    return _combined(a, b, lambda x, y: x.union(y), a.outer_box().union(b.outer_box()), exact)


def _intersection(a: IntSet, b: IntSet) -> IntSet:
    if a.is_empty or b.is_empty:
        return empty_set(a.by)
    return _combined(a, b, lambda x, y: x.intersect(y), a.outer_box().intersection(b.outer_box()), True)


def _combined(
    a: IntSet, b: IntSet, operation: Callable[[Shape, Shape], Shape], outer: DimensionBounds, exact: bool
) -> IntSet:
    """The set of a binary operation on shapes; exact only when both operands are."""
    notes = tuple(dict.fromkeys((*a.notes, *b.notes)))
    try:
        shape = combined(a, b, operation)
    except BudgetError as error:
        low, high = outer[0]
        by = a.by if a.by == b.by else CHEAPEST
        return IntervalSet(low, high, by, notes=(*notes, f"joined as intervals: {error}"))
    by = a.by if a.by == b.by else shape.by
    is_exact = exact and a.is_exact and b.is_exact
    answer = ShapeSet(shape, by, outer, is_exact=is_exact, notes=notes)
    return empty_set(by) if answer.is_empty else answer


def bounds_of(s: IntSet) -> Bounds:
    """The ends of a set as `Bounds`."""
    return Bounds(*s.ends(), s.is_tight, s.by, s.notes)


def outer_interval(query: Query, by: str, note: str) -> IntervalSet:
    """The interval of the linear form around an image that a domain does not represent."""
    return IntervalSet(*numeric_ends(*query.known.bounds(query.forms[0])), by, notes=(note,))


def empty_set(by: str, notes: Sequence[str] = ()) -> IntervalSet:
    """The empty set; `notes` give the reason."""
    return IntervalSet(POS_INF, NEG_INF, by, is_exact=True, notes=notes)


__all__ = ["Bounds", "End", "IntSet", "IntervalSet", "ShapeSet", "as_end", "empty_set"]
