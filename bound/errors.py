"""The one exception of the schedule language."""

from __future__ import annotations

from intset.errors import InputError, IntSetError


class ScheduleError(IntSetError):
    """A call breaks a rule of the schedule; the sentence names the stage and the axis. Nothing was changed."""


__all__ = ["InputError", "ScheduleError"]
