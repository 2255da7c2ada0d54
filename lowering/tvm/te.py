"""`tvm.te`: the language of `bound.te`, and what scripts find beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from bound import te as tensor
from bound.declare import var as declared_var
from bound.schedule import create_schedule
from bound.schedule.layouts import AXIS_SEPARATOR
from bound.te import *
from bound.tir import copysign, exp2, hypot, ldexp, log1p, nextafter
from bound.tir.build import operand
from bound.tir.calls import FUNCTIONS
from bound.tir.value import ValueLike
from lowering.nest.ir import Function
from lowering.tvm import hybrid
from lowering.tvm import te_schedule as schedule  # type: ignore[no-redef]  # the star import brings the exact one
from lowering.tvm.building import lower


def var(  # type: ignore[no-redef]  # the star import brings the one that is no size
    name: str = "tindex", dtype: str = "int32", span: object = None, **bounds: Any
) -> Any:
    """A variable of a script; an integer is a size, at least 0, so that `T.shape[0] == n` holds.

    An integer argument that may be negative is a `tir.Var`.
    """
    if dtype.startswith(("int", "uint")):
        bounds = bounds or {"nonneg": True}
    return declared_var(name, dtype, **bounds)


def create_prim_func(ops: Sequence[Any], index_dtype_override: str | None = None) -> Function:
    """The nest of tensors, inputs and outputs, under the default schedule."""
    outputs = [t.op for t in ops if t.op.input_tensors or not hasattr(t.op, "dims")]
    return lower(create_schedule(outputs), list(ops))


def gradient(*_: object, **__: object) -> NoReturn:
    """Refuse: derivatives are not computed here."""
    raise NotImplementedError("te.gradient is not here: write the derivative as a tensor of its own")


class SpecializedCondition:
    """The condition under which a version of an operator is chosen; nothing here chooses, so it changes nothing."""

    def __init__(self, conditions: object) -> None:
        self.clauses = conditions

    @staticmethod
    def current() -> None:
        """No condition holds."""

    def __enter__(self) -> SpecializedCondition:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


def exp10(x: ValueLike) -> Any:
    """10 to the power `x`."""
    return FUNCTIONS["exp10"](operand(x))


__all__ = [
    *tensor.__all__,
    "AXIS_SEPARATOR",
    "SpecializedCondition",
    "copysign",
    "create_prim_func",
    "exp2",
    "exp10",
    "gradient",
    "hybrid",
    "hypot",
    "ldexp",
    "log1p",
    "nextafter",
    "schedule",
    "tensor",
]
