"""`tvm.te.schedule`: schedules, their bounds as scripts read them, and the graph of what reads what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bound import te_schedule as names
from bound.infer import BoundsMap, infer_bound
from bound.itervar import IterVar
from bound.schedule import Schedule
from bound.te_schedule import *
from bound.tensor import Tensor
from bound.tir.build import Buffer
from intset.expr import ops
from intset.expr.node import Expr
from intset.expr.range import Range
from lowering.nest.ir import Stmt
from lowering.nest.walk import touched
from lowering.tvm import schedule_ops
from lowering.tvm.function import ModuleFunction, prim_func
from lowering.tvm.graph import CreateAttachPath, CreateReadGraph, PostDFSOrder, ScanFixPointAnalysis, ScanGetBody


class AxisRanges(Mapping[IterVar, Range]):
    """The ranges of axes by `InferBound`, as TVM has them: a tile that the end cuts counts with its full extent.

    Attributes
    ----------
    bounds: the answer of `infer_bound`, whose ranges are exact.
    """

    def __init__(self, bounds: BoundsMap) -> None:
        self.bounds = bounds

    def __getitem__(self, axis: IterVar) -> Range:
        return _whole_tile(self.bounds[axis], axis)

    def __contains__(self, axis: object) -> bool:
        return axis in self.bounds

    def __iter__(self) -> Iterator[IterVar]:
        return iter(axis for axis, _ in self.bounds.items())

    def __len__(self) -> int:
        return len(self.bounds.items())


def _whole_tile(r: Range, axis: IterVar) -> Range:
    """The range of a whole tile: of a minimum its constant, else the operand that is no end of the axis."""
    extent = r.extent
    if not isinstance(extent, Expr) or extent.op is not ops.MIN:
        return r
    parts = [arg for arg in extent.args if isinstance(arg, Expr)]
    whole = [arg for arg in parts if arg.is_const]
    free = [arg for arg in parts if axis.dom is None or arg is not axis.dom.extent]
    chosen = whole or (free if len(free) < len(parts) else [])
    return Range(r.min, chosen[0]) if chosen else r


def InferBound(schedule: Schedule) -> AxisRanges:  # type: ignore[no-redef]  # the star import brings the exact one
    """The range of every axis, of a normalized schedule or not."""
    return AxisRanges(infer_bound(schedule))


def ScheduleOps(  # type: ignore[no-redef]  # as above
    schedule: Schedule, bounds: AxisRanges | BoundsMap, debug_keep_trivial_loop: bool = False
) -> Stmt:
    """The loop nest of a schedule with the bounds of `InferBound`."""
    return schedule_ops.ScheduleOps(schedule, bounds.bounds if isinstance(bounds, AxisRanges) else bounds)


def SchedulePostProcToPrimFunc(args: Sequence[Any], stmt: Stmt, binds: object = None) -> ModuleFunction:
    """The function of a nest that `ScheduleOps` gave, with its parameters in order."""
    named = {tensor.name: tensor for tensor in touched(stmt)}
    return prim_func([named.get(arg.name, arg) if isinstance(arg, Tensor) else arg for arg in args], stmt)


__all__ = [
    *names.__all__,
    "Buffer",
    "CreateAttachPath",
    "CreateReadGraph",
    "PostDFSOrder",
    "AxisRanges",
    "ScanFixPointAnalysis",
    "ScanGetBody",
    "SchedulePostProcToPrimFunc",
]
