"""Tensors and schedules: `from bound import te, tir` runs the schedule language of TVM's tensor expressions.

`infer_bound` computes which elements of each tensor a schedule requires, computes and allocates.
"""

from bound import replay, te, tir
from bound.declare import annotate_shapes
from bound.infer import BoundsMap, infer_bound
from intset.expr.printer import show_by

__all__ = ["BoundsMap", "annotate_shapes", "infer_bound", "replay", "te", "tir"]


@show_by
def _notebook() -> object:
    from bound import tables

    return tables
