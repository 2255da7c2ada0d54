"""Whether a certificate has the form of one: every field of its type, and none that its kind has no use for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from intset.check import evidence as names
from intset.check.evidence import Combination, Premise, Term
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from intset.facts import PROVENANCES, Fact

if TYPE_CHECKING:
    from intset.check.certificate import Certificate

MAX_NESTING = 40  # of branches in branches
_EVIDENCE: Mapping[str, tuple[str, ...]] = {
    "linear": ("combinations",),
    "isl": ("text",),
    "points": ("count",),
    "z3": ("text",),
    "point": ("point",),
}
_UNUSED: Mapping[str, Any] = {"combinations": (), "text": "", "count": 0, "point": {}}


def is_well_formed(cert: Certificate) -> bool:
    """Whether the checks may read the certificate without meeting anything but what they expect."""
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
    if not isinstance(one, Combination) or depth > MAX_NESTING:
        return False
    case, terms, divisors, on, branches = _untyped(one)
    if not _is_tuple_of(case, Cond) or not _is_tuple_of(terms, Term) or not all(map(_is_term, terms)):
        return False
    if not _is_tuple_of(divisors, tuple) or not _is_tuple_of(branches, Combination):
        return False
    if not all(len(entry) == 2 and isinstance(entry[0], Expr) for entry in divisors):
        return False
    if (on is None and branches) or (on is not None and (terms or not isinstance(on, Cond))):
        return False
    return all(_is_combination(below, depth + 1) for below in (*branches, *(shown for _, shown in divisors)))


def _is_term(term: Term) -> bool:
    factor, premises = _untyped(term)
    return (
        type(factor) is int
        and _is_tuple_of(premises, Premise)
        and all(premise.why in names.REASONS and isinstance(premise.cond, Cond) for premise in premises)
    )


def _untyped(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """The fields, of which nothing is taken for granted."""
    return fields


def _is_tuple_of(values: object, kind: type) -> bool:
    return isinstance(values, tuple) and all(isinstance(value, kind) for value in values)
