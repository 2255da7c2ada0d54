"""Simplification with evidence: a sequence of replacements; a proof and a certificate justify each step."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final, Generic, NamedTuple

from intset.budgets import SIMPLIFY_ROUNDS
from intset.config import Config
from intset.errors import InputError
from intset.expr import ops
from intset.expr.dag import postorder, rewrite
from intset.expr.definedness import definedness
from intset.expr.node import Cond, Expr, Kind, Kind_co, Node, make
from intset.facts import ASSUMED, DERIVED, Fact
from intset.frame import Frame
from intset.prover.proof import Proof, prove_once
from intset.simplify import Rewrite, Simplifier

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
    for ends in (path, plain) if _has_symbolic_remainder(one.before) and len(path) == 4 else (plain,):
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


def _has_symbolic_remainder(root: Node) -> bool:
    return any(e.op in QUOTIENT_OF and e.args[1].op is not ops.CONST for e in postorder((root,)))


def _without_remainders(root: Node) -> Node:
    """The expression with `a % d` as `a - a//d*d`."""
    new: dict[Node, Node] = {}
    for e in postorder((root,)):
        if e.op in QUOTIENT_OF:
            a, d = e.args
            new[e] = a - make(QUOTIENT_OF[e.op], (a, d)) * d
    return rewrite(root, new) if new else root


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
        proof.certificate()
    except InputError:
        return False
    return True
