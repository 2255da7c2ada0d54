"""From a proof to its certificate: the kind that suits the tier that decided, or else another of the same goal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from intset.errors import InputError
from intset.expr.node import Cond, Var
from intset.expr.range import Range
from intset.expr.walk import free_vars
from intset.facts import Fact
from intset.prover.certificate import Certificate
from intset.prover.proof import PROVED, REFUTED, Basis

if TYPE_CHECKING:
    from intset.prover.proof import Proof

_ORDER = {
    "linear": ("linear", "isl", "points", "z3"),
    "isl": ("isl", "linear", "points", "z3"),
    "points": ("points", "isl", "linear", "z3"),
    "z3": ("z3", "linear", "isl", "points"),
}


def certify(proof: Proof) -> Certificate:
    """The certificate of a proof, checked.

    Raises
    ------
    InputError: the proof is an "unknown", or no certificate that the checker accepts was found within the budgets.
    """
    basis = proof.basis
    if proof.status == REFUTED:
        facts, ranges = basis.facts, _ranges(basis, (proof.goal, *(fact.condition for fact in basis.facts)))
        return Certificate("point", proof.goal, facts=facts, ranges=ranges, point=proof.counterexample or {})
    if proof.status != PROVED:
        raise InputError(f"only a decided question has a certificate; this one is unknown: {proof.reason}")
    claims = [_claim(proof.goal, basis, basis.facts, True)] if proof.vacuous else []
    if not proof.vacuous:
        used = tuple(fact for fact in basis.facts if fact in proof.used)
        claims.append(_claim(proof.goal, basis, used, False))
    claims.append(_claim(proof.goal, basis, basis.facts, False))
    for claim in claims:
        for kind in _ORDER.get(proof.by, _ORDER["linear"]):
            found = _FINDERS[kind](claim, basis)
            if found is not None and found.check():
                return found
    raise InputError(f"no certificate was found for {proof.goal!r}")


def _claim(goal: Cond, basis: Basis, facts: tuple[Fact, ...], vacuous: bool) -> Certificate:
    roots = (goal, *(fact.condition for fact in facts))
    ranges = tuple(basis.ranges.items()) if vacuous else _ranges(basis, roots)
    return Certificate("", goal, vacuous, facts, ranges)


def _ranges(basis: Basis, roots: tuple[Cond, ...]) -> tuple[tuple[Var, Range], ...]:
    """The ranges of the variables that roots speak of, and of those that these ranges speak of."""
    found: dict[Var, Range] = {}
    waiting = list(free_vars(*roots))
    while waiting:
        var = waiting.pop(0)
        if var in basis.ranges and var not in found:
            found[var] = basis.ranges[var]
            waiting.extend(basis.ranges[var].free_vars())
    return tuple(found.items())


def _linear(claim: Certificate, basis: Basis) -> Certificate | None:
    from intset.prover.combination import combinations

    found = combinations(claim)
    return None if found is None else replace(claim, kind="linear", combinations=found)


def _isl(claim: Certificate, basis: Basis) -> Certificate | None:
    from intset.domains.isl.text import emptiness_text
    from intset.prover.check import premises_of

    text = emptiness_text(premises_of(claim), None if claim.vacuous else claim.goal)
    return None if text is None else replace(claim, kind="isl", text=text)


def _points(claim: Certificate, basis: Basis) -> Certificate | None:
    from intset.prover.check import box_of

    box = box_of(claim)  # has no more points than `len` can say
    if box is None or prod(map(len, box.values())) > basis.config.points:
        return None
    return replace(claim, kind="points", count=prod(map(len, box.values())))


def _z3(claim: Certificate, basis: Basis) -> Certificate | None:
    from intset.expr.node import truth
    from intset.prover.check import premises_of
    from intset.prover.smt import SmtSession

    goal = truth(False) if claim.vacuous else claim.goal
    conditions = list(dict.fromkeys(premises_of(claim)))
    answer = SmtSession().check(goal, [(cond, cond) for cond in conditions], basis.config.z3_rlimit)
    if answer.status != PROVED:
        return None
    core = [cond for cond in conditions if cond in answer.core]
    again = SmtSession().check(goal, [(cond, cond) for cond in core], basis.config.z3_rlimit)
    text = (again if again.status == PROVED else answer).smtlib()
    facts = tuple(fact for fact in claim.facts if fact.condition in answer.core)
    return replace(claim, kind="z3", facts=facts, text=text)


_FINDERS: Mapping[str, Callable[[Certificate, Basis], Certificate | None]] = {
    "linear": _linear,
    "isl": _isl,
    "points": _points,
    "z3": _z3,
}
