"""Answers in words: what was asked, how it was decided, what the answer rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from intset.errors import EvaluationError, InputError
from intset.expr import ops
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, as_expr, constant_value
from intset.expr.printer import to_text
from intset.expr.text import number_text, shown
from intset.expr.walk import conjuncts, postorder
from intset.prover.missing import missing_for, ways_to_state
from intset.prover.proof import PROVED, REFUTED, Proof

if TYPE_CHECKING:
    from intset.context import Context

MAX_DIVISIONS = 8  # of an expression are looked at
_TIERS = {
    "linear": "the linear form: terms cancel, and the ranges of the variables decide",
    "isl": "isl: exact reasoning about affine conditions with divisions by constants",
    "points": "enumeration of every point of the small domain",
    "z3": "z3: reasoning about nonlinear or mixed terms",
}
_DOMAINS = {
    "linear": "the linear form",
    "interval": "the linear form with symbolic ends",
    "stride": "a multi-stride set over independent variables",
    "isl": "isl's exact sets",
    "points": "enumeration of the small domain",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an answer is what it is: `lines` of text, and the `answer` itself (a `Proof`, or the `Bounds`)."""

    lines: tuple[str, ...]
    answer: Any

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return str(self)


def explain(ctx: Context, question: Any) -> Explanation:
    """The answer to a condition (is it always true?) or to an expression (which values?), explained."""
    if isinstance(question, Cond):
        proof = ctx.prove(question)
        return Explanation(tuple(_about_proof(ctx, proof)), proof)
    if isinstance(question, Proof):
        return Explanation(tuple(_about_proof(ctx, question)), question)
    expr = as_expr(question, "the question")
    bounds = ctx.bounds(expr)
    return Explanation(tuple(_about_bounds(ctx, expr, bounds)), bounds)


def _about_proof(ctx: Context, proof: Proof) -> list[str]:
    goal = _short(proof.goal)
    lines = [f"Is {goal} always true?"]
    if proof.status == PROVED:
        lines.append(f"Yes. Proved by {_TIERS.get(proof.by, proof.by)}.")
        if proof.vacuous:
            lines.append("Vacuously: no point satisfies all ranges and facts.")
        lines += _differences(ctx, proof) + _certificate(proof)
        lines += [f"It rests on the fact {fact.condition} ({fact.provenance})." for fact in proof.used]
        lines += [f"It requires {cond}." for cond in proof.requires]
    elif proof.status == REFUTED:
        lines.append(f"No. Refuted by {_TIERS.get(proof.by, proof.by)}.")
        lines += _at_counterexample(proof)
    else:
        lines.append(f"Not decided: {proof.reason}.")
        lines.append("A fact about the sizes, a range for a free variable, or a larger budget may decide it.")
    missing = None if proof else missing_for(ctx, proof.goal)
    return lines if missing is None else [*lines, *missing.words()]


def _certificate(proof: Proof) -> list[str]:
    """The certificate in words, where one is found."""
    try:
        return list(proof.certificate().words())
    except InputError:
        return []


def _differences(ctx: Context, proof: Proof) -> list[str]:
    """For what the linear form decides: each comparison as `form >= 0`, with the bounds that show it."""
    if proof.by != "linear" or proof.vacuous:
        return []
    lines = []
    for part in list(conjuncts(proof.goal))[:4]:
        if part.op in ops.COMPARISONS:
            difference = ctx.canonical(part.args[0] - part.args[1])
            low, high = ctx.bounds(part.args[0] - part.args[1])
            sides = f"{_short(part.args[0])} - ({_short(part.args[1])})"
            lines.append(f"{sides} is {_short(difference)}, in [{low}, {high}].")
    return lines


def _at_counterexample(proof: Proof) -> list[str]:
    point = proof.counterexample or {}
    values = [f"{e} = {number_text(k)}" for e, k in point.items()]
    where = ", ".join(values) or "the only point"
    lines = [f"It fails at {where}."]
    if proof.goal.op in ops.COMPARISONS:
        try:
            left, right = (evaluate(arg, point) for arg in proof.goal.args)
            lines.append(f"There the left side is {shown(left)} and the right side is {shown(right)}.")
        except (EvaluationError, InputError):
            pass
    return lines


def _about_bounds(ctx: Context, e: Expr, bounds: Any) -> list[str]:
    lines = [f"Which values can {_short(e)} take?"]
    simplified = ctx.simplify(e)
    if simplified is not e:
        lines.append(f"It equals {_short(simplified)}.")
    if bounds.is_empty:
        return [*lines, "None: no point satisfies all ranges and facts."]
    found = _DOMAINS.get(bounds.by, bounds.by)
    lines.append(f"From {bounds[0]} to {bounds[1]}, found by {found}.")
    if bounds.is_tight:
        lines.append("Both ends are attained wherever the domain is not empty.")
    else:
        lines.append("The ends are sound, but were not shown to be attained.")
    lines += [f"Given up: {note}." for note in bounds.notes]
    lines += _about_signs(ctx, expr_divisions(e))
    lines += [f"Known: {fact.condition} ({fact.provenance})." for fact in ctx.facts]
    return lines


def expr_divisions(e: Expr) -> list[Expr]:
    """The floor divisions and remainders in an expression by what is no power of 2: those that signs make cheap."""
    below = [node for node in postorder((e,)) if isinstance(node, Expr)]
    found = [node for node in below if node.op in (ops.FLOORDIV, ops.FLOORMOD)]
    return [node for node in found if (c := constant_value(node.args[1])) is None or c < 0 or c & (c - 1)]


def _about_signs(ctx: Context, divisions: list[Expr]) -> list[str]:
    """For each division that C's own does not compute as it stands, which sign is not known."""
    lines: list[str] = []
    for node in divisions[:MAX_DIVISIONS]:
        for part, goal in ((node.args[1], node.args[1] >= 0), (node.args[0], node.args[0] >= 0)):
            if constant_value(part) is not None or ctx.prove(goal):
                continue
            lines.append(f"{_short(node)} is not C's own division: {_short(goal)} is not known.")
            missing = missing_for(ctx, goal)
            lines += _stated(goal) if missing is None else [f"  {line}" for line in missing.words()]
    return list(dict.fromkeys(lines))


def _stated(goal: Cond) -> list[str]:
    return [f"  To state it: {name}: {way}" for name, way in ways_to_state(goal).items()]


def _short(node: Any) -> str:
    return to_text(node, limit=300)
