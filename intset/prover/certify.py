"""Certificates of proofs: the kind that suits the deciding tier first, then the other kinds."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from math import prod
from typing import Final

from intset.check.certificate import Certificate
from intset.check.evidence import box_of, premises_of
from intset.check.solvers import emptiness_text, unsat_text
from intset.errors import BudgetError, InputError
from intset.expr import Cond, Expr, dag, shown
from intset.expr.definedness import asserted_parts
from intset.expr.evaluate import point_value
from intset.expr.node import truth
from intset.expr.range import range_conditions
from intset.facts import ASSERTED, Fact
from intset.frame import Frame
from intset.linear.bounds import first_of
from intset.prover.bit_proofs import bit_proof
from intset.prover.combination import SearchBudget, SearchSpentError, combinations
from intset.prover.smt import SmtSession
from intset.prover.tiers import PROVED, REFUTED, Basis, Decided, ranged

CERTIFY_STEPS: Final = 4_000_000  # steps of one search for a certificate

CERTIFY_SOON: Final = 100_000  # steps in which most combinations are found
CERTIFY_SOON_LINEAR: Final = 400_000  # steps after the linear form has decided: a combination exists

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
    if any(limits.free_vars() for limits in basis.ranges.values()):
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
