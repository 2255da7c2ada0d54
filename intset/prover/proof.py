"""`Proof`, the answer to "is this condition always true?", and the cache of proofs.

Cache invariant: the key holds the goal, the ranges and facts that bear on it, and the configuration. The answer is a
function of the key, so a hit equals a recomputation, and a fact that no longer holds cannot answer. Only decided proofs
are cached: a larger budget may decide an "unknown", and so may a run that the clock did not stop.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from intset.check.certificate import Certificate
from intset.config import Config, current, pinned
from intset.domains.query import Query
from intset.errors import EvaluationError, InputError
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Var, truth
from intset.expr.range import Range
from intset.expr.text import Point, number_text
from intset.expr.walk import free_vars
from intset.facts import ASSUMED, Fact
from intset.frame import Frame
from intset.names import generation
from intset.prover.certify import certify
from intset.prover.question import NOTHING, PROVED, REFUTED, UNKNOWN, Basis, Decided
from intset.prover.tiers import at_once, decide, is_without_points, needed_facts


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


# -- cache -------------------------------------------------------------------------------------------------------------


MAX_PROOFS = 4096


class Lru:
    """At most `limit` answers; the one used longest ago goes first. Safe for threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.hits = 0
        self._answers: dict[Hashable, Proof] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Proof | None:
        with self._lock:
            found = self._answers.pop(key, None)
            if found is None:
                return None
            self._answers[key] = found  # the youngest stands last
            self.hits += 1
            return found

    def put(self, key: Hashable, proof: Proof) -> None:
        with self._lock:
            self._answers.pop(key, None)
            while len(self._answers) >= self.limit:
                del self._answers[next(iter(self._answers))]
            self._answers[key] = proof

    def clear(self) -> None:
        with self._lock:
            self._answers.clear()
            self.hits = 0

    def __len__(self) -> int:
        return len(self._answers)


PROOFS = Lru(MAX_PROOFS)


def prove_once(frame: Frame, goal: Cond, config: Config) -> Proof:
    """The proof of `goal` in `frame`: the one that is kept, or else a new one, which is kept if it decides.

    A frame keeps the proofs found in it, and is asked before this is called; `PROOFS` keeps those of all frames.
    """
    registered = generation()
    budgets = (config.tiers, config.isl_operations, config.points, config.z3_rlimit, config.z3_timeout_ms, registered)
    exact = (goal, budgets, frame.fingerprint)
    found = PROOFS.get(exact)
    if found is not None:
        return frame.remember((goal, config, registered), found)
    decided = at_once(frame, goal, config)
    if decided is not None:
        found = Proof(goal, *decided)
    else:
        kept = _PartProofs(frame, goal, config, budgets)
        answer = decide(frame.where_defined((goal,)), goal, config, kept.from_part)
        found = answer if isinstance(answer, Proof) else Proof(goal, *answer)
        if found.status == UNKNOWN or found.reason:
            return found
        kept.keep(found)
    PROOFS.put(exact, found)
    return frame.remember((goal, config, registered), found)


def prove_in(frame: Frame, goal: Cond) -> Proof:
    """The proof of `goal` in `frame`, under the configuration in force."""
    config = current()
    known = frame.answers.get((goal, config, generation()))
    return known if isinstance(known, Proof) else prove_once(frame, goal, config)


class _PartProofs:
    """The second place for a proof: under the part of the context that bears on the question."""

    def __init__(self, frame: Frame, goal: Cond, config: Config, budgets: Hashable) -> None:
        self._asked = (frame, goal, config, budgets)
        self._key: Hashable | None = None

    def from_part(self) -> Proof | None:
        """The answer of the part, kept or new; `None` where everything bears on the question and nothing is kept."""
        frame, goal, config, budgets = self._asked
        part = relevant_part(frame, goal, config)
        if part is None:
            return None
        key = (goal, part.ranges, part.facts, budgets)
        found = PROOFS.get(key)
        if len(part.ranges) == len(frame.ranges) and len(part.facts) == len(frame.facts):
            self._key = key
            return found
        if found is None:
            inside = Frame(dict(part.ranges), part.facts).where_defined((goal,))
            found = Proof(goal, *decide(inside, goal, config))
            if found.status != UNKNOWN and not found.reason:
                PROOFS.put(key, found)
        if found.status != REFUTED:
            return found
        point = {**part.elsewhere, **(found.counterexample or {})}
        basis = found.basis._replace(ranges=frame.ranges, facts=frame.facts)  # the point speaks of all of them
        return Proof(goal, REFUTED, found.by, counterexample=point, reason=found.reason, basis=basis)

    def keep(self, found: Proof) -> None:
        """Keep what was found in a context all of which bears on the question."""
        if self._key is not None:
            PROOFS.put(self._key, found)


class RelevantPart(NamedTuple):
    """What bears on a question: ranges and facts that share variables with it, directly or through one another.

    `elsewhere` gives all other variables values that are in their ranges and satisfy the facts on them.
    """

    ranges: tuple[tuple[Var, Range], ...]
    facts: tuple[Fact, ...]
    elsewhere: dict[Expr, int]


def relevant_part(frame: Frame, goal: Cond, config: Config) -> RelevantPart | None:
    """`None` where what does not share variables with the question may still decide it, by excluding every point."""
    view = Query((), frame.ranges, [fact.condition for fact in frame.facts], (), frame.base, frame.known, config)
    symbolic = [var for var, limits in frame.ranges.items() if limits.free_vars()]  # empty for some sizes
    relaxed, params, touching, leftover = view.split_relevant([goal, *symbolic])
    touched = {*relaxed, *params}
    elsewhere: dict[Expr, int] = {}
    for var in (*frame.ranges, *free_vars(*leftover)):
        if var in touched or var in elsewhere:
            continue
        low, high = frame.known.atom_bounds(var)
        step = var.declared()[2]
        value = low if low is not None else min(0, high) if high is not None else 0
        elsewhere[var] = value = -(-value // step) * step
        if high is not None and value > high:
            return None
    try:
        if not all(evaluate(fact, elsewhere) for fact in leftover):
            return None
    except (EvaluationError, InputError):
        return None
    chosen = set(touching)
    facts = tuple(fact for fact in frame.facts if fact.condition in chosen)
    touched = set(relaxed)
    return RelevantPart(
        tuple((var, limits) for var, limits in frame.ranges.items() if var in touched), facts, elsewhere
    )
