"""Case distinction: each choice in the goal is governed by a comparison: a select's condition, the order of a minimum's
operands, the sign of an absolute value's operand, one side of a disjunction. The proof assumes the comparison, then its
negation; under either assumption the choice reduces to one arm, and the linear form decides the rest. (The walk of
`linear/elimination` lists disjuncts of a condition; this one narrows a normalizer per comparison and stops at the first
open case.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from intset.expr import ops
from intset.expr.dag import is_small, postorder
from intset.expr.node import Cond, Expr, Node, const, make
from intset.linear.assumptions import compare
from intset.linear.form import ZERO, Linear
from intset.linear.multiples import step_of_sum

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

CASES: Final = 12  # cases that are looked at for one goal
CASE_NODES: Final = 96  # nodes of a goal that is split into cases
CASE_NESTING: Final = 4  # comparisons assumed together


def holds_by_cases(known: Normalizer, canonical: Cond) -> bool:
    """Whether case distinction proves a canonical condition of `known`."""
    if not is_small(CASE_NODES, (canonical,)) or next(_choices(canonical), None) is None:
        return False
    waiting = [(known, canonical, 0)]
    for _ in range(CASES):
        reader, goal, depth = waiting.pop()
        if not _holds(reader, goal):
            cases = _cases(reader, goal) if depth < CASE_NESTING else None
            if cases is None:
                return False
            waiting += [(case, goal, depth + 1) for case in reversed(cases)]
        if not waiting:
            return True
    return False


def _holds(reader: Normalizer, goal: Cond) -> bool:
    """Whether the linear form proves `goal` in one case."""
    return reader.empty or all(
        isinstance(clause, tuple) and follows(reader, *clause) for clause in reader.clauses(goal)
    )


def covers_all_values(known: Normalizer, clause: Cond) -> bool:
    """Whether a disjunction of equations between one form and numbers has all numbers that the form can take."""
    numbers: set[int] = set()
    terms: dict[Expr, int] | None = None
    stack: list[Node] = [clause]
    while stack:
        part = stack.pop()
        if part.op is ops.OR:
            stack.extend(part.args)
            continue
        kind, form = known.compared.get(part, (ops.BOOL, ZERO))  # type: ignore[call-overload]  # a part is a condition
        if kind is not ops.EQ or terms is not None and form.terms != terms:
            return False
        terms = form.terms
        numbers.add(-form.const)
    if terms is None:
        return False
    form = Linear(0, terms)
    low, high = known.bounds(form)
    m, r = step_of_sum(known, form)
    if low is None or high is None or (high - low) // m >= len(numbers):
        return False
    return numbers.issuperset(range(low + (r - low) % m, high + 1, m))


def follows(known: Normalizer, kind: ops.Op, form: Linear) -> bool:
    """Whether ranges, facts and signs imply `form >= 0`, `== 0` or `!= 0`."""
    if kind is ops.GE:
        return known.is_nonneg(form)
    negated = form.scale(-1)
    if kind is ops.EQ:
        return known.is_nonneg(form) and known.is_nonneg(negated)
    return known.is_positive(form) or known.is_positive(negated)


def _cases(reader: Normalizer, goal: Cond) -> list[Normalizer] | None:
    """Normalizers for the cases of the first undecided comparison; infeasible cases are dropped."""
    for comparison in _choices(reader.cond(goal)):
        for clause in reader.clauses(comparison):
            if isinstance(clause, tuple):
                return [reader.narrowed(side) for side in _sides(reader, *clause)]
    return None


def _sides(reader: Normalizer, kind: ops.Op, form: Linear) -> Iterator[Cond]:
    """Conditions that cover all points: `form` nonnegative or negative; for equations positive, negative or zero."""
    above = form if kind is ops.GE else form.shift(-1)
    below = form.scale(-1).shift(-1)
    if not reader.is_nonneg(form.scale(-1) if kind is not ops.GE else below):
        yield compare(reader, ops.GE, above)
    if not reader.is_nonneg(form):
        yield compare(reader, ops.GE, below)
    if kind is not ops.GE:
        yield compare(reader, ops.EQ, form)


def _choices(goal: Cond) -> Iterator[Cond]:
    """Comparisons that govern choices in `goal`, innermost first."""
    for node in postorder((goal,)):
        if node.op is ops.SELECT:
            yield from _comparisons(node.args[0])
        elif node.op is ops.MIN or node.op is ops.MAX:
            yield make(ops.LE, node.args)
        elif node.op is ops.ABS:
            yield make(ops.GE, (node.args[0], const(0)))
        elif node.op is ops.OR:
            yield from _comparisons(node.args[0])


def _comparisons(cond: Node) -> Iterator[Cond]:
    stack = [cond]
    while stack:
        node = stack.pop()
        if node.op is ops.AND or node.op is ops.OR:
            stack.extend(reversed(node.args))
        elif isinstance(node, Cond) and node.op is not ops.BOOL:
            yield node
