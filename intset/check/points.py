"""The checks of kinds "points" (exhaustive evaluation of a box) and "point" (evaluation of a counterexample)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from intset.budgets import CHECK_POINTS
from intset.check.budget import CheckBudget
from intset.check.premises import declared_conditions, premises_of, range_conditions
from intset.errors import EvaluationError, InputError
from intset.expr import ops
from intset.expr.dag import free_vars, opaque_terms
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, make

if TYPE_CHECKING:
    from intset.check.certificate import Certificate


def check_points(cert: Certificate, budget: CheckBudget) -> bool:
    """Whether the box of ranges and declarations has `count` points and none violates the claim.

    Very long intermediate values lead to rejection.
    """
    box = box_of(cert)
    if box is None or cert.count != prod(map(len, box.values())):
        return False
    conditions = [*premises_of(cert), *([] if cert.vacuous else [cert.goal])]
    bits = {var: max(abs(span.start), abs(span.stop)).bit_length() for var, span in box.items()}
    steps = sum(budget.evaluation(cond, bits) for cond in conditions)
    budget.spend(max(cert.count, 0) * (len(box) + steps))
    return not any(
        _violates(conditions, dict(zip(box, values, strict=True)), cert.vacuous)
        for values in itertools.product(*box.values())
    )


def box_of(cert: Certificate) -> dict[Expr, range] | None:
    """The box spanned by ranges and declarations; None for infinite boxes and beyond `CHECK_POINTS` points."""
    roots = (*_stated(cert), *_range_conditions(cert))
    if opaque_terms(*roots):
        return None
    limits_of = dict(cert.ranges)
    box: dict[Expr, range] = {}
    for var in free_vars(*roots):
        limits, (low, high, _) = limits_of.get(var), var.declared()
        if limits is not None and limits.ends is not None:
            low = limits.ends[0] if low is None else max(low, limits.ends[0])
            high = limits.ends[1] if high is None else min(high, limits.ends[1])
        if low is None or high is None:
            return None
        box[var] = range(low, max(low, high + 1))
    is_small = all(span.stop - span.start <= CHECK_POINTS for span in box.values())
    return box if is_small and prod(map(len, box.values())) <= CHECK_POINTS else None


def _stated(cert: Certificate) -> tuple[Cond, ...]:
    """Evaluated conditions: facts, plus the goal unless the claim is vacuous."""
    facts = tuple(fact.condition for fact in cert.facts)
    return facts if cert.vacuous else (cert.goal, *facts)


def _range_conditions(cert: Certificate) -> Iterator[Cond]:
    for var, limits in cert.ranges:
        yield from range_conditions(var, limits)


def _violates(conditions: Sequence[Cond], point: Mapping[Expr, int], vacuous: bool) -> bool:
    """Whether the point satisfies all premises and violates the goal (the last condition unless vacuous)."""
    *premises, goal = [*conditions, make(ops.BOOL, (), False)] if vacuous else conditions
    try:
        return not evaluate(goal, point) and all(evaluate(cond, point) for cond in premises)
    except EvaluationError:
        return False


def check_point(cert: Certificate, budget: CheckBudget) -> bool:
    """Whether the point violates the goal and satisfies ranges, facts and declarations.

    Loads have independent values. Evaluated loads with equal indices must agree; loads skipped by lazy evaluation need
    no value.
    """
    bits = {e: value.bit_length() for e, value in cert.point.items()}
    loads = [e for e in cert.point if e.op is ops.LOAD]
    for cond in (cert.goal, *_range_conditions(cert), *(fact.condition for fact in cert.facts)):
        budget.spend(budget.evaluation(cond, bits))
    for index in (index for load in loads for index in load.args):
        budget.spend(budget.evaluation(index, bits))
    point = _PointWithReads(cert.point)
    try:
        if evaluate(cert.goal, point) is not False:
            return False
        if not all(evaluate(cond, point) for cond in _range_conditions(cert)):
            return False
        if not all(evaluate(fact.condition, point) for fact in cert.facts):
            return False
        return _keeps_declarations(cert, point) and _agrees(point)
    except (EvaluationError, InputError):
        return False


class _PointWithReads(dict[Any, int]):
    """A point that records which loads evaluation reads."""

    def __init__(self, point: Mapping[Expr, int]) -> None:
        super().__init__(point)
        self.loads: dict[Expr, None] = {}

    def __contains__(self, key: object) -> bool:
        is_present = super().__contains__(key)
        if is_present and isinstance(key, Expr) and key.op is ops.LOAD:
            self.loads[key] = None
        return is_present


def _keeps_declarations(cert: Certificate, point: _PointWithReads) -> bool:
    variables = free_vars(*_stated(cert), *_range_conditions(cert))
    leaves = [*(var for var in variables if var in point), *point.loads]
    return all(evaluate(cond, point) for e in leaves for cond in declared_conditions(e))


def _agrees(point: _PointWithReads) -> bool:
    """Whether evaluated loads of one symbol with equal indices agree."""
    seen: dict[tuple[object, ...], int] = {}
    for load in tuple(point.loads):
        key = (load.data, *(evaluate(index, point) for index in load.args))
        if seen.setdefault(key, point[load]) != point[load]:
            return False
    return True
