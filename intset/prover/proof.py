"""`Proof`: the answer to "is this always true?", with what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intset.check.certificate import Certificate
from intset.config import pinned
from intset.expr.node import Cond, Expr, Var, truth
from intset.expr.text import Point, number_text
from intset.facts import ASSUMED, Fact
from intset.prover.basis import NOTHING, PROVED, REFUTED, UNKNOWN, Basis, Decided
from intset.prover.certify import certify
from intset.prover.climb import is_without_points, needed_facts


class Proof:
    """Proved, refuted or unknown. `bool(proof)` is true only when proved.

    Attributes
    ----------
    status: "proved": true at every point of the domain where it is defined; "refuted": false at `counterexample` (it
        may hold elsewhere); "unknown": not decided within the budgets.
    by: the tier that decided: "linear", "isl", "points", "z3"; for an unknown, the last one that tried.
    counterexample: when refuted, `{Var: int}`, sizes included, inside ranges and facts; an opaque term is a key as
        well. It was checked by `evaluate`.
    reason: why it is unknown, in words; of what was decided, that a tier before was stopped by the clock.
    basis: what it was asked under.
    """

    __slots__ = (
        "_certificate",
        "_used",
        "_vacuous",
        "basis",
        "by",
        "counterexample",
        "goal",
        "reason",
        "status",
    )

    def __init__(
        self,
        goal: Cond,
        status: str,
        by: str,
        vacuous: bool = False,
        counterexample: Mapping[Expr, int] | None = None,
        reason: str = "",
        basis: Basis = NOTHING,
    ) -> None:
        self.goal, self.status, self.by, self.reason = goal, status, by, reason
        self.counterexample: dict[Expr, int] | None = None if counterexample is None else Point(counterexample)
        self.basis = basis
        self._used: tuple[Fact, ...] | None = None
        self._certificate: Certificate | None = None
        self._vacuous: bool | None = vacuous or None  # a tier that proves a goal need not look for a point

    @property
    def vacuous(self) -> bool:
        """Whether the goal is proved, and the domain known to be empty: the tiers are asked when this is."""
        if self._vacuous is None:
            self._vacuous = self._found_vacuous()
        return self._vacuous

    def _found_vacuous(self) -> bool:
        if self.status != PROVED or self.basis is NOTHING:
            return False
        with pinned(self.basis.config):
            return is_without_points(self.basis)

    @property
    def used(self) -> tuple[Fact, ...]:
        """The facts that the proof rests on: none of them can be left out (found by leaving each out in turn)."""
        if self._used is None:
            self._used = self._found_used()
        return self._used

    def _found_used(self) -> tuple[Fact, ...]:
        if self.status != PROVED or self.basis is NOTHING:
            return ()
        with pinned(self.basis.config):
            return needed_facts(self.goal, self.basis)

    @property
    def decided(self) -> Decided:
        """How it was decided, as data."""
        return Decided(self.status, self.by, self.vacuous, self.counterexample, self.reason, self.basis)

    @property
    def requires(self) -> tuple[Cond, ...]:
        """Side conditions: divisors not known to differ from 0, and the facts used that are only the user's word."""
        assumed = tuple(fact.condition for fact in self.used if fact.provenance == ASSUMED)
        return (*self.basis.requires, *assumed)

    def certificate(self) -> Certificate:
        """The proof as data that an independent check accepts; of a refuted goal, the point where it fails.

        Found when it is first asked for, and checked then; `certificate().check()` checks it again.

        Raises
        ------
        InputError: the goal was not decided, or no certificate was found within the budgets.
        """
        if self._certificate is None:
            used = () if self.vacuous else self.used
            with pinned(self.basis.config):
                self._certificate = certify(self.goal, self.decided, used)
        return self._certificate

    def __bool__(self) -> bool:
        return self.status == PROVED

    def __getstate__(self) -> tuple[object, ...]:
        basis = self.basis._replace(ranges=dict(self.basis.ranges))
        fields = (self.goal, self.status, self.by, self._vacuous, self.counterexample, self.reason)
        return (*fields, basis, self.used, self._certificate)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.goal, self.status, self.by, self._vacuous, self.counterexample, self.reason, *rest = state
        self.basis, self._used, self._certificate = rest

    def __repr__(self) -> str:
        if self.status == REFUTED and self.counterexample is not None:
            values = ((v.name if isinstance(v, Var) else v, number_text(k)) for v, k in self.counterexample.items())
            point = ", ".join(f"{name} = {text}" for name, text in values)
            return f"<Proof refuted by {self.by}: {self.goal} fails at {point or 'the only point'}>"
        extra = ", vacuous" if self.vacuous else f": {self.reason}" if self.reason else ""
        return f"<Proof {self.status} by {self.by}: {self.goal}{extra}>"


def undecided(reason: str) -> Proof:
    """The answer to a question that could not be asked: `reason` says why."""
    return Proof(truth(False), UNKNOWN, "", reason=reason)


__all__ = ["PROVED", "REFUTED", "UNKNOWN", "Basis", "Proof", "undecided"]
