"""`Schedule`: the stages of a program in dataflow order, and `normalize`, the form on which InferBound works.

In the normal form inlined stages leave the dataflow; every root axis that is a loop is rebased to start at 0;
attachments follow axes that were split or fused later; a stage computed where a consumer cannot see it is refused.

A `RecordedSchedule` notes its primitives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import wraps
from itertools import chain
from typing import Any, ClassVar, Final, Self, overload

from bound import dtypes
from bound.errors import InputError, ScheduleError
from bound.itervar import IterVar
from bound.schedule import rewrites
from bound.schedule.attach import WARP, AttachPath, AttachType, check_attachments, storage_rank, thread_rank
from bound.schedule.relations import Fuse, Rebase, Split
from bound.schedule.rewrites import Reach, group_of, post_order, replace_op, transform_layout
from bound.schedule.stage import Stage
from bound.tensor import ComputeOp, Operation, ScanOp, Tensor
from bound.tir import walk
from bound.tir.machine import within
from bound.tir.value import Operand
from intset.expr import Expr, arguments, dag, ops, shown
from intset.expr.printer import Displayed


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
            if isinstance(op, ComputeOp) and op.foreign_axis is not None:  # only an intrinsic's meaning may have one
                raise InputError(f"the formula of {op.name} uses {op.foreign_axis.name}, an axis of another operation")
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
        if not isinstance(tensor, Tensor):
            raise InputError(f"a tensor is needed, not {shown(tensor)}")
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

    def is_consumer(self, stage: Stage, producer: Stage) -> bool:
        """Return whether `stage` depends on `producer`, directly or indirectly."""
        if arguments.of_kind(Stage, stage, "stage").is_group or arguments.of_kind(Stage, producer, "producer").is_group:
            return True
        if self._reach is None:
            self._reach = Reach([s.op for s in self.stages])
        return self._reach.reaches(producer.op, stage.op)

    def dataflow_changed(self) -> None:
        """Follow outputs that were replaced, and drop what was derived from the dataflow graph."""
        self.outputs = tuple(self.stage_map[op].op for op in self.outputs)
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
        return transform_layout(arguments.of_kind(Stage, stage, "stage"), fn, pad_value)

    def create_group(self, outputs: object, inputs: object, include_inputs: bool = False) -> Stage:
        """Group the stages between `inputs` and `outputs`, to be attached together."""
        ends = [tuple(x) if isinstance(x, (list, tuple)) else (x,) for x in (outputs, inputs)]
        now = [tuple(self.current(t) for t in tensors) for tensors in ends]
        return group_of(self, now[0], now[1], arguments.a_flag(include_inputs, "include_inputs"))

    # --- copies -------------------------------------------------------------------------------------------------

    def normalize(self) -> Schedule:
        """Return a copy without inlined stages, in which every loop starts at 0.

        Raises
        ------
        ScheduleError: the schedule is illegal.
        """
        return self.normalized_with_paths()[0]

    def normalized_with_paths(self) -> tuple[Schedule, dict[Stage, AttachPath]]:
        """The copy of `normalize` with the attach path of each of its stages."""
        new = self.copy()
        inject_inline(new)
        rebase_non_zero_min_loop(new)
        legalize_invalid_attach(new)
        sink_private(new)
        return new, check_attachments(new)

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
        for indices in chain(*op.reads.values())
    )


def _is_broadcast(op: ComputeOp) -> bool:
    """Return whether the indices of every read are axes of the stage, in order."""
    position: dict[Expr, int] = {iv: k for k, iv in enumerate(op.axis)}
    for indices in chain(*op.reads.values()):
        order = [position.get(index, -1) for index in indices if not index.is_const]
        if -1 in order or order != sorted(set(order)):
            return False
    return True


def inject_inline(schedule: Schedule) -> None:
    """InjectInline: substitute the formulas of inlined stages into their consumers, producers first."""
    if not any(stage.attach_type is AttachType.INLINE for stage in schedule.stages):
        return
    formulas: dict[Tensor, ComputeOp] = {}
    new: dict[Tensor, Tensor] = {}
    for stage in schedule.stages:
        op = _inlined(stage.op, formulas, new)
        if op is not stage.op:
            new.update(replace_op(stage, op))
        if stage.attach_type is AttachType.INLINE:
            assert isinstance(op, ComputeOp)
            if op.reduction is not None:
                k = op.reduce_axis[0].name
                raise ScheduleError(f"stage {op.name}: a reduction cannot be inlined (it runs over {k})")
            formulas.update(dict.fromkeys((*op.outputs, *stage.op.outputs), op))
            stage.attach_type = AttachType.INLINED_ALREADY
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
    is_value = (
        isinstance(value, Expr) and not value.is_const and not dag.operations(value).isdisjoint((ops.LOAD, ops.CAST))
    )
    if not isinstance(value, Expr) or not (is_value or dtypes.bits(dtype) < 32):
        return value
    return within(value, dtype)


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

    def moved(target: Stage, axis: IterVar) -> tuple[Stage, IterVar]:
        loop = rebased.get(axis)  # copied operations may share axes, so only leaves of the stage itself are moved
        return target, axis if loop is None or not any(iv is loop for iv in target.leaf_iter_vars) else loop

    for stage in (*schedule.stages, *schedule.groups):
        stage.relocate(moved)


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


class Opened:
    """What a `with` block opens; `current()` is the one of its class that was opened last, or `None`."""

    _open: ClassVar[list[Any]] = []

    def __init_subclass__(cls) -> None:
        cls._open = []

    @classmethod
    def current(cls) -> Any:
        return cls._open[-1] if cls._open else None

    def __enter__(self) -> Self:
        self._open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.pop()


class SpecializedCondition(Opened):
    """A block of conditions under which a schedule is written; `current()` are the innermost ones.

    Attributes
    ----------
    clauses: the conditions.
    """

    def __init__(self, conditions: Any) -> None:
        self.clauses = list(conditions) if isinstance(conditions, (list, tuple)) else [conditions]


class RecordedSchedule(Schedule):
    """A schedule that notes its primitives.

    Attributes
    ----------
    schedule_record: copies of the schedule after each primitive, the default one first.
    primitive_record: their names, "vanilla" first.
    """

    schedule_record: list[Schedule]
    primitive_record: list[str]

    def note(self, name: str) -> None:
        for stage in self.stages:
            stage.__class__ = RecordedStage
        self.schedule_record.append(self.copy())
        self.primitive_record.append(name)


class RecordedStage(Stage):
    """A stage of such a schedule; copies of the schedule note nothing."""


def _noted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        answer = method(self, *args, **named)
        s = getattr(self, "schedule", self)
        if isinstance(s, RecordedSchedule):
            s.note(name)
        return answer

    return call


_PRIMITIVES: Final = {
    Stage: "split fuse reorder bind vectorize parallel unroll pragma prefetch storage_align double_buffer set_scope "
    "set_store_predicate compute_at compute_inline compute_root tensorize rolling_buffer env_threads",
    Schedule: "cache_read cache_write rfactor create_group",
}
for kind, recording in ((Stage, RecordedStage), (Schedule, RecordedSchedule)):
    for primitive in _PRIMITIVES[kind].split():
        setattr(recording, primitive, _noted(primitive, getattr(kind, primitive)))


def recorded(schedule: Schedule, is_kept: bool) -> Schedule:
    """The schedule, with records if they are kept; else they stay empty."""
    if is_kept:
        schedule.__class__ = RecordedSchedule
    schedule.__dict__.update(schedule_record=[], primitive_record=[])
    if isinstance(schedule, RecordedSchedule):
        schedule.note("vanilla")
    return schedule
