"""Premises of certificates, the checks that evaluate them at points, and the step limit of a check.

Premises are comparisons true by definition of ranges, declarations, operations and definedness. The kinds "points"
(exhaustive evaluation of a box) and "point" (evaluation of a counterexample) need nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final

from intset.budgets import CHECK_STEPS, LONGEST_VALUE
from intset.errors import BudgetError, EvaluationError, InputError
from intset.expr import ops
from intset.expr.dag import free_vars, opaque_terms, postorder, postorder_by
from intset.expr.definedness import definedness
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Node, constant_value, make
from intset.expr.range import declared_conditions, range_conditions

if TYPE_CHECKING:
    from intset.check.certificate import Certificate

CHECK_CASES: Final = 64  # cases of one premise
CHECK_POINTS: Final = 1_000_000  # points of a box

_WORD: Final = 64
_WORDS_A_STEP: Final = 64  # word products per interpreter step


class CheckBudget:
    """Remaining steps for one certificate with all its parts.

    Guarantee: the count is a function of the certificate, and work is charged in advance.

    Attributes
    ----------
    left: remaining steps.
    is_spent: whether the check ran out of steps; then a rejection is inconclusive.
    """

    def __init__(self, steps: int = CHECK_STEPS) -> None:
        self.left = steps
        self.is_spent = False

    def spend(self, steps: int) -> None:
        """Charge steps in advance; BudgetError if too few remain."""
        self.left -= steps
        if self.left < 0:
            self.is_spent = True
            raise BudgetError(f"the certificate takes more than {CHECK_STEPS} steps to check", "CHECK_STEPS")

    def spend_nodes(self, *roots: Node) -> None:
        """Charge a walk over all nodes below the roots."""
        for _ in postorder(roots):
            self.spend(1)

    def evaluation(self, root: Node, bits: Mapping[Any, int]) -> int:
        """Steps of one evaluation of `root`, given bit lengths of the leaves.

        Products and quotients cost the product of their operands' lengths. Both branches of a choice count.

        Raises
        ------
        BudgetError: an intermediate value may exceed `LONGEST_VALUE` bits, or the walk is too long.
        """
        lengths: dict[Node, int] = {}
        total = 0
        for node in postorder((root,)):
            self.spend(1)
            below = [lengths[arg] for arg in node.args]
            found = _bits(node, below, bits)
            if found > LONGEST_VALUE:
                self.spend(self.left + 1)
            words = [1 + length // _WORD for length in (*below, found)]
            is_product = len(below) == 2 and (node.op is ops.MUL or node.op in ops.DIVISIONS)
            total += 1 + (words[0] * words[1] if is_product else max(words)) // _WORDS_A_STEP
            lengths[node] = found
        return total


def _bits(node: Node, below: list[int], leaves: Mapping[Any, int]) -> int:
    """An upper bound on the bit length of a node's value; loads take theirs from the point."""
    if node.op is ops.CONST:
        return int(node.data.bit_length())
    if not below or node.op is ops.LOAD:
        return leaves.get(node, 1)
    if node.op is ops.MUL:
        return sum(below)
    if node.op is ops.SHL:
        return below[0] + (1 << min(below[1], LONGEST_VALUE.bit_length()))
    if node.op is ops.CAST:
        return int(max(below[0], node.data[0])) + 1
    return 1 + max(below)


Literals = tuple[Cond, ...]


def cases(cond: Cond, holds: bool) -> list[Literals] | None:
    """Disjunctive normal form of `cond` (or its negation) without `!=`; None beyond `CHECK_CASES` cases."""
    ways: dict[tuple[Cond, bool], list[Literals] | None] = {}
    for node in postorder_by((cond,), lambda node: node.args if node.op in _CONNECTIVES else ()):
        for side in (True, False):
            ways[node, side] = _ways(node, side, ways)
    return ways[cond, holds]


_CONNECTIVES = (ops.NOT, ops.AND, ops.OR)


def _ways(cond: Cond, holds: bool, known: Mapping[tuple[Cond, bool], list[Literals] | None]) -> list[Literals] | None:
    if cond.op is ops.BOOL:
        return [()] if cond.data is holds else []
    if cond.op is ops.NOT:
        return known[cond.args[0], not holds]
    if cond.op in (ops.AND, ops.OR):
        first, second = (known[arg, holds] for arg in cond.args)
        if first is None or second is None:
            return None
        if (cond.op is ops.AND) is not holds:
            return first + second if len(first) + len(second) <= CHECK_CASES else None
        return [a + b for a in first for b in second] if len(first) * len(second) <= CHECK_CASES else None
    op = cond.op if holds else ops.NEGATED[cond.op]
    if op is ops.NE:
        return [(make(ops.LT, cond.args),), (make(ops.GT, cond.args),)]
    return [(make(op, cond.args),)]


def literals(cond: Cond) -> Literals:
    """The comparisons of a conjunction; empty for disjunctions."""
    ways = cases(cond, True)
    return ways[0] if ways is not None and len(ways) == 1 else ()


def meaning(node: Expr, positive: Iterable[Expr] = (), case: Literals = ()) -> Iterator[Cond]:
    """Comparisons implied by the meaning of an operation, wherever it is defined and `case` holds.

    positive: divisors proved positive.
    """
    if node.op is ops.FLOORDIV or node.op is ops.TRUNCDIV:
        a, b = node.args
        c = constant_value(b)
        is_floor = node.op is ops.FLOORDIV
        if (c is not None and c > 0) or any(b is d for d in positive):
            yield node * b <= (a if is_floor else a + b - 1)
            yield a <= node * b + b - 1
        elif c is not None and c < 0:
            yield node * b >= (a if is_floor else a + b + 1)
            yield a >= node * b + b + 1
        if not is_floor:  # the remainder has the sign of the dividend
            yield (a - node * b) * a >= 0
    elif node.op is ops.SELECT:
        for holds, arm in ((True, node.args[1]), (False, node.args[2])):
            if any(set(way) <= set(case) for way in cases(node.args[0], holds) or ()):
                yield node.eq(arm)
    elif node.op in (ops.MIN, ops.MAX):
        for arg in node.args:
            yield node <= arg if node.op is ops.MIN else node >= arg
        first, second = node.args if node.op is ops.MIN else reversed(node.args)
        for holds, arg in ((True, first), (False, second)):
            if any(set(way) <= set(case) for way in cases(node.args[0] <= node.args[1], holds) or ()):
                yield node.eq(arg)
    elif node.op is ops.ABS:
        yield node >= node.args[0]
        yield node >= -node.args[0]
    choices = _choices(node)
    if choices:
        yield ((node - choices[0]) * (node - choices[1])).eq(0)


def _choices(node: Expr) -> tuple[Expr, ...]:
    """The two possible values of a choice operation; empty for other operations."""
    if node.op in (ops.MIN, ops.MAX):
        return node.args
    if node.op is ops.SELECT:
        return node.args[1:]
    return (node.args[0], -node.args[0]) if node.op is ops.ABS else ()


def stated(cert: Certificate) -> tuple[Cond, ...]:
    """Goal (unless vacuous), facts and ranges of a certificate, as conditions."""
    return (*_evaluated(cert), *_range_conditions(cert))


def premises_of(cert: Certificate) -> list[Cond]:
    """All premises at the certificate's points: declarations, ranges, definedness, facts."""
    roots = stated(cert)
    declared = [cond for e in (*free_vars(*roots), *opaque_terms(*roots)) for cond in declared_conditions(e)]
    return [*declared, *_range_conditions(cert), *definedness(roots), *(fact.condition for fact in cert.facts)]


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
    roots = stated(cert)
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


def _evaluated(cert: Certificate) -> tuple[Cond, ...]:
    """The facts, after the goal unless the claim is vacuous."""
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
    leaves = [*(var for var in free_vars(*stated(cert)) if var in point), *point.loads]
    return all(evaluate(cond, point) for e in leaves for cond in declared_conditions(e))


def _agrees(point: _PointWithReads) -> bool:
    """Whether evaluated loads of one symbol with equal indices agree."""
    seen: dict[tuple[object, ...], int] = {}
    for load in tuple(point.loads):
        key = (load.data, *(evaluate(index, point) for index in load.args))
        if seen.setdefault(key, point[load]) != point[load]:
            return False
    return True
