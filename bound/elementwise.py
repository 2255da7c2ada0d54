"""Arithmetic of tensors, element by element with broadcasting: `A + B`, `T * 2.0`, `te.multiply(A, B)`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from bound.declare import compute
from bound.tensor import TENSOR_OPERATORS, Tensor
from bound.tir import build
from bound.tir.value import Operand, ValueLike
from intset.errors import InputError
from intset.expr.node import Expr

_NAMES: Final = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide"}


def broadcast_shape(left: Sequence[Expr], right: Sequence[Expr], what: str) -> tuple[Expr, ...]:
    """Return the shape of two operands together: dimensions are aligned at the last, an extent 1 is repeated.

    Raises
    ------
    InputError: two extents are neither the same expression nor 1.
    """
    count = max(len(left), len(right))
    pairs = zip(_padded(left, count), _padded(right, count), strict=True)
    return tuple(_together(a, b, what) for a, b in pairs)


def _padded(shape: Sequence[Expr], count: int) -> list[Expr | None]:
    return [None] * (count - len(shape)) + list(shape)


def _is_one(extent: Expr | None) -> bool:
    return extent is None or (extent.is_const and extent.data == 1)


def _together(a: Expr | None, b: Expr | None, what: str) -> Expr:
    if _is_one(a) and b is not None:
        return b
    if a is not None and (_is_one(b) or a is b):
        return a
    raise InputError(f"{what} cannot be broadcast together: their extents {a} and {b} differ")


def _read(x: object, indices: Sequence[Any]) -> Any:
    """The element of an operand at indices of the result; a number is itself."""
    if not isinstance(x, Tensor):
        return x
    own = indices[len(indices) - x.ndim :]
    return x.at(tuple(0 if _is_one(extent) else i for extent, i in zip(x.extents, own, strict=True)))


def combined(name: str, left: object, right: object) -> Any:
    """Return `left op right`: a tensor if one of them is, else a value.

    Parameters
    ----------
    name: a name of the module `operator`: add, sub, mul, truediv.
    """
    function: Callable[[Any, Any], Any] = getattr(operator, name)
    first, second = (x.extents if isinstance(x, Tensor) else () for x in (left, right))
    if not isinstance(left, Tensor) and not isinstance(right, Tensor):
        return function(build.operand(left), right)
    shape = broadcast_shape(first, second, f"the operands of {_NAMES[name]}")
    tag = "broadcast" if isinstance(left, Tensor) and isinstance(right, Tensor) else "elemwise"
    return compute(shape, lambda *i: function(_read(left, i), _read(right, i)), name=f"T_{_NAMES[name]}", tag=tag)


def add(lhs: Tensor | ValueLike, rhs: Tensor | ValueLike) -> Tensor | Operand:
    """`lhs + rhs`, of tensors or values."""
    answer: Tensor | Operand = combined("add", lhs, rhs)
    return answer


def subtract(lhs: Tensor | ValueLike, rhs: Tensor | ValueLike) -> Tensor | Operand:
    """`lhs - rhs`, of tensors or values."""
    answer: Tensor | Operand = combined("sub", lhs, rhs)
    return answer


def multiply(lhs: Tensor | ValueLike, rhs: Tensor | ValueLike) -> Tensor | Operand:
    """`lhs * rhs`, of tensors or values."""
    answer: Tensor | Operand = combined("mul", lhs, rhs)
    return answer


def divide(lhs: Tensor | ValueLike, rhs: Tensor | ValueLike) -> Tensor | Operand:
    """`lhs / rhs`, of tensors or values that are no integers."""
    answer: Tensor | Operand = combined("truediv", lhs, rhs)
    return answer


def converted(tensor: Tensor, dtype: str) -> Tensor:
    """The elements of a tensor in another type, as `cast` converts them."""

    def element(*i: Any) -> Operand:
        value: Any = tensor.at(i)
        return build.cast(dtype, value)

    result: Tensor = compute(tensor.extents, element, name=f"{tensor.name}.{dtype}", tag="elemwise")
    return result


TENSOR_OPERATORS["combined"] = combined
TENSOR_OPERATORS["converted"] = converted
