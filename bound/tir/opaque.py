"""Integers that depend on data, as opaque terms of `intset`.

An element of an integer tensor is an opaque term whose symbol belongs to the tensor. Any other integer that comes from
data (a float cast to an integer, a selection by floats) is a *function* of the integer variables in it: an opaque term
whose symbol knows the function's body and whose indices are the arguments. So both follow a substitution of loop
variables, and two terms are equal when symbol and indices are.
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
    """The symbol of the elements of an integer tensor; `term.data.tensor` leads back to the tensor.

    Of what an element holds while a reduction goes on, less is known than of what it holds then: where that differs, it
    has a symbol of its own, which is not `is_finished`.
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
    """The symbol of an integer that `body` computes from data, a function of the integer variables `params`."""

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
    """The expression that denotes a value of integer type."""
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
    """The symbol of what elements hold while they are computed; the finished ones' where nothing else is known."""
    known = _known_of(tensor, is_finished=False)
    return finished if known == (finished.lower, finished.upper) else TensorElement(tensor, is_finished=False)


def _known_of(tensor: Tensor, is_finished: bool) -> tuple[int | None, int | None]:
    known = tensor.value_range or _at_least_two(tensor.op.range_of(tensor.value_index, is_finished))
    return element_range(tensor.dtype, known)


def _at_least_two(known: tuple[int, int] | None) -> tuple[int, int] | None:
    """A range as it is, but of one value with a neighbour: a term of one value is replaced by the value, and what a
    schedule computes and reads stays computed and read."""
    return known if known is None or known[0] < known[1] else (known[0], known[0] + 1)


def element_range(dtype: str, known: tuple[int, int] | None) -> tuple[int | None, int | None]:
    """What is known of an element: the range that is declared or follows from its formula, else that of a narrow type.

    32 and 64 bits say nothing of use about an index, so those elements stay unbounded.
    """
    if known is not None:
        return known
    return dtypes.int_range(dtype) if dtypes.bits(dtype) <= 16 else (None, None)
