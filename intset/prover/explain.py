"""Answers in words, and the search for missing facts under which an undecided goal would be proved."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from intset.config import current, using
from intset.errors import InputError
from intset.expr import Cond, Expr, IntLike, ShapeVar, Var, as_expr, constant_value, dag, ops, shown
from intset.expr.evaluate import point_value
from intset.expr.printer import Displayed, number_text, to_text
from intset.prover.proof import PROVED, REFUTED, Proof
from intset.trace import traced

if TYPE_CHECKING:
    from intset.context import Context
    from intset.domains.sets.base import Bounds

MISSING_NODES: Final = 200  # nodes of a goal for which a missing fact is searched
MISSING_FACTS: Final = 40  # facts that the search for a missing one proposes
MISSING_PAIRS: Final = 80  # pairs of facts that it tries
MISSING_WORK: Final = 8_000  # facts and pairs that it tries, times the square of the goal's nodes: what a proof takes
MISSING_Z3: Final = 50_000  # z3's resource units for each of its proofs
MISSING_ISL: Final = 4_000  # isl's operations for each of its proofs
EXPLAINED_DIVISIONS: Final = 8  # divisions of an expression that are looked at

_TIERS = {
    "linear": "the linear form: terms cancel, and the ranges of the variables decide",
    "bits": "rows over F2: the bits of both sides are the same sums of bits of variables",
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
class Explanation(Displayed):
    """The explanation of an answer: `lines` of text, and the `answer` itself (a `Proof` or `Bounds`)."""

    lines: tuple[str, ...]
    answer: Proof | Bounds

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return str(self)


@traced("explain", lambda ctx, question: question)
def explain(ctx: Context, question: Cond | Proof | IntLike) -> Explanation:
    """Explain the proof of a condition, or the bounds of an expression."""
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
    """The certificate in words; empty without a certificate."""
    try:
        return list(proof.certificate().words())
    except InputError:
        return []


def _differences(ctx: Context, proof: Proof) -> list[str]:
    """For linear-tier proofs: the difference of each comparison and its bounds."""
    if proof.by != "linear" or proof.vacuous:
        return []
    lines = []
    for part in list(dag.conjuncts(proof.goal))[:4]:
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
        left, right = (point_value(arg, point) for arg in proof.goal.args)
        if left is not None and right is not None:
            lines.append(f"There the left side is {shown(left)} and the right side is {shown(right)}.")
    return lines


def _about_bounds(ctx: Context, e: Expr, bounds: Bounds) -> list[str]:
    lines = [f"Which values can {_short(e)} take?"]
    simplified = ctx.simplify(e)
    if simplified is not e:
        lines.append(f"It equals {_short(simplified)}.")
    if bounds.is_empty:
        return [*lines, "None: no point satisfies all ranges and facts."]
    source = _DOMAINS.get(bounds.by, bounds.by)
    lines.append(f"From {bounds[0]} to {bounds[1]}, found by {source}.")
    if bounds.is_tight:
        lines.append("Both ends are attained wherever the set is not empty.")
    else:
        lines.append("The ends are sound, but were not shown to be attained.")
    lines += [f"Given up: {note}." for note in bounds.notes]
    lines += _about_signs(ctx, e)
    lines += [f"Known: {fact.condition} ({fact.provenance})." for fact in ctx.facts]
    return lines


def _about_signs(ctx: Context, e: Expr) -> list[str]:
    """Unknown signs that prevent a division from being C's native division; powers of 2 are cheap without."""
    below = [node for node in dag.postorder((e,)) if isinstance(node, Expr)]
    divisions = [node for node in below if node.op in (ops.FLOORDIV, ops.FLOORMOD)]
    divisions = [node for node in divisions if (c := constant_value(node.args[1])) is None or c < 0 or c & (c - 1)]
    lines: list[str] = []
    for node in divisions[:EXPLAINED_DIVISIONS]:
        for part, goal in ((node.args[1], node.args[1] >= 0), (node.args[0], node.args[0] >= 0)):
            if constant_value(part) is not None or ctx.prove(goal):
                continue
            lines.append(f"{_short(node)} is not C's own division: {_short(goal)} is not known.")
            missing = missing_for(ctx, goal)
            ways = [f"To state it: {name}: {way}" for name, way in ways_to_state(goal).items()]
            lines += [f"  {line}" for line in (ways if missing is None else missing.words())]
    return list(dict.fromkeys(lines))


def _short(node: Any) -> str:
    return to_text(node, limit=300)


# -- missing facts -----------------------------------------------------------------------------------------------------


class Missing(NamedTuple):
    """An irredundant set of facts that would prove a goal."""

    facts: tuple[Cond, ...]

    def words(self) -> tuple[str, ...]:
        together = " and ".join(to_text(fact, limit=200) for fact in self.facts)
        lines = [f"It would be proved if {together} were known."]
        for fact in self.facts:
            ways = ways_to_state(fact)
            lines.append(f"To state {to_text(fact, limit=200)}:")
            lines += [f"  {name}: {way}" for name, way in ways.items()]
        return tuple(lines)


def missing_for(ctx: Context, goal: Cond) -> Missing | None:
    """Facts that would prove `goal` in `ctx`; None if the search fails or `goal` is proved already.

    Candidates, tried singly and then in pairs: signs of variables, nonzero divisors, bounds of a variable by a size or
    by a product of two sizes, exact divisions. Guarantee: the goal was proved with the facts, and not vacuously.
    """
    if not dag.is_small(MISSING_NODES, (goal,)):
        return None
    goal = dag.without_assertions(goal)
    nodes = len(list(dag.postorder((goal,))))
    tried = max(1, MISSING_WORK // nodes**2)
    most = min(MISSING_FACTS, tried)
    is_sign = goal.op is ops.GE and isinstance(goal.args[0], Var)
    facts = [fact for fact in itertools.islice(_candidates(goal, ctx), most) if fact is not goal or is_sign]
    config = current()
    shares = min(config.z3_rlimit, MISSING_Z3), min(config.isl_operations, MISSING_ISL)
    with using(z3_rlimit=shares[0], isl_operations=shares[1]):
        if ctx.prove(goal):
            return None
        useful = [fact for fact in facts if not ctx.prove(fact) and not ctx.prove(~fact)]
        pairs = itertools.islice(itertools.combinations(useful, 2), MISSING_PAIRS)
        for some in itertools.islice((*((fact,) for fact in useful), *pairs), tried):
            proof = ctx.extended(facts=some).prove(goal)
            if proof and not proof.vacuous:
                return Missing(some)
    return None


def _candidates(goal: Cond, ctx: Context) -> Iterator[Cond]:
    """Candidate facts that users can state, most common first."""
    in_ends = (size for var in dag.free_vars(goal) if var in ctx.ranges for size in ctx.ranges[var].free_vars())
    variables = list(dict.fromkeys((*dag.free_vars(goal), *in_ends)))
    divided = [node for node in dag.postorder((goal,)) if node.op in ops.DIVISIONS]
    sizes = [var for var in variables if isinstance(var, ShapeVar) or any(var is node.args[1] for node in divided)]
    facts: dict[Cond, None] = dict.fromkeys(var >= 0 for var in variables)
    facts.update(dict.fromkeys(var >= 1 for var in variables))
    facts.update(dict.fromkeys(node.args[1].ne(0) for node in divided if constant_value(node.args[1]) is None))
    facts.update(dict.fromkeys((a % b).eq(0) for node in divided for a, b in [node.args]))
    limits = [*(a * b for a, b in itertools.combinations_with_replacement(sizes, 2)), *sizes]  # the weaker first
    free = [var for var in variables if var not in sizes]
    facts.update(dict.fromkeys(var < limit for var in free for limit in limits))
    facts.update(dict.fromkeys(a <= b for a, b in itertools.permutations(sizes, 2)))
    yield from facts


def ways_to_state(fact: Cond) -> dict[str, str]:
    """How to state a fact: asserted, embedded, declared, annotated or assumed.

    >>> ways_to_state(Var("n") >= 0)["declared"]
    "ShapeVar('n')"
    """
    text = to_text(fact, limit=200)
    var, embedded, declared, claim = _forms(fact)
    where = f"assert {text} above the loop"
    if declared is not None and fact.op is ops.GE:
        where += f"; binding an array whose shape has {var} does" if declared == f"ShapeVar({var!r})" else ""
    ways = {"asserted": f"{where} (in a context, Fact({text}, 'asserted'))", "embedded": embedded}
    if declared is not None:
        ways["declared"] = declared
    ways["annotated"] = f"annotate_shapes(e, {claim})"
    return ways | {"assumed": f"Context(..., assume=[{text}]), which then shows in requires"}


def _forms(fact: Cond) -> tuple[str, str, str | None, str]:
    """(subject of the fact, how to embed, declare and annotate it)"""
    text = to_text(fact, limit=200)
    left, right = fact.args if fact.op in ops.COMPARISONS else (fact, fact)
    if isinstance(left, Var):
        name, k = left.name, constant_value(right) if isinstance(right, Expr) else None
        if fact.op is ops.GE and k == 0:
            return name, f"nonneg({name})", f"ShapeVar({name!r})", name
        if fact.op is ops.GE and k is not None:
            return name, f"bounded({name}, {k})", f"ShapeVar({name!r}, lower={k})", f"{{{name}: ({k}, None)}}"
        if fact.op is ops.LE and k is not None:
            return name, f"bounded({name}, None, {k})", f"ShapeVar({name!r}, upper={k})", f"{{{name}: (None, {k})}}"
        asserting = f"asserting({text}, {name})"
        if fact.op is ops.NE:
            return name, asserting, f"ShapeVar({name!r}, lower=1), if it is a size", f"{{{name}: {text}}}"
        range_of = f"Range(0, {to_text(right, limit=200)}) as the range of {name}, if it is not negative"
        return name, asserting, range_of if fact.op is ops.LT else None, f"{{{name}: {text}}}"
    if fact.op is ops.EQ and left.op is ops.FLOORMOD and isinstance(left.args[0], Var):
        name, step = left.args[0].name, constant_value(left.args[1])
        declared = None if step is None or step < 1 else f"ShapeVar({name!r}, multiple_of={step})"
        return name, f"asserting({text}, {name})", declared, f"{{{name}: {text}}}"
    if fact.op is ops.GE and isinstance(right, Expr) and constant_value(right) == 0:
        e = to_text(left, limit=200)
        return e, f"nonneg({e})", None, f"{{n: {text}}} for a variable n in it"
    return text, f"asserting({text}, e)", None, f"{{n: {text}}} for a variable n in it"
