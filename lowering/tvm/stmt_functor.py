"""`tvm.tir.stmt_functor`: walks over nests and expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bound.tir import walk
from bound.tir.build import operand
from bound.tir.value import Value
from intset.expr.node import Cond, Expr
from lowering.nest.ir import Function, Seq, Stmt
from lowering.nest.walk import folded, operands, rebuilt, statements
from lowering.nest.walk import substitute as substituted
from lowering.tvm.expressions import TYPES, declared


def post_order_visit(stmt: Any, fvisit: Callable[[Any], object]) -> None:
    """Call `fvisit` on every part of a nest or an expression, parts before wholes."""
    if isinstance(stmt, (Expr, Cond, Value)):
        for node in walk.nodes(stmt):
            fvisit(node)
        return

    root = stmt.body if isinstance(stmt, Function) else stmt
    begun = (part for part in statements(root) if isinstance(part, Seq))
    leading = {first for first in map(declared, begun) if first is not None}  # visited with their sequences

    def visit(part: Stmt, _: Sequence[None]) -> None:
        for value in operands(part):
            post_order_visit(value, fvisit)
        if part not in leading:
            fvisit(part)

    folded(root, visit)


def ir_transform(
    stmt: Stmt,
    preorder: Callable[[Any], Stmt | None] | None,
    postorder: Callable[[Any], Stmt | None] | None,
    only_enable: Sequence[str] | None = None,
) -> Stmt:
    """Rewrite statements from the leaves up: each function returns the new statement, or `None` to keep it.

    Parameters
    ----------
    only_enable: names of classes such as "tir.For"; by default all.
    """
    wanted = None if only_enable is None else tuple(TYPES[name.rpartition(".")[2]] for name in only_enable)

    def change(part: Stmt) -> Stmt:
        if wanted is not None and not any(kind.holds(part) for kind in wanted):
            return part
        for function in (preorder, postorder):
            new = None if function is None else function(part)
            part = part if new is None else new
        return part

    return rebuilt(stmt, change)


def substitute(node: Any, vmap: Mapping[Any, Any]) -> Any:
    """Replace variables in a nest or an expression."""
    values = {var: operand(value) for var, value in vmap.items()}
    if isinstance(node, Stmt):
        return substituted(node, values)
    return walk.substitute(operand(node), values)
