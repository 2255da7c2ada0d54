"""Value expressions under TVM's names: `from bound import tir`.

Integers are `intset` expressions, conditions on them `intset` conditions; anything else is a `Value`. As in TVM, this
module shadows Python's `min`, `max`, `all`, `any`, `abs` and `round`.
"""

from bound.itervar import IterType, IterVar
from bound.tir import scalars
from bound.tir.build import (
    FUNCTIONS,
    Buffer,
    ExternCall,
    as_float,
    call_extern,
    call_intrin,
    call_packed,
    cast,
    decl_buffer,
    dtype_of,
    fold,
    negation,
    select,
)
from bound.tir.reduce import CommReducer, Reduction
from bound.tir.scalars import *
from bound.tir.value import Number, Operand, Truth, Value, ValueLike
from bound.tir.walk import input_tensors, loaded_tensor, nodes, rewrite, substitute, variables
from intset.errors import InputError
from intset.expr import ops
from intset.expr.node import Expr, IntLike, ShapeVar, Var, as_expr
from intset.expr.printer import shown

SizeVar = ShapeVar
Select = select
Cast = cast
call_pure_extern = call_extern
pow = scalars.power

exp2, exp10, log1p = FUNCTIONS["exp2"], FUNCTIONS["exp10"], FUNCTIONS["log1p"]
hypot, copysign = FUNCTIONS["hypot"], FUNCTIONS["copysign"]
nextafter, ldexp = FUNCTIONS["nextafter"], FUNCTIONS["ldexp"]


def min(*values: ValueLike) -> Number:
    """The smallest of one or more values."""
    return fold(ops.MIN, "tir.min", values)


def max(*values: ValueLike) -> Number:
    """The largest of one or more values."""
    return fold(ops.MAX, "tir.max", values)


def likely(condition: Truth) -> Truth:
    """The condition itself; the hint is for code generation."""
    return condition


def bitwise_and(a: IntLike, b: IntLike) -> Expr:
    """`a & b` of integers."""
    return as_expr(a) & as_expr(b)


def bitwise_or(a: IntLike, b: IntLike) -> Expr:
    """`a | b` of integers."""
    return as_expr(a) | as_expr(b)


def bitwise_xor(a: IntLike, b: IntLike) -> Expr:
    """`a ^ b` of integers."""
    return as_expr(a) ^ as_expr(b)


def bitwise_not(a: IntLike) -> Expr:
    """`~a` of an integer."""
    return ~as_expr(a)


def shift_left(a: IntLike, b: IntLike) -> Expr:
    """`a << b` of integers."""
    return as_expr(a) << as_expr(b)


def shift_right(a: IntLike, b: IntLike) -> Expr:
    """`a >> b` of integers, arithmetic."""
    return as_expr(a) >> as_expr(b)


def logical_not(a: Truth) -> Truth:
    """The negation of a truth value."""
    return negation(a)


def IntImm(dtype: str, value: int) -> Operand:
    """The integer constant of a type."""
    return cast(dtype, as_expr(value, "value of IntImm").data)


def FloatImm(dtype: str, value: float) -> Operand:
    """The float constant of a type."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"value of FloatImm must be a number, not {shown(value)}")
    return const(as_float(value), dtype)


__all__ = [
    "Buffer",
    "Cast",
    "CommReducer",
    "Expr",
    "ExternCall",
    "FloatImm",
    "InputError",
    "IntImm",
    "IterType",
    "IterVar",
    "Operand",
    "Reduction",
    "Select",
    "SizeVar",
    "Value",
    "Var",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "call_extern",
    "call_intrin",
    "call_packed",
    "call_pure_extern",
    "copysign",
    "decl_buffer",
    "dtype_of",
    "exp2",
    "exp10",
    "hypot",
    "input_tensors",
    "ldexp",
    "likely",
    "loaded_tensor",
    "log1p",
    "logical_not",
    "max",
    "min",
    "nextafter",
    "nodes",
    "pow",
    "rewrite",
    "shift_left",
    "shift_right",
    "substitute",
    "variables",
]
__all__ += scalars.__all__
