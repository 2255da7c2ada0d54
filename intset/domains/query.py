"""`Query`: the question to a domain, in a canonical form shared by all domains; protocols of domains with regions.

These protocols lie below sets and the prover; `sets/answers.py` has those that speak of sets.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from intset.expr import Cond, Expr, Node, Range, Var, dag
from intset.expr.build import Opaque
from intset.expr.printer import to_text
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from intset.regions.shape import Shape

if TYPE_CHECKING:
    from intset.config import Config


class Query:
    """A question for the image: the values of `exprs` over all points of the domain.

    Invariant: each variable is kept, quantified (ranged, not kept) or a parameter.

    Attributes
    ----------
    exprs: the expressions as written.
    ranges: the range of each variable that has one.
    facts: the conditions, as written.
    keep: the variables with a range that stay symbolic in the answer.
    quantified: the remaining ranged variables, which iterate over the range.
    base: the normalizer under ranges alone, for facts.
    known: the normalizer under ranges and facts, for expressions.
    config: budgets and choices.
    also: further variables whose facts restrict the answer, as those of `exprs` do.
    """

    def __init__(
        self,
        exprs: Sequence[Expr],
        ranges: Mapping[Var, Range],
        facts: Sequence[Cond],
        keep: Sequence[Var],
        base: Normalizer,
        known: Normalizer,
        config: Config,
    ) -> None:
        self.exprs = tuple(exprs)
        self.ranges = ranges
        self.facts = tuple(facts)
        self.keep = frozenset(keep)
        self.quantified = ranges.keys() - self.keep
        self.base = base
        self.known = known
        self.config = config
        self.verdicts: dict[tuple[object, ...], str] = {}  # cache shared by the queries of one context
        self.also: tuple[Var, ...] = ()
        self.alone: tuple[Query, ...] = ()  # each expression alone, on its larger domain of definition
        self._forms: tuple[Linear, ...] | None = None
        self._ties: Mapping[Var, frozenset[Var]] | None = None
        self._spoken: list[_Spoken] | None = None
        self._splits: dict[tuple[Node, ...], _Split] = {}
        self._others: dict[tuple[Expr, ...], Query] = {}
        self.ends: dict[Linear, Any] = {}  # the bounds found symbolically, by canonical form

    @property
    def forms(self) -> tuple[Linear, ...]:
        """The canonical forms of the expressions."""
        if self._forms is None:
            self._forms = tuple([self.known.form(e) for e in self.exprs])
        return self._forms

    def of(self, *exprs: Expr) -> Query:
        """The same question about other expressions, made once."""
        other = self._others.get(exprs)
        if other is None:
            other = Query(exprs, self.ranges, self.facts, tuple(self.keep), self.base, self.known, self.config)
            other.verdicts, other._ties, other._spoken = self.verdicts, self._ties, self._spoken
            self._others[exprs] = other
        return other

    @property
    def is_empty(self) -> bool:
        """Whether the domain is proved empty."""
        return self.known.empty

    def is_quantified(self, var: Var) -> bool:
        """Whether `var` is quantified: it runs over its range."""
        return var in self.quantified

    def mentions(self, var: Var) -> bool:
        """Whether the question mentions a variable."""
        if var in self.ranges or var in self.keep:
            return True
        limits = (v for r in self.ranges.values() for v in r.free_vars())
        return any(v is var for v in itertools.chain(dag.free_vars(*self.exprs, *self.facts), limits))

    @property
    def ties(self) -> Mapping[Var, frozenset[Var]]:
        """For each variable with a dependent range, the quantified variables it depends on, transitively."""
        if self._ties is None:
            self._ties = self._computed_ties() if self.base.assumptions.limits else {}
        return self._ties

    def _computed_ties(self) -> dict[Var, frozenset[Var]]:
        ties: dict[Var, frozenset[Var]] = {}
        for var in self.base.assumptions.limits:  # outer variables come first
            own: set[Var] = set()
            for outer in self.ranges[var].free_vars():
                if self.is_quantified(outer):
                    own |= {outer, *ties.get(outer, ())}
            if own:
                ties[var] = frozenset(own)
        return ties

    @property
    def kept_ties(self) -> list[tuple[Var, frozenset[Var]]]:
        """The kept variables whose ranges restrict quantified variables, each with these."""
        return [(var, own) for var, own in self.ties.items() if var in self.keep] if self.keep else []

    def split_relevant(self, roots: Sequence[Node]) -> tuple[list[Var], list[Var], list[Cond], list[Cond]]:
        """Split by relevance to `roots`: (quantified variables, parameters, relevant facts, other facts).

        Relevance is closed over shared variables, over the variables of dependent ranges, and over shared symbols of
        loads. Nonempty ranges are separate facts (`intset.ranges`). Each question is answered once.
        """
        key = tuple(roots)
        found = self._splits.get(key)
        if found is None:
            found = self._splits[key] = self._split(key)
        relaxed, params, touching, others = found
        return [*relaxed], [*params], [*touching], [*others]

    def _split(self, roots: tuple[Node, ...]) -> _Split:
        ties = self.ties
        relaxed: dict[Var, None] = {}
        params: dict[Var, None] = {}
        symbols = {load.data for load in dag.opaque_terms(*roots)}
        waiting = list(dag.free_vars(*roots))
        if self._spoken is None:
            self._spoken = [(fact, self._spoken_of(fact), _symbols_of(fact)) for fact in self.facts]
        left = self._spoken
        kept = self.kept_ties
        touching: list[Cond] = []
        is_open = bool(waiting or symbols)
        while is_open:
            while waiting:
                var = waiting.pop(0)
                if var in relaxed or var in params:
                    continue
                if not self.is_quantified(var):
                    params[var] = None
                    symbols |= self._read_by(var)
                    waiting.extend(self._mentioned(var) if var not in ties else ())
                    continue
                relaxed[var] = None
                waiting.extend(self._mentioned(var))
                symbols |= self._read_by(var)
            still = []
            before = len(symbols)
            for fact, variables, read in left:
                if any(v in relaxed or v in params for v in variables) or not symbols.isdisjoint(read):
                    touching.append(fact)
                    symbols |= read
                    waiting.extend(v for v in variables if v not in relaxed and v not in params)
                else:
                    still.append((fact, variables, read))
            left = still
            for var, own in kept:
                if not own.isdisjoint(relaxed):
                    waiting.extend(v for v in (var, *self._mentioned(var)) if v not in relaxed and v not in params)
            is_open = bool(waiting) or len(symbols) > before
        return list(relaxed), list(params), touching, [fact for fact, _, _ in left]

    def _mentioned(self, var: Var) -> tuple[Var, ...]:
        limits = self.ranges.get(var)
        return () if limits is None else limits.free_vars()

    def _read_by(self, var: Var) -> set[Opaque]:
        limits = self.ranges.get(var)
        return set() if limits is None else {load.data for load in limits.loads()}

    def _spoken_of(self, fact: Cond) -> tuple[Var, ...]:
        own, ties = fact.free_vars(), self.ties
        if not ties:
            return own
        return tuple(dict.fromkeys((*own, *(v for var in own if self.is_quantified(var) for v in ties.get(var, ())))))


_Split = tuple[list[Var], list[Var], list[Cond], list[Cond]]
_Spoken = tuple[Cond, tuple[Var, ...], frozenset[Opaque]]  # a fact, its transitive variables, its symbols


def notes_of_bounds(terms: Iterable[Node]) -> list[str]:
    """The notes of an answer in which each of `terms` took any value within its bounds."""
    return [f"the term {to_text(e, limit=120)} is not affine: only its bounds were used" for e in terms]


def _symbols_of(fact: Cond) -> frozenset[Opaque]:
    return frozenset([load.data for load in dag.opaque_terms(fact)]) if getattr(fact, "_loads", True) else _NONE


_NONE: frozenset[Opaque] = frozenset()


class Points(NamedTuple):
    """The image of a query, or a superset with the reasons in `notes`."""

    shape: Shape
    notes: tuple[str, ...]


@runtime_checkable
class Regions(Protocol):
    """A domain of sets of tuples, with the algebra of `Shape`.

    Attributes
    ----------
    strength: the rank of its precision; callers with a choice take the strongest. isl has 100.
    """

    @property
    def name(self) -> str:
        """The name of the registration."""

    strength: ClassVar[int]

    def everything(self, dims: int) -> Shape:
        """The universe of `dims` coordinates."""
        ...

    def points(self, query: Query) -> Points:
        """The image of the expression tuple, parametric in kept variables.

        Raises
        ------
        BudgetError: the image exceeds the budget of the caller.
        """
        ...


@runtime_checkable
class Installable(Protocol):
    """A domain that needs an optional library; without it, every method refuses and the domain ranks last."""

    def is_installed(self) -> bool: ...


@dataclass(slots=True)
class TierVerdict:
    """The verdict of one tier of the prover: a status with a counterexample or a reason.

    `vacuous`: no point exists. `by_clock`: a timeout ended the tier; a faster machine may decide. `budget`: the name of
    the budget that ended the tier.
    """

    status: str
    point: dict[Expr, int] | None = None
    reason: str = ""
    vacuous: bool = False
    by_clock: bool = False
    budget: str = ""


@runtime_checkable
class Deciding(Regions, Protocol):
    """A domain with regions that has its own decision procedure for conditions."""

    def judge(self, query: Query, facts: Sequence[Cond]) -> str:
        """Consistency of facts that share no variable with the question: "holds", "empty" or "unknown"."""
        ...

    def decide(
        self, query: Query, goal: Cond, seeds: Sequence[Var], refutes: Callable[[dict[Expr, int]], bool]
    ) -> TierVerdict:
        """Decide whether a goal in canonical form holds at all points of a query.

        Parameters
        ----------
        seeds: further variables to which a counterexample assigns values.
        refutes: completes a proposed point and checks that it is a counterexample.
        """
        ...
