"""`tvm.te` and `tvm.te.schedule`: the language of `bound.te`, and further names of TVM's modules.

Schedules note their primitives; bounds are as scripts read them; the graph tells what reads what.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, Final, NoReturn

from bound import te as tensor
from bound.above import NEST_FUNCTIONS
from bound.declare import var as declared_var
from bound.infer import BoundsMap, infer_bound
from bound.itervar import IterVar
from bound.operation import ComputeOp, Operation, ScanOp
from bound.schedule import AttachType, Schedule, Stage
from bound.schedule import create_schedule as scheduled
from bound.schedule.rewrites import AXIS_SEPARATOR, post_order
from bound.te import *
from bound.te_schedule import *
from bound.tensor import Tensor
from bound.tir import copysign, exp2, hypot, ldexp, log1p, nextafter, walk
from bound.tir.build import FUNCTIONS, Buffer, operand
from bound.tir.value import ValueLike
from intset.errors import InputError
from intset.expr import ops
from intset.expr import range as ranges
from intset.expr.node import Expr, as_expr
from intset.expr.printer import shown
from lowering.build import schedule_ops
from lowering.build.function import parameters
from lowering.nest.ir import Function, Stmt
from lowering.nest.walk import touched
from lowering.tvm import hybrid, tir
from lowering.tvm.building import PassContext, lower
from lowering.tvm.ir import ModuleFunction, Range, as_prim_func, prim_func

HybridOp = tensor.ExternOp
schedule = sys.modules[__name__]  # one module under both names


def var(  # type: ignore[no-redef]  # the star import brings the one that is no size
    name: str = "tindex", dtype: str = "int32", span: object = None, **bounds: Any
) -> Any:
    """A variable of a script; an integer variable is a size of at least 0, so `T.shape[0] == n` is proved.

    An integer argument that may be negative is a `tir.Var`.
    """
    if dtype.startswith(("int", "uint")):
        bounds = bounds or {"nonneg": True}
    return declared_var(name, dtype, **bounds)


def create_schedule(ops: Any) -> tensor.Schedule:  # type: ignore[no-redef]  # this one notes
    """The default schedule; under `te.keep_schedule_record` it notes its primitives."""
    return recorded(scheduled(ops), bool(PassContext.current().config.get("te.keep_schedule_record")))


def create_prim_func(ops: Sequence[Any], index_dtype_override: str | None = None) -> Function:
    """The nest of tensors, inputs and outputs, under the default schedule."""
    outputs = [t.op for t in ops if t.op.input_tensors or not hasattr(t.op, "dims")]
    return lower(create_schedule(outputs), list(ops))


def extern_primfunc(input_tensors: Sequence[Any], primfunc: Function, **_: object) -> Any:
    """A nest's outputs, as operations on tensors that replace its inputs in order."""
    f = as_prim_func(primfunc)
    return hybrid.HybridModule(f, [p for p in f.params if p not in f.outputs])(*input_tensors)


class SpecializedCondition:
    """A block of conditions under which a schedule is written; `current()` are the innermost ones.

    Attributes
    ----------
    clauses: the conditions.
    """

    _open: ClassVar[list[SpecializedCondition]] = []

    def __init__(self, conditions: Any) -> None:
        self.clauses = list(conditions) if isinstance(conditions, (list, tuple)) else [conditions]

    @classmethod
    def current(cls) -> SpecializedCondition | None:
        return cls._open[-1] if cls._open else None

    def __enter__(self) -> SpecializedCondition:
        self._open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.pop()


def gradient(*_: object, **__: object) -> NoReturn:
    """Refuse: derivatives are not computed here."""
    raise NotImplementedError("te.gradient is not here: write the derivative as a tensor of its own")


all, any, if_then_else = tir.all, tir.any, tir.if_then_else


exp10 = FUNCTIONS["exp10"]


class AxisRanges(Mapping[IterVar, ranges.Range]):
    """The ranges of axes by `InferBound`, as TVM has them: a tile that the end cuts counts with its full extent.

    Attributes
    ----------
    bounds: the answer of `infer_bound`, whose ranges are exact.
    """

    def __init__(self, bounds: BoundsMap) -> None:
        self.bounds = bounds

    def __getitem__(self, axis: IterVar) -> ranges.Range:
        return _whole_tile(self.bounds[axis], axis)

    def __contains__(self, axis: object) -> bool:
        return axis in self.bounds

    def __iter__(self) -> Iterator[IterVar]:
        return iter(axis for axis, _ in self.bounds.items())

    def __len__(self) -> int:
        return len(self.bounds.items())


def _whole_tile(r: ranges.Range, axis: IterVar) -> ranges.Range:
    """The range of a whole tile: of a minimum its constant, an operand without the axis' extent, or that extent."""
    extent = r.extent
    if isinstance(extent, Expr) and extent.op is ops.SUB and isinstance(extent.args[0], Expr):
        return ranges.Range(r.min, _whole_tile(ranges.Range(r.min, extent.args[0]), axis).extent - extent.args[1])
    if not isinstance(extent, Expr) or extent.op is not ops.MIN:
        return r
    parts = [arg for arg in extent.args if isinstance(arg, Expr)]
    end: Any = axis.dom and axis.dom.extent
    whole = [arg for arg in parts if arg.is_const]
    free = [arg for arg in parts if end not in walk.nodes(arg)]
    chosen = whole or (free if len(free) < len(parts) else []) or [arg for arg in parts if arg is end]
    return ranges.Range(r.min, chosen[0]) if chosen else r


def InferBound(schedule: Schedule) -> AxisRanges:  # type: ignore[no-redef]  # the star import brings the exact one
    """The range of every axis, of a normalized schedule or not."""
    return AxisRanges(infer_bound(schedule))


def ScheduleOps(  # type: ignore[no-redef]  # as above
    schedule: object, bounds: object, debug_keep_trivial_loop: bool = False
) -> Stmt:
    """TVM's name for the loop nest of a schedule under the bounds that `InferBound` gave for it: a printable statement.

    Indices are those of the tensors, before storage is laid out and divisions are lowered; `lowering.lower` makes a
    function of it. Inputs and outputs are passed in, everything else is allocated where it is computed. Loops of one
    iteration stay, so `debug_keep_trivial_loop` changes nothing.

    Raises
    ------
    InputError: `bounds` is not what `InferBound` gave for this schedule.
    ScheduleError: the schedule has no sequential meaning.
    """
    if not isinstance(schedule, Schedule):
        raise InputError(f"ScheduleOps takes a schedule, not {shown(schedule)}")
    bounds = bounds.bounds if isinstance(bounds, AxisRanges) else bounds
    if not isinstance(bounds, BoundsMap):
        kind = type(bounds).__name__
        raise InputError(
            f"ScheduleOps takes what InferBound gave for the schedule, not a {kind}: "
            "ranges alone do not say which guards the loops need and what is stored"
        )
    if schedule is not bounds.written and schedule is not bounds.schedule:
        raise InputError("ScheduleOps takes the bounds of this schedule, these were found for another one")
    tensors, _ = parameters(bounds.schedule, None)
    return schedule_ops(bounds, frozenset(tensors))


NEST_FUNCTIONS.schedule_ops = ScheduleOps


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


def SchedulePostProcToPrimFunc(args: Sequence[Any], stmt: Stmt, binds: object = None) -> ModuleFunction:
    """The function of a nest that `ScheduleOps` gave, with its parameters in order."""
    named = {tensor.name: tensor for tensor in touched(stmt)}
    return prim_func([named.get(arg.name, arg) if isinstance(arg, Tensor) else arg for arg in args], stmt)


Dimension = tuple[Tensor, int]


def CreateReadGraph(ops: Iterable[Operation]) -> dict[Operation, list[Tensor]]:
    """The tensors that each operation reads, for operations and their producers."""
    return {op: list(op.input_tensors) for op in post_order(tuple(ops))}


def PostDFSOrder(ops: Iterable[Operation], graph: Mapping[Operation, Sequence[Tensor]]) -> list[Operation]:
    """The operations of a graph of reads, producers first."""
    order: dict[Operation, None] = {}
    pending = [(op, False) for op in reversed(list(ops))]
    while pending:
        op, is_done = pending.pop()
        if is_done:
            order[op] = None
        elif op not in order:
            pending.append((op, True))
            pending += [(tensor.op, False) for tensor in reversed(graph.get(op, ()))]
    return list(order)


def CreateAttachPath(schedule: Schedule) -> dict[Operation, list[IterVar]]:
    """The loops of other stages around each operation, innermost first."""
    return {stage.op: list(_around(stage)) for stage in schedule.stages}


def _around(stage: Stage) -> Iterable[IterVar]:
    at: Stage | None = stage
    while at is not None:
        if at.attach_type is AttachType.SCOPE and at.attach_stage is not None and at.attach_ivar is not None:
            leaves = at.attach_stage.leaf_iter_vars
            yield from reversed(leaves[: leaves.index(at.attach_ivar) + 1])
            at = at.attach_stage
        elif at.attach_type is AttachType.SCAN_UPDATE and at.attach_stage is not None:
            scan = at.attach_stage
            if isinstance(scan.op, ScanOp):
                yield scan.op.scan_axis
            at = scan
        else:
            at = at.group


def ScanGetBody(scan: Operation) -> list[Operation]:
    """The operations of a scan that depend on its state, and the scan itself."""
    if not isinstance(scan, ScanOp):
        raise InputError(f"the body of a scan is asked of {scan.name}, which is none")
    states = {state.op for state in scan.state_placeholder}
    inside: dict[Operation, None] = {}
    for op in post_order(tuple(update.op for update in scan.update)):
        if not {*states, *inside}.isdisjoint(read.op for read in op.input_tensors):
            inside[op] = None
    inside.update(dict.fromkeys(update.op for update in scan.update))
    return [scan, *inside]


class _Classes:
    """A union-find of dimensions with equal indices, and the dimensions whose class some index contradicts."""

    def __init__(self) -> None:
        self.parent: dict[Dimension, Dimension] = {}
        self.failed: set[Dimension] = set()

    def root(self, d: Dimension) -> Dimension:
        while self.parent.get(d, d) != d:
            d = self.parent[d]
        return d

    def join(self, a: Dimension, b: Dimension) -> None:
        self.parent.setdefault(b, b)
        self.parent[self.root(a)] = self.root(b)

    def is_in_step(self, d: Dimension) -> bool:
        members = {e for e in (*self.parent, d) if self.root(e) == self.root(d)}
        tensors = [tensor for tensor, _ in members]
        return len(set(tensors)) == len(tensors) and not members & self.failed


def ScanFixPointAnalysis(scan: Operation) -> dict[IterVar, Expr]:
    """For each spatial axis of a scan: 1 if a step at index `i` depends on earlier steps at `i` alone, else 0.

    Guarantee: 1 only if every index along the axis, through all operations of the body, is exactly an axis.
    """
    body = [op for op in ScanGetBody(scan) if op is not scan]
    assert isinstance(scan, ScanOp)
    states, classes = set(scan.state_placeholder), _Classes()
    spatial = [(i, k) for i, update in enumerate(scan.update) for k in range(1, update.ndim)]
    for i, k in spatial:
        classes.join((scan.update[i], k), (scan.state_placeholder[i], k))
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
                        classes.join((output, axes[index]), (read, m))
                else:
                    classes.failed.add((read, m))
        if not isinstance(op, ComputeOp):
            classes.failed |= {(t, k) for t in op.input_tensors for k in range(t.ndim)}
    answers = {(i, k): int(classes.is_in_step((scan.update[i], k))) for i, k in spatial}
    return {axis: as_expr(answers[place]) for axis, place in zip(scan.spatial_axis, spatial, strict=True)}
