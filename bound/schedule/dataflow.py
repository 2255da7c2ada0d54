"""Dataflow of a schedule: order and reachability of operations, replacement of operations, and groups of stages."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bound.errors import ScheduleError
from bound.operation import Operation
from bound.schedule.attach import AttachType, is_inside
from bound.schedule.stage import Stage
from bound.tensor import Tensor
from intset.expr.dag import postorder_by

if TYPE_CHECKING:
    from bound.schedule.schedule import Schedule


def post_order(outputs: Iterable[Operation], until: Container[Tensor] = ()) -> list[Operation]:
    """List the operations that `outputs` depend on, producers first, in the order in which inputs are read.

    Parameters
    ----------
    until: tensors whose producers are not visited.
    """

    def inputs(op: Operation) -> list[Operation]:
        return [] if any(tensor in until for tensor in op.outputs) else [tensor.op for tensor in op.input_tensors]

    return postorder_by(outputs, inputs)


class Reach:
    """Reachability between operations, as one bit mask per operation. Built in linear time."""

    def __init__(self, ordered: Sequence[Operation]) -> None:
        self._number = {op: k for k, op in enumerate(ordered)}
        self._mask = dict.fromkeys(ordered, 0)
        for op in reversed(ordered):
            below = self._mask[op] | 1 << self._number[op]
            for tensor in op.input_tensors:
                if tensor.op in self._mask:
                    self._mask[tensor.op] |= below

    def reaches(self, producer: Operation, consumer: Operation) -> bool:
        """Return whether `consumer` depends on `producer`, directly or indirectly."""
        return bool(self._mask[producer] >> self._number[consumer] & 1)


def between(outputs: Sequence[Tensor], inputs: Sequence[Tensor], include_inputs: bool) -> list[Operation]:
    """List the operations on paths from `inputs` to `outputs`, producers first.

    The operations of `outputs` are always included, those of `inputs` only if `include_inputs`.
    """
    start = set(inputs)
    inside: dict[Operation, bool] = {}
    for op in post_order((tensor.op for tensor in outputs), start):
        uses = any(tensor in start or inside.get(tensor.op, False) for tensor in op.input_tensors)
        is_input = any(tensor in start for tensor in op.outputs)
        inside[op] = include_inputs if is_input else uses
    # The outputs themselves belong to the group even when they read none of the inputs.
    output_ops = {tensor.op for tensor in outputs}
    return [op for op, inner in inside.items() if inner or op in output_ops]


def replace_op(schedule: Schedule, stage: Stage, op: Operation) -> dict[Tensor, Tensor]:
    """Replace the operation of a stage; returns the map from old to new tensors."""
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
    """Make `stages`, given in dataflow order, read the values of `new` instead of its keys.

    A changed stage becomes a new operation, whose tensors are added to `new`, so its consumers change as well.

    Invariant: each stage is replaced at most once; `new` never leads to a tensor that was replaced in turn.

    Parameters
    ----------
    own: further replacements for single stages.
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
    """Insert a stage directly before `stage`, in the same group."""
    return _insert(schedule, _place(schedule, stage), stage.group, op)


def insert_after(schedule: Schedule, stage: Stage, op: Operation) -> Stage:
    """Insert a stage directly after `stage`, in the same group."""
    return _insert(schedule, _place(schedule, stage) + 1, stage.group, op)


def _insert(schedule: Schedule, index: int, group: Stage | None, op: Operation) -> Stage:
    new = Stage(schedule, op)
    new.group = group
    schedule.stages.insert(index, new)
    schedule.stage_map[op] = new
    schedule.dataflow_changed()
    return new


def _place(schedule: Schedule, stage: Stage) -> int:
    return next(k for k, other in enumerate(schedule.stages) if other is stage)


def group_of(schedule: Schedule, outputs: Sequence[Tensor], inputs: Sequence[Tensor], include_inputs: bool) -> Stage:
    """Group the stages between `inputs` and `outputs`.

    Invariant: groups nest. Attachments that would leave the new group are dropped; their stages move to its root.

    Raises
    ------
    ScheduleError: the group is empty, or would overlap an earlier one.
    """
    members = [schedule.stage_map[op] for op in between(outputs, inputs, include_inputs)]
    if not members:
        raise ScheduleError("create_group: there is no stage between the inputs and the outputs")
    parent = _common_group(members)
    children = list(dict.fromkeys(_child_of(stage, parent) for stage in members))
    for stage in members:
        stage.whole_own("create_group")
    inside = set(members)
    for child in children:
        if not child.is_group:
            continue
        stranger = next((s for s in schedule.stages if is_inside(s, child) and s not in inside), None)
        if stranger is not None:
            raise ScheduleError(f"create_group: an earlier group also holds {stranger.name}, the new one does not")
    group = Stage(schedule, None)
    group.group = parent
    for child in children:
        child.group = group
    for stage in members:
        if stage.attach_type is AttachType.SCOPE and not is_inside(stage.attach_stage, group):
            stage.compute_root()
        elif stage.store_type is AttachType.SCOPE and not is_inside(stage.store_stage, group):
            stage.store_type = stage.store_stage = stage.store_ivar = None
    schedule.groups.append(group)
    return group


def _ancestors(stage: Stage) -> list[Stage]:
    """List the groups around a stage, innermost first."""
    groups = []
    outer = stage.group
    while outer is not None:
        groups.append(outer)
        outer = outer.group
    return groups


def _common_group(stages: Sequence[Stage]) -> Stage | None:
    common = _ancestors(stages[0])
    for stage in stages[1:]:
        around = set(_ancestors(stage))
        common = [group for group in common if group in around]
    return common[0] if common else None


def _child_of(stage: Stage, parent: Stage | None) -> Stage:
    """Return the stage, or the group around it, directly inside `parent`."""
    child = stage
    while child.group is not parent:
        assert child.group is not None
        child = child.group
    return child
