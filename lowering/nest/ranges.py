"""The range between two ends that a text names."""

from __future__ import annotations

from intset.expr import ops
from intset.expr.node import Expr, const, constant_value, make
from intset.expr.range import Range
from lowering.nest.text import end_of, weighed


def range_between(low: Expr, end: Expr) -> Range:
    """The range from `low` up to, and without, `end`: `end_of` gives `end` back.

    The extent is what remains of `end - low` after what cancels, where that keeps the end as it is written.
    """
    if low.is_const and end.is_const:
        count = end.data - low.data
        # an end before the start, which a text may have as sizes may: the difference stays written out
        return Range(low, const(count) if count >= 0 else make(ops.SUB, (end, low)))
    if constant_value(low) == 0:
        return Range(low, end)
    likely = end.args[1] if end.op is ops.ADD and end.args[0] is low else weighed((low, -1), (end, 1))
    extent = likely if end_of(low, likely) is end else end - low
    return Range(low, extent)
