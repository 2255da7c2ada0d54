"""Evidence of "linear" certificates (premises, products, combinations); type checks of untrusted certificates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from intset.budgets import CHECK_BRANCH_NESTING
from intset.expr import ops
from intset.expr.node import Cond, Expr, Node, Var
from intset.expr.printer import number_text, to_text
from intset.expr.range import Range
from intset.facts import PROVENANCES, Fact

if TYPE_CHECKING:
    from intset.check.certificate import Certificate

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
