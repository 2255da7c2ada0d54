"""The tensors of a function by name, and where their elements lie."""

from __future__ import annotations

from collections.abc import Sequence

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.value import Operand
from bound.tir.walk import loaded_tensor, nodes
from intset.errors import InputError
from intset.expr.build import logical_not
from intset.expr.node import Cond, Expr, const, truth
from intset.expr.text import shown
from lowering.nest.ir import Allocate, Function, Padding
from lowering.nest.walk import range_ends, statements


def tensors_of(f: Function) -> tuple[Tensor, ...]:
    """Parameters, then allocated tensors in text order."""
    made = (stmt.tensor for stmt in statements(f.body) if isinstance(stmt, Allocate))
    return tuple(dict.fromkeys((*f.params, *made)))


def limits_of_elements(*values: Operand) -> list[Cond]:
    """The ranges of the types of loaded elements; those of 16 bits and fewer are known anyway."""
    found: list[Cond] = []
    for node in nodes(*values):
        tensor = loaded_tensor(node)
        if tensor is not None and isinstance(node, Expr) and dtypes.bits(tensor.dtype) > 16:
            low, high = dtypes.int_range(tensor.dtype)
            found += [node >= low, node <= high]
    return found


def tensor_named(f: Function, name: str) -> Tensor:
    """The one tensor of this name.

    Raises
    ------
    InputError: the function has none, or more than one.
    """
    every = tensors_of(f)
    found = [t for t in every if t.name == name]
    if len(found) != 1:
        known = ", ".join(dict.fromkeys(t.name for t in every)) or "none"
        raise InputError(f"{shown(name)} must be one array of {f.name}: the arrays are {known}")
    return found[0]


def allocation_of(f: Function, tensor: Tensor) -> Allocate | None:
    """What allocates a tensor; `None` of a parameter."""
    for stmt in statements(f.body):
        if isinstance(stmt, Allocate) and stmt.tensor is tensor:
            return stmt
    return None


def storage_of(f: Function, tensor: Tensor) -> list[tuple[Expr, Expr]]:
    """First index and extent of each dimension of a tensor's storage."""
    found = allocation_of(f, tensor)
    if found is None:
        return [(const(0), extent) for extent in tensor.extents]
    return [range_ends(r) for r in found.ranges]


def padding_of(f: Function, tensor: Tensor) -> Padding | None:
    """What of a tensor may not be touched; `None` where all of it may."""
    found = allocation_of(f, tensor)
    return f.padding.get(tensor) if found is None else found.padding


def is_outside(padding: Padding | None, indices: Sequence[Expr]) -> Cond:
    """The condition that an element is touchable."""
    return truth(True) if padding is None else logical_not(padding.at(indices))
