"""The check of kind "linear": Farkas combinations of products of premises.

Each premise is re-derived from facts, ranges, declarations or the meaning of an operation. The sum is recomputed with
integer polynomials over the expressions as written, and must be a negative constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from intset.budgets import CHECK_BRANCHES, CHECK_FACTORS
from intset.check import evidence as names
from intset.check.budget import CheckBudget
from intset.check.evidence import Combination, Premise
from intset.check.polynomials import UNIT, Expander, Poly, add, multiply
from intset.check.premises import Literals, cases, declared_conditions, literals, meaning, range_conditions, stated
from intset.expr import ops
from intset.expr.dag import conjuncts, postorder
from intset.expr.definedness import definedness
from intset.expr.node import Cond, Expr, constant_value

if TYPE_CHECKING:
    from intset.check.certificate import Certificate


def ways_to_fail(cert: Certificate) -> Iterator[tuple[Literals | None, tuple[Cond, ...]]]:
    """Yield (case, roots): comparisons that hold together if the goal fails, and conditions defined there.

    Evaluation is lazy, so later conjuncts assume earlier ones. A case of None means too many cases.
    """
    before = tuple(fact.condition for fact in cert.facts)
    before += tuple(cond for var, limits in cert.ranges for cond in range_conditions(var, limits))
    if cert.vacuous:
        yield (), before
        return
    for part in conjuncts(cert.goal):
        before = (*before, part)
        ways = cases(part, False)
        for way in [None] if ways is None else ways:
            yield way, before


def check_linear(cert: Certificate, budget: CheckBudget | None = None) -> bool:
    """Whether every failing case of the goal has a valid combination."""
    budget = CheckBudget() if budget is None else budget
    budget.spend(_quadratic(cert))
    by_case = {one.case: one for one in cert.combinations}
    for case, roots in ways_to_fail(cert):
        if case is None or case not in by_case or not check_combination(cert, by_case[case], roots, budget):
            return False
    return True


def _quadratic(cert: Certificate) -> int:
    """Steps charged for quadratic work: cases of conjunctions, nested definedness conditions."""
    nodes = sum(1 for _ in postorder(stated(cert)))
    return nodes + nodes * nodes // 200


def check_combination(cert: Certificate, one: Combination, roots: Sequence[Cond], budget: CheckBudget) -> bool:
    """Whether all premises are valid and every leaf sums to a negative constant.

    roots: conditions defined at the points in question; their divisors are nonzero.
    """
    budget.spend_nodes(*roots)
    needs = definedness(roots)
    positive = [
        d
        for d, shown in one.divisors
        if d.ne(0) in needs
        and shown.case == (d <= -1,)
        and not shown.divisors
        and check_combination(cert, shown, roots, budget)
    ]
    known = _StatedComparisons(cert, needs, budget)
    waiting, count = [one], 0
    while waiting:
        part = waiting.pop()
        count += 1
        if count > CHECK_BRANCHES or (part.divisors and part is not one):
            return False
        if part.on is None:
            if not _adds_up(known, part, positive):
                return False
            continue
        branches = {branch.case: branch for branch in part.branches}
        budget.spend_nodes(part.on)
        ways = both_ways(part.on, needs)
        if ways is None or any((*part.case, *way) not in branches for way in ways):
            return False
        waiting += [branches[(*part.case, *way)] for way in ways]
    return True


def nonzero(needs: Sequence[Cond]) -> set[Expr]:
    """Expressions required to be nonzero by definedness conditions."""
    return {need.args[0] for need in needs if need.op is ops.NE and constant_value(need.args[1]) == 0}


def both_ways(on: Cond, needs: Sequence[Cond]) -> list[Literals] | None:
    """Cases of a condition and of its negation; None if the condition may be undefined."""
    if any(need not in needs for need in definedness((on,))):
        return None
    yes, no = cases(on, True), cases(on, False)
    return None if yes is None or no is None else yes + no


class _StatedComparisons:
    """Comparisons stated by a certificate, indexed by reason."""

    def __init__(self, cert: Certificate, needs: Sequence[Cond], budget: CheckBudget) -> None:
        self.budget = budget
        self.nonzero = nonzero(needs)
        self.facts = {cond for fact in cert.facts for cond in literals(fact.condition)}
        self.needs = {cond for need in needs for cond in literals(need)}
        self.ranges = {cond for var, limits in cert.ranges for cond in range_conditions(var, limits)}
        budget.spend(len(self.facts) + len(self.needs) + len(self.ranges))


def _adds_up(known: _StatedComparisons, one: Combination, positive: Sequence[Expr]) -> bool:
    expander = Expander(known.nonzero, known.budget)
    total: Poly = {}
    for factor, premises in one.terms:
        if len(premises) > CHECK_FACTORS:
            return False
        product: Poly = {UNIT: 1}
        is_zero = False
        for premise in premises:
            if not _holds(known, one, premise, positive):
                return False
            poly, equation = expander.sides(premise.cond)
            product = multiply(product, poly, known.budget)
            is_zero |= equation
        if not premises or (factor < 0 and not is_zero):
            return False
        known.budget.spend(len(total) + len(product) + factor.bit_length() // 64)
        total = add(total, product, factor)
    return set(total) == {UNIT} and total[UNIT] < 0


def _holds(known: _StatedComparisons, one: Combination, premise: Premise, positive: Sequence[Expr]) -> bool:
    known.budget.spend(1 + len(one.case) + len(positive))
    why, cond = premise
    if cond.op not in ops.COMPARISONS or cond.op is ops.NE:
        return False
    if why == names.GOAL:
        return cond in one.case
    if why == names.FACT:
        return cond in known.facts
    if why == names.DEFINED:
        return cond in known.needs
    if why == names.RANGE:
        return cond in known.ranges
    if why == names.DIVISOR:
        return any(cond is (d >= 1) for d in positive)
    if why == names.SQUARE:
        e, zero = cond.args
        return cond.op is ops.GE and constant_value(zero) == 0 and e.op is ops.MUL and e.args[0] is e.args[1]
    below = [e for e in postorder((cond,)) if isinstance(e, Expr)]
    known.budget.spend(len(below) * (8 + len(positive) + len(one.case)))
    if why == names.DECLARED:
        return any(cond in set(declared_conditions(e)) for e in below if e.op in (ops.VAR, ops.LOAD))
    return why == names.MEANING and any(cond in set(meaning(e, positive, one.case)) for e in below)
