"""`te.schedule`: TVM's names for schedules, `InferBound` and `ScheduleOps`."""

from __future__ import annotations

from typing import Any

from bound import schedule as schedules
from bound.above import NEST_FUNCTIONS
from bound.infer import BoundsMap, infer_bound
from bound.schedule import *


def InferBound(schedule: Schedule) -> BoundsMap:
    """TVM's name for `infer_bound(schedule)`: the range of every axis, normalized schedule or not."""
    return infer_bound(schedule)


def ScheduleOps(schedule: Schedule, bounds: BoundsMap, debug_keep_trivial_loop: bool = False) -> Any:
    """Build the loop nest of a schedule with the bounds of `InferBound`, once `lowering` is imported."""
    return NEST_FUNCTIONS.schedule_ops(schedule, bounds, debug_keep_trivial_loop)


__all__ = ["InferBound", "ScheduleOps"]
__all__ += schedules.__all__
