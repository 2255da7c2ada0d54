"""Functions of values that `te` and `tir` share, under TVM's names. Shadows Python's `all`, `any`, `abs`, `round`."""

from bound import dtypes
from bound.tir.build import FUNCTIONS, arithmetic, cast, const, operand, popcount, power
from bound.tir.build import absolute as abs
from bound.tir.build import all_of as all
from bound.tir.build import any_of as any
from bound.tir.build import select as if_then_else
from bound.tir.reduce import comm_reducer
from bound.tir.value import DIV, Number, Operand, ValueLike
from intset.expr import Expr, ops
from intset.expr.build import ceildiv

exp, log, log2, log10 = FUNCTIONS["exp"], FUNCTIONS["log"], FUNCTIONS["log2"], FUNCTIONS["log10"]
sqrt, rsqrt, sigmoid, erf = FUNCTIONS["sqrt"], FUNCTIONS["rsqrt"], FUNCTIONS["sigmoid"], FUNCTIONS["erf"]
sin, cos, tan = FUNCTIONS["sin"], FUNCTIONS["cos"], FUNCTIONS["tan"]
sinh, cosh, tanh = FUNCTIONS["sinh"], FUNCTIONS["cosh"], FUNCTIONS["tanh"]
asin, acos, atan = FUNCTIONS["asin"], FUNCTIONS["acos"], FUNCTIONS["atan"]
asinh, acosh, atanh = FUNCTIONS["asinh"], FUNCTIONS["acosh"], FUNCTIONS["atanh"]
floor, ceil, trunc = FUNCTIONS["floor"], FUNCTIONS["ceil"], FUNCTIONS["trunc"]
round, nearbyint = FUNCTIONS["round"], FUNCTIONS["nearbyint"]
fmod, atan2 = FUNCTIONS["fmod"], FUNCTIONS["atan2"]
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
    x, y = operand(a), operand(b)
    return arithmetic(ops.TRUNCDIV if isinstance(x, Expr) and isinstance(y, Expr) else DIV, x, y)


def min_value(dtype: str) -> Operand:
    """The smallest finite value of a type."""
    return cast(dtype, dtypes.lowest(dtypes.check(dtype)))


def max_value(dtype: str) -> Operand:
    """The largest finite value of a type."""
    return cast(dtype, dtypes.highest(dtypes.check(dtype)))


def infinity(dtype: str) -> Operand:
    """The float above all others."""
    return const(float("inf"), dtype)


__all__ = [
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
    "ceil",
    "ceildiv",
    "comm_reducer",
    "const",
    "cos",
    "cosh",
    "div",
    "erf",
    "exp",
    "floor",
    "floordiv",
    "floormod",
    "fmod",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "infinity",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log2",
    "log10",
    "max_value",
    "min_value",
    "nearbyint",
    "popcount",
    "power",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "truncdiv",
    "truncmod",
]
