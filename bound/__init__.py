"""Tensors and schedules: `from bound import te, tir` runs the schedule language of TVM's tensor expressions.

`infer_bound` tells which elements of each tensor a schedule needs, computes and stores.
"""

from bound import te, tir
from bound.infer import BoundsMap, infer_bound

__all__ = ["BoundsMap", "infer_bound", "te", "tir"]
