"""The cache of proofs: a question that was decided before, in this context or another, costs a look-up.

The key holds the goal, the facts and the ranges that bear on it, and the configuration; so a fact that no longer holds
cannot answer. Only what was decided is kept: an "unknown" may be decided yet, and so may what the clock stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple

from intset.config import Config
from intset.domains.query import Query
from intset.errors import EvaluationError, InputError
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from intset.expr.walk import free_vars
from intset.facts import Fact
from intset.prover.climb import at_once, prove
from intset.prover.proof import REFUTED, UNKNOWN, Proof

if TYPE_CHECKING:
    from intset.context import Frame

MAX_PROOFS = 4096


class Lru:
    """At most `limit` answers; the one used longest ago goes first. Safe for threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.hits = self.misses = 0
        self._answers: dict[Hashable, Proof] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Proof | None:
        with self._lock:
            found = self._answers.pop(key, None)
            if found is None:
                self.misses += 1
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
            self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._answers)


PROOFS = Lru(MAX_PROOFS)


def prove_once(frame: Frame, goal: Cond, config: Config, where_defined: Callable[[tuple[Cond]], Frame]) -> Proof:
    """The proof of `goal` in `frame`: the one that is kept, or else a new one, which is kept if it decides.

    Parameters
    ----------
    where_defined: gives the frame restricted to the points where the goals it is given have a value.

    A frame keeps the proofs found in it, and is asked before this is called; `PROOFS` keeps those of all frames.
    """
    budgets = (config.tiers, config.isl_operations, config.points, config.z3_rlimit, config.z3_timeout_ms)
    exact = (goal, budgets, frame.fingerprint)
    found = PROOFS.get(exact)
    if found is not None:
        return frame.remember((goal, config), found)  # type: ignore[no-any-return]
    found = at_once(frame, goal, config)
    if found is None:
        kept = _Kept(frame, goal, config, budgets)
        found = prove(where_defined((goal,)), goal, config, kept.recall)
        if found.status == UNKNOWN or found.reason:
            return found
        if kept.key is not None:
            PROOFS.put(kept.key, found)
    PROOFS.put(exact, found)
    return frame.remember((goal, config), found)  # type: ignore[no-any-return]


class _Kept:
    """The second place for a proof: under the part of the context that bears on the question."""

    def __init__(self, frame: Frame, goal: Cond, config: Config, budgets: Hashable) -> None:
        self._asked = (frame, goal, config, budgets)
        self.key: Hashable | None = None

    def recall(self) -> Proof | None:
        """The proof from another context, if there is one; a refutation gets values for the variables of this one."""
        frame, goal, config, budgets = self._asked
        part = relevant_part(frame, goal, config)
        if part is None:
            return None
        self.key = (goal, part.ranges, part.facts, budgets)
        found = PROOFS.get(self.key)
        if found is not None and found.status == REFUTED:
            point = {**part.elsewhere, **(found.counterexample or {})}
            return Proof(goal, REFUTED, found.by, counterexample=point, basis=found.basis)
        return found


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
    return Part(tuple((var, frame.ranges[var]) for var in sorted(relaxed, key=_serial)), facts, elsewhere)


def _serial(var: Var) -> int:
    return var.serial
