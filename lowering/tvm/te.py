"""`tvm.te` and `tvm.te.schedule`: the language of `bound.te`, and further names of TVM's modules.

Schedules note their primitives; bounds are as scripts read them; the graph tells what reads what.
"""

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from bound import te as tensor
from bound.infer import BoundsMap, infer_bound
from bound.infer.infer_bound import NEST_FUNCTIONS
from bound.itervar import IterVar
from bound.schedule import Schedule
from bound.schedule import create_schedule as scheduled
from bound.schedule.rewrites import AXIS_SEPARATOR
from bound.schedule.schedule import SpecializedCondition, recorded
from bound.te import *
from bound.te_schedule import *
from bound.tensor import Tensor
from bound.tir import copysign, exp2, hypot, ldexp, log1p, nextafter, walk
from bound.tir.build import FUNCTIONS
from intset.errors import InputError
from intset.expr import Expr, arguments, ops, shown
from intset.expr import range as ranges
from lowering.build import schedule_ops
from lowering.build.function import parameters
from lowering.nest import ir
from lowering.nest.walk import touched
from lowering.tvm import builders as hybrid
from lowering.tvm import tir
from lowering.tvm.building import PassContext, lower
from lowering.tvm.ir import ModuleFunction, Range, as_prim_func, prim_func, variable

HybridOp = tensor.ExternOp
schedule = sys.modules[__name__]  # one module under both names


def var(  # type: ignore[no-redef]  # the star import brings the one that is no size
    name: str = "tindex", dtype: Any = "int32", span: object = None, **bounds: Any
) -> Any:
    """A variable of a script; an integer variable is a size of at least 0, so `T.shape[0] == n` is proved.

    An integer argument that may be negative is a `tir.Var`.
    """
    return variable(name, dtype, is_size=True, **bounds)


def create_schedule(ops: Any) -> tensor.Schedule:  # type: ignore[no-redef]  # this one notes
    """The default schedule; under `te.keep_schedule_record` it notes its primitives."""
    return recorded(scheduled(ops), bool(PassContext.current().config.get("te.keep_schedule_record")))


def create_prim_func(ops: Sequence[Any], index_dtype_override: str | None = None) -> ir.Function:
    """The nest of tensors, inputs and outputs, under the default schedule."""
    given = arguments.listed(ops, "ops", "a list of tensors")
    tensors = [arguments.of_kind(Tensor, t, "each of ops", "a tensor") for t in given]
    outputs = [t.op for t in tensors if t.op.input_tensors or not hasattr(t.op, "dims")]
    return lower(create_schedule(outputs), tensors)


def extern_primfunc(input_tensors: Sequence[Any], primfunc: ir.Function, **_: object) -> Any:
    """A nest's outputs, as operations on tensors that replace its inputs in order."""
    f = as_prim_func(primfunc)
    return hybrid.HybridModule(f, [p for p in f.params if p not in f.outputs])(*input_tensors)


def gradient(*_: object, **__: object) -> NoReturn:
    """Refuse: derivatives are not computed here."""
    raise NotImplementedError("te.gradient is not here: write the derivative as a tensor of its own")


all, any, if_then_else = tir.all, tir.any, tir.if_then_else


exp10 = FUNCTIONS["exp10"]


class AxisRanges(dict[IterVar, ranges.Range]):
    """The ranges of axes by `InferBound`, as TVM has them: a tile that the end cuts counts with its full extent.

    Attributes
    ----------
    bounds: the answer of `infer_bound`, whose ranges are exact.
    """

    def __init__(self, bounds: BoundsMap) -> None:
        super().__init__((axis, _whole_tile(r, axis)) for axis, r in bounds.items())
        self.bounds = bounds


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
) -> ir.Stmt:
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


def SchedulePostProcToPrimFunc(args: Sequence[Any], stmt: ir.Stmt, binds: object = None) -> ModuleFunction:
    """The function of a nest that `ScheduleOps` gave, with its parameters in order."""
    named = {tensor.name: tensor for tensor in touched(stmt)}
    given = arguments.listed(args, "args")
    return prim_func([named.get(arg.name, arg) if isinstance(arg, Tensor) else arg for arg in given], stmt)
