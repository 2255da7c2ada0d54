"""TVM's fields of elements and reductions, which expressions and values have alike: one table, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bound.operation import buffer_of
from bound.tensor import Tensor
from bound.tir.build import Buffer
from bound.tir.reduce import reduction_of, sources
from bound.tir.value import PARAM, REDUCE
from bound.tir.walk import loaded_tensor
from intset.expr.dag import FieldAbove


def storage(tensor: Tensor) -> Tensor | Buffer:
    """The buffer for which a tensor stands, else the tensor."""
    return buffer_of(tensor) or tensor


def _place(tensor: Tensor, node: Any) -> object:
    """The number of an element in its storage, which a single index is."""
    buffer = storage(tensor)
    if isinstance(buffer, Buffer):
        return buffer.offset_of(node.args)[0]
    return node.args[0] if len(node.args) == 1 else None


_OF_ELEMENTS: Final[dict[str, Callable[[Tensor, Any], object]]] = {
    "producer": lambda tensor, node: tensor,
    "buffer": lambda tensor, node: storage(tensor),
    "indices": lambda tensor, node: node.args,
    "index": _place,
}
_OF_REDUCTIONS: Final[dict[str, Callable[[Any], object]]] = {
    "axis": lambda node: reduction_of(node).axis,
    "combiner": lambda node: reduction_of(node).combiner,
    "value_index": lambda node: reduction_of(node).index,
    "source": sources,
    "init": lambda node: node.args[reduction_of(node).arity + 1 :],
}


def _of_element(field: Callable[[Tensor, Any], object]) -> Callable[[Any], object]:
    def value(node: Any) -> object:
        tensor = loaded_tensor(node)
        return None if tensor is None else field(tensor, node)

    return value


def _of_reduction(field: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda node: field(node) if node.op is REDUCE else None


FieldAbove.known.update({name: _of_element(field) for name, field in _OF_ELEMENTS.items()})
FieldAbove.known["type_annotation"] = lambda node: node.data[2] if node.op is PARAM else None
FieldAbove.known.update({name: _of_reduction(field) for name, field in _OF_REDUCTIONS.items()})
