"""The search for certificates of bounds: a proof for each end, and a point at which it is attained.

Where there are no sizes, the prover refutes `e != end`, and its counterexample is the point. Where there are, such a
counterexample shows at one value of the sizes where each variable lies in its range: at its first or last element, at a
distance from one of them, or at a number. What is so for all sizes is proved.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from intset.check.bounds_certificate import At, BoundsCertificate, attained_goal, end_goal, nowhere
from intset.check.certificate import Certificate
from intset.config import Config, pinned
from intset.domains.certified.enumeration import LISTED as WHO_LISTS
from intset.domains.sets.ends import Bounds
from intset.errors import EvaluationError, InputError
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Var, as_expr, const, constant_value, truth
from intset.expr.range import Range
from intset.expr.text import shown
from intset.expr.walk import free_vars, opaque_terms, substitute
from intset.facts import DERIVED, Fact
from intset.frame import Frame
from intset.infinity import Infinity
from intset.prover.certify import MAX_EFFORT, first_accepted, refutation
from intset.prover.proof import prove_in
from intset.prover.question import REFUTED, Basis
from intset.prover.simplex import SearchBudget

KINDS = ("linear", "isl", "points", "z3")
LISTED = ("points", "linear", "isl", "z3")  # where the answer itself came from trying all points
MAX_TRIED = 24  # points in sizes
LARGE = (7, 3, None)  # sizes from which on the ends of ranges are told apart, as far as the facts allow


class AskedBounds(NamedTuple):
    """A question about the bounds of `expr`; the fields are those of the frame it was asked in."""

    expr: Expr
    ranges: Mapping[Var, Range]
    facts: tuple[Fact, ...]
    defined: tuple[Cond, ...]
    keep: tuple[Var, ...]
    config: Config

    def certificate(self, answer: Bounds) -> BoundsCertificate:
        """The certificate of the answer; `InputError` where none is found."""
        with pinned(self.config):
            return certify_bounds(self, answer)


def certify_bounds(asked: AskedBounds, answer: Bounds) -> BoundsCertificate:
    """The certificate of an answer, checked.

    Raises
    ------
    InputError: no certificate of an end was found within the budgets.
    """
    basis = Basis(asked.ranges, asked.facts, asked.defined, config=asked.config)
    ranges = tuple(asked.ranges.items())
    whole = BoundsCertificate(asked.expr, *answer, asked.keep, ranges, asked.facts)
    if answer.is_empty:
        claims = [Certificate("", truth(False), True, asked.facts, ranges), _claim(asked, nowhere(asked.expr))]
        empty = first_accepted(claims, basis, KINDS, SearchBudget(MAX_EFFORT))
        return _checked(replace(whole, empty=_found(empty, "that the set is empty")))
    effort = SearchBudget(MAX_EFFORT)
    kinds = LISTED if answer.by == WHO_LISTS else KINDS
    lower, upper = (_shown(asked, basis, side, end, kinds, effort) for side, end in zip((-1, 1), answer, strict=True))
    first, last = (_attained(asked, basis, end, effort) if answer.is_tight else (None, None) for end in answer)
    points = replace(whole, at_lower=first[0], at_upper=last[0], attained=(first[1], last[1]))
    return _checked(replace(points, lower=lower, upper=upper))


def _checked(found: BoundsCertificate) -> BoundsCertificate:
    if not found.check():
        raise InputError(f"no certificate was found for the bounds of {shown(found.expr)}")
    return found


def _found(cert: Certificate | None, what: str) -> Certificate:
    if cert is None:
        raise InputError(f"no certificate was found {what}")
    return cert


def _claim(asked: AskedBounds, goal: Cond) -> Certificate:
    return Certificate("", goal, False, asked.facts, tuple(asked.ranges.items()))


def _shown(
    asked: AskedBounds, basis: Basis, side: int, end: Expr | Infinity, kinds: Sequence[str], effort: SearchBudget
) -> Certificate | None:
    if isinstance(end, Infinity):
        return None
    goal = end_goal(side, asked.expr, end, tuple(asked.ranges.items()), asked.facts)
    if goal is None:
        raise InputError(f"no certificate was found that {shown(end)} has a value")
    found = first_accepted([_claim(asked, goal)], basis, kinds, effort)
    if found is None:  # with fewer facts than all, perhaps
        proof = prove_in(Frame.of(asked.ranges, asked.facts), goal)
        found = proof.certificate() if proof else None
    return _found(found, f"for {goal!r}")


def _attained(
    asked: AskedBounds, basis: Basis, end: Expr | Infinity, effort: SearchBudget
) -> tuple[At | None, Certificate | None]:
    """A point at which the end is attained, and the certificate that it is; twice `None` where none is found."""
    if isinstance(end, Infinity):
        return None, None
    within = Frame.of(asked.ranges, asked.facts)
    goal = asked.expr.ne(end)
    sizes = _sizes(asked, end)
    if not sizes:
        proof = prove_in(within, goal)
        found = refutation(goal, basis, proof.counterexample or {}) if proof.status == REFUTED else None
        return (None, None) if found is None else (found.point, found)
    if opaque_terms(goal, *(fact.condition for fact in asked.facts)):
        return None, None
    for values in itertools.islice(dict.fromkeys(_points(asked, within, end, sizes)), MAX_TRIED):
        at: At = {var: e if (number := constant_value(e)) is None else number for var, e in values}
        there = attained_goal(asked.expr, end, at, tuple(asked.ranges.items()), asked.facts)
        if there is None or not prove_in(within, there):
            continue
        shown = first_accepted([_claim(asked, there)], basis, KINDS, effort)
        if shown is not None and shown.goal is there and not shown.vacuous:
            return at, shown
    return None, None


def _sizes(asked: AskedBounds, end: Expr) -> tuple[Var, ...]:
    """The variables that the answer depends on, or may: those that have no range, and those that are kept."""
    ends = (e for r in asked.ranges.values() for e in (r.min, r.extent) if isinstance(e, Expr))
    stated = free_vars(asked.expr, end, *ends, *(fact.condition for fact in asked.facts))
    return (*(var for var in stated if var not in asked.ranges), *asked.keep)


def _points(
    asked: AskedBounds, within: Frame, end: Expr, sizes: tuple[Var, ...]
) -> Iterator[tuple[tuple[Var, Expr], ...]]:
    """Points in sizes that agree with a counterexample of `e != end`, the likeliest first."""
    read = (within.reading.narrowest or within.reading).ranges  # with the ends that facts state
    for least in LARGE:
        larger = [] if least is None else [size >= least for size in sizes]
        proof = prove_in(within.stating((*within.facts, *(Fact(size, DERIVED) for size in larger))), asked.expr.ne(end))
        if proof.status != REFUTED or proof.counterexample is None:
            continue
        point = proof.counterexample
        variables = _by_dependence(asked)
        choices = [list(_choices((asked.ranges[var], read.get(var)), var, point)) for var in variables]
        if all(choices):
            for chosen in itertools.islice(itertools.product(*choices), 4 * MAX_TRIED):
                yield tuple(_in_sizes(variables, chosen).items())


def _by_dependence(asked: AskedBounds) -> list[Var]:
    """The variables to choose, those whose ranges others depend on first."""
    ordered: dict[Var, None] = {}
    waiting = [var for var in asked.ranges if var not in asked.keep]
    while waiting:
        ready = [v for v in waiting if not any(w in waiting for w in asked.ranges[v].free_vars())]
        ordered.update(dict.fromkeys(ready))
        waiting = [v for v in waiting if v not in ordered]
    return list(ordered)


def _choices(limits: Sequence[Range | None], var: Var, point: Mapping[Expr, int]) -> Iterator[Expr]:
    """Expressions for the value that `var` has at the point: its first or last, at a distance from either, a number."""
    firsts = dict.fromkeys(one.min for one in limits if one is not None)
    if var not in point:
        yield from (first for first in firsts if isinstance(first, Expr))
        return
    value = point[var]
    near: dict[int, list[Expr]] = {}
    for limit in (*firsts, *dict.fromkeys(one.max for one in limits if one is not None)):
        if isinstance(limit, Expr) and not limit.is_const:
            try:
                distance = value - evaluate(limit, point)
            except (EvaluationError, InputError):
                continue
            near.setdefault(abs(distance), []).append(limit + distance if distance else limit)
    for distance in sorted(near):
        if distance == 0:
            yield from near[distance]
    yield const(value)
    for distance in sorted(near):
        if distance:
            yield from near[distance]


def _in_sizes(variables: list[Var], chosen: tuple[Expr, ...]) -> dict[Var, Expr]:
    """The choices with the variables in them replaced by what was chosen for those."""
    found: dict[Var, Expr] = {}
    for var, value in zip(variables, chosen, strict=True):
        there = as_expr(substitute(value, found))
        found[var] = there if there.free_vars() else const(evaluate(there))
    return found
