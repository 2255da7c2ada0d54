"""`undef()`: unknown values. Every evaluation of an occurrence gives another value."""

from __future__ import annotations

from collections.abc import Iterator

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.value import UNDEF, Operand, Truth, make
from bound.tir.walk import input_tensors, loaded_tensor, nodes, read_indices
from intset.expr import Expr, dag, ops
from intset.expr.build import Opaque
from lowering.nest import ir
from lowering.nest.walk import operands, statements, tensors_read, variables


class Undef(Opaque):
    """The symbol of one `undef()` that is an integer of the type `dtype`."""

    __slots__ = ("dtype",)
    dtype: str

    def __init__(self, dtype: str) -> None:
        super().__init__("undef()")
        self.dtype = dtype

    @staticmethod
    def _restored(dtype: str, uid: tuple[int, int]) -> Undef:
        self = Undef(dtype)
        self._fill("undef()", 0, None, None, uid)
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return Undef._restored, (self.dtype, self.uid)


def undef(dtype: str = dtypes.INDEX) -> Operand:
    """A value of the type that nobody knows; every call gives another one.

    Raises
    ------
    InputError: `dtype` names no type.

    >>> undef("float32")
    undef()
    """
    if dtypes.is_int(dtypes.check(dtype)):
        return Undef(dtype)()
    return make(UNDEF, (), dtype, dag.ORIGIN.next_uid())


def is_undef(node: Operand) -> bool:
    """Whether a node is an `undef()`."""
    return node.op is UNDEF or (node.op is ops.LOAD and isinstance(node.data, Undef))


def undefs(*roots: Operand) -> Iterator[Operand]:
    """The `undef()`s below operands, each once."""
    return (node for node in nodes(*roots) if is_undef(node))


def permission(cond: Truth) -> tuple[tuple[Truth, ...], Tensor, tuple[Expr, ...]] | None:
    """What `c or T[i] == undef()` permits to read where c is false: (the parts of c, T, i); `None` of another form."""
    parts = dag.chain(ops.OR, cond)
    unknown = [part for part in parts if has_undef(part)]
    if len(unknown) != 1 or unknown[0].op is not ops.EQ:
        return None
    sides = unknown[0].args
    held = sides[0] if is_undef(sides[1]) else sides[1] if is_undef(sides[0]) else None
    tensor = None if held is None else loaded_tensor(held)
    if held is None or tensor is None or has_undef(held):
        return None
    return tuple(part for part in parts if part is not unknown[0]), tensor, read_indices(held)


def has_undef(*roots: Operand) -> bool:
    """Whether a value is made of an `undef()`."""
    return next(undefs(*roots), None) is not None


def unclear_tensors(f: ir.Function) -> frozenset[Tensor]:
    """The tensors whose elements may depend on an `undef()`."""
    found: set[Tensor] = set()
    names: set[Operand] = set()
    while True:
        size = len(found) + len(names)
        for stmt in statements(f.body):
            if isinstance(stmt, ir.Assume):
                found.update(tensors_read(stmt.cond) if has_undef(stmt.cond) else ())
            elif isinstance(stmt, (ir.Store, ir.Let)):
                value = stmt.value
                is_unclear = has_undef(value) or any(t in found for t in tensors_read(value))
                if is_unclear or any(v in names for v in variables(value)):
                    found.update([stmt.tensor] if isinstance(stmt, ir.Store) else [])
                    names.update([stmt.var] if isinstance(stmt, ir.Let) else [])
        if len(found) + len(names) == size:
            return frozenset(found)


def deciding_tensors(stmt: ir.Stmt) -> Iterator[Tensor]:
    """The tensors that control a statement: in conditions, ranges, indices, and values of names."""
    if not isinstance(stmt, ir.Store):
        yield from input_tensors(operands(stmt))
        return
    yield from input_tensors(stmt.indices)
    for node in nodes(stmt.value):
        if loaded_tensor(node) is not None:
            yield from input_tensors(node.args)
        elif node.op is ops.SELECT:
            yield from input_tensors(node.args[:1])
