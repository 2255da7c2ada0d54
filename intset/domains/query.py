"""`Query`: what a domain is asked, brought to canonical form once for all domains."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from intset.expr.node import Cond, Expr, Node, Var
from intset.expr.opaque import Opaque
from intset.expr.range import Range
from intset.expr.walk import free_vars, opaque_terms
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear

if TYPE_CHECKING:
    from intset.config import Config


class Query:
    """The image question: the values of `exprs` over all points of the domain.

    Attributes
    ----------
    exprs: the expressions as the user wrote them.
    ranges: the range of each variable that has one.
    facts: the conditions that hold, as written.
    keep: the variables with a range that stay symbolic in the answer.
    base: canonical forms under the ranges alone: the facts are read through it.
    known: canonical forms under ranges and facts: the expressions are read through it.
    config: budgets and choices.
    also: variables of which every fact counts, as it does for those of `exprs`: points are asked for in each instance.
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
        self.base = base
        self.known = known
        self.config = config
        self.verdicts: dict[tuple[object, ...], str] = {}  # shared by the queries of one context
        self.also: tuple[Var, ...] = ()
        self.alone: tuple[Query, ...] = ()  # each expression where it has a value, if that is at more points
        self._forms: tuple[Linear, ...] | None = None
        self._ties: Mapping[Var, frozenset[Var]] | None = None

    @property
    def forms(self) -> tuple[Linear, ...]:
        """The canonical forms of the expressions."""
        if self._forms is None:
            self._forms = tuple([self.known.form(e) for e in self.exprs])
        return self._forms

    def of(self, *exprs: Expr) -> Query:
        """The same question about other expressions."""
        asked = Query(exprs, self.ranges, self.facts, tuple(self.keep), self.base, self.known, self.config)
        asked.verdicts, asked._ties = self.verdicts, self._ties
        return asked

    @property
    def is_empty(self) -> bool:
        """Whether the domain is known to have no point at all."""
        return self.known.empty

    def is_relaxed(self, var: Var) -> bool:
        """Whether `var` runs over its range (else it stays symbolic)."""
        return var in self.ranges and var not in self.keep

    def mentions(self, var: Var) -> bool:
        """Whether the question speaks of a variable."""
        if var in self.ranges or var in self.keep:
            return True
        limits = (v for r in self.ranges.values() for v in r.free_vars())
        return any(v is var for v in itertools.chain(free_vars(*self.exprs, *self.facts), limits))

    @property
    def ties(self) -> Mapping[Var, frozenset[Var]]:
        """For each variable whose range depends on relaxed variables, these, also through the ranges between."""
        if self._ties is None:
            self._ties = self._found_ties() if self.base.assumptions.limits else {}
        return self._ties

    def _found_ties(self) -> dict[Var, frozenset[Var]]:
        found: dict[Var, frozenset[Var]] = {}
        for var in self.base.assumptions.limits:  # outer variables come first
            own: set[Var] = set()
            for outer in self.ranges[var].free_vars():
                if self.is_relaxed(outer):
                    own |= {outer, *found.get(outer, ())}
            if own:
                found[var] = frozenset(own)
        return found

    @property
    def kept_ties(self) -> list[tuple[Var, frozenset[Var]]]:
        """The kept variables whose ranges say something about relaxed ones, with these."""
        return [(var, own) for var, own in self.ties.items() if var in self.keep] if self.keep else []

    def split_relevant(self, roots: Sequence[Node]) -> tuple[list[Var], list[Var], list[Cond], list[Cond]]:
        """(relaxed variables, parameters, facts that touch them, facts that do not), closed over shared variables, and
        over shared symbols of loads, whatever their indices are.

        A fact about a variable speaks of those that its range depends on. What a range says of others by not being
        empty is among the facts of a frame (`intset.ranges`).
        """
        ties = self.ties
        relaxed: dict[Var, None] = {}
        params: dict[Var, None] = {}
        symbols = _symbols(roots)
        waiting = list(free_vars(*roots))
        left = [(fact, self._spoken_of(fact), _symbols((fact,))) for fact in self.facts]
        kept = self.kept_ties
        touching: list[Cond] = []
        is_open = bool(waiting or symbols)
        while is_open:
            while waiting:
                var = waiting.pop(0)
                if var in relaxed or var in params:
                    continue
                if not self.is_relaxed(var):
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
        own, ties = free_vars(fact), self.ties
        if not ties:
            return own
        return tuple(dict.fromkeys((*own, *(v for var in own if self.is_relaxed(var) for v in ties.get(var, ())))))


def _symbols(roots: Sequence[Node]) -> set[Opaque]:
    return {load.data for load in opaque_terms(*roots)}
