"""Schedules that note their primitives, and conditions under which parts of a schedule are written."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, Final, Self

from bound.schedule.schedule import Schedule
from bound.schedule.stage import Stage


class Opened:
    """What a `with` block opens; `current()` is the one of its class that was opened last, or `None`."""

    _open: ClassVar[list[Any]] = []

    def __init_subclass__(cls) -> None:
        cls._open = []

    @classmethod
    def current(cls) -> Any:
        return cls._open[-1] if cls._open else None

    def __enter__(self) -> Self:
        self._open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.pop()


class SpecializedCondition(Opened):
    """A block of conditions under which a schedule is written; `current()` are the innermost ones.

    Attributes
    ----------
    clauses: the conditions.
    """

    def __init__(self, conditions: Any) -> None:
        self.clauses = list(conditions) if isinstance(conditions, (list, tuple)) else [conditions]


class RecordedSchedule(Schedule):
    """A schedule that notes its primitives.

    Attributes
    ----------
    schedule_record: copies of the schedule after each primitive, the default one first.
    primitive_record: their names, "vanilla" first.
    """

    schedule_record: list[Schedule]
    primitive_record: list[str]

    def note(self, name: str) -> None:
        for stage in self.stages:
            stage.__class__ = RecordedStage
        self.schedule_record.append(self.copy())
        self.primitive_record.append(name)


class RecordedStage(Stage):
    """A stage of such a schedule; copies of the schedule note nothing."""


def _noted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        answer = method(self, *args, **named)
        s = getattr(self, "schedule", self)
        if isinstance(s, RecordedSchedule):
            s.note(name)
        return answer

    return call


_PRIMITIVES: Final = {
    Stage: "split fuse reorder bind vectorize parallel unroll pragma prefetch storage_align double_buffer set_scope "
    "set_store_predicate compute_at compute_inline compute_root tensorize rolling_buffer env_threads",
    Schedule: "cache_read cache_write rfactor create_group",
}
for kind, recording in ((Stage, RecordedStage), (Schedule, RecordedSchedule)):
    for primitive in _PRIMITIVES[kind].split():
        setattr(recording, primitive, _noted(primitive, getattr(kind, primitive)))


def recorded(schedule: Schedule, is_kept: bool) -> Schedule:
    """The schedule, with records if they are kept; else they stay empty."""
    if is_kept:
        schedule.__class__ = RecordedSchedule
    schedule.__dict__.update(schedule_record=[], primitive_record=[])
    if isinstance(schedule, RecordedSchedule):
        schedule.note("vanilla")
    return schedule
