"""`tvm.tir`: the values of `bound.tir`, TVM's classes as types, and what scripts find beside them."""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

from bound import tir as values
from bound.te import prod, sum
from bound.tensor import ScopeText
from bound.tir import *
from bound.tir.build import Buffer, Vector, cast, clz, lanes_of
from bound.tir.reduce import max_of, min_of
from lowering.layout import IndexMap
from lowering.layout.named import *
from lowering.nest import ir
from lowering.nest.walk import free_variables
from lowering.tvm import building as transform
from lowering.tvm import ir as stmt_functor
from lowering.tvm import nests as ir_builder
from lowering.tvm.ir import TYPES, call_intrin, structural_equal, with_truths

globals().update(TYPES)  # the table is the list of classes
CallEffectKind = SimpleNamespace(**{name: name for name in ("Pure", "ReadState", "UpdateState", "Opaque")})
ForKind = SimpleNamespace(**ir.LoopKind.__members__, THREAD_BINDING=ir.LoopKind.THREAD)
expr = stmt = SimpleNamespace(**TYPES)  # the modules that define them there
max, min = max_of, min_of  # type: ignore[assignment]  # with `axis` they reduce
stmt_list = ir.flat
call_llvm_intrin = call_llvm_pure_intrin = call_intrin
_ffi_api = SimpleNamespace(_cast=with_truths(lambda dtype, value, span=None: cast(dtype, value)))
analysis = SimpleNamespace(
    expr_deep_equal=structural_equal,
    undefined_vars=lambda node, defs=(): [v for v in free_variables(node) if v not in defs],
)
add, subtract, multiply = operator.add, operator.sub, operator.mul
generic = SimpleNamespace(
    __op_priority__=1,  # tensors broadcast here, so the operator library need not rebind these
    add=add,
    subtract=subtract,
    multiply=multiply,
    divide=operator.truediv,
    floordiv=operator.floordiv,
    cast=lambda value, dtype, span=None: cast(dtype, value),
)


def decl_buffer(  # type: ignore[no-redef]  # the star import brings the one without broadcasting
    shape: Any, dtype: str | None = "float32", *args: Any, buffer_type: str = "", **more: Any
) -> Buffer:
    """A buffer; one of the type "auto_broadcast" is read at 0 along dimensions of extent 1."""
    buffer = values.decl_buffer(shape, dtype, *args, **more)
    buffer.__dict__.update(scope=ScopeText(buffer.scope), buffer_type=buffer_type)
    return buffer


def const(value: Any, dtype: str | None = None, span: object = None) -> Any:
    """A constant; of a type such as "float32x4", one in every lane."""
    if dtype is None and hasattr(value, "item"):
        value, dtype = value.item(), str(value.dtype)
    element_type, count = (dtype, 1) if dtype is None else lanes_of(dtype)
    one = values.const(value, element_type)
    return Vector((one,) * count, str(element_type)) if count > 1 else one


all, any, if_then_else = (with_truths(f) for f in (values.all, values.any, values.if_then_else))


def q_multiply_shift(x: Any, y: Any, q: Any, s: Any) -> Any:
    """`x * y * 2**(s - q)`, rounded to the nearest, ties up: a product with a number of `q` bits after the point."""
    return q_multiply_shift_per_axis(x, y, max_of(s, 0), max_of(-1 * s, 0), q, s, s)


def q_multiply_shift_per_axis(x: Any, y: Any, ls: Any, rs: Any, q: Any, *_: object) -> Any:
    """`q_multiply_shift` with two shifts: `ls` bits to the left before the product, `rs` to the right after it."""
    wide: list[Any] = [cast("int64", v) for v in (1, x, y, ls, rs + q)]
    one, x, y, left, right = wide
    return cast("int32", ((x << left) * y + (one << (right - 1))) >> right)


def reinterpret(dtype: str, value: Any, span: object = None) -> Any:
    """The bits of a value as another type; `value` itself where it has that type."""
    return call_intrin(dtype, "reinterpret", value)
