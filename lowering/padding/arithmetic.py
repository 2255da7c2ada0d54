"""Operations on numbers, as a nest that runs computes them, and what elements hold of the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from bound import dtypes
from bound.tir.value import Operand, Value, constant
from intset.expr.node import Cond, Expr, const, truth
from intset.expr.ops import wrap
from lowering.codegen.python_operands import PythonSyntax
from lowering.codegen.python_runtime import environment
from lowering.codegen.spelling import Identifiers

Number: TypeAlias = "int | float | bool"

_FUNCTIONS: Final[dict[tuple[object, ...], Callable[..., Number]]] = {}


def computed(node: Operand, args: list[Number]) -> Number | None:
    """The result of the operation of a node on numbers, `None` where it has none or is not known.

    It is evaluated by the very text that `run` executes: integers are those of mathematics, floats those of their type.
    """
    return result_of(function_of(node), isinstance(node, Value), args)


def result_of(function: Callable[..., Number], may_warn: bool, args: list[Number]) -> Number | None:
    """What `function_of` a node gives, as `computed`; only operations of numpy `may_warn`, not those of integers."""
    try:
        if not may_warn:
            return function(*args)
        import numpy as np

        with np.errstate(all="ignore"):
            return function(*args)
    except (ArithmeticError, ValueError, TypeError, NameError):  # by 0, of no number, a function of the host
        return None


def function_of(node: Operand) -> Callable[..., Number]:
    """The operation of a node as a function of its operands, one for all nodes of one kind."""
    kinds = tuple(arg.dtype if isinstance(arg, Value) else "" for arg in node.args)
    key = (node.op, node.data, getattr(node, "dtype", ""), kinds)
    found = _FUNCTIONS.get(key)
    if found is None:
        names = [f"a{k}" for k in range(len(kinds))]
        text = PythonSyntax(Identifiers(), False, str).operation(node, names)
        found = _FUNCTIONS[key] = eval(f"lambda {', '.join(names)}: {text}", environment())
    return found


def held(number: Number, dtype: str) -> Number:
    """The number as an element of the type holds it."""
    if dtype == "bool":
        return bool(number)
    if dtypes.is_int(dtype):
        return wrap(int(number), dtypes.bits(dtype), dtypes.signed(dtype))
    return dtypes.rounded(float(number), dtype)


def same(a: Number, b: Number) -> bool:
    """Whether two elements compare equal; none does that is no number."""
    return bool(a == b)


def as_operand(number: Number, dtype: str) -> Operand:
    """A number as an operand of the type."""
    if dtypes.is_int(dtype):
        return const(int(number))
    return truth(bool(number)) if dtype == "bool" else constant(float(number), dtype)


def as_number(node: Operand) -> Number | None:
    """The number that an operand is, or `None`."""
    if isinstance(node, Expr):
        return int(node.data) if node.is_const else None
    if isinstance(node, Cond):
        return bool(node.data) if node.op.name == "bool" else None
    if isinstance(node, Value) and node.op.value == "const":
        number: Number = node.data
        return number
    return None
