"""Construction of operands: conversion, type promotion, arithmetic, selection; operators of values, and their text.

Guarantee: every function accepts `Value`, `Expr`, `Cond` and Python numbers, and returns an `Expr` or `Cond` exactly if
the result is an integer or a condition on integers.

`intset` knows no tensors, so `i * A[j]` must call the reflected operator of `A[j]`: that is a `Guest`, to which
operators of `Expr` and `Cond` defer. Every operand of a tensor program has `dtype` and `astype`, integers included.
"""

from __future__ import annotations

from functools import reduce
from math import isfinite
from operator import add, ge, gt, le, lt, mul, sub, truediv
from typing import Final, SupportsFloat, TypeGuard

from bound import dtypes
from bound.tir.opaque import integer
from bound.tir.value import (
    CONVERT,
    DIV,
    NUMBER,
    OPERATORS,
    Number,
    Operand,
    Truth,
    Value,
    ValueLike,
    constant,
    make,
)
from intset.errors import InputError
from intset.expr import build as ints
from intset.expr import ops
from intset.expr.arguments import refusal
from intset.expr.dag import postorder
from intset.expr.node import ELEMENT_TYPES, FLOATS, Cond, Expr, Node, Var, as_expr, divide, truth
from intset.expr.node import make as make_node
from intset.expr.ops import Op
from intset.expr.printer import shown


def dtype_of(operand: Operand) -> str:
    """Return the element type of a tensor that stores the operand.

    An integer has the widest type of its elements and casts; indices are `int32`, constants adapt.
    """
    if isinstance(operand, Value):
        return operand.dtype
    if isinstance(operand, Cond):
        return "bool"
    types: dict[Node, str | None] = {}
    for node in postorder((operand,)):
        types[node] = _integer_type(node, types)
    return types[operand] or dtypes.INDEX


def _integer_type(node: Node, known: dict[Node, str | None]) -> str | None:
    if node.op is ops.LOAD:
        return getattr(node.data, "dtype", dtypes.INDEX)
    if node.op is ops.CAST:
        width, is_signed = node.data
        return f"{'int' if is_signed else 'uint'}{width}"
    if isinstance(node, Var):
        return dtypes.INDEX
    types = [known[arg] for arg in node.args if isinstance(arg, Expr)]
    definite = [dtype for dtype in types if dtype is not None]
    return reduce(dtypes.promote, definite) if definite else None


def is_integer(x: object) -> bool:
    """Return whether `x` is an integer: an `Expr`, or a Python or numpy integer."""
    return isinstance(x, Expr) or (hasattr(x, "__index__") and not isinstance(x, (bool, Value, Cond)))


def is_truth(x: object) -> TypeGuard[Truth]:
    """Return whether `x` is a truth value: a `Cond`, or a Value of type `bool`."""
    return isinstance(x, Cond) or (isinstance(x, Value) and x.dtype == "bool")


def operand(x: object, what: str = "an operand") -> Operand:
    """Convert `x` to an operand; a Python float becomes a `float32` constant.

    Raises
    ------
    InputError: `x` is no number and no operand; names `what`.
    """
    if isinstance(x, (Value, Expr, Cond)):
        return x
    if isinstance(x, bool) or type(x).__name__ in ("bool", "bool_"):
        raise InputError(f"{what} must be a number, not the truth value {shown(x)}: use tir.const({shown(x)}, 'bool')")
    if is_integer(x):
        return as_expr(x, what)
    if isinstance(x, SupportsFloat):
        return constant(float(x), dtypes.DEFAULT)
    raise refusal(what, "a value of a tensor program or a number", x)


def const(value: float | bool, dtype: str | None = None) -> Operand:
    """Return a constant of the given type; by default `int32` for Python integers, `float32` for floats.

    A constant of the types of indices, `int32` and `int64`, is an integer, which adapts to the type of other operands.
    """
    if isinstance(value, bool) or dtype == "bool":
        return truth(bool(value))
    if dtype is None:
        return operand(value, "a constant")
    dtype = dtypes.check(dtype)
    made = cast(dtype, value)
    is_value = isinstance(made, Expr) and made.is_const and dtype not in dtypes.INDICES
    return ints.cast(as_expr(made), dtypes.bits(dtype), dtypes.signed(dtype)) if is_value else made


def plain_constant(e: Operand) -> Operand:
    """Return a typed constant as a plain integer; other operands unchanged."""
    if isinstance(e, Expr) and e.op is ops.CAST and e.args[0].is_const:
        number: Expr = e.args[0]
        return number if dtypes.holds(dtypes.int_named(*e.data), number.data) else e
    return e


def cast(dtype: str, value: ValueLike) -> Operand:
    """Convert a value as storing it would: integers wrap, floats are truncated toward 0."""
    dtype = dtypes.check(dtype)
    x = constant(float(value), "float64") if isinstance(value, float) else operand(value)
    if is_truth(x):
        return x if dtype == "bool" else select(x, cast(dtype, 1), cast(dtype, 0))
    if dtype == "bool":
        return binary(ops.NE, x, 0)
    if isinstance(x, Expr):
        return _cast_integer(dtype, x)
    if not isinstance(x, Value) or x.dtype == dtype:
        return x
    if dtypes.is_int(dtype):
        if x.op is NUMBER:
            if not isfinite(x.data):
                raise InputError(f"{x.data} is no integer: it has no value as {dtype}")
            return _cast_integer(dtype, as_expr(int(x.data)))
        return integer(make(CONVERT, (x,), dtype))
    return constant(x.data, dtype) if x.op is NUMBER else make(CONVERT, (x,), dtype)


def as_float(number: float, dtype: str = "float64") -> float:
    """Round a number to a float type.

    Raises
    ------
    InputError: an integer above the range of floats.
    """
    nearest = dtypes.rounded(number, "float64")
    if isinstance(number, int) and not isfinite(nearest):
        raise InputError(f"{shown(number)} is above all floats")
    return dtypes.rounded(number, dtype)


def _cast_integer(dtype: str, e: Expr) -> Operand:
    if dtypes.is_float(dtype):
        return constant(as_float(e.data, dtype), dtype) if e.is_const else make(CONVERT, (e,), dtype)
    low, high = dtypes.int_range(dtype)
    if e.is_const and low <= e.data <= high:
        return e
    is_index = all(node.op is not ops.LOAD and node.op is not ops.CAST for node in postorder((e,)))
    if (is_index and low < 0 and dtypes.bits(dtype) >= 32) or (not is_index and dtype_of(e) == dtype):
        return e  # an index is an integer of any width that indices have; a type is not converted to itself
    return ints.cast(e, dtypes.bits(dtype), dtypes.signed(dtype))


def matched(*values: object) -> tuple[Value, ...]:
    """Cast values, at least one of them a float, to their common float type."""
    for x in values:
        if is_truth(x):
            raise InputError(f"a truth value is not a number: {shown(x)} (use tir.Select or astype)")
    types = [x.dtype for x in values if isinstance(x, Value)]
    dtype = reduce(dtypes.promote, types) if types else dtypes.DEFAULT
    if dtype in dtypes.OF_STORAGE:
        raise InputError(f"nothing is computed in {dtype}, a type of storage: convert by astype first")
    cast_values = [cast(dtype, x if isinstance(x, float) else operand(x)) for x in values]
    return tuple(x for x in cast_values if isinstance(x, Value))


def binary(op: Op, a: object, b: object) -> Operand:
    """Return `a op b`: an `Expr` or `Cond` for integers, a `Value` otherwise."""
    if is_integer(a) and is_integer(b):
        if op is DIV:
            raise InputError("'/' of two integers: use tir.floordiv (floor), tir.truncdiv (C), or cast one to a float")
        whole = as_expr(a), as_expr(b)
        made: Expr | Cond = divide(op, *whole) if op in ops.DIVISIONS else make_node(op, whole)
        return made
    if op in (ops.EQ, ops.NE) and is_truth(a) and is_truth(b):
        same = make(ops.EQ, (a, b), "bool")
        return same if op is ops.EQ else negation(same)
    x, y = matched(a, b)
    if x.op is y.op is NUMBER and x.dtype != "bool":
        folded = _folded(op, x, y)
        if folded is not None:
            return folded
    return make(op, (x, y), "bool" if op in ops.COMPARISONS else x.dtype)


_ON_CONSTANTS: Final = {ops.ADD: add, ops.SUB: sub, ops.MUL: mul, DIV: truediv}
_COMPARED: Final = {ops.LT: lt, ops.LE: le, ops.GT: gt, ops.GE: ge}


def _folded(op: Op, x: Value, y: Value) -> Value | None:
    """The value of an operation on two float constants, rounded to their type; `None` where it is not finite.

    A sum, a product or a quotient of doubles, rounded to a narrower type, is that of the narrower type: doubles have
    more than twice its digits.
    """
    if op in _COMPARED:
        return constant(_COMPARED[op](x.data, y.data), "bool")
    if op not in _ON_CONSTANTS or (op is DIV and not y.data):
        return None
    result = dtypes.rounded(_ON_CONSTANTS[op](x.data, y.data), x.dtype)
    return constant(result, x.dtype) if isfinite(result) else None


def arithmetic(op: Op, a: object, b: object) -> Number:
    """Return `a op b` for an operation that yields a number."""
    return _number(binary(op, a, b))


def _number(x: Operand) -> Number:
    if isinstance(x, Cond):
        raise InputError(f"a truth value is not a number: {shown(x)} (use tir.Select or astype)")
    return x


def unary(op: Op, a: object) -> Number:
    """Return the negation or the absolute value."""
    if is_integer(a):
        return -as_expr(a) if op is ops.NEG else abs(as_expr(a))
    (x,) = matched(operand(a))
    if op is ops.NEG and x.op is NUMBER:
        return constant(-x.data, x.dtype)
    return make(op, (x,), x.dtype)


def truth_value(x: object, what: str = "a condition") -> Truth:
    """Return `x` as a truth value.

    Raises
    ------
    InputError: `x` is a number or a Python bool; names `what`.
    """
    if isinstance(x, Cond) or (isinstance(x, Value) and x.dtype == "bool"):
        return x
    raise InputError(f"{what} must be a truth value such as i < 8 or A[i] > 0, not {shown(x)}")


def logical(op: Op, a: object, b: object) -> Truth:
    """Return `a and b`, or `a or b`; a `Cond` if both are."""
    x, y = truth_value(a, f"an operand of {op.name}"), truth_value(b, f"an operand of {op.name}")
    if isinstance(x, Cond) and isinstance(y, Cond):
        return x & y if op is ops.AND else x | y
    return make(op, (x, y), "bool")


def negation(a: object) -> Truth:
    """`not a`."""
    x = truth_value(a, "the operand of not")
    return ~x if isinstance(x, Cond) else make(ops.NOT, (x,), "bool")


def all_of(*conditions: object) -> Truth:
    """Return the conjunction of one or more conditions."""
    return _joined(ops.AND, "tir.all", conditions)


def any_of(*conditions: object) -> Truth:
    """Return the disjunction of one or more conditions."""
    return _joined(ops.OR, "tir.any", conditions)


def _joined(op: Op, what: str, conditions: tuple[object, ...]) -> Truth:
    if not conditions:
        raise InputError(f"{what} needs at least one condition")
    return reduce(lambda a, b: logical(op, a, b), [truth_value(c, f"an argument of {what}") for c in conditions])


def together(*conditions: object) -> Truth:
    """Return the conjunction of conditions, skipping `True`; `True` for none."""
    kept = [c for c in conditions if c is not truth(True)]
    return all_of(*kept) if kept else truth(True)


def select(condition: object, if_true: object, if_false: object) -> Operand:
    """Return `if_true` if the condition holds, else `if_false`; the other branch is not evaluated."""
    cond = truth_value(condition, "the condition of select")
    if is_integer(if_true) and is_integer(if_false):
        a, b = as_expr(if_true), as_expr(if_false)
        if isinstance(cond, Cond):
            return ints.select(cond, a, b)
        return integer(make(ops.SELECT, (cond, a, b), dtypes.promote(dtype_of(a), dtype_of(b))))
    if is_truth(if_true) and is_truth(if_false):
        return any_of(all_of(cond, if_true), all_of(negation(cond), if_false))
    x, y = matched(if_true, if_false)
    return make(ops.SELECT, (cond, x, y), x.dtype)


def fold(op: Op, what: str, values: tuple[object, ...]) -> Number:
    """Return the minimum or maximum of one or more values."""
    if not values:
        raise InputError(f"{what} needs at least one value")
    first, *others = [operand(v, f"an argument of {what}") for v in values]
    return reduce(lambda a, b: arithmetic(op, a, b), others, _number(first))


_OF_FLOATS: Final = {
    "add": ops.ADD,
    "sub": ops.SUB,
    "mul": ops.MUL,
    "truediv": DIV,
    "lt": ops.LT,
    "le": ops.LE,
    "gt": ops.GT,
    "ge": ops.GE,
}


def _with_float(name: str, a: object, b: object) -> Operand:
    """An operation of an integer and a Python float: both become `float32`, as in TVM."""
    if name not in _OF_FLOATS:
        raise InputError(f"{name} of {shown(a)} and {shown(b)}: it is for integers")
    return binary(_OF_FLOATS[name], a, b)


FLOATS.binary = _with_float
OPERATORS.binary = binary
OPERATORS.cast = cast
OPERATORS.logical = logical
OPERATORS.negation = negation
OPERATORS.unary = unary
ELEMENT_TYPES.of, ELEMENT_TYPES.cast = dtype_of, cast
