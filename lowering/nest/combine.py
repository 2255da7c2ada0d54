"""Stores that combine an element with a value, `C[i] = C[i] + x`."""

from __future__ import annotations

from typing import Any, Final

from bound import dtypes
from bound.tir import walk
from bound.tir.value import Operand, Value, ValueOp
from lowering.nest.ir import Store

_UPDATES: Final = {ValueOp.ADD: "+", ValueOp.SUB: "-", ValueOp.MUL: "*"}


def update_of(store: Store) -> tuple[str, Operand] | None:
    """The operator and the operand of C's `element += operand`, which rounds as `element = element + operand` does."""
    value = store.value
    if not is_combining(store) or value.op not in _UPDATES:
        return None
    return _UPDATES[value.op], value.args[1]


def is_combining(store: Store) -> bool:
    """Whether a store combines its float element with another value."""
    value: Any = store.value
    if not isinstance(value, Value) or len(value.args) != 2 or not dtypes.is_float(store.tensor.dtype):
        return False
    first = value.args[0]
    return walk.loaded_tensor(first) is store.tensor and walk.read_indices(first) == store.indices
