"""What a condition says of a candidate of which some names are still open: it may hold for some of their values.

Each comparison is replaced by the least difference of its sides over the open names, an expression over the others by
the linear tier; `and` and `or` join them. A candidate that fails has no completion that is a member.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from intset.expr import ops
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.definedness import where_it_holds
from intset.expr.node import Cond, Expr, Var, truth
from intset.expr.range import Range
from intset.frame import Frame
from intset.linear.canonical import Normalizer
from intset.linear.symbolic import lowest
from intset.spaces.vectors import ArrayFunction, Ends, to_numpy

_LOGIC = (ops.AND, ops.OR, ops.NOT)
_TRUE = truth(True)


class EarlyConditions:
    """Necessary conditions over the names that are bound, derived when they are first needed.

    Parameters
    ----------
    conditions: those that mention both bound and open names.
    bound: the names that have values.
    ends: the least and the greatest value of each name.
    """

    def __init__(self, conditions: Sequence[ArrayFunction], bound: Collection[Var], ends: Mapping[Var, Ends]) -> None:
        self.conditions, self.bound, self.ends = tuple(conditions), frozenset(bound), ends

    @cached_property
    def functions(self) -> tuple[ArrayFunction, ...]:
        known = Frame.of({var: Range(low, high - low + 1) for var, (low, high) in self.ends.items()}).known
        found: dict[Cond, None] = {}
        for function in self.conditions:
            if isinstance(function.node, Cond):
                found[necessary(known, function.node, self.bound)] = None
        found.pop(_TRUE, None)
        return tuple(to_numpy(cond, self.ends) for cond in found)


def necessary(known: Normalizer, cond: Cond, bound: Collection[Var]) -> Cond:
    """A condition over bound variables that has a value everywhere, and is true wherever `cond` is for some values of
    the other variables."""
    waiting: list[tuple[Cond, bool]] = [(cond, True)]
    for node, holds in waiting:  # grows meanwhile
        if node.op in _LOGIC:
            waiting += [(arg, holds is not (node.op is ops.NOT)) for arg in node.args]
    found: dict[tuple[Cond, bool], Cond] = {}
    for node, holds in reversed(waiting):
        if node.op is ops.NOT:
            found[node, holds] = found[node.args[0], not holds]
        elif node.op in _LOGIC:
            parts = [found[arg, holds] for arg in node.args]
            if (node.op is ops.AND) is holds:
                found[node, holds] = logical_and(*[part for part in parts if part is not _TRUE])
            else:
                found[node, holds] = _TRUE if _TRUE in parts else logical_or(*parts)
        else:
            found[node, holds] = _comparison(known, node, holds, bound)
    return found[cond, True]


def _comparison(known: Normalizer, node: Cond, holds: bool, bound: Collection[Var]) -> Cond:
    if node.op is ops.BOOL:
        return truth(bool(node.data) is holds)
    op = node.op if holds else ops.NEGATED[node.op]
    a, b = node.args
    if op is ops.NE:
        return _TRUE
    if op is ops.EQ:
        parts = [_at_most(known, a - b, 0, bound), _at_most(known, b - a, 0, bound)]
        return logical_and(*[part for part in parts if part is not _TRUE])
    if op in (ops.GT, ops.GE):
        a, b = b, a
    return _at_most(known, a - b, -1 if op in (ops.LT, ops.GT) else 0, bound)


def _at_most(known: Normalizer, e: Expr, limit: int, bound: Collection[Var]) -> Cond:
    """That the least value of an expression over the open variables is at most `limit`, where it is known."""
    end = lowest(known, known.form(e), lambda var: var not in bound).form
    if end is None or any(var not in bound for var in end.expr().free_vars()):
        return _TRUE
    return logical_not(where_it_holds(end.expr() > limit))
