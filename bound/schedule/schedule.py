"""`Schedule`: the stages of a program in dataflow order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import overload

from bound.errors import InputError, ScheduleError
from bound.itervar import IterVar
from bound.operation import Operation, ScanOp
from bound.schedule import rewrites
from bound.schedule.attach import AttachType
from bound.schedule.dataflow import Reach, group_of, post_order
from bound.schedule.layouts import transform_layout
from bound.schedule.normalize import normalize
from bound.schedule.stage import Stage
from bound.tensor import Tensor
from intset.expr.arguments import of_kind
from intset.expr.printer import Displayed, shown


def create_schedule(ops: object) -> Schedule:
    """Create the default schedule for `ops` and their producers: every stage at the root.

    Parameters
    ----------
    ops: the outputs, as an operation, a tensor, or a list.

    Raises
    ------
    InputError: something else than operations.
    """
    requested = tuple(ops) if isinstance(ops, (tuple, list)) else (ops,)
    outputs = tuple(op.op if isinstance(op, Tensor) else op for op in requested)
    for op in outputs:
        if not isinstance(op, Operation):
            raise InputError(f"create_schedule takes operations such as T.op, not {shown(op)}")
    return Schedule(tuple(dict.fromkeys(outputs)))


class OutputOperations(tuple[Operation, ...]):
    """The operations that a schedule computes; `in` also knows an operation that a rewrite replaced."""

    stage_map: Mapping[Operation, Stage]

    def __contains__(self, op: object) -> bool:
        stage = self.stage_map.get(op) if isinstance(op, Operation) else None
        return tuple.__contains__(self, op if stage is None else stage.op)

    def __reduce__(self) -> tuple[object, ...]:
        return tuple, (tuple(self),)


class Schedule(Displayed):
    """Stages of a program with their loops and attachments.

    `s[T]` (or `s[T.op]`) is the stage that computes `T`, also after rewrites replaced the operation.

    Invariant: `stages` is in dataflow order, producers first.

    Attributes
    ----------
    outputs: the requested operations; `T.op in s.outputs` also where rewrites replaced it.
    stages: one per operation.
    groups: the groups made by `create_group`.
    stage_map: the stage of each operation, replaced operations included.
    same_loop: for each leaf that stages share (`bound.replay`), all leaves of that loop.
    stored_anew: for each such leaf, a stage that stores the same elements in several iterations of the loop.
    """

    def __init__(self, outputs: tuple[Operation, ...]) -> None:
        self.stage_map: dict[Operation, Stage] = {}
        self.outputs = outputs
        self.stages: list[Stage] = []
        self.groups: list[Stage] = []
        self.same_loop: dict[IterVar, tuple[IterVar, ...]] = {}
        self.stored_anew: dict[IterVar, str] = {}
        self._reach: Reach | None = None
        requested = set(outputs)
        for op in post_order(outputs):
            stage = Stage(self, op, op in requested)
            self.stages.append(stage)
            self.stage_map[op] = stage
            if isinstance(op, ScanOp):
                scan_group = group_of(self, op.update, (*op.state_placeholder, *op.inputs), False)
                scan_group.attach_type = AttachType.SCAN_UPDATE
                scan_group.attach_stage = stage

    @property
    def outputs(self) -> tuple[Operation, ...]:
        found = OutputOperations(self._outputs)
        found.stage_map = self.stage_map
        return found

    @outputs.setter
    def outputs(self, ops: Iterable[Operation]) -> None:
        self._outputs = tuple(ops)

    def __getitem__(self, key: Tensor | Operation) -> Stage:
        op = key.op if isinstance(key, Tensor) else key
        if not isinstance(op, Operation):
            raise InputError(f"a schedule is indexed by a tensor or an operation, not {shown(key)}")
        stage = self.stage_map.get(op)
        if stage is None:
            raise ScheduleError(f"{op.name} has no stage in this schedule: no output needs it")
        return stage

    def __contains__(self, key: object) -> bool:
        return (key.op if isinstance(key, Tensor) else key) in self.stage_map

    def __repr__(self) -> str:
        return f"Schedule({', '.join(stage.name for stage in self.stages)})"

    def current(self, tensor: Tensor) -> Tensor:
        """Return the tensor that replaces `tensor` after rewrites."""
        stage = self[tensor]
        return tensor if stage.op is tensor.op else stage.op.output(tensor.value_index)

    def owners(self, stage: Stage, axis: IterVar) -> list[tuple[Stage, IterVar]]:
        """Return the leaves that are one loop with `axis`, that of `stage` first (`bound.replay`)."""
        others = [iv for iv in self.same_loop.get(axis, ()) if iv is not axis]
        leaves = [(at, iv) for iv in others for at in self.stages if any(iv is leaf for leaf in at.leaf_iter_vars)]
        return [(stage, axis), *leaves]

    def is_one_loop(self, axis: IterVar | None, other: IterVar | None) -> bool:
        """Return whether two leaves are one loop."""
        return axis is other or (axis is not None and any(iv is other for iv in self.same_loop.get(axis, ())))

    def check_kept(self) -> None:
        """Raise `ScheduleError` if a loop prevents a stage from keeping elements in its storage (`store_at`).

        Looks at loops of the attach stage only; `lower` checks the outer ones.
        """
        for stage in self.stages:
            stage.kept_over()

    def is_consumer(self, stage: Stage, producer: Stage) -> bool:
        """Return whether `stage` depends on `producer`, directly or indirectly."""
        if of_kind(Stage, stage, "stage").is_group or of_kind(Stage, producer, "producer").is_group:
            return True
        if self._reach is None:
            self._reach = Reach([s.op for s in self.stages])
        return self._reach.reaches(producer.op, stage.op)

    def dataflow_changed(self) -> None:
        """Drop what was derived from the dataflow graph."""
        self._reach = None

    # --- rewrites of the dataflow -------------------------------------------------------------------------------

    def cache_read(self, tensor: Tensor, scope: str, readers: object) -> Tensor:
        """Copy `tensor` to another storage scope, from which `readers` read it; returns the copy."""
        consumers = readers if isinstance(readers, (list, tuple)) else (readers,)
        return rewrites.cache_read(self, tensor, scope, tuple(r.op if isinstance(r, Tensor) else r for r in consumers))

    @overload
    def cache_write(self, tensor: Tensor, scope: str) -> Tensor: ...
    @overload
    def cache_write(self, tensor: list[Tensor] | tuple[Tensor, ...], scope: str) -> list[Tensor]: ...
    def cache_write(self, tensor: Tensor | list[Tensor] | tuple[Tensor, ...], scope: str) -> Tensor | list[Tensor]:
        """Compute `tensor` in another storage scope, with its present loops, then copy it.

        Returns the cached tensor, or a list if `tensor` lists all outputs of an operation.
        """
        if isinstance(tensor, (list, tuple)):
            return list(rewrites.cache_write(self, tuple(tensor), scope))
        cached = rewrites.cache_write(self, (tensor,), scope)
        return cached[tensor.value_index]

    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Tensor | list[Tensor]:
        """Factor a reduction into partial results per iteration of the loop `axis`, and their reduction.

        Returns the tensor of partial results (a list for several outputs); `axis` is its dimension number
        `factor_axis`.
        """
        partial = rewrites.rfactor(self, tensor, axis, factor_axis)
        return partial[0] if len(partial) == 1 else list(partial)

    def with_layout(self, stage: Stage, fn: Callable[..., object], pad_value: object = None) -> list[IterVar]:
        """`stage.transform_layout(fn, pad_value)`."""
        return transform_layout(of_kind(Stage, stage, "stage"), fn, pad_value)

    def create_group(self, outputs: object, inputs: object, include_inputs: bool = False) -> Stage:
        """Group the stages between `inputs` and `outputs`, to be attached together."""
        ends = [tuple(x) if isinstance(x, (list, tuple)) else (x,) for x in (outputs, inputs)]
        now = [tuple(self.current(t) for t in tensors) for tensors in ends]
        return group_of(self, now[0], now[1], include_inputs)

    # --- copies -------------------------------------------------------------------------------------------------

    def normalize(self) -> Schedule:
        """Return a copy without inlined stages, in which every loop starts at 0."""
        return normalize(self)

    def copy(self) -> Schedule:
        """Copy the schedule with its stages; operations and axes are shared."""
        new = object.__new__(Schedule)
        new.outputs = self.outputs
        new._reach = None
        new.same_loop = dict(self.same_loop)
        new.stored_anew = dict(self.stored_anew)
        twins = {stage: _twin(stage, new) for stage in (*self.stages, *self.groups)}
        for stage, twin in twins.items():
            twin.group = None if stage.group is None else twins[stage.group]
            twin.attach_stage = None if stage.attach_stage is None else twins[stage.attach_stage]
            twin.store_stage = None if stage.store_stage is None else twins[stage.store_stage]
        new.stages = [twins[stage] for stage in self.stages]
        new.groups = [twins[stage] for stage in self.groups]
        new.stage_map = {op: twins[stage] for op, stage in self.stage_map.items()}
        return new


def _twin(stage: Stage, schedule: Schedule) -> Stage:
    """Copy a stage into another schedule; group and attachment still refer to the old one."""
    twin = copy(stage)
    twin.schedule = schedule
    twin.all_iter_vars = list(stage.all_iter_vars)
    twin.leaf_iter_vars = list(stage.leaf_iter_vars)
    twin.relations = list(stage.relations)
    twin.iter_var_attrs = dict(stage.iter_var_attrs)
    return twin
