"""Where a tensor lives in a nest: the block it is known in, and what is known there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bound.tensor import Tensor
from lowering.nest.driver import Cursor, Descent, cursor_of, rewritten
from lowering.nest.ir import Allocate, Assert, Assume, For, Function, If, Let, Seq, Stmt, flat, seq
from lowering.nest.scope import Scope
from lowering.nest.tensors import allocation_of
from lowering.nest.walk import statements


def scope_of_storage(f: Function, tensor: Tensor) -> Scope:
    """What is known where a tensor is allocated; of a parameter, behind the checks that the function begins with."""
    allocation = allocation_of(f, tensor)
    if allocation is not None:
        return cursor_of(f, allocation).scope
    root = Cursor.root(f)
    scope = root.scope
    stmts = flat(f.body)
    for stmt in stmts[: leading_checks(stmts)]:
        scope = scope.after(stmt)
    return scope


def leading_checks(stmts: Sequence[Stmt]) -> int:
    """How many statements at the start say something of sizes and data and do nothing."""
    k = 0
    while k < len(stmts) and _says(stmts[k]):
        k += 1
    return k


def _says(stmt: Stmt) -> bool:
    return all(isinstance(s, (Assert, Assume, For, If, Let, Seq)) for s in statements(stmt)) and not isinstance(
        stmt, (If, Seq)
    )


def after_allocation(root: Stmt, allocation: Allocate, filled: Callable[[Sequence[Stmt]], list[Stmt]]) -> Stmt:
    """The body with the statements behind an allocation, to the end of its sequence, replaced by `filled` of them."""

    def fill(block: Seq, _: Descent) -> Stmt:
        if allocation not in block.stmts:
            return block
        k = block.stmts.index(allocation) + 1
        return seq(*block.stmts[:k], *filled(block.stmts[k:]))

    return rewritten(root, Descent(), leave={Seq: (fill,)})
