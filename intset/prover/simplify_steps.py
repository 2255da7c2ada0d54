"""Why a simplified expression equals what it was: one replacement after the other, each proved."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

from intset.config import Config
from intset.errors import InputError
from intset.expr import ops
from intset.expr.definedness import definedness
from intset.expr.node import Cond, Expr, Node, make
from intset.expr.walk import postorder, rewrite
from intset.facts import ASSUMED, DERIVED, Fact
from intset.frame import Frame
from intset.prover.proof import Proof, prove_once
from intset.simplify import MAX_ROUNDS, Rewrite, Simplifier

MAX_TRIES: Final = 12  # runs, each without the replacements for which no proof was found


class SimplifyStep(NamedTuple):
    """One replacement: `before` is a part of the expression with its own parts replaced, `after` equals it.

    Attributes
    ----------
    rule: what did it.
    before, after: expressions that are equal, conditions that are equivalent, where the step is done.
    facts: the facts of the context, and the conditions of the branches around the part, that the proof uses.
    proof: of `before == after`; `proof.certificate()` is accepted.
    """

    rule: str
    before: Any
    after: Any
    facts: tuple[Fact, ...]
    proof: Proof

    def __repr__(self) -> str:
        why = ", ".join(str(fact.condition) for fact in self.facts)
        return f"{self.rule}: {self.before} -> {self.after}{f'  because {why}' if why else ''}"


class Simplified(NamedTuple):
    """The answer of `simplify(e, steps=True)`.

    Attributes
    ----------
    expr: what `e` is simplified to.
    steps: the replacements, those of operands first.
    requires: side conditions: divisors that are not known to differ from 0, facts that were only assumed.
    """

    expr: Any
    steps: tuple[SimplifyStep, ...]
    requires: tuple[Cond, ...]

    def __repr__(self) -> str:
        return "\n".join([f"<Simplified to {self.expr}", *(f"  {step!r}" for step in self.steps)]) + ">"


def simplified_in_steps(
    frame: Frame, root: Any, table: Mapping[str, int], bits: int | None, config: Config
) -> Simplified:
    """`root` simplified, with a proof of each replacement; one for which none is found is not done."""
    banned: set[tuple[Node, Node]] = set()
    steps: list[SimplifyStep] = []
    for _ in range(MAX_ROUNDS):
        new, found = _round(frame, root, Simplifier(table, bits), banned, config)
        steps += found
        if new is root:
            break
        root = new
    required = dict.fromkeys(need for step in steps for need in step.proof.requires)
    return Simplified(root, tuple(steps), tuple(required))


def _round(
    frame: Frame, root: Any, like: Simplifier, banned: set[tuple[Node, Node]], config: Config
) -> tuple[Any, list[SimplifyStep]]:
    """What one run makes of `root`, and the steps; replacements without a proof are added to what is banned."""
    inside = frame.where_defined((root,))
    for _ in range(MAX_TRIES):
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
    """The replacement as a step, or as a few that lead there; none where no proof is found.

    Remainders by symbolic divisors are written with their quotients on the way: what equals them is then a polynomial.
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
    """That two expressions are equal, or two conditions equivalent."""
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
