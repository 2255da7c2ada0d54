"""Reassociation: sums in the order of loops, so that loop-invariant parts become subexpressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from bound.tir import walk
from bound.tir.reduce import Parameter
from bound.tir.value import Operand
from bound.tir.walk import Part
from intset.expr import ops
from intset.expr.node import Expr, constant_value

Order: TypeAlias = "Mapping[Parameter, int]"  # variables by the loops that bind them, outermost first
_SUMS: Final = (ops.ADD, ops.SUB)


MAX_TERMS: Final = 16  # longer sums are left as they are


def regrouped(operand: Part, order: Order) -> Part:
    """Sort the terms of every sum from the outermost loop to the innermost, constants last.

    Sums with subtracted terms stay: if all terms are nonnegative, no partial sum exceeds the total, so no step needs a
    wider type.
    """
    new: dict[Operand, Operand] = {}
    for node in walk.nodes(operand):
        if node.op in _SUMS and isinstance(node, Expr):
            made = _sorted(walk.rewrite(node, new) if new else node, order)
            if made is not node:
                new[node] = made
    return walk.rewrite(operand, new) if new else operand


def _sorted(e: Expr, order: Order) -> Expr:
    terms: list[Expr] = []
    total = 0
    is_in_order = True
    stack = [(e, 1)]
    while stack:
        node, sign = stack.pop()
        number = constant_value(node)
        if number is not None:
            is_in_order = is_in_order and not stack
            total += sign * number
        elif node.op in _SUMS:
            left, right = node.args
            stack += [(right, sign if node.op is ops.ADD else -sign), (left, sign)]
        elif sign < 0 or (node.op is ops.MUL and (constant_value(node.args[1]) or 0) < 0) or len(terms) == MAX_TERMS:
            return e
        else:
            terms.append(node)
    depths = [max((order.get(v, -1) for v in t.free_vars()), default=-1) for t in terms]
    if not terms or (is_in_order and sorted(depths) == depths):
        return e
    if len(terms) == 2 and not any(t.args for t in terms):
        return e  # no part of it is a sum
    ranked = [t for _, t in sorted(zip(depths, terms, strict=True), key=lambda pair: pair[0])]
    made = sum(ranked[1:], ranked[0])
    return made + total if total > 0 else made - -total if total < 0 else made
