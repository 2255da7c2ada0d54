"""Exceptions of the schedule language."""

from intset.errors import InputError, IntSetError


class ScheduleError(IntSetError):
    """A call breaks a rule of schedules. The message names the stage and the axis; nothing was changed."""


__all__ = ["InputError", "ScheduleError"]
