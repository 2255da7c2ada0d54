"""The last tier: z3, for what is nonlinear or mixed."""

from __future__ import annotations

from typing import Any

from intset.domains.protocols import Verdict
from intset.expr.node import Cond, Expr, Node, Var
from intset.expr.walk import free_vars
from intset.prover.basis import PROVED, REFUTED, UNKNOWN
from intset.prover.question import Question
from intset.prover.smt import SmtSession, effort, nesting

MAX_EFFORT = 32  # on more, z3 spends seconds that its units do not count
MAX_NESTING = 16  # of divisions; where there are more, z3's units take longer, and it gets fewer
MAX_FACTS_EFFORT = 96  # facts beyond are not told: what follows from fewer follows


def decide(question: Question) -> Verdict:
    """Ask z3 whether the goal follows from ranges and facts."""
    frame = question.frame
    if effort(question.goal) > MAX_EFFORT:
        return Verdict(UNKNOWN, reason="there are too many products and divisions of terms for z3")
    facts: list[tuple[Cond, Any]] = [(fact.condition, fact) for fact in frame.facts]
    for var in _ranged(question, [cond for cond, _ in facts]):
        limits = frame.ranges[var]
        facts += [(var >= limits.min, var)] if isinstance(limits.min, Expr) else []
        facts += [(var <= limits.max, var)] if isinstance(limits.max, Expr) else []
    config = question.config
    session = SmtSession(config.z3_timeout_ms)
    rlimit = config.z3_rlimit * MAX_NESTING**2 // max(nesting(question.goal), MAX_NESTING) ** 2
    answer = session.check(question.goal, _affordable(facts), max(rlimit, 1), _hint(question), core=False)
    if answer.status == PROVED:
        return Verdict(PROVED)
    if answer.status == REFUTED and answer.model is not None:
        point = dict(answer.model)
        if question.refutes(point):
            return Verdict(REFUTED, point)
    if answer.reason == "timeout":
        reason = f"z3 was stopped by the clock (z3_timeout_ms={config.z3_timeout_ms})"
        return Verdict(UNKNOWN, reason=reason, by_clock=True)
    return Verdict(UNKNOWN, reason=f"z3 gave up: {answer.reason or 'no counterexample could be confirmed'}")


def _affordable(facts: list[tuple[Cond, Any]]) -> list[tuple[Cond, Any]]:
    """The facts, or as many of them, in order, as are within z3's reach."""
    if effort(*(cond for cond, _ in facts)) <= MAX_FACTS_EFFORT:
        return facts
    left, kept = MAX_FACTS_EFFORT, []
    for fact in facts:
        cost = effort(fact[0])
        if cost <= left:
            left -= cost
            kept.append(fact)
    return kept


def _ranged(question: Question, facts: list[Cond]) -> list[Var]:
    """The variables with a range that goal or facts speak of, and those that their ranges speak of."""
    ranges = question.frame.ranges
    found: dict[Var, None] = {}
    waiting = [*free_vars(question.goal, *facts), *question.symbolic_ranges]
    while waiting:
        var = waiting.pop(0)
        if var in ranges and var not in found:
            found[var] = None
            waiting.extend(ranges[var].free_vars())
    return list(found)


def _hint(question: Question) -> Any:
    known = question.frame.known

    def bounds(node: Node) -> tuple[int | None, int | None]:
        return known.bounds(known.form(node)) if isinstance(node, Expr) else (None, None)

    return bounds
