"""Functions of the layer of loop nests that schedules and their bounds call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from bound.errors import InputError

if TYPE_CHECKING:
    from bound.infer.infer_bound import BoundsMap


class NestFunctions:
    """What the layer of loop nests provides when it is imported.

    Guarantee: before that, asking for either raises an `InputError` that names the missing import.

    Attributes
    ----------
    auto_bounds: the answer of `infer_bound` for `compute="auto"`, by the arguments schedule, ctx, at, domain, compact,
        whole.
    schedule_ops: `te.schedule.ScheduleOps`.
    """

    __slots__ = ("auto_bounds", "schedule_ops")
    auto_bounds: Callable[..., BoundsMap]
    schedule_ops: Callable[..., Any]

    def __getattr__(self, name: str) -> NoReturn:  # of a slot that is empty
        asked = {
            "auto_bounds": 'compute="auto" is chosen by the cost model of loop nests',
            "schedule_ops": "ScheduleOps builds a loop nest",
        }
        if name not in asked:
            raise AttributeError(name)
        raise InputError(f"{asked[name]}: import lowering first")


NEST_FUNCTIONS = NestFunctions()
