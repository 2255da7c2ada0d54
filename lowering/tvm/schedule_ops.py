"""TVM's name for what follows a schedule's bounds: `te.schedule.ScheduleOps`."""

from __future__ import annotations

from bound.above import NEST_FUNCTIONS
from bound.errors import InputError
from bound.infer import BoundsMap
from bound.schedule import Schedule
from intset.expr.printer import shown
from lowering.build import schedule_ops
from lowering.build.function import parameters
from lowering.nest.ir import Stmt


def ScheduleOps(schedule: object, bounds: object, debug_keep_trivial_loop: bool = False) -> Stmt:
    """TVM's name for the loop nest of a schedule under the bounds that `InferBound` gave for it: a printable statement.

    Indices are those of the tensors, before storage is laid out and divisions are lowered; `lowering.lower` makes a
    function of it. Inputs and outputs are passed in, everything else is allocated where it is computed. Loops of one
    iteration stay, so `debug_keep_trivial_loop` changes nothing.

    Raises
    ------
    InputError: `bounds` is not what `InferBound` gave for this schedule.
    ScheduleError: the schedule has no sequential meaning.
    """
    if not isinstance(schedule, Schedule):
        raise InputError(f"ScheduleOps takes a schedule, not {shown(schedule)}")
    if not isinstance(bounds, BoundsMap):
        kind = type(bounds).__name__
        raise InputError(
            f"ScheduleOps takes what InferBound gave for the schedule, not a {kind}: "
            "ranges alone do not say which guards the loops need and what is stored"
        )
    if schedule is not bounds.written and schedule is not bounds.schedule:
        raise InputError("ScheduleOps takes the bounds of this schedule, these were found for another one")
    tensors, _ = parameters(bounds.schedule, None)
    return schedule_ops(bounds, frozenset(tensors))


NEST_FUNCTIONS.schedule_ops = ScheduleOps
