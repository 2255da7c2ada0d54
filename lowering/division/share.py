"""Quotient and remainder of one pair: where `a / b` is computed anyway, `a rem b` becomes `a - (a / b) * b`."""

from __future__ import annotations

from typing import Any

from intset.expr import ops
from intset.expr.node import Expr, Node, const, constant_value, make
from intset.expr.walk import postorder
from lowering.division.site import truncdiv

Replaced = tuple[Node, Node]


def share(root: Node) -> tuple[Node, tuple[Replaced, ...]]:
    """`root` with shared quotients, and what was replaced by what.

    Guarantee: equal values, and no step that overflows or traps where `root` has none. The product lies between 0 and
    a; a quotient is used only where it is evaluated whenever the remainder is, so it traps only where `root` does.
    """
    order = postorder((root,))
    pairs = {pair for node in order if (pair := _pair(node)) is not None}
    number = {node: 1 << k for k, node in enumerate(n for n in order if n.op is ops.TRUNCDIV and n.args in pairs)}
    if not number:
        return root, ()
    always = _always_evaluated(order, number)
    there = {root: always[root]}
    for node in reversed(order):  # users before what they use
        known = there[node]
        for child, lazy in _children(node):
            own = known | always[child] if lazy else known
            there[child] = there[child] & own if child in there else own
    new: dict[Node, Any] = {}
    replaced: list[Replaced] = []
    for node in order:
        args = tuple(new[arg] for arg in node.args)
        new[node] = (
            node if all(a is b for a, b in zip(args, node.args, strict=True)) else make(node.op, args, node.data)
        )
        pair = _pair(node)
        if pair is not None and there[node] & number.get(truncdiv(*pair), 0):
            before, (a, b) = new[node], (new[e] for e in pair)
            new[node] = a - truncdiv(a, b) * b
            replaced.append((before, new[node]))
    return new[root], tuple(replaced)


def _pair(node: Node) -> tuple[Expr, Expr] | None:
    """(a, b) when `node` is `a rem b`, or the guarded `a rem (b == -1 ? 1 : b)`; not where it is a mask in C."""
    if node.op is not ops.TRUNCMOD:
        return None
    a, b = node.args
    if b.op is ops.SELECT and b.args[0].op is ops.EQ and b.args[1] is const(1):
        left, right = b.args[0].args
        if left is b.args[2] and right is const(-1):
            b = left
    c = constant_value(b)
    return None if c is not None and abs(c) & abs(c) - 1 == 0 else (a, b)


def _always_evaluated(order: list[Node], number: dict[Node, int]) -> dict[Node, int]:
    """For each node the quotients (a bit each) that are evaluated whenever it is."""
    always: dict[Node, int] = {}
    for node in order:
        bits = number.get(node, 0)
        for child, lazy in _children(node):
            bits |= 0 if lazy else always[child]
        always[node] = bits
    return always


def _children(node: Node) -> list[tuple[Node, bool]]:
    """The arguments, and whether each is evaluated only sometimes."""
    lazy = node.op in (ops.SELECT, ops.AND, ops.OR, ops.ASSERTING)
    return [(arg, lazy and k > 0) for k, arg in enumerate(node.args)]
