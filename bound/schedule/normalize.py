"""`normalize`, the form of a schedule on which InferBound works, and the rules that inline stages.

Inlined stages leave the dataflow; every root axis that is a loop is rebased to start at 0; attachments follow axes that
were split or fused later; a stage computed where a consumer cannot see it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from bound import dtypes
from bound.errors import ScheduleError
from bound.itervar import IterVar
from bound.operation import ComputeOp, Operation
from bound.schedule.attach import WARP, AttachType, check_attachments, storage_rank, thread_rank
from bound.schedule.dataflow import replace_op
from bound.schedule.relations import Fuse, Rebase, Split
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.machine import fitted
from bound.tir.value import Operand
from intset.expr import ops
from intset.expr.dag import operations
from intset.expr.node import Expr

if TYPE_CHECKING:
    from bound.schedule.schedule import Schedule
    from bound.schedule.stage import Stage


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


def normalize(schedule: Schedule) -> Schedule:
    """Return a normalized copy of the schedule.

    Raises
    ------
    ScheduleError: the schedule is illegal.
    """
    new = schedule.copy()
    inject_inline(new)
    rebase_non_zero_min_loop(new)
    legalize_invalid_attach(new)
    sink_private(new)
    check_attachments(new)
    return new


def inject_inline(schedule: Schedule) -> None:
    """InjectInline: substitute the formulas of inlined stages into their consumers, producers first."""
    if not any(stage.attach_type is AttachType.INLINE for stage in schedule.stages):
        return
    formulas: dict[Tensor, ComputeOp] = {}
    new: dict[Tensor, Tensor] = {}
    for stage in schedule.stages:
        op = _inlined(stage.op, formulas, new)
        if op is not stage.op:
            new.update(replace_op(schedule, stage, op))
        if stage.attach_type is AttachType.INLINE:
            assert isinstance(op, ComputeOp)
            formulas.update(dict.fromkeys((*op.outputs, *stage.op.outputs), op))
            stage.attach_type = AttachType.INLINED_ALREADY
    schedule.outputs = tuple(schedule.stage_map[op].op for op in schedule.outputs)
    schedule.dataflow_changed()


def _inlined(op: Operation, formulas: dict[Tensor, ComputeOp], new: dict[Tensor, Tensor]) -> Operation:
    redirected = op.replace_inputs(new)
    read = [tensor for tensor in redirected.input_tensors if tensor in formulas]
    if not read:
        return redirected
    if not isinstance(redirected, ComputeOp):
        raise ScheduleError(f"stage {read[0].name}: it cannot be inlined into {op.name}, which reads it as a whole")

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
        inlined = formulas.get(tensor)
        if inlined is None:
            return None
        mapping = dict(zip(inlined.axis, indices, strict=True))
        return _stored(walk.substitute(inlined.body[tensor.value_index], mapping), tensor.dtype)

    return redirected.with_body(tuple(walk.rewrite(value, on_load=on_load) for value in redirected.body))


def _stored(value: Operand, dtype: str) -> Operand:
    """Wrap a substituted value as storing it would; indices of the default type stay."""
    is_value = isinstance(value, Expr) and not value.is_const and not operations(value).isdisjoint((ops.LOAD, ops.CAST))
    if not isinstance(value, Expr) or not (is_value or dtypes.bits(dtype) < 32):
        return value
    return fitted(value, dtype)


def rebase_non_zero_min_loop(schedule: Schedule) -> None:
    """Rebase each root axis that is a loop without a thread to a loop that starts at 0."""
    rebased: dict[IterVar, IterVar] = {}
    for stage in schedule.stages:
        if stage.attach_type is AttachType.INLINED_ALREADY:
            continue
        position = {iv: k for k, iv in enumerate(stage.leaf_iter_vars)}
        for root in stage.op.root_iter_vars:
            attr = stage.iter_var_attrs.get(root)
            if root not in position or (attr is not None and attr.bind_thread is not None):
                continue
            loop = root.part(root.name)
            stage.relations.append(Rebase(root, loop))
            stage.all_iter_vars.append(loop)
            stage.leaf_iter_vars[position[root]] = loop
            if attr is not None:
                stage.iter_var_attrs[loop] = attr
            rebased[root] = loop
    for stage in (*schedule.stages, *schedule.groups):
        # Copied operations may share axes, so only leaves of the stage itself are moved.
        stage.relocate(partial(_rebased, rebased))


def _rebased(rebased: Mapping[IterVar, IterVar], target: Stage, axis: IterVar) -> tuple[Stage, IterVar]:
    moved = rebased.get(axis)
    return (target, axis) if moved is None or not any(iv is moved for iv in target.leaf_iter_vars) else (target, moved)


def legalize_invalid_attach(schedule: Schedule) -> None:
    """Move attachments to the inner loop of a later split, or the fused loop of a later fusion.

    TVM follows only the inner one of two fused axes; here both move to the fused loop.
    """
    for stage in (*schedule.stages, *schedule.groups):
        stage.relocate(_legal)


def _legal(target: Stage, axis: IterVar) -> tuple[Stage, IterVar]:
    if any(leaf is axis for leaf in target.leaf_iter_vars):
        return target, axis
    for relation in target.relations:
        if isinstance(relation, Split) and relation.parent is axis:
            axis = relation.inner
        elif isinstance(relation, Fuse) and axis in (relation.outer, relation.inner):
            axis = relation.fused
        elif isinstance(relation, Rebase) and relation.parent is axis:
            axis = relation.rebased
    return target, axis


def sink_private(schedule: Schedule) -> None:
    """Move a stage in private memory into the thread loop of its only reader, so that a thread computes what it keeps.

    Example: a stage in `local` memory at a loop of `C`, read by a stage `B` at the same loop, which is bound to
    `threadIdx.x`. As written, it would serve all threads of `B`, and every thread would keep the elements of all.
    """
    readers: dict[Stage, list[Stage]] = {}
    for reader in schedule.stages:
        for op in dict.fromkeys(tensor.op for tensor in reader.op.input_tensors):
            if op in schedule.stage_map:
                readers.setdefault(schedule.stage_map[op], []).append(reader)
    for stage in schedule.stages:
        if stage.attach_type is not AttachType.SCOPE or stage.group is not None or stage.store_type is not None:
            continue
        private = bool(stage.scope) and storage_rank(stage.scope) > WARP
        if not private or stage.shared_loops or any(thread_rank(stage.tag_of(iv)) == 1 for iv in stage.leaf_iter_vars):
            continue
        loop = _thread_inside(stage, readers.get(stage, []))
        if loop is not None:
            stage.attach_stage, stage.attach_ivar = loop


def _thread_inside(stage: Stage, readers: list[Stage]) -> tuple[Stage, IterVar] | None:
    """Return the innermost thread loop of the only reader, if that is not the stage at which this one is computed."""
    if len(readers) != 1 or readers[0] is stage.attach_stage or stage.store_predicate is not None:
        return None
    (reader,) = readers
    if reader.attach_type is AttachType.INLINED_ALREADY or reader.shared_loops:
        return None
    threads = [iv for iv in reader.leaf_iter_vars if thread_rank(reader.tag_of(iv)) == 1]
    return (reader, threads[-1]) if threads else None
