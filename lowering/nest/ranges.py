"""The range between two ends that a text names."""

from __future__ import annotations

from intset.expr import ops
from intset.expr.node import Expr, const, constant_value
from intset.expr.range import Range
from intset.linear.form import Linear
from lowering.nest.text import end_of


def range_between(low: Expr, end: Expr) -> Range:
    """The range from `low` up to, and without, `end`: `end_of` gives `end` back.

    The extent is what remains of `end - low` after what cancels, where that keeps the end as it is written.
    """
    if constant_value(low) == 0:
        return Range(low, end)
    if low.is_const and end.is_const:
        return Range(low, const(end.data - low.data))
    likely = end.args[1] if end.op is ops.ADD and end.args[0] is low else _difference(end, low)
    extent = likely if end_of(low, likely) is end else end - low
    return Range(low, extent)


def _difference(a: Expr, b: Expr) -> Expr:
    rest = 0
    terms: dict[Expr, int] = {}
    stack = [(b, -1), (a, 1)]
    while stack:
        e, times = stack.pop()
        factor = constant_value(e.args[1]) if e.op is ops.MUL else None
        if e.op is ops.ADD or e.op is ops.SUB:
            stack += [(e.args[1], -times if e.op is ops.SUB else times), (e.args[0], times)]
        elif e.is_const:
            rest += times * e.data
        elif factor is not None:
            stack.append((e.args[0], times * factor))
        else:
            terms[e] = terms.get(e, 0) + times
    return Linear(rest, {e: times for e, times in terms.items() if times}).expr()
