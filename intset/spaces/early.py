"""Necessary conditions for partial candidates: reject a candidate that no values of the open names can complete.

The linear tier bounds the difference of both sides of a comparison over the open names, as an expression over the bound
names; `and` and `or` combine such bounds. Guarantee: no rejected candidate has a completion that is a member.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from intset.expr import ops
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.dag import postorder, rewrite
from intset.expr.definedness import where_it_holds
from intset.expr.node import Cond, Expr, Node, Var, truth
from intset.expr.range import Range
from intset.frame import Frame
from intset.linear.canonical import Normalizer
from intset.linear.symbolic import lowest
from intset.spaces.vectors import Array, ArrayFunction, Ends, to_numpy

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
    if all(var in bound for var in node.free_vars()):
        return where_it_holds(node if holds else logical_not(node))
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


class BoundPart(NamedTuple):
    """What a new variable stands for: a part of conditions, and the ends beyond which its values decide nothing."""

    function: ArrayFunction
    ends: Ends

    @property
    def variables(self) -> tuple[Var, ...]:
        return self.function.variables


class Shortened(NamedTuple):
    """Conditions over fewer columns.

    Attributes
    ----------
    conditions: with new variables for what they read of the bound ones.
    terms: what each new variable stands for, over the bound ones.
    """

    conditions: tuple[ArrayFunction, ...]
    terms: dict[Var, BoundPart]


def shortened(
    conditions: Sequence[ArrayFunction], bound: Collection[Var], ends: dict[Var, Ends], most: int
) -> Shortened | None:
    """Open conditions in which each largest part over bound variables is a variable of its own, so that candidates that
    differ in nothing else are one state: of `a*b*c <= 64` with `c` open the product `a*b`, and of that none beyond 65.

    `None` where that reads more than `most` columns, or a part has no finite ends. Adds the ends of the new variables.
    """
    roots = [where_it_holds(cond.node) for cond in conditions if isinstance(cond.node, Cond)]
    order = postorder(roots)
    inside: dict[Node, bool] = {}
    for node in order:
        inside[node] = node in bound if node.op is ops.VAR else all(map(inside.__getitem__, node.args))
    parts = dict.fromkeys(arg for node in order if not inside[node] for arg in node.args if inside[arg] and arg.args)
    plain = {arg for node in order if not inside[node] for arg in node.args if inside[arg] and arg.op is ops.VAR}
    if not parts or len(parts) + len(plain) > most:
        return None
    known = Frame.of({var: Range(low, high - low + 1) for var, (low, high) in ends.items()}).known
    functions: dict[Var, ArrayFunction] = {}
    new: dict[Node, Node] = {}
    spans: dict[Var, Ends] = {}
    for part in parts:
        low, high = (0, 1) if isinstance(part, Cond) else known.bounds(known.form(part))
        if low is None or high is None or low > high:
            return None
        var = Var("part")
        spans[var] = (low, high)
        functions[var] = to_numpy(part, ends)
        new[part] = var.ne(0) if isinstance(part, Cond) else var
    shorter = [rewrite(root, dict(new)) for root in roots]
    deciding = _deciding(shorter, ends | spans)
    spans = {var: deciding.get(var, span) for var, span in spans.items()}
    ends |= spans
    terms = {var: BoundPart(function, spans[var]) for var, function in functions.items()}
    return Shortened(tuple(to_numpy(root, ends) for root in shorter), terms)


def _deciding(conditions: Sequence[Node], ends: Mapping[Var, Ends]) -> dict[Var, Ends]:
    """Of variables, the values that decide: one beyond an end may be replaced by the end in all these conditions.

    From `x < r`, where `r` is in `[l, h]`, `x` needs no values beyond `[l - 1, h + 1]`, and the operands of `x` none
    beyond what it follows that they need, whatever the values of the other operands. What is used in several places
    needs the values of each.
    """
    known = Frame.of({var: Range(low, high - low + 1) for var, (low, high) in ends.items()}).known
    order = postorder(conditions)
    needed: dict[Node, tuple[int | None, int | None]] = {}

    def need(node: Node, low: int | None, high: int | None) -> None:
        if node in needed:
            least, most = needed[node]
            low = None if low is None or least is None else min(low, least)
            high = None if high is None or most is None else max(high, most)
        needed[node] = low, high

    for node in reversed(order):
        if node.op in ops.COMPARISONS and all(isinstance(arg, Expr) for arg in node.args):
            limits = [known.bounds(known.form(arg)) for arg in node.args if isinstance(arg, Expr)]
            for arg, (low, high) in zip(node.args, reversed(limits), strict=True):
                need(arg, None if low is None else low - 1, None if high is None else high + 1)
            continue
        low, high = needed.get(node, (None, None))
        for k, arg in enumerate(node.args):
            rule = _NEEDED.get(node.op) if isinstance(node, Expr) and isinstance(arg, Expr) else None
            if rule is None or (low is None and high is None):
                need(arg, None, None)
                continue
            others = [other for j, other in enumerate(node.args) if j != k and isinstance(other, Expr)]
            need(arg, *rule(k, low, high, *(known.bounds(known.form(other)) for other in others)))
    found: dict[Var, Ends] = {}
    for var, (low, high) in needed.items():
        if isinstance(var, Var):
            least, most = ends[var]
            found[var] = (
                least if low is None else min(max(low, least), most),
                most if high is None else min(max(high, least), most),
            )
    return found


_NeededEnd: TypeAlias = "int | None"
_NeededEnds: TypeAlias = "tuple[int | None, int | None]"


def _less(a: _NeededEnd, b: _NeededEnd) -> _NeededEnd:
    return None if a is None or b is None else a - b


def _of_sum(_: int, low: _NeededEnd, high: _NeededEnd, other: _NeededEnds) -> _NeededEnds:
    return _less(low, other[1]), _less(high, other[0])


def _of_difference(k: int, low: _NeededEnd, high: _NeededEnd, other: _NeededEnds) -> _NeededEnds:
    if k == 1:
        return _less(other[0], high), _less(other[1], low)
    return (
        None if low is None or other[0] is None else low + other[0],
        None if high is None or other[1] is None else high + other[1],
    )


def _of_product(_: int, low: _NeededEnd, high: _NeededEnd, other: _NeededEnds) -> _NeededEnds:
    """Beside a factor that is not negative: a product beyond an end stays beyond it, or is 0."""
    least = other[0]
    if least is None or least < 0:
        return None, None
    by = max(1, least)
    return None if low is None else min(low // by, 0), None if high is None else max(-(-high // by), 0)


_NEEDED: Final[Mapping[ops.Op, Callable[..., _NeededEnds]]] = {
    ops.ADD: _of_sum,
    ops.SUB: _of_difference,
    ops.MUL: _of_product,
    ops.NEG: lambda _, low, high: (_less(0, high), _less(0, low)),
    ops.MIN: lambda _, low, high, other: (low, high),
    ops.MAX: lambda _, low, high, other: (low, high),
    ops.SELECT: lambda _, low, high, *other: (low, high),
}


def term_values(term: BoundPart, columns: Mapping[Var, Array]) -> Array:
    """The values of a part, or the nearest end; where it has none, some number within its ends."""
    values = term.function(columns)
    inside: Array = values.astype(np.int64) if values.dtype == bool else np.clip(values, *term.ends)
    return inside
