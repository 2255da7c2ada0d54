"""Stores that combine an element with a value, `C[i] = C[i] + x`, and the loops that do nothing else."""

from __future__ import annotations

from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.value import Operand, Value, ValueOp
from intset.expr.node import constant_value
from lowering.nest.ir import For, LoopKind, Store

_UPDATES: Final = {ValueOp.ADD: "+", ValueOp.SUB: "-", ValueOp.MUL: "*"}
_REDUCTIONS: Final = {ValueOp.ADD: "+", ValueOp.MUL: "*", ValueOp.MIN: "min", ValueOp.MAX: "max"}  # OpenMP's words


def update_of(store: Store) -> tuple[str, Operand] | None:
    """The operator and the operand of C's `element += operand`, which rounds as `element = element + operand` does."""
    value = store.value
    if not _is_combining(store) or value.op not in _UPDATES:
        return None
    return _UPDATES[value.op], value.args[1]


def reduction_of(loop: For) -> tuple[str, Tensor] | None:
    """What a loop does that only combines floats into one element that stays the same: the operator, in OpenMP's words,
    and the tensor. In which order it does so is of no importance but for rounding."""
    store = loop.body
    if loop.kind not in (LoopKind.SERIAL, LoopKind.UNROLLED) or loop.carried or not isinstance(store, Store):
        return None
    value = store.value
    if not _is_combining(store) or value.op not in _REDUCTIONS or any(constant_value(i) is None for i in store.indices):
        return None
    if any(walk.loaded_tensor(node) is store.tensor for node in walk.nodes(value.args[1])):
        return None
    return _REDUCTIONS[value.op], store.tensor


def _is_combining(store: Store) -> bool:
    """Whether a float is made of the element that is stored to and something else."""
    value: Any = store.value
    if not isinstance(value, Value) or len(value.args) != 2 or not dtypes.is_float(store.tensor.dtype):
        return False
    first = value.args[0]
    return walk.loaded_tensor(first) is store.tensor and walk.read_indices(first) == store.indices
