"""Schedules: stages, the relations between their axes, and the rewrites of the dataflow."""

from __future__ import annotations

from typing import Any

from bound.errors import ScheduleError
from bound.schedule.relations import Fuse, Rebase, Relation, Singleton, Split, Tail
from bound.schedule.schedule import Schedule, create_schedule
from bound.schedule.stage import AttachType, IterVarAttr, Stage


def InferBound(sch: Schedule) -> Any:
    """TVM's name for `infer_bound`: the range of every axis."""
    from bound.infer import infer_bound

    return infer_bound(sch)


def ScheduleOps(sch: Schedule, bounds: Any) -> Any:
    """TVM's name for the loop nest of a schedule under given bounds."""
    raise NotImplementedError("ScheduleOps is not there yet")


__all__ = [
    "AttachType",
    "Fuse",
    "InferBound",
    "IterVarAttr",
    "Rebase",
    "Relation",
    "Schedule",
    "ScheduleError",
    "ScheduleOps",
    "Singleton",
    "Split",
    "Stage",
    "Tail",
    "create_schedule",
]
