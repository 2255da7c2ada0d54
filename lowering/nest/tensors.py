"""The tensors of a function by name, and where their elements lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from bound import dtypes
from bound.tensor import Tensor, element
from bound.tir import walk
from bound.tir.value import Operand
from bound.tir.walk import loaded_tensor, nodes, read_indices
from intset.errors import InputError
from intset.expr.build import logical_not
from intset.expr.node import Cond, Expr, const, truth
from intset.expr.printer import shown
from lowering.nest.ir import Allocate, Function, Padding, Stmt, Store, with_fields
from lowering.nest.walk import map_operands, operands, range_ends, statements

S = TypeVar("S", bound=Stmt)
Indices: TypeAlias = "tuple[Expr, ...]"


class ElementAccess(NamedTuple):
    """One load or store in the text of a statement."""

    tensor: Tensor
    indices: Indices
    is_store: bool


def element_accesses(stmt: Stmt) -> Iterator[ElementAccess]:
    """The store and the loads of one statement, without nested ones; host calls are left out."""
    if isinstance(stmt, Store):
        yield ElementAccess(stmt.tensor, stmt.indices, True)
    for node in nodes(*operands(stmt)):
        tensor = loaded_tensor(node)
        if tensor is not None:
            yield ElementAccess(tensor, read_indices(node), False)


def redirected(stmt: S, move: Callable[[Tensor, Indices], tuple[Tensor, Indices] | None]) -> S:
    """A statement with its own loads and its store moved to other elements.

    Parameters
    ----------
    move: maps a tensor and indices to the new ones; `None` keeps the access.
    """

    def on_load(tensor: Tensor, indices: Indices) -> Operand | None:
        target = move(tensor, indices)
        return None if target is None else element(*target)

    new = map_operands(stmt, lambda operand: walk.rewrite(operand, on_load=on_load))
    if isinstance(new, Store):
        target = move(new.tensor, new.indices)
        return new if target is None else with_fields(new, tensor=target[0], indices=target[1])
    return new


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


def in_storage(indices: Sequence[Expr], storage: Sequence[tuple[Expr, Expr]]) -> list[Cond]:
    """For each dimension, the condition that an index lies within its first index and extent."""
    return [(index >= low) & (index < low + extent) for index, (low, extent) in zip(indices, storage, strict=True)]
