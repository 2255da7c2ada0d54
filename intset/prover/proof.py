"""`Proof`: the answer to "is this always true?", with what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from intset.expr.node import Cond, Expr, Var
from intset.facts import ASSUMED, Fact

PROVED, REFUTED, UNKNOWN = "proved", "refuted", "unknown"


class Proof:
    """Proved, refuted or unknown. `bool(proof)` is true only when proved.

    Attributes
    ----------
    status: "proved": true at every point of the domain where it is defined; "refuted": false at `counterexample` (it may
        hold elsewhere); "unknown": not decided within the budgets.
    by: the tier that decided: "linear", "isl", "points", "z3"; for an unknown, the last one that tried.
    vacuous: proved because the domain is empty.
    counterexample: when refuted, `{Var: int}`, sizes included, inside ranges and facts; an opaque term is a key as well.
        It was checked by `evaluate`.
    reason: why it is unknown, in words.
    smtlib: when z3 decided, a function that gives the query as SMT-LIB 2 text (unsatisfiable), for an independent check.
    """

    __slots__ = (
        "_requires",
        "_used",
        "_used_by",
        "by",
        "counterexample",
        "goal",
        "reason",
        "smtlib",
        "status",
        "vacuous",
    )

    def __init__(
        self,
        goal: Cond,
        status: str,
        by: str,
        vacuous: bool = False,
        counterexample: Mapping[Expr, int] | None = None,
        reason: str = "",
        used_by: Callable[[], tuple[Fact, ...]] | None = None,
        requires: tuple[Cond, ...] = (),
        smtlib: Callable[[], str] | None = None,
    ) -> None:
        self.goal, self.status, self.by, self.vacuous, self.reason = goal, status, by, vacuous, reason
        self.counterexample = None if counterexample is None else dict(counterexample)
        self._used_by = used_by
        self._used: tuple[Fact, ...] | None = None
        self._requires = requires
        self.smtlib = smtlib

    @property
    def used(self) -> tuple[Fact, ...]:
        """The facts that the proof rests on: none of them can be left out (found by leaving each out in turn)."""
        if self._used is None:
            self._used = self._used_by() if self._used_by is not None and self.status == PROVED else ()
        return self._used

    @property
    def requires(self) -> tuple[Cond, ...]:
        """Side conditions: divisors not known to differ from 0, and the facts used that are only the user's word."""
        assumed = tuple(fact.condition for fact in self.used if fact.provenance == ASSUMED)
        return (*self._requires, *assumed)

    def __bool__(self) -> bool:
        return self.status == PROVED

    def __getstate__(self) -> tuple[Any, ...]:
        fields = (self.goal, self.status, self.by, self.vacuous, self.counterexample, self.reason)
        return (*fields, self.used, self._requires)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.goal, self.status, self.by, self.vacuous, self.counterexample, self.reason, self._used, self._requires = (
            state
        )
        self._used_by = self.smtlib = None

    def __repr__(self) -> str:
        if self.status == REFUTED and self.counterexample is not None:
            point = ", ".join(f"{v.name if isinstance(v, Var) else v} = {k}" for v, k in self.counterexample.items())
            return f"<Proof refuted by {self.by}: {self.goal} fails at {point or 'the only point'}>"
        extra = ", vacuous" if self.vacuous else f": {self.reason}" if self.reason else ""
        return f"<Proof {self.status} by {self.by}: {self.goal}{extra}>"
