"""Sets and regions restricted by the emptiness condition of their question (`nonempty.py`).

Ends and boxes describe the nonempty instances only. The algebra, counts, comparisons and `at` include the condition: an
instance outside it is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from intset.config import Configured, all_as_configured
from intset.domains.sets.base import IntSet, empty_set
from intset.domains.sets.bounds import SHARE, DimensionBounds, check_countable, own_budget
from intset.domains.sets.ends import End
from intset.domains.sets.nonempty import Nonempty
from intset.domains.sets.region import Region, empty_region
from intset.errors import BudgetError, CountError, UndecidedError
from intset.expr.build import logical_and, select
from intset.expr.definedness import is_partial, where_it_holds
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr
from intset.expr.range import Range
from intset.expr.walk import free_vars
from intset.facts import ASSUMED, DERIVED, Fact
from intset.frame import Frame
from intset.infinity import Infinity
from intset.prover.proof import prove_in
from intset.ranges import declared_of, is_known
from intset.regions.derived import PerInstance, coordinates
from intset.regions.shape import Shape

NOTE = "whether anything is left at these values is not known"
S = TypeVar("S", IntSet, Region)


@all_as_configured
class WhereNonempty(Configured):
    """Base of sets and regions that are empty outside the emptiness condition of their question."""

    def __init__(self, inner: IntSet | Region, nonempty: Nonempty) -> None:
        self._inner, self._nonempty = inner, nonempty
        self._own: tuple[Cond, ...] | None = None
        self._shape: Shape | None = None

    @property
    def _needed(self) -> tuple[Cond, ...]:
        """The conditions of nonempty ranges that the conditions of membership do not imply."""
        if self._own is None:
            self._own = tuple(cond for cond in self._nonempty.condition.occupied if not self._says(cond))
        return self._own

    def _says(self, cond: Cond) -> bool:
        inner, point = self._inner, coordinates(self._inner.dims)
        if not set(cond.free_vars()) <= set(inner.params):
            return False
        try:
            inside = inner.conditions(point)
        except (BudgetError, UndecidedError):
            return False
        facts = [*(Fact(c, ASSUMED) for c in self._nonempty.condition.facts), *(Fact(c, DERIVED) for c in inside)]
        frame = Frame.of(dict.fromkeys(point), facts)
        return is_known(frame.known, cond) or bool(prove_in(frame, cond))

    def _claims(self, claim: bool) -> bool:
        """A claim about the inner set, kept only if the emptiness condition is complete."""
        return claim and (self._nonempty.is_open() or self._nonempty.condition.is_complete)

    @property
    def notes(self) -> tuple[str, ...]:
        return self._inner.notes if self._claims(True) else (*self._inner.notes, NOTE)

    @notes.setter
    def notes(self, notes: tuple[str, ...]) -> None:
        self._inner.notes = notes

    @property
    def params(self) -> tuple[Var, ...]:
        return tuple(dict.fromkeys((*self._inner.params, *free_vars(*self._needed))))

    @property
    def is_empty(self) -> bool:
        return self._inner.is_empty

    def _knows_where_empty(self) -> bool:
        return self._nonempty.condition.is_complete

    def conditions(self, point: Sequence[Expr]) -> tuple[Cond, ...]:
        return (*self._nonempty.condition.facts, *self._needed, *self._inner.conditions(point))

    def outer_box(self) -> DimensionBounds:
        return self._inner.outer_box()

    @property
    def shape(self) -> Shape:
        if self._shape is None:
            shape = self._inner.shape
            point = coordinates(shape.dims)
            with own_budget(shape):
                shape = shape.filter(point, logical_and(*self._nonempty.condition.occupied))
                for fact in self._nonempty.condition.facts:
                    try:
                        shape = shape.filter(point, fact)
                    except BudgetError:  # `at` excludes these values by itself
                        continue
            self._shape = shape
        return self._shape

    def count(self) -> int | Infinity | Expr:
        """The number of elements for all parameters that the facts allow; 0 for an empty range."""
        number = self._inner.count()
        if number == 0 or isinstance(number, Infinity):
            return number
        self._check_complete()
        is_open = isinstance(number, Expr) and is_partial(number)  # undefined at sizes with undefined ends
        needed = self._nonempty.condition.occupied if is_open else self._needed
        return select(where_it_holds(logical_and(*needed)), as_expr(number), 0) if needed else number

    def _check_complete(self) -> None:
        if not self._nonempty.condition.is_complete:
            raise CountError("for which values of the parameters there is no element at all is not known")

    def __repr__(self) -> str:
        where = " and ".join(map(str, self._needed))
        return f"{self._inner!r} where {where}" if where else repr(self._inner)

    def _spoken_of(self) -> tuple[Var, ...]:
        condition = self._nonempty.condition
        linked = () if condition.is_complete else self._nonempty.parameters
        return tuple(dict.fromkeys((*self._inner.params, *free_vars(*condition.facts, *condition.occupied), *linked)))

    def _excluding(self, values: Mapping[Var, Expr]) -> tuple[Cond, ...]:
        return self._nonempty.excluding(values)


@all_as_configured
class SetWhereNonempty(WhereNonempty, IntSet):
    """The set `inner`, empty outside the emptiness condition."""

    def __init__(self, inner: IntSet, nonempty: Nonempty) -> None:
        WhereNonempty.__init__(self, inner, nonempty)
        self._set, self.by, self.is_exact = inner, inner.by, self._claims(inner.is_exact)
        self.where = ()  # part of `conditions`

    @property
    def mentioned(self) -> IntSet:
        return self._set

    @property
    def is_tight(self) -> bool:
        return self._claims(self._set.is_tight)

    @is_tight.setter
    def is_tight(self, claim: bool) -> None:
        self._set.is_tight = claim

    @property
    def is_everything(self) -> bool:
        return self._set.is_everything and not self._needed

    def ends(self) -> tuple[End, End]:
        return self._set.ends()

    def condition(self, e: IntLike) -> Cond:
        inside = self._set.condition(e)
        return where_it_holds(logical_and(*self._needed)) & inside if self._needed else inside

    def substituted(self, values: Mapping[Var, Expr]) -> IntSet:
        inner, nonempty = self._set.at(values), self._nonempty.at(values)
        return empty_set(self.by) if nonempty is None else where_nonempty(inner, nonempty)

    def __contains__(self, value: object) -> bool:
        return super().__contains__(value) if self.params else value in self._set

    def _relied_on(self) -> tuple[Cond, ...]:
        return self._nonempty.condition.facts

    def _combined_with(self, other: IntSet, operation: Callable[[IntSet, IntSet], IntSet]) -> IntSet:
        if isinstance(other, SetWhereNonempty) and other._nonempty is self._nonempty:
            return where_nonempty(operation(self._set, other._set), self._nonempty)
        return operation(self, other)

    def describe(self) -> str:
        return self._set.describe()


@all_as_configured
class RegionWhereNonempty(WhereNonempty, Region):
    """The region `inner`, empty outside the emptiness condition."""

    def __init__(self, inner: Region, nonempty: Nonempty) -> None:
        WhereNonempty.__init__(self, inner, nonempty)
        self._region, self.dims, self.by, self.is_exact = inner, inner.dims, inner.by, self._claims(inner.is_exact)

    @property
    def mentioned(self) -> Region:
        return self._region

    def _own_notes(self) -> tuple[str, ...]:
        return self._region._own_notes()

    @property
    def is_tight(self) -> bool:
        return self._claims(self._region.is_tight)

    @property
    def box(self) -> tuple[Range, ...]:
        return self._region.box

    def _per_instance(self) -> PerInstance:
        """Counts over the parameter values at which the condition holds for some values of its other variables."""
        self._check_complete()
        if not self._needed and not self._nonempty.condition.facts:
            return self._region._per_instance()
        check_countable(self)
        try:
            shape = self.shape
            others = [v for v in shape.variables() if v not in self.params]
            declared = logical_and(*(fact.condition for v in others for fact in declared_of(v, v)))
            with own_budget(shape, 2 * SHARE):
                return shape.filter(coordinates(self.dims), declared).without(others).counts(self.params)
        except BudgetError as error:
            raise CountError(f"counting is out of budget: {error}") from error

    def substituted(self, values: Mapping[Var, Expr]) -> Region:
        inner, nonempty = self._region.at(values), self._nonempty.at(values)
        if nonempty is None:
            return empty_region(self.dims, self.by)
        return where_nonempty(inner, nonempty)

    def condition(self, point: Sequence[IntLike]) -> Cond:
        inside = self._region.condition(point)
        return where_it_holds(logical_and(*self._needed)) & inside if self._needed else inside

    def _combined_with(self, other: Region, operation: Callable[[Region, Region], Region]) -> Region:
        if isinstance(other, RegionWhereNonempty) and other._nonempty is self._nonempty:
            return where_nonempty(operation(self._region, other._region), self._nonempty)
        return operation(self, other)

    def project(self, dims: Sequence[int]) -> Region:
        return where_nonempty(self._region.project(dims), self._nonempty)

    def hull(self) -> Region:
        return where_nonempty(self._region.hull(), self._nonempty)


def where_nonempty(answer: S, nonempty: Nonempty | None) -> S:
    """Restrict a domain's answer by an emptiness condition; `None`: the question has points for all parameters."""
    if nonempty is None or nonempty.is_settled():
        return answer
    return SetWhereNonempty(answer, nonempty) if isinstance(answer, IntSet) else RegionWhereNonempty(answer, nonempty)
