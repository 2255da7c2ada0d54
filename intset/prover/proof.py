"""`Proof`, the answer to "is this condition always true?"; its certificate, and the cache of proofs.

Cache invariant: the key contains the goal, its relevant ranges and facts, and the configuration. The answer is a
function of the key, so a hit equals a recomputation, and a fact that no longer holds cannot answer. Only decided proofs
are cached: a larger budget may decide an "unknown", and so may a run that the clock did not stop.

The search for a certificate begins at the first call of `certificate`, with the kind that suits the deciding tier.
"""

import json
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from math import prod
from typing import Any, Final, NamedTuple, Protocol

from intset import config as configuration
from intset.cache import StoredQuestion
from intset.check.certificate import Certificate
from intset.check.evidence import box_of, premises_of
from intset.check.solvers import emptiness_text, unsat_text
from intset.config import Config, current, pinned
from intset.domains.query import Query
from intset.errors import BudgetError, EvaluationError, InputError, MachineOverflowError
from intset.expr import Cond, Expr, Node, Range, Var, arguments, dag, ops, shown
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.definedness import asserted_parts, guarded_steps
from intset.expr.evaluate import all_hold, evaluate, point_value
from intset.expr.node import truth
from intset.expr.printer import Displayed, Point, number_text
from intset.expr.range import range_conditions
from intset.facts import ASSERTED, ASSUMED, Fact, namesakes, shown_notes
from intset.frame import Frame
from intset.linear.bounds import first_of
from intset.prover import tiers as prover_tiers
from intset.prover.bit_proofs import bit_proof
from intset.prover.combination import SearchBudget, SearchSpentError, combinations
from intset.prover.smt import SmtSession
from intset.prover.tiers import NOTHING, PROVED, REFUTED, UNKNOWN, Basis, Decided, Status, at_once, decide, ranged
from intset.trace import DEBUG, KEPT, LOG, TRACES, from_cache, recorded, traced, tried

CACHED_PROOFS: Final = 4_096  # proofs shared by all contexts

CERTIFY_STEPS: Final = 4_000_000  # steps of one search for a certificate

CERTIFY_SOON: Final = 100_000  # steps in which most combinations are found
CERTIFY_SOON_LINEAR: Final = 400_000  # steps after the linear form has decided: a combination exists


class Proof(Displayed):
    """The answer to a question about a condition: proved, refuted or unknown. `bool(proof)` is true only if proved.

    Guarantee: "proved" and "refuted" are never wrong; a budget may turn either into "unknown".

    Attributes
    ----------
    status: "proved": true at every point of the domain that defines it; "refuted": false at `counterexample`, perhaps
        true elsewhere; "unknown": undecided within the budgets.
    by: the deciding tier, "linear", "isl", "points" or "z3"; for an unknown, the last tier.
    counterexample: when refuted, `{Var: int}` with sizes and opaque terms, inside ranges and facts, checked by
        `evaluate`.
    reason: why the answer is unknown; for a decided goal, which earlier tier the clock stopped.
    basis: assumptions and budgets of the question.
    """

    __slots__ = ("_certificate", "_used", "_vacuous", "basis", "by", "counterexample", "goal", "reason", "status")

    status: Status

    def __init__(
        self,
        goal: Cond,
        status: Status,
        by: str,
        vacuous: bool = False,
        counterexample: Mapping[Expr, int] | None = None,
        reason: str = "",
        basis: Basis = NOTHING,
    ) -> None:
        if status is not PROVED and status is not REFUTED:
            arguments.one_of((PROVED, REFUTED, UNKNOWN), status, "the status of a proof")
        self.goal, self.status, self.by, self.reason = goal, status, by, reason
        self.counterexample: dict[Expr, int] | None = None if counterexample is None else Point(counterexample)
        self.basis = basis
        self._used: tuple[Fact, ...] | None = None
        self._certificate: Certificate | None = None
        self._vacuous: bool | None = vacuous or None  # None: not determined yet

    @property
    def vacuous(self) -> bool:
        """Whether the goal is proved and the domain provably empty; determined on first access."""
        if self._vacuous is None:
            with pinned(self.basis.config):
                self._vacuous = self._is_derived and prover_tiers.is_without_points(self.basis)
        return self._vacuous

    @property
    def _is_derived(self) -> bool:
        """Whether the goal is proved from a basis, which tells what the proof rests on."""
        return self.status == PROVED and self.basis != NOTHING

    @property
    def decided_vacuous(self) -> bool:
        """Whether the deciding tier found the domain empty."""
        return bool(self._vacuous)

    @property
    def used(self) -> tuple[Fact, ...]:
        """An irredundant set of facts that proves the goal; determined on first access."""
        if self._used is None:
            with pinned(self.basis.config):
                self._used = prover_tiers.needed_facts(self.goal, self.basis) if self._is_derived else ()
        return self._used

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the goal, such as a variable that shares the name of a context variable."""
        return () if self.basis is NOTHING else namesakes((self.goal,), self.basis.ranges, self.basis.facts)

    @property
    def decided(self) -> Decided:
        """The answer as data."""
        return Decided(self.status, self.by, self.vacuous, self.counterexample, self.reason, self.basis)

    @property
    def requires(self) -> tuple[Cond, ...]:
        """Side conditions: divisors not proved nonzero, and assumed facts in `used`."""
        assumed = tuple(fact.condition for fact in self.used if fact.provenance == ASSUMED)
        return (*self.basis.requires, *assumed)

    def certificate(self) -> Certificate:
        """The proof as data for the independent checker; for a refuted goal, its counterexample.

        The first call searches and checks it; `certificate().check()` checks it again.

        Raises
        ------
        InputError: the goal is undecided, or the budgets ended without a certificate.
        """
        return certificate_of(self)

    def at_hand(self) -> tuple[tuple[Fact, ...] | None, Certificate | None]:
        """The facts used and the certificate, derived by tiers up to the deciding one; `None` if unavailable.

        z3 is not run again: for a proof of z3, call `used` and `certificate()` first.
        """
        if not self._is_derived or self.by == "z3" or self._certificate is not None:
            return self._used, self._certificate
        tiers = self.basis.config.tiers
        config = replace(self.basis.config, tiers=tiers[: tiers.index(self.by) + 1] if self.by in tiers else tiers)
        basis = self.basis._replace(config=config)
        with pinned(config):
            used = prover_tiers.needed_facts(self.goal, basis) if self._used is None else self._used
            try:
                decided = Decided(self.status, self.by, self.decided_vacuous, basis=basis)
                return used, certify(self.goal, decided, used, is_brief=True)
            except InputError:
                return used, None

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
        notes = shown_notes(self.notes)
        if self.status == REFUTED and self.counterexample is not None:
            values = ((v.name if isinstance(v, Var) else v, number_text(k)) for v, k in self.counterexample.items())
            point = ", ".join(f"{name} = {text}" for name, text in values)
            return f"<Proof refuted by {self.by}: {self.goal} fails at {point or 'the only point'}{notes}>"
        extra = ", vacuous" if self.vacuous else f": {self.reason}" if self.reason else ""
        return f"<Proof {self.status} by {self.by}: {self.goal}{extra}{notes}>"


def certificate_of(proof: Proof, soon: int = CERTIFY_SOON_LINEAR) -> Certificate:
    """The certificate of a proof; a combination is searched for in `soon` steps before certificates of other kinds."""
    if proof._certificate is None:
        used = () if proof.vacuous else proof.used
        with pinned(proof.basis.config):
            proof._certificate = certify(proof.goal, proof.decided, used, soon=soon)
    return proof._certificate


def undecided(reason: str) -> Proof:
    """An "unknown" proof with the given reason, for questions that cannot be posed."""
    return Proof(truth(False), UNKNOWN, "", reason=reason)


__all__ = ["PROVED", "REFUTED", "UNKNOWN", "Basis", "Proof", "certificate_of", "undecided"]


# -- certificates ------------------------------------------------------------------------------------------------------

_ORDER = {
    "linear": ("linear", "isl", "points", "z3"),
    "bits": ("bits", "linear", "isl", "points", "z3"),
    "isl": ("isl", "linear", "points", "z3"),
    "points": ("points", "isl", "linear", "z3"),
    "z3": ("z3", "linear", "isl", "points"),
}


def certify(
    goal: Cond, proof: Decided, used: Collection[Fact], is_brief: bool = False, soon: int = CERTIFY_SOON_LINEAR
) -> Certificate:
    """The checked certificate of a goal decided by the facts `used`.

    Parameters
    ----------
    is_brief: the search ends after `CERTIFY_SOON` steps for the strongest claim, of the deciding tier's kind.
    soon: steps of the search for a combination, before other kinds, where the linear form has decided.

    Raises
    ------
    InputError: the proof is an "unknown", or the budgets ended before the checker accepted a certificate.
    """
    basis = proof.basis
    if proof.status == REFUTED:
        cert: Certificate | None = refutation(goal, basis, proof.counterexample or {})
    elif proof.status != PROVED:
        raise InputError(f"only a decided question has a certificate; this one is unknown: {proof.reason}")
    else:
        kinds, claims = _ORDER.get(proof.by, _ORDER["linear"]), _claims(goal, proof, used)
        if is_brief:
            cert = first_accepted(islice(claims, 1), basis, kinds[:1], SearchBudget(0), CERTIFY_SOON)
        else:
            soon = soon if proof.by == "linear" else CERTIFY_SOON
            cert = first_accepted(claims, basis, kinds, SearchBudget(CERTIFY_STEPS), soon)
    if cert is None:
        raise InputError(f"no certificate was found for {shown(goal)}")
    return cert


def refutation(goal: Cond, basis: Basis, point: Mapping[Expr, int]) -> Certificate | None:
    """The checked certificate that a goal fails at `point`, extended to all variables with a range."""
    claim = Certificate("point", goal, facts=basis.facts, ranges=tuple(basis.ranges.items()))
    for whole in _completions(claim, basis, point):
        cert = replace(claim, point=whole)
        if cert.check():
            return cert
    return None


def _completions(claim: Certificate, basis: Basis, point: Mapping[Expr, int]) -> Iterator[Mapping[Expr, int]]:
    """Extensions of a partial point: first values of ranges, then z3 models."""
    yield _with_first_values(claim, point)
    conditions = [(cond, cond) for cond in dict.fromkeys(premises_of(claim))]
    fixed = [(e.eq(value), e) for e, value in point.items()]
    for facts in ([*conditions, *fixed], conditions):
        model = SmtSession().check(claim.goal, facts, basis.config.z3_rlimit).model
        if model is not None:
            yield {**point, **model}


def _with_first_values(claim: Certificate, point: Mapping[Expr, int]) -> dict[Expr, int]:
    whole, own = dict(point), dict(claim.ranges)
    ends = dag.free_vars(*(cond for var, limits in claim.ranges for cond in range_conditions(var, limits)))
    waiting = dict.fromkeys((*(var for var in ends if var not in own), *own))
    while waiting:
        ready = [var for var in waiting if var not in own or whole.keys() >= set(own[var].free_vars())]
        if not ready:
            break
        for var in ready:
            del waiting[var]
            if var in whole:
                continue
            low, high, step = var.declared()
            limits, first = own.get(var), first_of((low, high))
            start = point_value(limits.min, whole) if limits is not None and isinstance(limits.min, Expr) else None
            if start is not None:
                first = start if low is None else max(start, low)
            whole[var] = -(-first // step) * step
    return whole


def first_accepted(
    claims: Iterable[Certificate], basis: Basis, kinds: Sequence[str], effort: SearchBudget, soon: int = CERTIFY_SOON
) -> Certificate | None:
    """The first certificate accepted by the checker, over distinct claims in order and kinds in order.

    The search for a combination stops after `soon` steps. If every other kind fails, it resumes within `effort`.
    """
    tried: list[tuple[object, ...]] = []
    long: list[Certificate] = []
    for claim in claims:
        what = (claim.goal, claim.vacuous, claim.facts, claim.ranges)
        if what in tried:
            continue
        tried.append(what)
        for kind in kinds:
            try:
                for cert in _FINDERS[kind](claim, basis, SearchBudget(soon)):
                    if cert.check():
                        return cert
            except SearchSpentError:
                long.append(claim)
    for claim in long:
        with suppress(SearchSpentError):
            for cert in _FINDERS["linear"](claim, basis, effort):
                if cert.check():
                    return cert
    return None


def _claims(goal: Cond, proof: Decided, used: Collection[Fact]) -> Iterator[Certificate]:
    """Claims from the strongest: vacuity, the goal under the used facts, the goal under all facts."""
    basis = proof.basis
    if proof.vacuous:
        own = asserted_parts((goal,))
        stated = tuple(fact for fact in basis.facts if fact.provenance != ASSERTED or fact.condition not in own)
        yield Certificate("", goal, True, stated, tuple(basis.ranges.items()))
    else:
        yield claim_of(goal, basis, tuple(fact for fact in basis.facts if fact in used))
    yield claim_of(goal, basis, basis.facts)
    if any(limits.is_symbolic for limits in basis.ranges.values()):
        yield Certificate("", goal, False, basis.facts, tuple(basis.ranges.items()))  # no range is empty


def claim_of(goal: Cond, basis: Basis, facts: tuple[Fact, ...]) -> Certificate:
    """An uncertified claim with the relevant ranges."""
    relevant = ranged(basis.ranges, dag.free_vars(goal, *(fact.condition for fact in facts)))
    return Certificate("", goal, False, facts, tuple((var, basis.ranges[var]) for var in relevant))


def _linear(claim: Certificate, basis: Basis, effort: SearchBudget) -> Iterator[Certificate]:
    try:
        solved = combinations(claim, effort)
    except SearchSpentError:
        raise
    except BudgetError:
        return
    if solved is not None:
        yield replace(claim, kind="linear", combinations=solved)


def _bits(claim: Certificate, basis: Basis, effort: SearchBudget) -> Iterator[Certificate]:
    frame = Frame(dict(claim.ranges), claim.facts)
    found = None if claim.vacuous else bit_proof(frame, claim.goal)
    if found is not None:
        yield replace(claim, kind="bits", text=json.dumps([[case.literal, case.sums] for case in found.cases]))


def _isl(claim: Certificate, basis: Basis, effort: SearchBudget) -> Iterator[Certificate]:
    text = emptiness_text(premises_of(claim), None if claim.vacuous else claim.goal)
    if text is not None:
        yield replace(claim, kind="isl", text=text)


def _points(claim: Certificate, basis: Basis, effort: SearchBudget) -> Iterator[Certificate]:
    box = box_of(claim)  # has no more points than `len` can say
    if box is not None and prod(map(len, box.values())) <= basis.config.points:
        yield replace(claim, kind="points", count=prod(map(len, box.values())))


def _z3(claim: Certificate, basis: Basis, effort: SearchBudget) -> Iterator[Certificate]:
    """SMT certificates of the claim restricted to its core, then of the whole claim; none where z3 finds no core.

    Irrelevant facts may mislead z3's search.
    """
    goal = truth(False) if claim.vacuous else claim.goal
    conditions = [(cond, cond) for cond in dict.fromkeys(premises_of(claim))]
    answer = SmtSession().check(goal, conditions, basis.config.z3_rlimit, points=False)
    if answer.status != PROVED:
        return
    facts = tuple(fact for fact in claim.facts if fact.condition in answer.core)
    ranges = tuple(
        (var, limits)
        for var, limits in claim.ranges
        if any(cond in answer.core for cond in range_conditions(var, limits))
    )
    for one in (replace(claim, facts=facts, ranges=ranges), claim):
        text = unsat_text(one)
        if text is not None:
            yield replace(one, kind="z3", text=text)


_FINDERS: Mapping[str, Callable[[Certificate, Basis, SearchBudget], Iterator[Certificate]]] = {
    "linear": _linear,
    "bits": _bits,
    "isl": _isl,
    "points": _points,
    "z3": _z3,
}


# -- cache -------------------------------------------------------------------------------------------------------------


class Lru:
    """A thread-safe cache of at most `limit` proofs that evicts the least recently used."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.hits = 0
        self._answers: dict[Hashable, Proof] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Proof | None:
        with self._lock:
            proof = self._answers.pop(key, None)
            if proof is None:
                return None
            self._answers[key] = proof  # most recent last
            self.hits += 1
            return proof

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


PROOFS = Lru(CACHED_PROOFS)


def prove_once(frame: Frame, goal: Cond, config: Config, is_recorded: bool = False) -> Proof:
    """The proof of `goal` in `frame`, cached if decided; `is_recorded`: the question is open in a trace.

    Callers look into the frame's own cache first (`prove_in`); `PROOFS` is the cache shared by all frames.
    """
    if not is_recorded and (TRACES or LOG.isEnabledFor(DEBUG)):
        return recorded("prove", goal, lambda: prove_once(frame, goal, config, True))
    registered = configuration.generation
    decided = at_once(frame, goal, config)
    if decided is not None:  # a question that the linear form answers costs less than the key of the shared cache
        return frame.remember((goal, config, registered), Proof(goal, *decided))
    budgets = (config.tiers, config.isl_operations, config.points, config.z3_rlimit, config.z3_timeout_ms, registered)
    exact = (goal, budgets, frame.fingerprint)
    proof = PROOFS.get(exact)
    if proof is not None:
        if is_recorded:
            tried(KEPT, lambda: proof)
        return frame.remember((goal, config, registered), proof)
    kept = _PartProofs(frame, goal, config, budgets)
    stated = frame.where_defined((goal,))
    stored = StoredQuestion("proof", stated, (goal,), (), config) if config.cache else None
    known = None if stored is None else tried("disk", _restored, stored, stated, goal, config)
    answer = decide(stated, goal, config, kept.from_part) if known is None else known
    proof = answer if isinstance(answer, Proof) else Proof(goal, *answer)
    if proof.status == UNKNOWN or proof.reason:
        return proof
    if stored:
        _store(stored, stated, proof)
    kept.keep(proof)
    PROOFS.put(exact, proof)
    return frame.remember((goal, config, registered), proof)


def _restored(stored: StoredQuestion, frame: Frame, goal: Cond, config: Config) -> Proof | None:
    """The proof that the cache on disk has."""
    if (plain := stored.plain) is None:
        return None
    point = None if plain["values"] is None else dict(zip(stored.nodes, plain["values"], strict=True))
    basis = Basis(frame.ranges, frame.facts, frame.defined, frame.requires, config)
    return Proof(goal, plain["status"], plain["by"], plain["vacuous"], point, "", basis)


def _store(stored: StoredQuestion, frame: Frame, proof: Proof) -> None:
    """Keep a decided proof whose basis is the frame's."""
    if proof.basis[:4] == (frame.ranges, frame.facts, frame.defined, frame.requires):
        point = proof.counterexample
        values = None if point is None else list(point.values())
        decided = {"status": proof.status, "by": proof.by, "vacuous": proof.decided_vacuous, "values": values}
        stored.keep(decided, [] if point is None else list(point))


def prove_in(frame: Frame, goal: Cond) -> Proof:
    """The proof of `goal` in `frame`, under the configuration in force."""
    config = current()
    known = frame.answers.get((goal, config, configuration.generation))
    if isinstance(known, Proof):
        return from_cache("prove", goal, known) if TRACES else known
    return prove_once(frame, goal, config)


class _PartProofs:
    """Cache access under the key of the relevant part of a context."""

    def __init__(self, frame: Frame, goal: Cond, config: Config, budgets: Hashable) -> None:
        self._asked = (frame, goal, config, budgets)
        self._key: Hashable | None = None

    def from_part(self, has_failed: bool) -> Proof | None:
        """The proof in the relevant part, cached or new; `None` where the part is the whole context, without a proof.

        Parameters
        ----------
        has_failed: whether the linear tier has failed in the whole context.
        """
        frame, goal, config, budgets = self._asked
        part = relevant_part(frame, goal, config)
        if part is None:
            return None
        key = (goal, part.ranges, part.facts, budgets)
        proof = PROOFS.get(key)
        if len(part.ranges) == len(frame.ranges) and len(part.facts) == len(frame.facts):
            self._key = key
            return proof
        if proof is None:
            inside = Frame(dict(part.ranges), part.facts).where_defined((goal,))
            is_underivable = has_failed and inside.known.depth == frame.known.depth
            proof = Proof(goal, *decide(inside, goal, config, is_underivable=is_underivable))
            if proof.status != UNKNOWN and not proof.reason:
                PROOFS.put(key, proof)
        if proof.status != REFUTED:
            return proof
        point = {**part.elsewhere, **(proof.counterexample or {})}
        basis = proof.basis._replace(ranges=frame.ranges, facts=frame.facts)  # the point covers the whole context
        return Proof(goal, REFUTED, proof.by, counterexample=point, reason=proof.reason, basis=basis)

    def keep(self, proof: Proof) -> None:
        """Cache a proof found in a fully relevant context."""
        if self._key is not None:
            PROOFS.put(self._key, proof)


class RelevantPart(NamedTuple):
    """The relevant ranges and facts of a question: connected to it through shared variables.

    `elsewhere` assigns the other variables values that satisfy their ranges and facts.
    """

    ranges: tuple[tuple[Var, Range], ...]
    facts: tuple[Fact, ...]
    elsewhere: dict[Expr, int]


def relevant_part(frame: Frame, goal: Cond, config: Config) -> RelevantPart | None:
    """The part of the context connected to `goal`; None if the rest may be infeasible, which would decide the goal."""
    view = Query((), frame.ranges, [fact.condition for fact in frame.facts], (), frame.base, frame.known, config)
    symbolic = [var for var, limits in frame.ranges.items() if limits.is_symbolic]
    relaxed, params, touching, leftover = view.split_relevant([goal, *symbolic])
    touched = {*relaxed, *params}
    elsewhere: dict[Expr, int] = {}
    for var in (*frame.ranges, *dag.free_vars(*leftover)):
        if var in touched or var in elsewhere:
            continue
        low, high = frame.known.atom_bounds(var)
        step = var.declared()[2]
        value = first_of((low, high))
        elsewhere[var] = value = -(-value // step) * step
        if high is not None and value > high:
            return None
    if not all_hold(leftover, elsewhere):
        return None
    chosen = set(touching)
    facts = tuple(fact for fact in frame.facts if fact.condition in chosen)
    touched = set(relaxed)
    return RelevantPart(
        tuple((var, limits) for var, limits in frame.ranges.items() if var in touched), facts, elsewhere
    )


class Proving(Protocol):
    """A scope that proves conditions and writes them in canonical form: a `Context`."""

    def prove(self, condition: Cond) -> Proof: ...

    def canonical(self, e: Cond) -> Node: ...


@traced("fits", lambda ctx, e, bits: e)
def fits(ctx: Proving, e: Expr, bits: int) -> Proof:
    """Prove that every step of `e` fits in `bits` signed bits and none traps, wherever `e` is defined."""
    goal = logical_and(*fit_conditions(ctx, e, bits))
    proof = ctx.prove(goal)
    if proof.status != REFUTED or proof.counterexample is None:
        return proof
    try:
        evaluate(e, proof.counterexample, bits=bits)
    except MachineOverflowError:
        return proof
    except (EvaluationError, InputError):
        pass
    return Proof(goal, UNKNOWN, proof.by, reason="a step may overflow only where the expression has no value")


def fit_conditions(ctx: Proving, e: Expr, bits: int) -> list[Cond]:
    """No-overflow conditions of the steps not obviously within the width."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    by_node: list[list[Cond]] = []
    for node, guard in reversed(guarded_steps((e,))):  # leaves first, so that sums reuse normalized operands
        needs: list[Cond] = []
        if isinstance(node, Expr):
            needs += [node >= low, node <= high]
        if node.op in (ops.SHL, ops.SHR):
            needs += [node.args[1] >= 0, node.args[1] < bits]
        if node.op in (ops.FLOORMOD, ops.TRUNCMOD):
            needs.append(node.args[0].ne(low) | node.args[1].ne(-1))
        open_needs = [need for need in needs if ctx.canonical(need) is not truth(True)]
        by_node.append([need if guard.op is ops.BOOL else logical_or(logical_not(guard), need) for need in open_needs])
    return [need for of_node in reversed(by_node) for need in of_node]
