"""Conversions that make no difference: a sum that wraps in the end need not wrap before."""

from __future__ import annotations

from typing import Final

from bound.tir.walk import rewrite
from intset.expr import ops
from intset.expr.node import Expr

_RING: Final = (ops.ADD, ops.SUB, ops.MUL, ops.NEG)


def without_registers(root: Expr, bits: int) -> Expr:
    """An integer for an element of `bits` bits, without conversions to as many below sums and products."""
    dropped: dict[Expr, Expr] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        if node in dropped:
            stack.pop()
            continue
        is_cast = node.op is ops.CAST and node.data[0] >= bits
        if not is_cast and node.op not in _RING:
            dropped[node] = node
            continue
        waiting = [arg for arg in node.args if arg not in dropped]
        if waiting:
            stack += waiting
            continue
        dropped[node] = dropped[node.args[0]] if is_cast else rewrite(node, {arg: dropped[arg] for arg in node.args})
    return dropped[root]
