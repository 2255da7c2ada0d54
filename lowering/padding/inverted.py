"""Solve an equation in one unknown: invert its operations, then check every candidate by evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from bound import dtypes
from bound.tir.value import Operand, ValueOp
from bound.tir.walk import nodes
from intset.expr import ops
from intset.expr.ops import Op
from lowering.padding.partial_evaluation import Number, as_element, as_number, is_number
from lowering.padding.states import number_of

MAX_TRIED: Final = 512  # candidates
MAX_FOUND: Final = 16  # solutions
_SMALL: Final = (0, 1, -1, 2, -2)
Tried: TypeAlias = "Number | tuple[Number, ...]"


def candidates(expr: Operand, unknown: Operand, wanted: Number, dtype: str, result: str) -> Iterator[Number]:
    """Yield values of `unknown` for which `expr`, stored as type `result`, equals `wanted`.

    Guarantee: every yielded number solves the equation. For integers of at most 8 bits the search is exhaustive, up to
    `MAX_FOUND` solutions nearest to 0. Other types try inverted operations and common constants.

    Parameters
    ----------
    dtype: type of the unknown.
    """
    tried: list[Number] = []
    if dtype == "bool":
        tried = [False, True]
    elif dtypes.is_int(dtype) and dtypes.bits(dtype) <= 8:
        low, high = dtypes.int_range(dtype)
        tried = sorted(range(low, high + 1), key=lambda n: (abs(n), n < 0))
    else:
        some = (_kept(n, dtype) for n in (*_turned(expr, unknown, wanted), *_common(expr, wanted, dtype)))
        for number in some:
            if number is not None:  # prefer 0.0 to -0.0
                tried += [0.0, -0.0] if number == 0 and isinstance(number, float) else [number]
    found = 0
    for number in list({repr(n): n for n in tried}.values())[:MAX_TRIED]:
        value = number_of(expr, {unknown: number}, result)
        if value is not None and value == as_element(wanted, result):
            yield number
            found += 1
            if found == MAX_FOUND:
                return


def _kept(number: Any, dtype: str) -> Number | None:
    """Convert a number to the type; return `None` if the type cannot represent it."""
    if isinstance(number, complex) or number != number:
        return None
    if dtypes.is_float(dtype):
        return as_element(float(number), dtype)
    if math.isinf(number):
        return None
    low, high = dtypes.int_range(dtype)
    return int(number) if low <= number <= high and number == int(number) else None


def _common(expr: Operand, wanted: Number, dtype: str) -> Iterator[Number]:
    yield wanted
    yield from _SMALL
    yield from (dtypes.least(dtype), dtypes.greatest(dtype))
    for node in nodes(expr):
        number = as_number(node)
        if number is not None and not isinstance(number, bool):
            yield from (number, -number, number + 1, number - 1)


def _turned(root: Operand, unknown: Operand, wanted: Number) -> Iterator[Number]:
    """Yield candidates by inverting operations from the root down to the unknown."""
    below: set[Operand] = {unknown}
    for node in nodes(root):
        if any(arg in below for arg in node.args):
            below.add(node)
    stack: list[tuple[Operand, Number]] = [(root, wanted)]
    for _ in range(MAX_TRIED):
        if not stack:
            return
        node, value = stack.pop()
        if node is unknown:
            yield value
            continue
        ways = [(arg, x) for arg, x in _below(node, value, below) if not isinstance(x, complex) and x == x]
        stack += reversed(ways)


def _below(node: Operand, value: Number, below: set[Operand]) -> Iterator[tuple[Operand, Number]]:
    """Invert one operation: yield each argument that contains the unknown, with its required value."""
    args = node.args
    mine = [k for k, arg in enumerate(args) if arg in below]
    op = node.op
    if op in (ops.SELECT, ValueOp.SELECT):
        yield from ((args[k], value) for k in (1, 2) if k in mine)
    elif op in (ops.CAST, ValueOp.CAST, ops.ASSERTING):
        yield args[-1], value
    elif len(mine) == 1 and op in _ONE and len(args) == 1:
        yield from ((args[0], x) for x in _tried(_ONE[op], value))
    elif len(mine) == 1 and op is ValueOp.CALL and len(args) == 1 and node.data in _CALLS:
        yield from ((args[0], x) for x in _tried(_CALLS[node.data], value))
    elif len(mine) == 1 and op in _TWO and len(args) == 2:
        other = number_of(args[1 - mine[0]], {}, "float64" if isinstance(op, ValueOp) else "int64")
        if other is not None and is_number(other):
            yield from ((args[mine[0]], x) for x in _tried(lambda v: _TWO[op](v, other, mine[0]), value))


def _tried(function: Callable[[Any], Tried], value: Number) -> list[Number]:
    try:
        found = function(value)
    except (ArithmeticError, ValueError):
        return []
    return list(found) if isinstance(found, tuple) else [found]


def _log(x: float) -> float:
    return -math.inf if x == 0 else math.inf if x == math.inf else math.log(x)


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def _quotient(v: Number, c: Number, side: int) -> Number:
    return v * c if side == 0 else c / v


def _difference(v: Number, c: Number, side: int) -> Number:
    return v + c if side == 0 else c - v


def _product(v: Number, c: Number, side: int) -> Tried:
    is_whole = isinstance(v, int) and isinstance(c, int)
    return (0, 1) if v == 0 and c == 0 else v // c if is_whole else v / c


_ONE: Final[dict[Op | ValueOp, Callable[[Any], Tried]]] = {
    ops.NEG: lambda v: -v, ValueOp.NEG: lambda v: -v, ops.BITNOT: lambda v: ~v,
    ops.ABS: lambda v: (v, -v), ValueOp.ABS: lambda v: (v, -v),
}  # fmt: skip
_TWO: Final[dict[Op | ValueOp, Callable[[Any, Any, int], Tried]]] = {
    ops.ADD: lambda v, c, side: v - c, ValueOp.ADD: lambda v, c, side: v - c,
    ops.SUB: _difference, ValueOp.SUB: _difference,
    ops.MUL: _product, ValueOp.MUL: _product, ValueOp.DIV: _quotient,
    ops.MAX: lambda v, c, side: (v, c, c - 1), ops.MIN: lambda v, c, side: (v, c, c + 1),
    ValueOp.MAX: lambda v, c, side: (v, c, -math.inf), ValueOp.MIN: lambda v, c, side: (v, c, math.inf),
    ops.FLOORDIV: lambda v, c, side: (v * c, v * c + c - 1), ops.FLOORMOD: lambda v, c, side: (v, v + c),
    ops.TRUNCDIV: lambda v, c, side: (v * c,), ops.BITXOR: lambda v, c, side: v ^ c,
}  # fmt: skip
_CALLS: Final[dict[str, Callable[[Any], Tried]]] = {
    "exp": _log, "log": _exp, "exp2": lambda v: _log(v) / math.log(2), "log2": lambda v: 2.0**v,
    "sqrt": lambda v: v * v, "rsqrt": lambda v: math.inf if v == 0 else 1 / (v * v),
    "tanh": lambda v: math.copysign(math.inf, v) if abs(v) == 1 else math.atanh(v),
    "sigmoid": lambda v: -math.inf if v == 0 else math.inf if v == 1 else _log(v / (1 - v)),
    "sin": math.asin, "cos": math.acos, "tan": math.atan, "sinh": math.asinh, "erf": lambda v: v,
    "floor": lambda v: v, "ceil": lambda v: v, "trunc": lambda v: v, "round": lambda v: v,
}  # fmt: skip
