"""`Query`: what a domain is asked, brought to canonical form once for all domains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from intset.expr.node import Cond, Expr, Node, Var
from intset.expr.range import Range
from intset.expr.walk import free_vars
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
        self.verdicts: dict[tuple[Cond, ...], str] = {}  # shared by the queries of one context
        self._forms: tuple[Linear, ...] | None = None

    @property
    def forms(self) -> tuple[Linear, ...]:
        """The canonical forms of the expressions."""
        if self._forms is None:
            self._forms = tuple([self.known.form(e) for e in self.exprs])
        return self._forms

    @property
    def is_empty(self) -> bool:
        """Whether the domain is known to have no point at all."""
        return self.known.empty

    def is_relaxed(self, var: Var) -> bool:
        """Whether `var` runs over its range (else it stays symbolic)."""
        return var in self.ranges and var not in self.keep

    def is_touched(self, roots: Iterable[Node]) -> bool:
        """Whether a fact speaks of a variable of `roots`, directly or through ranges and other facts; or may, unseen,
        exclude every point."""
        _, _, touching, leftover = self.split_relevant(tuple(roots))
        if touching:
            return True
        from intset.domains.isl.domain import consistency

        return bool(leftover) and consistency(self, leftover) != "holds"

    def split_relevant(self, roots: Sequence[Node]) -> tuple[list[Var], list[Var], list[Cond], list[Cond]]:
        """(relaxed variables, parameters, facts that touch them, facts that do not), closed over shared variables."""
        relaxed: dict[Var, None] = {}
        params: dict[Var, None] = {}
        waiting = list(free_vars(*roots))
        left = [(fact, free_vars(fact)) for fact in self.facts]
        touching: list[Cond] = []
        while waiting:
            while waiting:
                var = waiting.pop(0)
                if var in relaxed or var in params:
                    continue
                (relaxed if self.is_relaxed(var) else params)[var] = None
                if var in self.ranges:
                    waiting.extend(self.ranges[var].free_vars())
            still = []
            for fact, variables in left:
                if any(v in relaxed or v in params for v in variables):
                    touching.append(fact)
                    waiting.extend(v for v in variables if v not in relaxed and v not in params)
                else:
                    still.append((fact, variables))
            left = still
        return list(relaxed), list(params), touching, [fact for fact, _ in left]
