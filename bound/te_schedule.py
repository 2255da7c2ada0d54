"""`te.schedule`: TVM's names for schedules, `InferBound` and `ScheduleOps`; for what reads what among operations.

For a scan: its body, and which of its steps depend on earlier ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bound import schedule as schedules
from bound.infer import BoundsMap, infer_bound
from bound.infer.infer_bound import NEST_FUNCTIONS
from bound.itervar import IterVar
from bound.schedule import *
from bound.schedule.attach import create_attach_path
from bound.schedule.rewrites import post_order
from bound.schedule.schedule import Schedule
from bound.tensor import ComputeOp, Operation, ScanOp, Tensor
from bound.tir import walk
from intset.errors import InputError
from intset.expr import Expr, as_expr, dag


def InferBound(schedule: Schedule) -> BoundsMap:
    """TVM's name for `infer_bound(schedule)`: the range of every axis, normalized schedule or not."""
    return infer_bound(schedule)


def ScheduleOps(schedule: Schedule, bounds: BoundsMap, debug_keep_trivial_loop: bool = False) -> Any:
    """Build the loop nest of a schedule with the bounds of `InferBound`, once `lowering` is imported."""
    return NEST_FUNCTIONS.schedule_ops(schedule, bounds, debug_keep_trivial_loop)


Dimension = tuple[Tensor, int]


def CreateReadGraph(ops: Iterable[Operation]) -> dict[Operation, list[Tensor]]:
    """The tensors that each operation reads, for operations and their producers."""
    return {op: list(op.input_tensors) for op in post_order(tuple(ops))}


def PostDFSOrder(ops: Iterable[Operation], graph: Mapping[Operation, Sequence[Tensor]]) -> list[Operation]:
    """The operations of a graph of reads, producers first."""
    return dag.postorder_by(ops, lambda op: [tensor.op for tensor in graph.get(op, ())])


def CreateAttachPath(schedule: Schedule) -> dict[Operation, list[IterVar]]:
    """The loops of other stages around each operation, innermost first."""
    paths = create_attach_path(schedule)
    return {stage.op: [leaf for _, leaf in paths[stage]] for stage in schedule.stages}


def ScanGetBody(scan: Operation) -> list[Operation]:
    """A scan and its operations that depend on the scan's state."""
    if not isinstance(scan, ScanOp):
        raise InputError(f"the body of a scan is asked of {scan.name}, which is none")
    states = {state.op for state in scan.state_placeholder}
    inside: dict[Operation, None] = {}
    for op in post_order(tuple(update.op for update in scan.update)):
        if not {*states, *inside}.isdisjoint(read.op for read in op.input_tensors):
            inside[op] = None
    inside.update(dict.fromkeys(update.op for update in scan.update))
    return [scan, *inside]


def ScanFixPointAnalysis(scan: Operation) -> dict[IterVar, Expr]:
    """For each spatial axis of a scan: 1 if a step at index `i` depends on earlier steps at `i` alone, else 0.

    Guarantee: 1 only if every index along the axis, through all operations of the body, is exactly an axis.
    """
    body = [op for op in ScanGetBody(scan) if op is not scan]
    assert isinstance(scan, ScanOp)
    states = set(scan.state_placeholder)
    same: dict[Dimension, list[Dimension]] = defaultdict(list)  # dimensions with equal indices
    failed: set[Dimension] = set()  # dimensions that some index contradicts

    def join(a: Dimension, b: Dimension) -> None:
        same[a].append(b)
        same[b].append(a)

    def is_in_step(d: Dimension) -> bool:
        members = set(dag.reachable([d], same.__getitem__))
        return len({tensor for tensor, _ in members}) == len(members) and members.isdisjoint(failed)

    spatial = [(i, k) for i, update in enumerate(scan.update) for k in range(1, update.ndim)]
    for i, k in spatial:
        join((scan.update[i], k), (scan.state_placeholder[i], k))
    for op in body:
        axes = {axis: k for k, axis in enumerate(op.axis)} if isinstance(op, ComputeOp) else {}
        for node in walk.nodes(*op.body) if isinstance(op, ComputeOp) else ():
            read = walk.loaded_tensor(node)
            if read is None or (read not in states and read.op not in body):
                continue
            for m, index in enumerate(walk.read_indices(node)):
                if m == 0 and read in states:
                    continue
                if isinstance(index, IterVar) and index in axes:
                    for output in op.outputs:
                        join((output, axes[index]), (read, m))
                else:
                    failed.add((read, m))
        if not isinstance(op, ComputeOp):
            failed |= {(t, k) for t in op.input_tensors for k in range(t.ndim)}
    answers = {(i, k): int(is_in_step((scan.update[i], k))) for i, k in spatial}
    return {axis: as_expr(answers[place]) for axis, place in zip(scan.spatial_axis, spatial, strict=True)}


__all__ = [
    "CreateAttachPath",
    "CreateReadGraph",
    "InferBound",
    "PostDFSOrder",
    "ScanFixPointAnalysis",
    "ScanGetBody",
    "ScheduleOps",
]
__all__ += schedules.__all__
