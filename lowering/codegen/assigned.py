"""Definite assignment of allocated tensors, as far as C compilers warn of its absence."""

from __future__ import annotations

from collections.abc import Sequence

from bound.tensor import Tensor
from intset.expr.node import constant_value
from lowering.nest.ir import Allocate, For, If, Seq, Stmt, Store
from lowering.nest.walk import folded, range_ends, statements


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

    def surely_stored(stmt: Stmt, inside: Sequence[frozenset[Tensor]]) -> frozenset[Tensor]:
        """The tensors that a statement stores to whenever it runs; storage allocated before such a store is certain."""
        if isinstance(stmt, Store):
            return frozenset((stmt.tensor,))
        if isinstance(stmt, Seq):
            stored = frozenset[Tensor]().union(*inside)
            certain.update(stored.intersection(inner.tensor for inner in stmt.stmts if isinstance(inner, Allocate)))
            return stored
        if isinstance(stmt, For):
            return inside[0] if (constant_value(range_ends(stmt.range)[1]) or 0) > 0 else inside[0] & arrays
        if isinstance(stmt, If) and stmt.orelse is not None:
            return inside[0] & inside[1]
        return frozenset()

    folded(root, surely_stored)
    return frozenset((guarded & allocated) | (allocated - certain))
