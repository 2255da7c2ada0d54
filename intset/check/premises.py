"""Premises of certificates: comparisons true by definition of ranges, declarations, operations and definedness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from intset.budgets import CHECK_CASES
from intset.expr import ops
from intset.expr.dag import free_vars, opaque_terms
from intset.expr.definedness import definedness
from intset.expr.node import Cond, Expr, Var, constant_value, make
from intset.expr.range import Range

if TYPE_CHECKING:
    from intset.check.certificate import Certificate

Literals = tuple[Cond, ...]


def cases(cond: Cond, holds: bool) -> list[Literals] | None:
    """Disjunctive normal form of `cond` (or its negation) without `!=`; None beyond `CHECK_CASES` cases."""
    ways: dict[tuple[Cond, bool], list[Literals] | None] = {}
    for node in _boolean_postorder(cond):
        for side in (True, False):
            ways[node, side] = _ways(node, side, ways)
    return ways[cond, holds]


def _boolean_postorder(root: Cond) -> Iterator[Cond]:
    """Boolean structure of `root` in postorder, down to comparisons."""
    done: set[Cond] = set()
    stack = [root]
    while stack:
        node = stack[-1]
        waiting = [arg for arg in node.args if arg not in done] if node.op in _CONNECTIVES else []
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        if node not in done:
            done.add(node)
            yield node


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


def range_conditions(var: Var, limits: Range) -> Iterator[Cond]:
    if isinstance(limits.min, Expr):
        yield var >= limits.min
    if isinstance(limits.max, Expr):
        yield var <= limits.max


def declared_conditions(e: Expr) -> Iterator[Cond]:
    """Declared bounds and divisibility of a variable or opaque term."""
    low, high, step = e.declared() if isinstance(e, Var) else (e.data.lower, e.data.upper, 1)
    if low is not None:
        yield e >= low
    if high is not None:
        yield e <= high
    if step > 1:
        yield (e % step).eq(0)


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
    facts = tuple(fact.condition for fact in cert.facts)
    ranges = tuple(cond for var, limits in cert.ranges for cond in range_conditions(var, limits))
    return (*(() if cert.vacuous else (cert.goal,)), *facts, *ranges)


def premises_of(cert: Certificate) -> list[Cond]:
    """All premises at the certificate's points: declarations, ranges, definedness, facts."""
    facts = [fact.condition for fact in cert.facts]
    ranges = [cond for var, limits in cert.ranges for cond in range_conditions(var, limits)]
    evaluated = facts if cert.vacuous else [cert.goal, *facts]
    roots = (*evaluated, *ranges)
    needs = list(definedness(roots))
    leaves = [*free_vars(*roots), *opaque_terms(*roots)]
    return [*(cond for e in leaves for cond in declared_conditions(e)), *ranges, *needs, *facts]
