"""Overflow check of rewrites: whether a new expression needs a wider machine type than the old one.

A new step is safe if its interval fits, if an old step has the same value, or if its value lies between two old values
(0 counts as one). `min(x, y - z) + z` as `min(x + z, y)` may overflow: x + z is a new value.
"""

from __future__ import annotations

from intset.budgets import COMPARED_STEPS
from intset.expr import ops
from intset.expr.node import Expr, Node
from intset.linear.canonical import Normalizer
from intset.linear.form import ZERO, Linear

_CHOOSING = (ops.MIN, ops.MAX, ops.SELECT)  # fit if their operands fit


def no_wider(new: Node, old: Node, known: Normalizer, bits: int) -> bool:
    """Whether every step of `new` fits in `bits` signed bits, or in any wider type that fits all steps of `old`."""
    have = _below(old)
    most = (1 << (bits - 1)) - 1
    values: list[Linear] | None = None
    stack = [new]
    seen = set(have)
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        stack.extend(e.args)
        if not isinstance(e, Expr) or e.op is ops.VAR or e.op in _CHOOSING:
            continue
        form = known.form(e)
        low, high = known.bounds(form)
        if low is not None and high is not None and -most - 1 <= low and high <= most:
            continue
        if values is None:
            values = [known.form(step) for step in have if isinstance(step, Expr) and step.op is not ops.CONST]
        if any(form.same(value) for value in values):
            continue
        if not (_reached(form, values, known, 1) and _reached(form, values, known, -1)):
            return False
    return True


def _below(root: Node) -> dict[Node, None]:
    nodes: dict[Node, None] = {root: None}
    stack = [root]
    while stack:
        for arg in stack.pop().args:
            if arg not in nodes:
                nodes[arg] = None
                stack.append(arg)
    return nodes


def _reached(form: Linear, values: list[Linear], known: Normalizer, sign: int) -> bool:
    """Whether a value, or 0, bounds `form` from above (from below for sign -1)."""
    return any(known.is_nonneg(value.minus(form).scale(sign)) for value in (ZERO, *values[:COMPARED_STEPS]))
