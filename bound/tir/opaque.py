"""Integers that depend on data, as opaque terms of `intset`.

An element of an integer tensor is an opaque term; its symbol is the tensor. Any other integer computed from data (a
float cast to an integer, a selection by floats) is an opaque *function* of the integer variables in it; its symbol
knows the body, its arguments are the variables. Substitution of loop variables thus reaches both.

Invariant: two terms are equal exactly if their symbols and arguments are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bound import dtypes
from bound.tir.machine_ranges import function_range
from bound.tir.value import Value
from intset.expr.intern import LOCK, WeakTable, leaf_vars
from intset.expr.node import Expr, Var
from intset.expr.opaque import Opaque

if TYPE_CHECKING:
    from bound.tensor import Tensor


class TensorElement(Opaque):
    """Symbol of the elements of an integer tensor; `term.data.tensor` is the tensor.

    Invariant: `lower` and `upper` hold for finished elements only, if `is_finished`; otherwise also for partial results
    of a
    reduction.
    """

    __slots__ = ("is_finished", "tensor")
    tensor: Tensor
    is_finished: bool

    def __init__(self, tensor: Tensor, is_finished: bool = True) -> None:
        super().__init__(tensor.name, tensor.ndim, *_known_of(tensor, is_finished))
        self.tensor, self.is_finished = tensor, is_finished

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    def __reduce__(self) -> tuple[object, ...]:
        return _element_of, (self.tensor, self.is_finished)


class IntFunction(Opaque):
    """Symbol of an integer that `body` computes from data, as a function of the integer variables `params`."""

    __slots__ = ("body", "params")
    params: tuple[Var, ...]
    body: Value

    def __init__(self, body: Value) -> None:
        params = leaf_vars((body,))
        super().__init__(f"{body.dtype}_of_data", len(params), *function_range(body))
        self.params, self.body = params, body

    @property
    def dtype(self) -> str:
        return self.body.dtype

    def __reduce__(self) -> tuple[object, ...]:
        return _function_of, (self.body,)


_FUNCTIONS: WeakTable[Value, IntFunction] = WeakTable()


def integer(value: Value) -> Expr:
    """Return the expression of an integer value."""
    symbol = _function_of(value)
    return symbol(*symbol.params)


def _function_of(value: Value) -> IntFunction:
    with LOCK:
        symbol = _FUNCTIONS.get(value)
        if symbol is None:
            symbol = IntFunction(value)
            _FUNCTIONS.put(value, symbol)
        return symbol


def _element_of(tensor: Tensor, is_finished: bool = True) -> TensorElement:
    return tensor.element if is_finished else tensor.unfinished


def unfinished_element(tensor: Tensor, finished: TensorElement) -> TensorElement:
    """Return the symbol of unfinished elements; `finished`, if both ranges are equal."""
    known = _known_of(tensor, is_finished=False)
    return finished if known == (finished.lower, finished.upper) else TensorElement(tensor, is_finished=False)


def _known_of(tensor: Tensor, is_finished: bool) -> tuple[int | None, int | None]:
    known = tensor.value_range or _at_least_two(tensor.op.range_of(tensor.value_index, is_finished))
    return element_range(tensor.dtype, known)


def _at_least_two(known: tuple[int, int] | None) -> tuple[int, int] | None:
    """Widen a range of one value by one.

    A term with one value would be replaced by the value, and computed elements are to stay computed and read.
    """
    return known if known is None or known[0] < known[1] else (known[0], known[0] + 1)


def element_range(dtype: str, known: tuple[int, int] | None) -> tuple[int | None, int | None]:
    """Return the known range of an element: declared, computed, or that of a type of up to 16 bits.

    Elements of 32 and 64 bits are unbounded: such ranges tell nothing about an index.
    """
    if known is not None:
        return known
    return dtypes.int_range(dtype) if dtypes.bits(dtype) <= 16 else (None, None)
