"""CreateReadGraph: who reads what; and the threads that loops run on."""

from __future__ import annotations

from bound.itervar import IterVar
from bound.schedule import AttachType, Schedule, Stage
from bound.tensor import Tensor

ReadGraph = dict[Tensor, list[Stage]]


def create_read_graph(schedule: Schedule) -> ReadGraph:
    """The stages that read each tensor, in the order of the schedule; inlined stages read nothing."""
    graph: ReadGraph = {tensor: [] for stage in schedule.stages for tensor in stage.op.outputs}
    for stage in schedule.stages:
        if stage.attach_type is not AttachType.INLINED_ALREADY:
            for tensor in stage.op.input_tensors:
                graph.setdefault(tensor, []).append(stage)
    return graph


def thread_of(stage: Stage, iv: IterVar) -> IterVar | None:
    """The thread axis that a loop of `stage` runs on, or `None`."""
    if iv.thread_tag:
        return iv
    attr = stage.iter_var_attrs.get(iv)
    return None if attr is None else attr.bind_thread


def tag_of(stage: Stage, iv: IterVar) -> str:
    """The thread tag of a loop; empty for an ordinary one."""
    thread = thread_of(stage, iv)
    return "" if thread is None else thread.thread_tag
