"""A tensor in another storage: every access of it follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bound.operation import PlaceholderOp
from bound.tensor import Tensor, element
from bound.tir import walk
from bound.tir.value import Operand
from bound.tir.walk import nodes
from intset.expr import ops
from intset.expr.node import Expr
from intset.expr.text import shown
from lowering.errors import LayoutError
from lowering.nest.driver import Cursor, Descent, rewritten
from lowering.nest.ir import (
    Allocate,
    Assert,
    Assume,
    Evaluate,
    Function,
    Requirement,
    Seq,
    ShapeOf,
    Stmt,
    Store,
)
from lowering.nest.scope import Scope
from lowering.nest.tensors import tensor_named
from lowering.nest.walk import map_operands, operands, rebuilt, statements

Place_of = Callable[[tuple[Expr, ...], Scope], tuple[Expr, ...]]


def tensor_like(tensor: Tensor, shape: tuple[Expr, ...], values: tuple[int, int] | None, name: str = "") -> Tensor:
    """A tensor that is given, of another shape, whose elements are within `values`."""
    return PlaceholderOp(name or tensor.name, shape, tensor.dtype, values).outputs[0]


def movable(f: Function, name: str, what: str) -> Tensor:
    """The tensor of a name, of which no host call knows: what that expects of its layout is not known here.

    Raises
    ------
    LayoutError: `what`, which takes `f`, was given no function; or a host call reads or writes the tensor.
    InputError: the function has no tensor of this name, or more than one.
    """
    if not isinstance(f, Function):
        raise LayoutError(f"{what} takes a Function, not {shown(f)}")
    tensor = tensor_named(f, name)
    for stmt in statements(f.body):
        if isinstance(stmt, Evaluate) and tensor in (*stmt.reads, *stmt.writes, *stmt.call.args):
            raise LayoutError(f"{stmt.call.name} is a host call on {tensor.name} of {f.name}, which stays as it is")
    return tensor


def stores_to(root: Stmt, tensor: Tensor) -> bool:
    """Whether an element is stored to somewhere inside."""
    return any(isinstance(stmt, Store) and stmt.tensor is tensor for stmt in statements(root))


def same_place(indices: tuple[Expr, ...], scope: Scope) -> tuple[Expr, ...]:
    """For tensors of one shape."""
    return indices


def with_accesses(f: Function, old: Tensor, new: Tensor, place_of: Place_of = same_place) -> Stmt:
    """The body in which the elements of a tensor are those of another one.

    Parameters
    ----------
    place_of: the new indices of old ones, in the scope in which they are used.
    """

    def changed(stmt: Stmt, cursor: Cursor) -> Stmt:
        if not _names(stmt, old):
            return stmt

        def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
            return element(new, place_of(indices, cursor.scope)) if tensor is old else None

        def change(operand: Operand) -> Operand:
            return walk.rewrite(operand, shape_terms(operand, old), on_load)

        made: Stmt = map_operands(stmt, change)
        if isinstance(made, Store) and made.tensor is old:
            made = replace(made, tensor=new, indices=place_of(made.indices, cursor.scope))
        return made

    return rewritten(f.body, Cursor.root(f), enter={Stmt: (changed,)})


def with_requirements(f: Function, old: Tensor, new: Tensor, place_of: Place_of = same_place) -> Function:
    """The function whose requirements speak of the elements of a tensor as those of another one."""

    def moved(one: Requirement) -> Requirement:
        nest = with_accesses(f.with_body(one.nest), old, new, place_of)
        return Requirement(next(s.cond for s in statements(nest) if isinstance(s, Assume)), nest)

    return replace(f, requires=tuple(map(moved, f.requires)))


def _names(stmt: Stmt, tensor: Tensor) -> bool:
    """Whether a statement itself uses a tensor, or its shape."""
    if isinstance(stmt, Store) and stmt.tensor is tensor:
        return True
    return any(_is_about(node, tensor) for node in nodes(*operands(stmt)))


def _is_about(node: Operand, tensor: Tensor) -> bool:
    if walk.loaded_tensor(node) is tensor:
        return True
    return node.op is ops.LOAD and isinstance(node.data, ShapeOf) and node.data.tensor is tensor


def shape_terms(operand: Operand, tensor: Tensor) -> dict[Operand, Operand]:
    """The extents that stand for those of the array that is bound to a tensor, once that has another shape."""
    return {
        node: tensor.extents[node.args[0].data]
        for node in nodes(operand)
        if node.op is ops.LOAD and isinstance(node.data, ShapeOf) and node.data.tensor is tensor
    }


def without_checks_of_shape(body: Stmt, tensor: Tensor) -> Stmt:
    """The body without the assertions about the shape of the array that is bound to a tensor."""

    def drop_check(stmt: Assert, _: Descent) -> Stmt:
        return Seq() if shape_terms(stmt.cond, tensor) else stmt

    return rewritten(body, Descent(), enter={Assert: (drop_check,)})


def with_parameter(f: Function, old: Tensor, new: Tensor, body: Stmt) -> Function:
    """The function with another parameter in the place of one, and another body."""

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


def with_allocation(body: Stmt, old: Tensor, change: Callable[[Allocate], Allocate]) -> Stmt:
    """The body with the allocation of a tensor changed."""

    return rebuilt(body, lambda s: change(s) if isinstance(s, Allocate) and s.tensor is old else s)
