"""The cost model: what an operation costs on a general-purpose 32- or 64-bit processor, in units of an addition.

A division by a constant is left to the C compiler, which turns it into a multiplication by a magic number, a shift and
an addition (Granlund and Montgomery, PLDI 1994): hence 5, not 25. A remainder by a constant is that and `a - q*b`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from intset.expr import ops
from intset.expr.node import Node, constant_value
from intset.expr.ops import Op

DIVISION: Final = 25  # by a variable: the processor's own instruction
DIVISION_BY_CONSTANT: Final = 5
REMAINDER_BY_CONSTANT: Final = 9
OTHER: Final = 1

COSTS: Final[dict[Op, int]] = {
    **dict.fromkeys((ops.CONST, ops.VAR, ops.BOOL, ops.CAST, ops.ASSERTING), 0),
    **dict.fromkeys((ops.ADD, ops.SUB, ops.NEG, ops.SHL, ops.SHR, ops.BITNOT), 1),
    **dict.fromkeys((ops.BITAND, ops.BITOR, ops.BITXOR, ops.NOT, ops.AND, ops.OR, *ops.COMPARISONS), 1),
    **dict.fromkeys((ops.SELECT, ops.MIN, ops.MAX, ops.ABS), 2),
    ops.MUL: 3,
    ops.LOAD: 4,
}


def node_cost(node: Node) -> int:
    """The cost of the operation of `node` alone."""
    if node.op not in ops.DIVISIONS:
        return COSTS.get(node.op, OTHER)
    if constant_value(node.args[1]) is None:
        return DIVISION
    return REMAINDER_BY_CONSTANT if node.op in (ops.FLOORMOD, ops.TRUNCMOD) else DIVISION_BY_CONSTANT


def cost(root: Node, free: Collection[Node] = ()) -> int:
    """The cost of what is computed for `root`, each distinct node once, when the nodes in `free` are there already."""
    total, seen, stack = 0, set(free), [root]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            total += node_cost(node)
            stack.extend(node.args)
    return total
