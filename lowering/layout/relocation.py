"""Relocation: all accesses of a tensor move to another storage, and statements are placed where it is stored to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from bound.operation import PlaceholderOp
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.value import Operand
from bound.tir.walk import nodes
from intset.expr import ops
from intset.expr.node import Expr
from intset.expr.printer import shown
from lowering.errors import LayoutError
from lowering.nest.driver import Cursor, Descent, cursor_of, rewritten
from lowering.nest.ir import (
    Allocate,
    Assert,
    Assume,
    Evaluate,
    For,
    Function,
    If,
    Let,
    Requirement,
    Seq,
    ShapeOf,
    Stmt,
    Store,
    flat,
    seq,
)
from lowering.nest.scope import Scope
from lowering.nest.tensors import Indices, allocation_of, element_accesses, redirected, tensor_named
from lowering.nest.walk import map_operands, operands, statements

IndicesOf = Callable[[Indices, Scope], Indices]


def tensor_like(tensor: Tensor, shape: tuple[Expr, ...], values: tuple[int, int] | None, name: str = "") -> Tensor:
    """A placeholder with the type of a tensor, another shape and elements within `values`."""
    return PlaceholderOp(name or tensor.name, shape, tensor.dtype, values).outputs[0]


def relocatable(f: Function, name: str, caller: str) -> Tensor:
    """The tensor of a name, if no host call accesses it: a host call fixes the layout of its arguments.

    Raises
    ------
    LayoutError: `f` is no `Function` (the message names `caller`); or a host call accesses the tensor.
    InputError: the name is unknown or ambiguous.
    """
    if not isinstance(f, Function):
        raise LayoutError(f"{caller} takes a Function, not {shown(f)}")
    tensor = tensor_named(f, name)
    for stmt in statements(f.body):
        if isinstance(stmt, Evaluate) and tensor in (*stmt.reads, *stmt.writes, *stmt.call.args):
            raise LayoutError(f"{stmt.call.name} is a host call on {tensor.name} of {f.name}, which stays as it is")
    return tensor


# -- positions ----------------------------------------------------------------------------------------------------


def scope_of_storage(f: Function, tensor: Tensor) -> Scope:
    """The scope at the allocation of a local tensor; for a parameter, the scope behind the leading checks."""
    allocation = allocation_of(f, tensor)
    if allocation is not None:
        return cursor_of(f, allocation).scope
    scope = Cursor.root(f).scope
    stmts = flat(f.body)
    for stmt in stmts[: leading_checks(stmts)]:
        scope = scope.after(stmt)
    return scope


def leading_checks(stmts: Sequence[Stmt]) -> int:
    """The number of leading statements that only name values, assert or assume."""
    checks = (Assert, Assume, For, If, Let, Seq)
    k = 0
    while (
        k < len(stmts)
        and not isinstance(stmts[k], (If, Seq))
        and all(isinstance(s, checks) for s in statements(stmts[k]))
    ):
        k += 1
    return k


def with_assumption(body: Stmt, nest: Stmt) -> Stmt:
    """A body with a nest behind its leading checks."""
    stmts = flat(body)
    k = leading_checks(stmts)
    return seq(*stmts[:k], nest, *stmts[k:])


def in_lifetime(body: Stmt, allocation: Allocate | None, change: Callable[[Sequence[Stmt]], Sequence[Stmt]]) -> Stmt:
    """The body with `change` applied to the statements behind an allocation, to the end of its sequence.

    Parameters
    ----------
    allocation: `None` for a parameter, whose lifetime is the body.
    """
    if allocation is None:
        return seq(*change(flat(body)))

    def on_block(block: Seq, _: Descent) -> Stmt:
        if allocation not in block.stmts:
            return block
        k = block.stmts.index(allocation) + 1
        return seq(*block.stmts[:k], *change(block.stmts[k:]))

    return rewritten(body, Descent(), leave={Seq: (on_block,)})


def stores_to(root: Stmt, tensor: Tensor) -> bool:
    """Whether a statement inside stores to the tensor."""
    return any(isinstance(stmt, Store) and stmt.tensor is tensor for stmt in statements(root))


# -- accesses -----------------------------------------------------------------------------------------------------


def same_indices(indices: Indices, scope: Scope) -> Indices:
    """Identity, for storage of equal shape."""
    return indices


def with_accesses(f: Function, old: Tensor, new: Tensor, indices_of: IndicesOf = same_indices) -> Stmt:
    """The body of a function with all accesses of `old` redirected to `new`.

    Parameters
    ----------
    indices_of: maps old indices to new ones, in the scope of the access.
    """

    def redirect(stmt: Stmt, cursor: Cursor) -> Stmt:
        def move(tensor: Tensor, indices: Indices) -> tuple[Tensor, Indices] | None:
            return (new, indices_of(indices, cursor.scope)) if tensor is old else None

        if shape_terms(stmt, old):
            stmt = map_operands(stmt, lambda e: walk.rewrite(e, shape_terms(stmt, old)))
        return redirected(stmt, move) if any(a.tensor is old for a in element_accesses(stmt)) else stmt

    return rewritten(f.body, Cursor.root(f), enter={Stmt: (redirect,)})


def with_requirements(f: Function, old: Tensor, new: Tensor, indices_of: IndicesOf = same_indices) -> Function:
    """The function with all accesses of `old` in its requirements redirected to `new`."""

    def with_new(requirement: Requirement) -> Requirement:
        nest = with_accesses(f.with_body(requirement.nest), old, new, indices_of)
        return Requirement(next(s.cond for s in statements(nest) if isinstance(s, Assume)), nest)

    return replace(f, requires=tuple(map(with_new, f.requires)))


def shape_terms(stmt: Stmt, tensor: Tensor) -> dict[Operand, Operand]:
    """The extents of a tensor, by the terms that read them from the shape of the bound array."""
    loads = (node for node in nodes(*operands(stmt)) if node.op is ops.LOAD and isinstance(node.data, ShapeOf))
    return {node: tensor.extents[node.args[0].data] for node in loads if node.data.tensor is tensor}


def without_shape_checks(body: Stmt, tensor: Tensor) -> Stmt:
    """Remove assertions about the shape of a tensor's array."""

    def drop_check(stmt: Assert, _: Descent) -> Stmt:
        return Seq() if shape_terms(stmt, tensor) else stmt

    return rewritten(body, Descent(), enter={Assert: (drop_check,)})


def with_parameter(f: Function, old: Tensor, new: Tensor, body: Stmt) -> Function:
    """The function with one parameter replaced, and another body."""

    def swapped(t: Tensor) -> Tensor:
        return new if t is old else t

    return replace(
        f,
        params=tuple(map(swapped, f.params)),
        outputs=tuple(map(swapped, f.outputs)),
        labels={key: swapped(t) for key, t in f.labels.items()},
        padding={swapped(t): padding for t, padding in f.padding.items()},
        body=body,
    )
