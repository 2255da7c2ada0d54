"""Recomputation: clone tensors for one of their consumers.

Example: `T1` is read by `T2` and `T3`. `recompute(s, T1, T2)` adds `T1.clone` with the loops of `T1`; `T2` reads the
clone, `T3` still reads `T1`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bound.errors import ScheduleError
from bound.itervar import IterVar
from bound.operation import ComputeOp, Operation, PlaceholderOp, redirected
from bound.replay.dependencies import DependencyGraph, check_depends
from bound.replay.domain import current
from bound.replay.snapshot import ScheduleSnapshot
from bound.schedule import Schedule, Stage
from bound.schedule.dataflow import insert_after, redirect
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.reduce import Reduction
from bound.tir.value import Value, ValueOp, make


def recompute(schedule: Schedule, producer: Tensor, consumer: Tensor) -> dict[Tensor, Tensor]:
    """Clone every computed tensor on dependency chains from `producer` to `consumer` that has other consumers or is an
    output.

    The chains then read the clones, all other tensors the originals. A clone has the loops and the position of its
    original. Returns a map from tensors, and from their names before rewrites, to clones; empty if there is nothing to
    clone.

    Raises
    ------
    ScheduleError: a tensor cannot be cloned, or the shared loops would not nest.
    """
    first, last = current(schedule, producer), current(schedule, consumer)
    graph = DependencyGraph(schedule)
    check_depends(graph, first, last)
    between = {first, *graph.dependents((first,))} & graph.needed((last,))
    chain = {t.op for t in between if not isinstance(t.op, PlaceholderOp)} - {last.op}
    cloned: set[Operation] = set()
    for stage in reversed(schedule.stages):
        if stage.op in chain:
            readers = {reader.op for t in stage.op.outputs for reader in graph.consumers(t)}
            if stage.is_output or not readers <= chain | {last.op} or readers & cloned:
                cloned.add(stage.op)
    clones: dict[Tensor, Tensor] = {}
    originals = [stage for stage in schedule.stages if stage.op in cloned]
    for stage in originals:
        _check_cloned(schedule, stage)
    for stage in originals:
        op = stage.op
        assert isinstance(op, ComputeOp)
        copy, axes = _copy(op, clones)
        stage_of_clone = insert_after(schedule, stage, copy)
        _give_loops(stage, stage_of_clone, axes)
        clones.update(zip(op.outputs, copy.outputs, strict=True))
    clone_of = _known_as(schedule, originals, clones)
    own = {schedule[op]: clones for op in chain - cloned | {last.op}}
    redirect(schedule, schedule.stages, {}, own)
    snapshot = ScheduleSnapshot(
        schedule
    )  # a clone shares what the original shares, with what it reads and with its readers
    if snapshot.nest().conflict is not None:
        raise ScheduleError(
            f"{first.name} cannot be computed apart for {last.name}: the loops it shares would not nest"
        )
    snapshot.write()
    return clone_of


def _known_as(schedule: Schedule, originals: Sequence[Stage], clones: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
    """Map tensors, and what they were before rewrites, to clones."""
    before: dict[Stage, list[Tensor]] = {stage: [] for stage in originals}
    for op, stage in schedule.stage_map.items():
        if stage in before and op is not stage.op:
            before[stage] += op.outputs
    return {
        t: clones[stage.op.output(t.value_index)] for stage in originals for t in (*before[stage], *stage.op.outputs)
    }


def _check_cloned(schedule: Schedule, stage: Stage) -> None:
    """Raise `ScheduleError` unless a stage can be cloned."""
    if not isinstance(stage.op, ComputeOp):
        raise ScheduleError(f"stage {stage.name}: only an operation made by te.compute can be cloned")
    for other in (*schedule.stages, *schedule.groups):
        if other.attach_stage is stage:
            raise ScheduleError(f"stage {stage.name}: {other.name} is computed in its loops, not in those of a clone")
        if other.store_stage is stage:
            raise ScheduleError(f"stage {stage.name}: {other.name} is stored in its loops, not in those of a clone")


def _copy(op: ComputeOp, clones: Mapping[Tensor, Tensor]) -> tuple[ComputeOp, dict[IterVar, IterVar]]:
    """Copy an operation over fresh axes; it reads clones where they exist."""
    axes = {iv: _twin(iv) for iv in op.root_iter_vars}
    body = tuple(_over(redirected(value, clones), axes) for value in op.body)
    copy = ComputeOp(f"{op.name}.clone", tuple(axes[iv] for iv in op.axis), body, op.tag, op.attrs)
    for old, new in zip(op.outputs, copy.outputs, strict=True):
        new.value_range = old.value_range
    return copy, axes


def _over(value: Any, axes: Mapping[IterVar, IterVar]) -> Any:
    """Replace axes in a value, including the axes of a reduction."""
    new = walk.substitute(value, axes)
    if isinstance(new, Value) and new.op is ValueOp.REDUCE:
        data: Reduction = new.data
        reduced = Reduction(data.combiner, tuple(axes[iv] for iv in data.axis), data.index)
        return make(new.op, new.args, new.dtype, reduced)
    return new


def _twin(iv: IterVar) -> IterVar:
    """Return a fresh axis like `iv`."""
    return IterVar(iv.dom, iv.name, iv.iter_type, iv.thread_tag, iv.sizes)


def _give_loops(old: Stage, new: Stage, axes: dict[IterVar, IterVar]) -> None:
    """Copy relations, leaves, annotations, scope and position of a stage to its clone."""
    for iv in old.all_iter_vars:
        axes.setdefault(iv, _twin(iv))
    new.relations = [relation.renamed(axes) for relation in old.relations]
    new.all_iter_vars = [axes[iv] for iv in old.all_iter_vars]
    new.leaf_iter_vars = [axes[iv] for iv in old.leaf_iter_vars]
    new.iter_var_attrs = {axes[iv]: attr for iv, attr in old.iter_var_attrs.items() if iv in axes}
    new.scope, new.double_buffered = old.scope, old.double_buffered
    new.compute_at_position = old.compute_at_position
