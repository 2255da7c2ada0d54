"""Rules that inline stages: `AutoInlineElemWise`, `AutoInlineBroadcast`, `AutoInlineInjective`, as in TVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bound.operation import ComputeOp
from bound.schedule.placing import AttachType
from bound.tir import walk
from intset.expr.node import Expr

if TYPE_CHECKING:
    from bound.schedule.schedule import Schedule


def AutoInlineElemWise(schedule: Schedule) -> None:
    """Inline every stage that reads tensors at its own indices only."""
    _inline(schedule, _is_elementwise)


def AutoInlineBroadcast(schedule: Schedule) -> None:
    """Inline every stage whose reads use only axes of the stage, in order; axes may be missing."""
    _inline(schedule, _is_broadcast)


def AutoInlineInjective(schedule: Schedule) -> None:
    """Inline every stage that is not a reduction."""
    _inline(schedule, lambda op: True)


def _inline(schedule: Schedule, applies: Callable[[ComputeOp], bool]) -> None:
    for stage in schedule.stages:
        op = stage.op
        if not isinstance(op, ComputeOp) or op.reduction is not None or stage.is_output or stage.shared_loops:
            continue
        if stage.attach_type is AttachType.GROUP_ROOT and not stage.scope and not stage.relations and applies(op):
            stage.compute_inline()


def _is_elementwise(op: ComputeOp) -> bool:
    return all(
        all(x is iv for x, iv in zip(indices, op.axis, strict=False)) and len(indices) == len(op.axis)
        for indices in _reads(op)
    )


def _is_broadcast(op: ComputeOp) -> bool:
    """Return whether the indices of every read are axes of the stage, in order."""
    position: dict[Expr, int] = {iv: k for k, iv in enumerate(op.axis)}
    for indices in _reads(op):
        order = [position.get(index, -1) for index in indices if not index.is_const]
        if -1 in order or order != sorted(set(order)):
            return False
    return True


def _reads(op: ComputeOp) -> list[tuple[Expr, ...]]:
    return [walk.read_indices(node) for node in walk.nodes(*op.body) if walk.loaded_tensor(node) is not None]
