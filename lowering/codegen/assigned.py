"""Definite assignment of allocated tensors, as far as C compilers warn of its absence."""

from __future__ import annotations

from collections.abc import Set

from bound.tensor import Tensor
from intset.expr.node import constant_value
from lowering.nest.ir import Allocate, For, If, Seq, Stmt, Store
from lowering.nest.walk import Visit, drive, range_ends, statements


def conditional_storage(root: Stmt) -> frozenset[Tensor]:
    """The allocated tensors that a read may seem to reach before any store.

    These are the tensors that are stored under a condition, and those that nothing is certain to store: a copy of a
    nest may have lost the stores, because what reads the tensor stands under a condition that is false there. A loop
    that may not run is believed to store an array, which compilers follow less closely than a variable.
    """
    made = [stmt for stmt in statements(root) if isinstance(stmt, Allocate)]
    allocated = {stmt.tensor for stmt in made}
    arrays = {stmt.tensor for stmt in made if any(constant_value(range_ends(r)[1]) != 1 for r in stmt.ranges)}
    guarded = {
        inner.tensor
        for stmt in statements(root)
        if isinstance(stmt, If)
        for inner in statements(stmt)
        if isinstance(inner, Store)
    }
    certain: set[Tensor] = set()
    drive(_certain(root, arrays, certain))
    return frozenset((guarded & allocated) | (allocated - certain))


def _certain(stmt: Stmt, arrays: Set[Tensor], found: set[Tensor]) -> Visit[frozenset[Tensor]]:
    """The tensors that a statement stores to whenever it runs; `found` collects those allocated in front of that."""
    if isinstance(stmt, Store):
        return frozenset((stmt.tensor,))
    if isinstance(stmt, Seq):
        made: set[Tensor] = set()
        for inner in stmt.stmts:
            made |= yield _certain(inner, arrays, found)
        found |= made.intersection(inner.tensor for inner in stmt.stmts if isinstance(inner, Allocate))
        return frozenset(made)
    if isinstance(stmt, For):
        inside: frozenset[Tensor] = yield _certain(stmt.body, arrays, found)
        return inside if (constant_value(range_ends(stmt.range)[1]) or 0) > 0 else inside & arrays
    if isinstance(stmt, If):
        then: frozenset[Tensor] = yield _certain(stmt.then, arrays, found)
        orelse: frozenset[Tensor] = frozenset() if stmt.orelse is None else (yield _certain(stmt.orelse, arrays, found))
        return then & orelse
    return frozenset()
