"""Groups: stages that are attached together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bound.errors import ScheduleError
from bound.schedule.graph import between
from bound.schedule.placing import AttachType, is_inside
from bound.schedule.stage import Stage
from bound.tensor import Tensor

if TYPE_CHECKING:
    from bound.schedule.schedule import Schedule


def group_of(schedule: Schedule, outputs: Sequence[Tensor], inputs: Sequence[Tensor], include_inputs: bool) -> Stage:
    """A new group of the stages between `inputs` and `outputs`.

    A group lies inside another or beside it, never across its border; attachments that would leave the new group are
    dropped, their stages are computed at its root.
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
    """The groups around a stage, from the innermost."""
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
    """The stage itself, or the group around it, that lies directly inside `parent`."""
    child = stage
    while child.group is not parent:
        assert child.group is not None
        child = child.group
    return child
