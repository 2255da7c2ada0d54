"""Attach paths: the loops around each stage, and the check that its consumers are inside of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bound.errors import ScheduleError
from bound.itervar import IterVar
from bound.schedule.placing import AttachType, slid_loops
from bound.schedule.stage import Stage

if TYPE_CHECKING:
    from bound.schedule.schedule import Schedule

AttachPath = tuple[tuple[Stage, IterVar], ...]


def create_attach_path(schedule: Schedule) -> dict[Stage, AttachPath]:
    """CreateAttachPath: list the loops around each stage, innermost first, each with the stage that owns it.

    A stage computed at the root has the empty path.

    Raises
    ------
    ScheduleError: an attach point is no loop any more, or a stage is computed inside itself.
    """
    paths: dict[Stage, AttachPath] = {}
    for stage in reversed(schedule.stages):  # consumers first: stages are attached to consumers
        _path(stage, paths)
    return paths


def _path(stage: Stage, paths: dict[Stage, AttachPath]) -> AttachPath:
    waiting = [stage]
    while waiting:
        top = waiting[-1]
        if top in paths:
            waiting.pop()
            continue
        target, axis = attachment(top)
        if target is None:
            paths[top] = ()
        elif target not in paths:
            if target in waiting:
                raise ScheduleError(f"stage {top.name}: it is computed inside itself")
            waiting.append(target)
        else:
            paths[top] = (*_loops_from(top, target, axis), *paths[target])
    return paths[stage]


def attachment(stage: Stage) -> tuple[Stage | None, IterVar | None]:
    """Return the stage and the loop in which `stage` is computed; (`None`, `None`) at the root."""
    spec = stage.get_attach_spec()
    if spec.attach_type is AttachType.SCOPE:
        return spec.attach_stage, spec.attach_ivar
    if spec.attach_type is AttachType.SCAN_UPDATE:
        scan = spec.attach_stage
        assert scan is not None
        return scan, scan_loop(scan)
    return None, None


def scan_loop(scan: Stage) -> IterVar:
    """Return the innermost loop of a scan, in which its updates are computed."""
    return scan.leaf_iter_vars[-1]


def _loops_from(stage: Stage, target: Stage, axis: IterVar | None) -> AttachPath:
    """List the loops of `target` from `axis` outwards."""
    leaves = target.leaf_iter_vars
    for k in range(len(leaves) - 1, -1, -1):
        if leaves[k] is axis:
            return tuple((target, leaf) for leaf in reversed(leaves[: k + 1]))
    name = "" if axis is None else axis.name
    if target.attach_type is AttachType.INLINED_ALREADY:
        raise ScheduleError(f"stage {stage.name}: it is computed at {name} of {target.name}, which is inlined")
    raise ScheduleError(
        f"stage {stage.name}: it is computed at {name} of {target.name}, which is no loop of {target.name} any more"
    )


def check_attachments(schedule: Schedule) -> dict[Stage, AttachPath]:
    """Refuse a schedule in which a consumer is outside of the loop that computes its producer; returns the attach
    paths.

    Raises
    ------
    ScheduleError: names the producer, the loop and the consumer.
    """
    paths = create_attach_path(schedule)
    stage_of = {stage.op: stage for stage in schedule.stages}
    for consumer in schedule.stages:
        if consumer.attach_type is AttachType.INLINED_ALREADY:
            continue
        slid_loops(consumer, paths[consumer])
        for tensor in consumer.op.input_tensors:
            producer = stage_of.get(tensor.op)
            if producer is None or producer.attach_type is AttachType.INLINED_ALREADY or not paths[producer]:
                continue
            if not _encloses(paths[producer], consumer, paths[consumer]):
                target, axis = paths[producer][0]
                raise ScheduleError(
                    f"stage {producer.name}: it is computed at {axis.name} of {target.name}, "
                    f"but {consumer.name}, which reads it, is outside that loop"
                )
    return paths


def _encloses(path: AttachPath, consumer: Stage, consumer_path: AttachPath) -> bool:
    """Return whether `consumer` runs inside the innermost loop of `path`."""
    target, axis = path[0]
    own = consumer.leaf_iter_vars  # a loop that is shared is a leaf of several stages
    return target is consumer or any(loop is axis for loop in (*own, *(loop for _, loop in consumer_path)))
