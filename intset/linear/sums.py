"""Sums of any depth and sharing, read as `constant + sum(coefficient * node)` over the nodes where addition stops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from intset.expr import ops
from intset.expr.node import Expr, Node

MAX_TREE_STEPS = 128

Spine = tuple[int, dict[Expr, int]]
ADDITIVE = frozenset((ops.ADD, ops.SUB, ops.NEG, ops.MUL))  # MUL only by a constant: `is_sum` tells


def is_sum(node: Node) -> TypeGuard[Expr]:
    """Whether the node adds, or scales by a constant, what is below it."""
    op = node.op
    if op is ops.MUL:
        return node.args[1].op is ops.CONST or node.args[0].op is ops.CONST
    return op in ADDITIVE


def spine(root: Expr) -> Spine:
    """`root` over the nodes where addition stops."""
    return short_spine(root) or long_spine(root, {})


def short_spine(root: Expr) -> Spine | None:
    """`root` over the nodes where addition stops, written out as a tree; `None` for one that is long."""
    total = 0
    leaves: dict[Expr, int] = {}
    stack: list[tuple[Expr, int]] = [(root, 1)]
    for _ in range(MAX_TREE_STEPS):
        node, factor = stack.pop()
        op = node.op
        if op is ops.CONST:
            total += factor * node.data
        elif op is ops.VAR:
            leaves[node] = leaves.get(node, 0) + factor
        elif op is ops.ADD:
            a, b = node.args
            stack.append((b, factor))
            stack.append((a, factor))
        elif op is ops.MUL and node.args[1].op is ops.CONST:
            stack.append((node.args[0], factor * node.args[1].data))
        else:
            children = _children(node)
            if children:
                stack.extend([(child, factor * k) for child, k in reversed(children)])
            else:
                leaves[node] = leaves.get(node, 0) + factor
        if not stack:
            return total, leaves
    return None


def long_spine(root: Expr, known: Mapping[Node, object]) -> Spine:
    """The spine of any sum, over what is in `known`, too: every shared node is met once."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        node, left = stack.pop()
        if left:
            order.append(node)
            continue
        if node in seen:
            continue
        seen.add(node)
        stack.append((node, True))
        if node is root or node not in known:
            stack.extend((child, False) for child, _ in _children(node))
    total = 0
    weight: dict[Expr, int] = {root: 1}
    leaves: dict[Expr, int] = {}
    for node in reversed(order):
        factor = weight[node]
        if node.op is ops.CONST:
            total += factor * node.data
            continue
        children = _children(node) if node is root or node not in known else ()
        if not children:
            leaves[node] = factor
        for child, coefficient in children:
            weight[child] = weight.get(child, 0) + factor * coefficient
    return total, leaves


def _children(node: Expr) -> tuple[tuple[Expr, int], ...]:
    op = node.op
    if op is ops.MUL:
        a, b = node.args
        if b.op is ops.CONST:
            return ((a, b.data),)
        return ((b, a.data),) if a.op is ops.CONST else ()
    if op is ops.ADD:
        return ((node.args[0], 1), (node.args[1], 1))
    if op is ops.SUB:
        return ((node.args[0], 1), (node.args[1], -1))
    return ((node.args[0], -1),) if op is ops.NEG else ()
