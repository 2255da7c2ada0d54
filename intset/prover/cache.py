"""The cache of proofs: a question that was decided before, in this context or another, costs a look-up.

The key holds the goal, the facts and the ranges that bear on it, and the configuration; so a fact that no longer holds
cannot answer. What is kept is what these alone lead to, so the answer is the same whether it was kept or not. Only what
was decided is kept: an "unknown" is for a larger budget to decide, and so is what the clock stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import NamedTuple

from intset.config import Config, current
from intset.domains.query import Query
from intset.errors import EvaluationError, InputError
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from intset.expr.walk import free_vars
from intset.facts import Fact
from intset.frame import Frame
from intset.names import generation
from intset.prover.basis import REFUTED, UNKNOWN
from intset.prover.climb import at_once, decide
from intset.prover.proof import Proof

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
        kept = _Kept(frame, goal, config, budgets)
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


class _Kept:
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


class Part(NamedTuple):
    """What bears on a question: ranges and facts that share variables with it, directly or through one another.

    `elsewhere` gives all other variables values that are in their ranges and satisfy the facts on them.
    """

    ranges: tuple[tuple[Var, Range], ...]
    facts: tuple[Fact, ...]
    elsewhere: dict[Expr, int]


def relevant_part(frame: Frame, goal: Cond, config: Config) -> Part | None:
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
    return Part(tuple((var, limits) for var, limits in frame.ranges.items() if var in touched), facts, elsewhere)
