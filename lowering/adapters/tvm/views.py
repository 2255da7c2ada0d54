"""Views of buffers: index maps from a slice or a reshaped buffer to its tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from bound.tensor import Tensor
from intset.expr.node import Expr, const
from lowering.nest.tensors import Indices


class BufferView(NamedTuple):
    """What a buffer of TVM stands for: elements of a tensor, by a function of the buffer's indices.

    `buffer`: the buffer that is the whole tensor.
    """

    tensor: Tensor
    place: Callable[[Indices], Indices]
    buffer: Any


def row_major(shape: list[Expr]) -> list[Expr]:
    """The strides of a storage without gaps."""
    strides = [const(1)]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent if strides[-1] is not const(1) else extent)
    return strides[::-1] if shape else []


def flattened(indices: Indices, strides: list[Expr], offset: Expr) -> Expr:
    """The number of an element in its storage."""
    number = offset
    for index, stride in zip(indices, strides, strict=True):
        step = index if stride is const(1) else index * stride
        number = step if number is const(0) else number + step
    return number


def unflattened(number: Expr, shape: list[Expr]) -> Indices:
    """The indices of an element by its number in a storage without gaps."""
    found: list[Expr] = []
    for extent in reversed(shape[1:]):
        found.append(number % extent)
        number = number // extent
    return (number, *reversed(found)) if shape else ()
