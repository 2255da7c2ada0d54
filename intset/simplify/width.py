"""Whether the steps of an expression need a wider machine type than those of an equal one.

A step is seen to need none where its value is one that is computed anyway, where it lies between two values that are
(0 is always there), or where its bounds fit. `min(x, y - z) + z` as `min(x + z, y)` may overflow: x + z is a new value.
"""

from __future__ import annotations

from typing import Final

from intset.expr import ops
from intset.expr.node import Expr, Node
from intset.linear.canonical import Normalizer
from intset.linear.form import ZERO, Linear

MAX_STEPS: Final = 8  # of the given expression that a new step is held against

_CHOOSING = (ops.MIN, ops.MAX, ops.SELECT)  # what they are fits where their operands do


def no_wider(new: Node, old: Node, known: Normalizer, bits: int) -> bool:
    """Whether each step of `new` fits `bits` signed bits, or any wider type that the steps of `old` fit."""
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
    found: dict[Node, None] = {root: None}
    stack = [root]
    while stack:
        for arg in stack.pop().args:
            if arg not in found:
                found[arg] = None
                stack.append(arg)
    return found


def _reached(form: Linear, values: list[Linear], known: Normalizer, sign: int) -> bool:
    """Whether one of the values, or 0, is at least `form` (at most, for a sign of -1)."""
    return any(known.is_nonneg(value.minus(form).scale(sign)) for value in (ZERO, *values[:MAX_STEPS]))
