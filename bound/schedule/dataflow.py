"""Putting new operations into a schedule: who reads what after a stage was replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bound.operation import Operation
from bound.schedule.stage import Stage
from bound.tensor import Tensor

if TYPE_CHECKING:
    from bound.schedule.schedule import Schedule


def replace_op(schedule: Schedule, stage: Stage, op: Operation) -> dict[Tensor, Tensor]:
    """Make `op` what `stage` computes; gives which tensors took the place of which."""
    old = stage.op
    stage._op = op
    schedule.stage_map[op] = stage
    return dict(zip(old.outputs, op.outputs, strict=True))


def redirect(
    schedule: Schedule,
    stages: Sequence[Stage],
    new: dict[Tensor, Tensor],
    own: Mapping[Stage, Mapping[Tensor, Tensor]] | None = None,
) -> None:
    """Make `stages`, which come in dataflow order, read the values of `new` instead of its keys.

    A stage that changes becomes a new operation, so those behind it change with it; `new` is completed. `own` holds
    what some of the stages alone read instead. Each stage is replaced at most once: `new` never leads to a tensor that
    was replaced in turn.
    """
    for stage in stages:
        if not stage.is_group:
            here = None if own is None else own.get(stage)
            op = stage.op.replace_inputs(new if here is None else {**new, **here})
            if op is not stage.op:
                new.update(replace_op(schedule, stage, op))
    schedule.outputs = tuple(schedule.stage_map[op].op for op in schedule.outputs)
    schedule.dataflow_changed()


def insert_before(schedule: Schedule, stage: Stage, op: Operation) -> Stage:
    """A new stage directly before `stage`, in the same group."""
    return _insert(schedule, _place(schedule, stage), stage.group, op)


def insert_after(schedule: Schedule, stage: Stage, op: Operation) -> Stage:
    """A new stage directly after `stage`, in the same group."""
    return _insert(schedule, _place(schedule, stage) + 1, stage.group, op)


def _insert(schedule: Schedule, place: int, group: Stage | None, op: Operation) -> Stage:
    made = Stage(schedule, op)
    made.group = group
    schedule.stages.insert(place, made)
    schedule.stage_map[op] = made
    schedule.dataflow_changed()
    return made


def _place(schedule: Schedule, stage: Stage) -> int:
    return next(k for k, other in enumerate(schedule.stages) if other is stage)
