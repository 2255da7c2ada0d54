"""The emptiness condition of a question, and sets and regions restricted by it.

A domain of sets may drop ranges and facts that the expressions do not mention, although an empty range or a false fact
empties the image. The answer is valid under a condition on the parameters: `Nonempty` computes the condition, and
`where_nonempty` empties all instances outside it. Ends and boxes describe nonempty instances; the algebra, counts,
comparisons and `at` include the condition.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from intset.config import Config, Configured, all_as_configured
from intset.domains.query import Query
from intset.domains.ranked import strongest
from intset.domains.sets.base import (
    OUT_OF_BUDGET,
    SET_SHARE,
    DimensionBounds,
    IntSet,
    StrideSum,
    check_countable,
    empty_set,
    failing,
    own_budget,
    refusing,
)
from intset.domains.sets.ends import End, as_number, placed_conditions
from intset.domains.sets.region import Region, empty_region
from intset.errors import BudgetError, CountError, UndecidedError
from intset.expr import Cond, Expr, Infinity, IntLike, Range, Var, as_expr, dag
from intset.expr.build import logical_and, logical_not, select
from intset.expr.definedness import is_partial, where_it_holds
from intset.expr.node import truth
from intset.expr.range import conditions_between, declared_conditions, range_conditions
from intset.facts import ASSUMED, DERIVED, Fact, checked_var
from intset.frame import Frame
from intset.linear.canonical import unranged
from intset.linear.signs import is_known
from intset.prover.proof import prove_in, prove_once
from intset.ranges import definedness_of_ends, nonempty_conditions
from intset.regions.shape import PerInstance, Shape, coordinates, has_select
from intset.simplify.engine import simplified

NOTE = "whether anything is left at these values is not known"
S = TypeVar("S", bound=IntSet | Region)
A = TypeVar("A", IntSet, Region)


class EmptinessCondition(NamedTuple):
    """Parameter values with points: the conjunction of `facts` and `occupied`.

    Attributes
    ----------
    facts: facts on parameters alone, and the ranges of kept variables.
    occupied: the conditions under which the ranges of quantified variables have points.
    is_complete: whether the condition is sufficient; it is necessary in any case.
    """

    facts: tuple[Cond, ...]
    occupied: tuple[Cond, ...]
    is_complete: bool


class Nonempty:
    """The emptiness condition of a question, computed on first use."""

    def __init__(
        self,
        ranges: Mapping[Var, Range],
        conditions: Sequence[Cond],
        keep: Sequence[Var],
        config: Config,
        running: Sequence[Cond] = (),
        stated: Sequence[Cond] = (),
    ) -> None:
        """Take the ranges and conditions of a question.

        Parameters
        ----------
        running: the conditions that are not facts: nonempty ranges, defined operands.
        stated: the conditions of all facts, including those implied by ranges.
        """
        self._ranges, self._conditions, self._keep, self._config = dict(ranges), tuple(conditions), keep, config
        self._running, self._stated = frozenset(running), tuple(stated)
        self._condition: EmptinessCondition | None = None

    @property
    def condition(self) -> EmptinessCondition:
        if self._condition is None:
            self._condition = self._computed()
        return self._condition

    def always_has_points(self) -> bool:
        """Whether the question provably has points for all parameters."""
        if self._condition is not None:
            return self._condition == EmptinessCondition((), (), True)
        return not self.mentions_parameters()

    def never_has_points(self) -> bool:
        """Whether the condition is false: ranges and facts leave no point at any value of the parameters."""
        return truth(False) in self.condition.occupied

    def mentions_parameters(self) -> bool:
        """Whether a range or a condition mentions a parameter."""
        return any(True for _ in self._mentioned())

    @property
    def parameters(self) -> tuple[Var, ...]:
        """The parameters that ranges and conditions mention."""
        return tuple(dict.fromkeys(self._mentioned()))

    def _mentioned(self) -> Iterator[Var]:
        yield from self._keep
        ends = (v for limits in self._ranges.values() for v in limits.free_vars())
        in_conditions = (v for cond in self._conditions for v in cond.free_vars())
        yield from (v for v in itertools.chain(ends, in_conditions) if v not in self._ranges)

    def excluding(self, values: Mapping[Var, Expr]) -> tuple[Cond, ...]:
        """The facts that are proved to exclude these parameter values."""
        stated = [cond for cond in self._stated if not any(map(self._is_quantified, cond.free_vars()))]
        alone = failing((*self.condition.facts, *stated), values)
        if alone:
            return alone
        left = self._facts_at(values)
        if left is not None and len(left) > 1 and Nonempty({}, left, (), self._config).has_points() is False:
            return self.condition.facts  # jointly unsatisfiable
        return ()

    def _facts_at(self, values: Mapping[Var, Expr]) -> tuple[Cond, ...] | None:
        """Substitute parameters in facts and declared bounds; `None` if one of them is false."""
        declared = (cond for var, e in values.items() for cond in conditions_between(e, *var.declared()))
        left = placed_conditions((*self.condition.facts, *declared), values)
        return None if left is None else tuple(cond for cond in left if not is_known(unranged(), cond))

    def at(self, values: Mapping[Var, Expr]) -> Nonempty | None:
        """Substitute parameter values that no fact excludes; `None` if the question is empty there."""
        own = self.condition
        facts_at, occupied_at = self._facts_at(values), placed_conditions(own.occupied, values)
        if facts_at is None or occupied_at is None:
            return None
        question = self._moved(values) if not own.is_complete else Nonempty({}, (), (), self._config)
        occupied_at = tuple(cond for cond in occupied_at if not is_known(unranged(), cond))
        left = EmptinessCondition(facts_at, occupied_at, own.is_complete)
        if not own.is_complete and not question.mentions_parameters():
            verdict = question.has_points()
            if verdict is False:
                return None
            left = left._replace(is_complete=verdict is True)
        question._condition = left
        return question

    def _moved(self, values: Mapping[Var, Expr]) -> Nonempty:
        """Substitute parameters in ranges and conditions; quantified variables are renamed to avoid capture."""
        bound: dict[Expr, Expr] = {v: Var(v.name) for v in dag.free_vars(*values.values()) if self._is_quantified(v)}
        new: dict[Expr, Expr] = {v: e for v, e in values.items() if not self._is_quantified(v)}
        new.update(bound)
        left = {v: limits for v, limits in self._ranges.items() if v not in new or v in bound}
        ranges = {checked_var(bound.get(v, v)): limits.substitute(new) for v, limits in left.items()}
        conditions = [dag.substitute(cond, new) for cond in self._conditions]
        for v, limits in self._ranges.items():
            if v in new and v not in bound:
                conditions += [dag.substitute(cond, new) for cond in range_conditions(v, limits)]
        kept = tuple(v for v in self._keep if v not in new)
        return Nonempty(ranges, conditions, kept, self._config, [dag.substitute(cond, new) for cond in self._running])

    def _is_quantified(self, var: Var) -> bool:
        return var in self._ranges and var not in self._keep

    def has_points(self) -> bool | None:
        """Whether a question without parameters has a point; `None` if undecided."""
        frame = Frame(self._ranges, tuple(Fact(cond, ASSUMED) for cond in self._conditions))
        status = prove_once(frame, truth(False), self._config).status
        return {"proved": False, "refuted": True}.get(status)

    # -- the computation ----------------------------------------------------------------------------------------

    def _computed(self) -> EmptinessCondition:
        relaxed = {v for v in self._ranges if v not in self._keep}
        facts: list[Cond] = []
        linking: list[Cond] = []
        own = [cond for v in self._keep if v in self._ranges for cond in range_conditions(v, self._ranges[v])]
        occupied: dict[Cond, None] = {}
        for cond in (*self._conditions, *own):
            if not relaxed.isdisjoint(cond.free_vars()):
                linking.append(cond)
            elif cond in self._running:
                occupied[cond] = None
            else:
                facts.append(cond)
        # A fact that the ranges imply is no condition of the query, but excludes parameter values all the same.
        facts += [cond for cond in self._stated if cond not in facts and relaxed.isdisjoint(cond.free_vars())]
        for cond in definedness_of_ends(limits for v, limits in self._ranges.items() if v in relaxed):
            if relaxed.isdisjoint(cond.free_vars()):
                occupied[cond] = None
            else:
                linking.append(cond)
        known = Frame({}, tuple(Fact(cond, ASSUMED) for cond in facts)).known
        harder: list[Var] = []
        links = [{v, *limits.free_vars()} & relaxed for v, limits in self._ranges.items() if v in relaxed]
        for group in dag.connected((*links, *(relaxed.intersection(cond.free_vars()) for cond in linking))):
            speaking = [cond for cond in linking if not group.isdisjoint(cond.free_vars())]
            limits = [self._ranges[v] for v in group]
            if all(v in relaxed for v in dag.free_vars(*speaking, *(e for r in limits for e in _ends(r)))):
                continue  # independent of parameters
            if len(group) == 1 and not speaking:
                (var,) = group
                occupied.update(dict.fromkeys(nonempty_conditions(var, self._ranges[var])))
            else:
                harder += [v for v in self._ranges if v in group]
        complete = True
        if harder:
            complete, more = self._projected(harder, linking)
            occupied.update(dict.fromkeys(more))
        needed = tuple(cond for cond in occupied if not is_known(known, cond))
        if any(is_known(known, logical_not(cond)) for cond in needed):
            needed = (truth(False),)
        return EmptinessCondition(tuple(dict.fromkeys(facts)), needed, complete)

    def _projected(self, running: Sequence[Var], linking: Sequence[Cond]) -> tuple[bool, Iterable[Cond]]:
        """Project the domain of `running` onto the parameters: (whether the projection is exact, its conditions)."""
        speaking = [cond for cond in linking if any(v in running for v in cond.free_vars())]
        frame = Frame(self._ranges, tuple(Fact(cond, ASSUMED) for cond in speaking))
        query = Query((), self._ranges, frame.conditions, self._keep, frame.base, frame.base, self._config)
        query.also = tuple(dict.fromkeys((*running, *dag.free_vars(*speaking))))
        try:
            engine = strongest()
            with engine.everything(0).budget(max(1, self._config.isl_operations)):
                points = engine.points(query)
                return not points.notes, tuple(dag.conjuncts(points.shape.condition(())))
        except (BudgetError, UndecidedError):
            # Necessary conditions: each range alone is not empty.
            single = [v for v in running if not any(map(self._is_quantified, self._ranges[v].free_vars()))]
            return False, [cond for v in single for cond in nonempty_conditions(v, self._ranges[v])]


def _ends(limits: Range) -> Iterator[Expr]:
    return (end for end in (limits.min, limits.max) if isinstance(end, Expr))


# -- sets with the condition -------------------------------------------------------------------------------------------


@all_as_configured
class WhereNonempty(Configured, Generic[S]):
    """Base of sets and regions that are empty outside the emptiness condition of their question."""

    def __init__(self, inner: S, nonempty: Nonempty) -> None:
        self._inner, self._nonempty = inner, nonempty
        self.dims, self.by, self.is_exact = inner.dims, inner.by, self._claims(inner.is_exact)
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
        return claim and (self._nonempty.mentions_parameters() or self._nonempty.condition.is_complete)

    @property
    def mentioned(self) -> Any:
        return self._inner

    @property
    def is_tight(self) -> bool:
        return self._claims(self._inner.is_tight)

    @is_tight.setter
    def is_tight(self, claim: bool) -> None:
        self._inner.is_tight = claim  # type: ignore[misc]  # of sets alone

    @property
    def notes(self) -> tuple[str, ...]:
        return self._inner.notes if self._claims(True) else (*self._inner.notes, NOTE)

    @notes.setter
    def notes(self, notes: tuple[str, ...]) -> None:
        self._inner.notes = notes

    @property
    def params(self) -> tuple[Var, ...]:
        return tuple(dict.fromkeys((*self._inner.params, *dag.free_vars(*self._needed))))

    @property
    def is_empty(self) -> bool:
        return self._inner.is_empty or self._nonempty.never_has_points()

    def knows_where_empty(self) -> bool:
        return self._nonempty.condition.is_complete

    def conditions(self, point: Sequence[Expr]) -> tuple[Cond, ...]:
        return (*self._nonempty.condition.facts, *self._needed, *self._inner.conditions(point))

    def condition(self, element: Any) -> Cond:
        inside: Cond = self._inner.condition(element)
        return where_it_holds(logical_and(*self._needed)) & inside if self._needed else inside

    def substituted(self, values: Mapping[Var, Expr]) -> Any:
        inner: Any = self._inner.at(values)
        nonempty = self._nonempty.at(values)
        if nonempty is not None:
            return where_nonempty(inner, nonempty)
        return empty_set(self.by) if isinstance(self, IntSet) else empty_region(self.dims, self.by)

    def _combined_with(self, other: Any, operation: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, WhereNonempty) and other._nonempty is self._nonempty:
            return where_nonempty(operation(self._inner, other._inner), self._nonempty)
        return operation(self, other)

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
        """The number of elements at all parameters that the facts allow; 0 for an empty range."""
        if self.is_empty:
            return 0
        number = self._inner.count()
        if isinstance(number, Infinity):
            return number
        self._check_complete()
        facts = self._nonempty.condition.facts
        if facts and isinstance(number, Expr) and has_select(number):
            known = Frame({}, tuple(Fact(cond, ASSUMED) for cond in facts)).known
            number = as_number(as_expr(simplified(number, known)))
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
        return tuple(
            dict.fromkeys((*self._inner.params, *dag.free_vars(*condition.facts, *condition.occupied), *linked))
        )

    def _excluding(self, values: Mapping[Var, Expr]) -> tuple[Cond, ...]:
        return self._nonempty.excluding(values)


@all_as_configured
class SetWhereNonempty(WhereNonempty[IntSet], IntSet):
    """A set, empty outside the emptiness condition."""

    @property
    def is_everything(self) -> bool:
        return self._inner.is_everything and not self._needed

    def ends(self) -> tuple[End, End]:
        return self._inner.ends()

    def at(self, values: Mapping[Var, IntLike]) -> IntSet:
        answer = super().at(values)
        return empty_set(self.by, answer.notes) if self._nonempty.never_has_points() else answer

    def _structure(self) -> StrideSum | None:
        return self._inner._structure()

    def _congruence(self) -> tuple[int, int] | None:
        return self._inner._congruence()

    def __contains__(self, value: object) -> bool:
        if self.is_empty:
            return False
        return super().__contains__(value) if self.params else value in self._inner

    def _relied_on(self) -> tuple[Cond, ...]:
        return self._nonempty.condition.facts

    def describe(self) -> str:
        return self._inner.describe()


@all_as_configured
class RegionWhereNonempty(WhereNonempty[Region], Region):
    """A region, empty outside the emptiness condition."""

    @property
    def box(self) -> tuple[Range, ...]:
        return self._inner.box

    def count(self) -> int | Infinity | Expr:
        found = self._count_of_preimage()
        return super().count() if found is None else found

    def _own_notes(self) -> tuple[str, ...]:
        return self._inner._own_notes()

    def _per_instance(self) -> PerInstance:
        """Counts over parameter values that satisfy the condition for some values of its other variables."""
        self._check_complete()
        if not self._needed and not self._nonempty.condition.facts:
            return self._inner._per_instance()
        check_countable(self)
        with refusing(CountError, OUT_OF_BUDGET), own_budget(self.shape, 2 * SET_SHARE):
            others = [v for v in self.shape.variables() if v not in self.params]
            declared = logical_and(*(cond for v in others for cond in declared_conditions(v)))
            return self.shape.filter(coordinates(self.dims), declared).without(others).counts(self.params)

    def project(self, dims: Sequence[int]) -> Region:
        return where_nonempty(self._inner.project(dims), self._nonempty)

    def hull(self) -> Region:
        return where_nonempty(self._inner.hull(), self._nonempty)


def where_nonempty(answer: A, nonempty: Nonempty | None) -> A:
    """Restrict a domain's answer by an emptiness condition; `None`: the question has points for all parameters."""
    if nonempty is None or nonempty.always_has_points():
        return answer
    return SetWhereNonempty(answer, nonempty) if isinstance(answer, IntSet) else RegionWhereNonempty(answer, nonempty)


def nonempty_at(frame: Frame, kept: tuple[Var, ...], chosen: Config, registered: int) -> Nonempty | None:
    """The condition on parameters for a point to exist, one object for each scope; `None` if there are none."""
    if not kept and not frame.speaks_of_sizes:
        return None
    key = ("nonempty", kept, chosen, registered)
    known = frame.answers.get(key)
    if known is None:
        stated = [fact.condition for fact in frame.facts]
        known = frame.remember(key, Nonempty(frame.ranges, frame.conditions, kept, chosen, frame.running, stated))
    nonempty: Nonempty = known
    return None if nonempty.always_has_points() else nonempty
