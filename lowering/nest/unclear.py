"""Where an `undef()` may get to."""

from __future__ import annotations

from collections.abc import Iterator

from bound.tensor import Tensor
from bound.tir.value import Operand, ValueOp
from bound.tir.walk import input_tensors, loaded_tensor, nodes
from intset.expr import ops
from lowering.nest.ir import Assume, Function, Let, Stmt, Store
from lowering.nest.undef import has_undef
from lowering.nest.walk import operands, statements, tensors_read, variables

_SELECTS = (ops.SELECT, ValueOp.SELECT)


def unclear_tensors(f: Function) -> frozenset[Tensor]:
    """The tensors of which an element may hold a value that an `undef()` went into."""
    found: set[Tensor] = set()
    names: set[Operand] = set()
    while True:
        size = len(found) + len(names)
        for stmt in statements(f.body):
            if isinstance(stmt, Assume):
                found.update(tensors_read(stmt.cond) if has_undef(stmt.cond) else ())
            elif isinstance(stmt, (Store, Let)):
                value = stmt.value
                is_unclear = has_undef(value) or any(t in found for t in tensors_read(value))
                if is_unclear or any(v in names for v in variables(value)):
                    found.update([stmt.tensor] if isinstance(stmt, Store) else [])
                    names.update([stmt.var] if isinstance(stmt, Let) else [])
        if len(found) + len(names) == size:
            return frozenset(found)


def deciding_tensors(stmt: Stmt) -> Iterator[Tensor]:
    """The tensors whose elements decide what a statement does: in conditions, ranges, indices; in what a name stands
    for, which may be used in one."""
    if not isinstance(stmt, Store):
        yield from input_tensors(operands(stmt))
        return
    yield from input_tensors(stmt.indices)
    for node in nodes(stmt.value):
        if loaded_tensor(node) is not None:
            yield from input_tensors(node.args)
        elif node.op in _SELECTS:
            yield from input_tensors(node.args[:1])
