"""Evidence of "linear" certificates (premises, products, Farkas combinations), its check, and type checks of fields.

Each premise is re-derived from facts, ranges, declarations or the meaning of an operation. The sum is recomputed with
integer polynomials over the expressions as written, and must be a negative constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from intset.budgets import CHECK_BRANCH_NESTING
from intset.check.polynomials import UNIT, Expander, Poly, add, multiply
from intset.check.premises import (
    CheckBudget,
    Literals,
    cases,
    declared_conditions,
    literals,
    meaning,
    range_conditions,
    stated,
)
from intset.expr import ops
from intset.expr.dag import conjuncts, postorder
from intset.expr.definedness import definedness
from intset.expr.node import Cond, Expr, Node, Var, constant_value
from intset.expr.printer import number_text, to_text
from intset.expr.range import Range
from intset.facts import PROVENANCES, Fact

if TYPE_CHECKING:
    from intset.check.certificate import Certificate

CHECK_BRANCHES: Final = 200  # branches of one combination
CHECK_FACTORS: Final = 4  # premises per product


GOAL, FACT, DEFINED, RANGE, DECLARED, MEANING, DIVISOR, SQUARE = (
    "the goal negated",
    "a fact",
    "where it has a value",
    "a range",
    "declared",
    "the meaning of the operation",
    "a divisor is positive",
    "a square",
)
REASONS = (GOAL, FACT, DEFINED, RANGE, DECLARED, MEANING, DIVISOR, SQUARE)
_WHY = {MEANING: "by the meaning of the operation", SQUARE: "a square", DIVISOR: "a divisor that is not negative"}


class Premise(NamedTuple):
    """A true comparison with its reason, one of `REASONS`; the reason selects the check."""

    why: str
    cond: Cond


class WeightedProduct(NamedTuple):
    """`factor` times a product of premises, each read as `polynomial >= 0` or `== 0`.

    The factor is nonnegative unless a premise is an equation.
    """

    factor: int
    premises: tuple[Premise, ...]


class Combination(NamedTuple):
    """A Farkas combination: nonnegative terms with a negative constant sum contradict the comparisons in `case`.

    Monomials are integers, so comparisons are tightened: divided by the gcd of their coefficients, constants rounded.

    Attributes
    ----------
    case: comparisons that hold together if the goal fails.
    terms: the summands.
    divisors: (divisor, combination) pairs that prove divisors nonnegative, hence positive where the goal is defined.
    on: in place of terms, a condition that splits the case.
    branches: combinations for the cases extended by each way of `on` or its negation.
    """

    case: tuple[Cond, ...]
    terms: tuple[WeightedProduct, ...]
    divisors: tuple[tuple[Expr, Combination], ...] = ()
    on: Cond | None = None
    branches: tuple[Combination, ...] = ()

    def leaves(self) -> tuple[Combination, ...]:
        """Combinations with terms: itself, or the leaves of all branches."""
        if self.on is None:
            return (self,)
        return tuple(leaf for branch in self.branches for leaf in branch.leaves())


def combination_words(one: Combination) -> list[str]:
    lines = []
    for divisor, shown in one.divisors:
        lines.append(f"The divisor {clip(divisor)} is not negative:")
        lines += [f"  {line}" for line in combination_words(shown)]
    if one.case:
        lines.append(f"Suppose that {' and '.join(clip(cond) for cond in one.case)}.")
    if one.on is not None:
        lines.append(f"Either {clip(one.on)} or not.")
        return [*lines, *(f"  {line}" for branch in one.branches for line in combination_words(branch))]
    lines.append("Multiply and add, reading each comparison as a difference that is not negative:")
    for factor, premises in one.terms:
        product = " * ".join(f"[{clip(premise.cond)}]" for premise in premises)
        why = ", ".join(dict.fromkeys(_WHY.get(premise.why, premise.why) for premise in premises))
        lines.append(f"  {number_text(factor)} * {product}  ({why})")
    lines.append("The sum is a negative number: a contradiction.")
    return lines


def clip(node: Node | str) -> str:
    text = node if isinstance(node, str) else to_text(node, limit=300)
    return text if len(text) <= 600 else text[:600] + " ..."


# -- well-formedness ---------------------------------------------------------------------------------------------------


_EVIDENCE: Mapping[str, tuple[str, ...]] = {
    "linear": ("combinations",),
    "bits": ("text",),
    "isl": ("text",),
    "points": ("count",),
    "z3": ("text",),
    "point": ("point",),
}
_UNUSED: Mapping[str, Any] = {"combinations": (), "text": "", "count": 0, "point": {}}


def is_well_formed(cert: Certificate) -> bool:
    """Whether every field has its declared type and only fields of its kind are set."""
    if not isinstance(cert.kind, str) or cert.kind not in _EVIDENCE:
        return False
    if not isinstance(cert.goal, Cond) or not isinstance(cert.vacuous, bool) or (cert.vacuous and cert.kind == "point"):
        return False
    if not are_facts(cert.facts) or not are_ranges(cert.ranges):
        return False
    used = _EVIDENCE[cert.kind]
    if not all(type(getattr(cert, field)) is type(unused) for field, unused in _UNUSED.items()):
        return False
    if any(getattr(cert, field) != unused for field, unused in _UNUSED.items() if field not in used):
        return False
    return _is_point(cert.point) and all(_is_combination(one, 0) for one in cert.combinations)


def are_facts(facts: object) -> bool:
    return isinstance(facts, tuple) and all(
        isinstance(fact, Fact) and isinstance(fact.condition, Cond) and fact.provenance in PROVENANCES for fact in facts
    )


def are_ranges(ranges: object) -> bool:
    if not isinstance(ranges, tuple) or not all(isinstance(one, tuple) and len(one) == 2 for one in ranges):
        return False
    if not all(isinstance(var, Var) and isinstance(limits, Range) for var, limits in ranges):
        return False
    return len({var for var, _ in ranges}) == len(ranges)


def _is_point(point: Mapping[Any, Any]) -> bool:
    return all(isinstance(e, Expr) and e.op in (ops.VAR, ops.LOAD) and type(value) is int for e, value in point.items())


def _is_combination(one: object, depth: int) -> bool:
    if not isinstance(one, Combination) or depth > CHECK_BRANCH_NESTING:
        return False
    case, terms, divisors, on, branches = _untyped(one)
    if not _is_tuple_of(case, Cond) or not _is_tuple_of(terms, WeightedProduct) or not all(map(_is_term, terms)):
        return False
    if not _is_tuple_of(divisors, tuple) or not _is_tuple_of(branches, Combination):
        return False
    if not all(len(entry) == 2 and isinstance(entry[0], Expr) for entry in divisors):
        return False
    if (on is None and branches) or (on is not None and (terms or not isinstance(on, Cond))):
        return False
    return all(_is_combination(below, depth + 1) for below in (*branches, *(shown for _, shown in divisors)))


def _is_term(term: WeightedProduct) -> bool:
    factor, premises = _untyped(term)
    return (
        type(factor) is int
        and _is_tuple_of(premises, Premise)
        and all(premise.why in REASONS and isinstance(premise.cond, Cond) for premise in premises)
    )


def _untyped(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """The fields, typed as `Any` because certificates are untrusted."""
    return fields


def _is_tuple_of(values: object, kind: type) -> bool:
    return isinstance(values, tuple) and all(isinstance(value, kind) for value in values)


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
    if why == GOAL:
        return cond in one.case
    if why == FACT:
        return cond in known.facts
    if why == DEFINED:
        return cond in known.needs
    if why == RANGE:
        return cond in known.ranges
    if why == DIVISOR:
        return any(cond is (d >= 1) for d in positive)
    if why == SQUARE:
        e, zero = cond.args
        return cond.op is ops.GE and constant_value(zero) == 0 and e.op is ops.MUL and e.args[0] is e.args[1]
    below = [e for e in postorder((cond,)) if isinstance(e, Expr)]
    known.budget.spend(len(below) * (8 + len(positive) + len(one.case)))
    if why == DECLARED:
        return any(cond in set(declared_conditions(e)) for e in below if e.op in (ops.VAR, ops.LOAD))
    return why == MEANING and any(cond in set(meaning(e, positive, one.case)) for e in below)
