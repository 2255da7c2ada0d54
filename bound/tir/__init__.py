"""Value expressions under TVM's names: `from bound import tir`.

Integers are `intset` expressions, conditions on them `intset` conditions; anything else is a `Value`. As in TVM, this
module shadows Python's `min`, `max`, `all`, `any`, `abs` and `round`.
"""

from __future__ import annotations

from bound import dtypes
from bound.itervar import IterType, IterVar
from bound.tir.build import (
    FUNCTIONS,
    Buffer,
    ExternCall,
    arithmetic,
    as_float,
    call_extern,
    call_intrin,
    call_packed,
    cast,
    const,
    decl_buffer,
    dtype_of,
    fold,
    negation,
    operand,
    popcount,
    power,
    select,
)
from bound.tir.build import absolute as abs
from bound.tir.build import all_of as all
from bound.tir.build import any_of as any
from bound.tir.reduce import CommReducer, Reduction, comm_reducer
from bound.tir.value import DIV, Number, Operand, Truth, Value, ValueLike
from bound.tir.walk import input_tensors, loaded_tensor, nodes, rewrite, substitute, variables
from intset.errors import InputError
from intset.expr import ops
from intset.expr.build import ceildiv
from intset.expr.node import Expr, IntLike, ShapeVar, Var, as_expr
from intset.expr.printer import shown

SizeVar = ShapeVar
Select = select
if_then_else = select
Cast = cast
call_pure_extern = call_extern
pow = power

exp, exp2, exp10 = FUNCTIONS["exp"], FUNCTIONS["exp2"], FUNCTIONS["exp10"]
log, log2, log10, log1p = FUNCTIONS["log"], FUNCTIONS["log2"], FUNCTIONS["log10"], FUNCTIONS["log1p"]
sqrt, rsqrt, sigmoid, erf = FUNCTIONS["sqrt"], FUNCTIONS["rsqrt"], FUNCTIONS["sigmoid"], FUNCTIONS["erf"]
sin, cos, tan = FUNCTIONS["sin"], FUNCTIONS["cos"], FUNCTIONS["tan"]
sinh, cosh, tanh = FUNCTIONS["sinh"], FUNCTIONS["cosh"], FUNCTIONS["tanh"]
asin, acos, atan = FUNCTIONS["asin"], FUNCTIONS["acos"], FUNCTIONS["atan"]
asinh, acosh, atanh = FUNCTIONS["asinh"], FUNCTIONS["acosh"], FUNCTIONS["atanh"]
floor, ceil, trunc = FUNCTIONS["floor"], FUNCTIONS["ceil"], FUNCTIONS["trunc"]
round, nearbyint = FUNCTIONS["round"], FUNCTIONS["nearbyint"]
fmod, atan2, hypot, copysign = FUNCTIONS["fmod"], FUNCTIONS["atan2"], FUNCTIONS["hypot"], FUNCTIONS["copysign"]
nextafter, ldexp = FUNCTIONS["nextafter"], FUNCTIONS["ldexp"]
isnan, isfinite, isinf = FUNCTIONS["isnan"], FUNCTIONS["isfinite"], FUNCTIONS["isinf"]


def floordiv(a: ValueLike, b: ValueLike) -> Number:
    """The quotient rounded to minus infinity."""
    return arithmetic(ops.FLOORDIV, a, b)


def floormod(a: ValueLike, b: ValueLike) -> Number:
    """The remainder with the sign of `b`."""
    return arithmetic(ops.FLOORMOD, a, b)


def truncdiv(a: ValueLike, b: ValueLike) -> Number:
    """C's quotient, rounded to 0."""
    return arithmetic(ops.TRUNCDIV, a, b)


def truncmod(a: ValueLike, b: ValueLike) -> Number:
    """C's remainder, with the sign of `a`."""
    return arithmetic(ops.TRUNCMOD, a, b)


def indexdiv(a: ValueLike, b: ValueLike) -> Number:
    """The quotient of two indices: as in TVM, `floordiv` of values the script takes to be nonnegative."""
    return arithmetic(ops.FLOORDIV, a, b)


def indexmod(a: ValueLike, b: ValueLike) -> Number:
    """The remainder of two indices: as in TVM, `floormod`."""
    return arithmetic(ops.FLOORMOD, a, b)


def div(a: ValueLike, b: ValueLike) -> Number:
    """C's `a / b`: of integers `truncdiv`, of floats the quotient."""
    whole = isinstance(operand(a), Expr) and isinstance(operand(b), Expr)
    return arithmetic(ops.TRUNCDIV if whole else DIV, a, b)


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


def min_value(dtype: str) -> Operand:
    """The smallest finite value of a type."""
    return cast(dtype, dtypes.lowest(dtypes.check(dtype)))


def max_value(dtype: str) -> Operand:
    """The largest finite value of a type."""
    return cast(dtype, dtypes.highest(dtypes.check(dtype)))


def infinity(dtype: str) -> Operand:
    """The float above all others."""
    return const(float("inf"), dtype)


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
    "abs",
    "acos",
    "acosh",
    "all",
    "any",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "call_extern",
    "call_intrin",
    "call_packed",
    "call_pure_extern",
    "ceil",
    "ceildiv",
    "comm_reducer",
    "const",
    "copysign",
    "cos",
    "cosh",
    "decl_buffer",
    "div",
    "dtype_of",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "floor",
    "floordiv",
    "floormod",
    "fmod",
    "hypot",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "infinity",
    "input_tensors",
    "isfinite",
    "isinf",
    "isnan",
    "ldexp",
    "likely",
    "loaded_tensor",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_not",
    "max",
    "max_value",
    "min",
    "min_value",
    "nearbyint",
    "nextafter",
    "nodes",
    "popcount",
    "pow",
    "power",
    "rewrite",
    "round",
    "rsqrt",
    "shift_left",
    "shift_right",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "substitute",
    "tan",
    "tanh",
    "trunc",
    "truncdiv",
    "truncmod",
    "variables",
]
