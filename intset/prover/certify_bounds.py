"""Certificates of bounds: a proof of each end, and a witness point that attains it.

Without sizes, the prover refutes `e != end`, and the counterexample is the witness. With sizes, the counterexample is
generalized: each variable's value becomes the first or last element of its range, an offset from either, or a constant.
The prover then verifies the generalized witness for all sizes.

A simplification with evidence is a sequence of replacements, each justified by a proof and a certificate.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, Generic, NamedTuple

from intset.check.certificate import At, BoundsCertificate, Certificate, attained_goal, end_goal, nowhere
from intset.config import Config, pinned
from intset.domains.sets.ends import Bounds
from intset.domains.witness import LISTED as WHO_LISTS
from intset.errors import InputError
from intset.expr import Cond, Expr, Infinity, Node, Range, Var, as_expr, const, constant_value, dag, ops, shown
from intset.expr.definedness import definedness
from intset.expr.evaluate import evaluate, point_value
from intset.expr.node import Kind, Kind_co, make, truth
from intset.facts import ASSUMED, DERIVED, Fact
from intset.frame import Frame
from intset.prover.combination import SearchBudget
from intset.prover.proof import (
    CERTIFY_SOON,
    CERTIFY_STEPS,
    Proof,
    certificate_of,
    first_accepted,
    prove_in,
    prove_once,
    refutation,
)
from intset.prover.tiers import REFUTED, Basis
from intset.simplify.engine import SIMPLIFY_ROUNDS, Rewrite, Simplifier

GENERALIZED_WITNESSES: Final = 24  # generalized witnesses per end

KINDS = ("linear", "bits", "isl", "points", "z3")
LISTED = ("points", "linear", "bits", "isl", "z3")  # for answers found by enumeration
LISTED_TIERS = ("linear", "points", "bits", "isl", "z3")
LARGE = (7, 3, None)  # lower bounds on sizes that make range ends distinguishable; None: unconstrained


class AskedBounds(NamedTuple):
    """A question about the bounds of `expr`, with the fields of its frame."""

    expr: Expr
    ranges: Mapping[Var, Range]
    facts: tuple[Fact, ...]
    defined: tuple[Cond, ...]
    keep: tuple[Var, ...]
    config: Config

    def certificate(self, answer: Bounds) -> BoundsCertificate:
        """The checked certificate of the answer; InputError if the search fails."""
        config = self.config
        if answer.by == WHO_LISTS:  # the box was enumerated: its points come before any library
            config = replace(config, tiers=tuple(sorted(config.tiers, key=LISTED_TIERS.index)))
        with pinned(config):
            return certify_bounds(self._replace(config=config), answer)


def certify_bounds(asked: AskedBounds, answer: Bounds) -> BoundsCertificate:
    """The checked certificate of an answer.

    Raises
    ------
    InputError: the budgets ended before both ends had certificates.
    """
    basis = Basis(asked.ranges, asked.facts, asked.defined, config=asked.config)
    ranges = tuple(asked.ranges.items())
    whole = BoundsCertificate(asked.expr, *answer, asked.keep, ranges, asked.facts)
    if answer.is_empty:
        claims = [Certificate("", truth(False), True, asked.facts, ranges), _claim(asked, nowhere(asked.expr))]
        empty = first_accepted(claims, basis, KINDS, SearchBudget(CERTIFY_STEPS))
        return _checked(replace(whole, empty=_found(empty, "that the set is empty")))
    effort = SearchBudget(CERTIFY_STEPS)
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
    cert = first_accepted([_claim(asked, goal)], basis, kinds, effort)
    if cert is None:  # with fewer facts than all, perhaps
        proof = prove_in(Frame.of(asked.ranges, asked.facts), goal)
        cert = proof.certificate() if proof else None
    return _found(cert, f"for {goal!r}")


def _attained(
    asked: AskedBounds, basis: Basis, end: Expr | Infinity, effort: SearchBudget
) -> tuple[At | None, Certificate | None]:
    """(witness point, its certificate) of an attained end; (None, None) if the search fails."""
    if isinstance(end, Infinity):
        return None, None
    within = Frame.of(asked.ranges, asked.facts)
    goal = asked.expr.ne(end)
    sizes = _sizes(asked, end)
    if not sizes:
        proof = prove_in(within, goal)
        cert = refutation(goal, basis, proof.counterexample or {}) if proof.status == REFUTED else None
        return (None, None) if cert is None else (cert.point, cert)
    if dag.opaque_terms(goal, *(fact.condition for fact in asked.facts)):
        return None, None
    for values in itertools.islice(dict.fromkeys(_points(asked, within, end, sizes)), GENERALIZED_WITNESSES):
        at: At = {var: e if (number := constant_value(e)) is None else number for var, e in values}
        there = attained_goal(asked.expr, end, at, tuple(asked.ranges.items()), asked.facts)
        if there is None or not prove_in(within, there):
            continue
        shown = first_accepted([_claim(asked, there)], basis, KINDS, effort)
        if shown is not None and shown.goal is there and not shown.vacuous:
            return at, shown
    return None, None


def _sizes(asked: AskedBounds, end: Expr) -> tuple[Var, ...]:
    """The parameters of the answer: variables without a range, and kept variables."""
    ends = (e for r in asked.ranges.values() for e in (r.min, r.extent) if isinstance(e, Expr))
    stated = dag.free_vars(asked.expr, end, *ends, *(fact.condition for fact in asked.facts))
    return (*(var for var in stated if var not in asked.ranges), *asked.keep)


def _points(
    asked: AskedBounds, within: Frame, end: Expr, sizes: tuple[Var, ...]
) -> Iterator[tuple[tuple[Var, Expr], ...]]:
    """Generalizations of counterexamples to `e != end`, most promising first."""
    read = (within.bounded.tightened or within.bounded).ranges  # tightened by facts
    for least in LARGE:
        larger = [] if least is None else [size >= least for size in sizes]
        proof = prove_in(within.stating((*within.facts, *(Fact(size, DERIVED) for size in larger))), asked.expr.ne(end))
        if proof.status != REFUTED or proof.counterexample is None:
            continue
        point = proof.counterexample
        variables = _by_dependence(asked)
        choices = [list(_choices((asked.ranges[var], read.get(var)), var, point)) for var in variables]
        if all(choices):
            for chosen in itertools.islice(itertools.product(*choices), 4 * GENERALIZED_WITNESSES):
                yield tuple(_in_sizes(variables, chosen).items())


def _by_dependence(asked: AskedBounds) -> list[Var]:
    """Variables in dependence order: a range mentions earlier variables only."""
    ordered: dict[Var, None] = {}
    waiting = [var for var in asked.ranges if var not in asked.keep]
    while waiting:
        ready = [v for v in waiting if not any(w in waiting for w in asked.ranges[v].free_vars())]
        ordered.update(dict.fromkeys(ready))
        waiting = [v for v in waiting if v not in ordered]
    return list(ordered)


def _choices(limits: Sequence[Range | None], var: Var, point: Mapping[Expr, int]) -> Iterator[Expr]:
    """Symbolic candidates for the value of `var` at a point: range ends, offsets from them, a constant."""
    firsts = dict.fromkeys(one.min for one in limits if one is not None)
    if var not in point:
        yield from (first for first in firsts if isinstance(first, Expr))
        return
    value = point[var]
    near: dict[int, list[Expr]] = {}
    for limit in (*firsts, *dict.fromkeys(one.max for one in limits if one is not None)):
        if isinstance(limit, Expr) and not limit.is_const:
            at_point = point_value(limit, point)
            if at_point is not None:
                distance = value - at_point
                near.setdefault(abs(distance), []).append(limit + distance if distance else limit)
    yield from near.pop(0, ())
    yield const(value)
    for distance in sorted(near):
        yield from near[distance]


def _in_sizes(variables: list[Var], chosen: tuple[Expr, ...]) -> dict[Var, Expr]:
    """Substitute earlier choices into later ones, which leaves expressions of the parameters."""
    values: dict[Var, Expr] = {}
    for var, value in zip(variables, chosen, strict=True):
        there = as_expr(dag.substitute(value, values))
        values[var] = there if there.free_vars() else const(evaluate(there))
    return values


BANNED_REPLACEMENTS: Final = 12  # reruns that ban unproved replacements


class SimplifyStep(NamedTuple):
    """One replacement of `before`, a subexpression whose own parts are already replaced, by its equal `after`.

    Attributes
    ----------
    rule: the name of the rewrite.
    before, after: equal expressions or equivalent conditions, under the facts and enclosing branches.
    facts: facts of the context and branch conditions used by the proof.
    proof: the proof of `before == after`; the checker accepts `proof.certificate()`.
    """

    rule: str
    before: Node
    after: Node
    facts: tuple[Fact, ...]
    proof: Proof

    def __repr__(self) -> str:
        why = ", ".join(str(fact.condition) for fact in self.facts)
        return f"{self.rule}: {self.before} -> {self.after}{f'  because {why}' if why else ''}"


class Simplified(NamedTuple, Generic[Kind_co]):
    """The answer of `simplify(e, steps=True)`.

    Attributes
    ----------
    expr: the simplified expression.
    steps: the replacements, operands first.
    requires: side conditions, namely divisors not proved nonzero and assumed facts.
    """

    expr: Kind_co
    steps: tuple[SimplifyStep, ...]
    requires: tuple[Cond, ...]

    def __repr__(self) -> str:
        return "\n".join([f"<Simplified to {self.expr}", *(f"  {step!r}" for step in self.steps)]) + ">"


def simplified_in_steps(
    frame: Frame, root: Kind, table: Mapping[str, int], bits: int | None, config: Config
) -> Simplified[Kind]:
    """Simplify `root` by proved replacements only."""
    banned: set[tuple[Node, Node]] = set()
    steps: list[SimplifyStep] = []
    for _ in range(SIMPLIFY_ROUNDS):
        new, new_steps = _round(frame, root, Simplifier(table, bits), banned, config)
        steps += new_steps
        if new is root:
            break
        root = new
    required = dict.fromkeys(need for step in steps for need in step.proof.requires)
    return Simplified(root, tuple(steps), tuple(required))


def _round(
    frame: Frame, root: Kind, like: Simplifier, banned: set[tuple[Node, Node]], config: Config
) -> tuple[Kind, list[SimplifyStep]]:
    """(result, steps) of one run; extends `banned` with unproved replacements and reruns."""
    inside = frame.where_defined((root,))
    for _ in range(BANNED_REPLACEMENTS):
        simplifier = like.anew(frozenset(banned))
        new = simplifier.run(root, inside.known)
        steps: list[SimplifyStep] = []
        open_ones: set[tuple[Node, Node]] = set()
        for one in dict.fromkeys(simplifier.listed(root, inside.known)):
            proved = _proved(frame, root, one, simplifier.where.get(one.known, ()), config)
            steps += proved
            if not proved:
                open_ones.add((one.before, one.after))
        if not open_ones:
            return new, steps
        banned |= open_ones
    return root, []


def _proved(frame: Frame, root: Node, one: Rewrite, where: tuple[Any, ...], config: Config) -> tuple[SimplifyStep, ...]:
    """The replacement as one or more proved steps; empty without a proof.

    Remainders by symbolic divisors pass through `a - a//d*d`, which turns the equation into a polynomial identity.
    """
    plain = (one.before, one.after)
    path = tuple(dict.fromkeys((one.before, *map(_without_remainders, plain), one.after)))
    remainders = (e for e in dag.postorder((one.before,)) if e.op in QUOTIENT_OF)
    is_symbolic = any(e.args[1].op is not ops.CONST for e in remainders)
    for ends in (path, plain) if is_symbolic and len(path) == 4 else (plain,):
        steps: list[SimplifyStep] = []
        for before, after in pairwise(ends):
            rule = one.rule if len(ends) == 2 or before is path[1] else "remainder and quotient"
            step = _step(frame, root, rule, before, after, where, config)
            if step is None:
                break
            steps.append(step)
        else:
            return tuple(steps)
    return ()


def _without_remainders(root: Node) -> Node:
    """The expression with `a % d` as `a - a//d*d`."""
    new: dict[Node, Node] = {}
    for e in dag.postorder((root,)):
        if e.op in QUOTIENT_OF:
            a, d = e.args
            new[e] = a - make(QUOTIENT_OF[e.op], (a, d)) * d
    return dag.rewrite(root, new) if new else root


QUOTIENT_OF: Final = {ops.FLOORMOD: ops.FLOORDIV, ops.TRUNCMOD: ops.TRUNCDIV}


def _step(
    frame: Frame, root: Node, rule: str, before: Node, after: Node, where: tuple[Any, ...], config: Config
) -> SimplifyStep | None:
    goal = equality(before, after)
    branches = tuple(Fact(cond, DERIVED) for cond in where)
    needed = tuple(Fact(need, ASSUMED) for need in definedness((root,)))
    for extra in ((), needed) if needed else ((),):
        scope = frame.stating((*frame.facts, *branches, *extra)) if branches or extra else frame
        proof = prove_once(scope, goal, config)
        if proof and _has_certificate(proof):
            return SimplifyStep(rule, before, after, proof.used, proof)
    return None


def equality(a: Node, b: Node) -> Cond:
    """The condition that two expressions are equal, or two conditions equivalent."""
    if isinstance(a, Cond) and isinstance(b, Cond):
        return (a & b) | (~a & ~b)
    assert isinstance(a, Expr) and isinstance(b, Expr)
    return a.eq(b)


def _has_certificate(proof: Proof) -> bool:
    try:
        certificate_of(proof, CERTIFY_SOON)
    except InputError:
        return False
    return True
