"""`tvm.te`: the language of `bound.te`, and further names of TVM's module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

from bound import te as tensor
from bound.declare import var as declared_var
from bound.schedule import create_schedule as scheduled
from bound.schedule.rewrites import AXIS_SEPARATOR
from bound.te import *
from bound.tir import copysign, exp2, hypot, ldexp, log1p, nextafter
from bound.tir.build import FUNCTIONS, operand
from bound.tir.value import ValueLike
from lowering.nest.ir import Function
from lowering.tvm import hybrid, tir
from lowering.tvm import te_schedule as schedule  # type: ignore[no-redef]  # the star import brings the exact one
from lowering.tvm.building import lower
from lowering.tvm.function import as_prim_func
from lowering.tvm.ir import Range
from lowering.tvm.te_schedule import recorded
from lowering.tvm.transform import PassContext

HybridOp = tensor.ExternOp


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


def exp10(x: ValueLike) -> Any:
    """10 to the power `x`."""
    return FUNCTIONS["exp10"](operand(x))
