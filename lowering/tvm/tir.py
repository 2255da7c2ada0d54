"""`tvm.tir`: the values of `bound.tir`, TVM's classes as types, and what scripts find beside them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bound import tir as values
from bound.te import prod, sum
from bound.tir import *
from bound.tir.build import cast
from bound.tir.calls import Buffer, call_intrin, clz, decl_buffer
from bound.tir.reduce import max_of, min_of
from bound.tir.vectors import Vector, lanes_of
from lowering.layout import IndexMap
from lowering.nest.ir import LoopKind, Stmt, flat
from lowering.tvm import ir_builder, stmt_functor
from lowering.tvm.expressions import TYPES

globals().update(TYPES)  # the table is the list of classes
ForKind = SimpleNamespace(
    SERIAL=LoopKind.SERIAL,
    PARALLEL=LoopKind.PARALLEL,
    VECTORIZED=LoopKind.VECTORIZED,
    UNROLLED=LoopKind.UNROLLED,
    THREAD_BINDING=LoopKind.THREAD,
)
expr = stmt = SimpleNamespace(**TYPES)  # the modules that define them there
max, min = max_of, min_of  # type: ignore[assignment]  # with `axis` they reduce
call_llvm_intrin = call_llvm_pure_intrin = call_intrin


def const(  # type: ignore[no-redef]  # the star import brings the one without vectors
    value: Any, dtype: str | None = None, span: object = None
) -> Any:
    """A constant; of a type such as "float32x4", one in every lane."""
    element_type, count = (dtype, 1) if dtype is None else lanes_of(dtype)
    one = values.const(value, element_type)
    return Vector((one,) * count, str(element_type)) if count > 1 else one


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence; of another statement, itself."""
    return flat(stmt)


def add(lhs: Any, rhs: Any, span: object = None) -> Any:
    """`lhs + rhs`."""
    return lhs + rhs


def subtract(lhs: Any, rhs: Any, span: object = None) -> Any:
    """`lhs - rhs`."""
    return lhs - rhs


def multiply(lhs: Any, rhs: Any, span: object = None) -> Any:
    """`lhs * rhs`."""
    return lhs * rhs


def reinterpret(dtype: str, value: Any, span: object = None) -> Any:
    """The bits of a value as another type; `value` itself where it has that type."""
    return value if values.dtype_of(value) == dtype else call_intrin(dtype, "tir.reinterpret", value)


__all__ = [
    *values.__all__,
    *TYPES,
    "Buffer",
    "ForKind",
    "IndexMap",
    "add",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "cast",
    "clz",
    "decl_buffer",
    "ir_builder",
    "max",
    "min",
    "multiply",
    "prod",
    "reinterpret",
    "stmt_functor",
    "stmt_list",
    "subtract",
    "sum",
]
