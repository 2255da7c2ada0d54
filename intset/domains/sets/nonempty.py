"""Values of parameters that facts or declared bounds exclude: an answer is empty there, and a note names the fact."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from intset.config import Config
from intset.domains.query import Query
from intset.domains.ranked import strongest
from intset.domains.sets.ends import placed_conditions
from intset.errors import BudgetError, UndecidedError
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr, constant_value, truth
from intset.expr.range import Range
from intset.expr.text import shown
from intset.expr.walk import conjuncts, free_vars, substitute
from intset.facts import ASSUMED, Fact
from intset.frame import Frame
from intset.infinity import NEG_INF
from intset.linear.canonical import Normalizer
from intset.prover.proof import prove_once
from intset.ranges import checked_var, declared_of, definedness_of_ends, is_known, nonempty_conditions


def failing(facts: Iterable[Cond], values: Mapping[Var, IntLike]) -> tuple[Cond, ...]:
    """The facts, and the bounds that variables declare, each of which alone is false or has no value at `values`."""
    declared = [fact.condition for var in values for fact in declared_of(var, var)]
    asked = dict.fromkeys((*facts, *declared))
    return tuple(fact for fact in asked if placed_conditions((fact,), values) is None)


def note(facts: Iterable[Cond], values: Mapping[Var, IntLike]) -> str:
    """Why an answer is empty at these values."""
    reasons = tuple(facts)
    about = [v for v in free_vars(*reasons) if v in values]
    point = ", ".join(f"{v.name} = {shown(as_expr(values[v]))}" for v in about) or "every value"
    return f"{point} is excluded by {' and '.join(shown(fact) for fact in reasons)}"


class Excludable:
    """What sets and regions know of values of parameters that facts or declared bounds exclude."""

    @property
    @abstractmethod
    def params(self) -> tuple[Var, ...]: ...

    def _relied_on(self) -> tuple[Cond, ...]:
        """What holds of the parameters, one condition each."""
        return ()

    def _spoken_of(self) -> tuple[Var, ...]:
        """The parameters, and the variables that facts about them mention."""
        return tuple(dict.fromkeys((*self.params, *free_vars(*self._relied_on()))))

    def _excluding(self, values: Mapping[Var, Expr]) -> tuple[Cond, ...]:
        """The facts and declared bounds that exclude these values; none where nothing does."""
        return failing(self._relied_on(), values)


class Found(NamedTuple):
    """What is known of where a question has a point.

    Attributes
    ----------
    facts: what is relied on of the parameters alone: facts, and the ranges of kept variables.
    occupied: what must hold besides, so that something runs.
    is_complete: whether there is a point wherever all of these hold.
    """

    facts: tuple[Cond, ...]
    occupied: tuple[Cond, ...]
    is_complete: bool


class Nonempty:
    """The values of the parameters of a question at which some point is left; found when it is asked for."""

    def __init__(
        self,
        ranges: Mapping[Var, Range],
        conditions: Sequence[Cond],
        keep: Sequence[Var],
        config: Config,
        running: Sequence[Cond] = (),
        stated: Sequence[Cond] = (),
    ) -> None:
        """Ask for the parameters of a question.

        `running` lists the conditions that no fact states: nonempty ranges, defined operands. `stated` lists the
        conditions of all facts, including those implied by ranges.
        """
        self._ranges, self._conditions, self._keep, self._config = dict(ranges), tuple(conditions), keep, config
        self._running, self._stated = frozenset(running), tuple(stated)
        self._found: Found | None = None

    @property
    def found(self) -> Found:
        if self._found is None:
            self._found = self._looked_for()
        return self._found

    def is_settled(self) -> bool:
        """Whether something is known to be left, whatever any parameter is."""
        if self._found is not None:
            return self._found == Found((), (), True)
        return not self.is_open()

    def is_open(self) -> bool:
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
        """The facts that exclude these values of parameters; empty if none is known to."""
        stated = [cond for cond in self._stated if not any(map(self._runs, cond.free_vars()))]
        alone = failing((*self.found.facts, *stated), values)
        if alone:
            return alone
        left = self._facts_at(values)
        if left is not None and len(left) > 1 and Nonempty({}, left, (), self._config).is_inhabited() is False:
            return self.found.facts  # together they exclude every value of the other parameters
        return ()

    def _facts_at(self, values: Mapping[Var, Expr]) -> tuple[Cond, ...] | None:
        """What is left of facts and declared bounds at values; `None` where one of them fails."""
        declared = (fact.condition for var, e in values.items() for fact in declared_of(var, e))
        left = placed_conditions((*self.found.facts, *declared), values)
        plain = Normalizer({})
        return None if left is None else tuple(cond for cond in left if not is_known(plain, cond))

    def at(self, values: Mapping[Var, Expr]) -> Nonempty | None:
        """The same at values of parameters that no fact excludes; `None` where there is no point."""
        found = self.found
        facts_at, occupied_at = self._facts_at(values), placed_conditions(found.occupied, values)
        if facts_at is None or occupied_at is None:
            return None
        placed = self._moved(values) if not found.is_complete else Nonempty({}, (), (), self._config)
        plain = Normalizer({})
        occupied_at = tuple(cond for cond in occupied_at if not is_known(plain, cond))
        left = Found(facts_at, occupied_at, found.is_complete)
        if not found.is_complete and not placed.is_open():
            verdict = placed.is_inhabited()
            if verdict is False:
                return None
            left = left._replace(is_complete=verdict is True)
        placed._found = left
        return placed

    def _moved(self, values: Mapping[Var, Expr]) -> Nonempty:
        """The same question at values of parameters. A variable that runs is not one that a value mentions."""
        bound: dict[Expr, Expr] = {v: Var(v.name) for v in free_vars(*values.values()) if self._runs(v)}
        new: dict[Expr, Expr] = {v: e for v, e in values.items() if not self._runs(v)}
        new.update(bound)
        left = {v: limits for v, limits in self._ranges.items() if v not in new or v in bound}
        ranges = {checked_var(bound.get(v, v)): _range_at(limits, new) for v, limits in left.items()}
        conditions = [substitute(cond, new) for cond in self._conditions]
        for v, limits in self._ranges.items():
            if v in new and v not in bound:
                conditions += [substitute(cond, new) for cond in _inside(v, limits)]
        kept = tuple(v for v in self._keep if v not in new)
        return Nonempty(ranges, conditions, kept, self._config, [substitute(cond, new) for cond in self._running])

    def _runs(self, var: Var) -> bool:
        return var in self._ranges and var not in self._keep

    def is_inhabited(self) -> bool | None:
        """Whether there is a point, where nothing depends on parameters; `None` where that is not known."""
        frame = Frame(self._ranges, tuple(Fact(cond, ASSUMED) for cond in self._conditions))
        status = prove_once(frame, truth(False), self._config).status
        return {"proved": False, "refuted": True}.get(status)

    # -- looking for it ------------------------------------------------------------------------------------------

    def _looked_for(self) -> Found:
        relaxed = {v for v in self._ranges if v not in self._keep}
        facts: list[Cond] = []
        linking: list[Cond] = []
        own = [cond for v in self._keep if v in self._ranges for cond in _inside(v, self._ranges[v])]
        occupied: dict[Cond, None] = {}
        for cond in (*self._conditions, *own):
            if not relaxed.isdisjoint(cond.free_vars()):
                linking.append(cond)
            elif cond in self._running:
                occupied[cond] = None
            else:
                facts.append(cond)
        for cond in definedness_of_ends(limits for v, limits in self._ranges.items() if v in relaxed):
            if relaxed.isdisjoint(cond.free_vars()):
                occupied[cond] = None
            else:
                linking.append(cond)
        known = Frame({}, tuple(Fact(cond, ASSUMED) for cond in facts)).known
        harder: list[Var] = []
        for group in _tied(self._ranges, relaxed, linking):
            speaking = [cond for cond in linking if not group.isdisjoint(cond.free_vars())]
            limits = [self._ranges[v] for v in group]
            if all(v in relaxed for v in free_vars(*speaking, *(e for r in limits for e in _ends(r)))):
                continue  # no parameter: it is empty for all values or for none
            if len(group) == 1 and not speaking:
                (var,) = group
                occupied.update(dict.fromkeys(nonempty_conditions(var, self._ranges[var])))
            else:
                harder += [v for v in self._ranges if v in group]
        complete = True
        if harder:
            complete, more = self._projected(harder, linking)
            occupied.update(dict.fromkeys(more))
        return Found(tuple(dict.fromkeys(facts)), tuple(c for c in occupied if not is_known(known, c)), complete)

    def _projected(self, running: Sequence[Var], linking: Sequence[Cond]) -> tuple[bool, Iterable[Cond]]:
        """The parameters for which these variables have values; whether it is them, and not more."""
        speaking = [cond for cond in linking if any(v in running for v in cond.free_vars())]
        frame = Frame(self._ranges, tuple(Fact(cond, ASSUMED) for cond in speaking))
        query = Query((), self._ranges, frame.conditions, self._keep, frame.base, frame.base, self._config)
        query.also = tuple(dict.fromkeys((*running, *free_vars(*speaking))))
        try:
            engine = strongest()
            with engine.everything(0).budget(max(1, self._config.isl_operations)):
                points = engine.points(query)
                return not points.notes, tuple(conjuncts(points.shape.condition(())))
        except (BudgetError, UndecidedError):
            # What each range says alone is necessary.
            single = [v for v in running if not any(map(self._runs, self._ranges[v].free_vars()))]
            return False, [cond for v in single for cond in nonempty_conditions(v, self._ranges[v])]


def _inside(var: Var, limits: Range) -> Iterator[Cond]:
    if isinstance(limits.min, Expr):
        yield var >= limits.min
    if isinstance(limits.max, Expr):
        yield var <= limits.max


def _range_at(limits: Range, new: Mapping[Expr, Expr]) -> Range:
    """A range at values of variables, which may make it empty."""
    low, extent, last = (
        substitute(end, new) if isinstance(end, Expr) else end for end in (limits.min, limits.extent, limits.max)
    )
    if low is NEG_INF:
        return Range.up_to(last)
    number = constant_value(extent) if isinstance(extent, Expr) else None
    return Range(low, extent if number is None else max(number, 0))


def _ends(limits: Range) -> Iterator[Expr]:
    return (end for end in (limits.min, limits.max) if isinstance(end, Expr))


def _tied(ranges: Mapping[Var, Range], relaxed: set[Var], linking: Sequence[Cond]) -> list[set[Var]]:
    """The variables that run, in groups that no condition and no range joins."""
    links = [{v, *ranges[v].free_vars()} & relaxed for v in ranges if v in relaxed]
    links += [relaxed.intersection(cond.free_vars()) for cond in linking]
    groups: list[set[Var]] = []
    for link in links:
        joined = set(link)
        apart = []
        for group in groups:
            if group.isdisjoint(joined):
                apart.append(group)
            else:
                joined |= group
        groups = [*apart, joined]
    return groups
