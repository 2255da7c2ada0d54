"""Schedules: stages, relations between their axes, and rewrites of the dataflow. TVM's names."""

from bound.errors import ScheduleError
from bound.itervar import IterVar
from bound.schedule.attach import AttachType
from bound.schedule.relations import Fuse, IterVarRelation, Rebase, Singleton, Split, Tail
from bound.schedule.schedule import (
    AutoInlineBroadcast,
    AutoInlineElemWise,
    AutoInlineInjective,
    Schedule,
    create_schedule,
)
from bound.schedule.stage import IterVarAttr, Stage

__all__ = [
    "AttachType",
    "AutoInlineBroadcast",
    "AutoInlineElemWise",
    "AutoInlineInjective",
    "Fuse",
    "IterVar",
    "IterVarAttr",
    "IterVarRelation",
    "Rebase",
    "Schedule",
    "ScheduleError",
    "Singleton",
    "Split",
    "Stage",
    "Tail",
    "create_schedule",
]
