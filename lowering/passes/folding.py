"""Operands in which some conditions are decided: junctions, selections and what else follows are decided, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bound.tir import build, walk
from bound.tir.value import Operand, Value, ValueOp
from intset.expr import build as ints
from intset.expr import ops
from intset.expr.node import Cond, Expr, truth
from intset.expr.walk import opaque_terms

_JUNCTIONS: Final = {ops.AND: False, ops.OR: True, ValueOp.AND: False, ValueOp.OR: True}  # what decides each alone
_SELECTS: Final = (ops.SELECT, ValueOp.SELECT)


def folded(operand: Operand, decide: Callable[[Cond], bool | None]) -> Any:
    """The operand with every comparison of indices that `decide` knows replaced by its truth, and of every minimum or
    maximum of which it knows the smaller operand only the one that it is.

    The branch of a selection that is not taken is left out, hence not computed any more; that never was.
    """
    new: dict[Any, Any] = {}
    for node in walk.nodes(operand):
        made = _made(node, new, decide)
        if made is not None:
            new[node] = made
    return walk.rewrite(operand, new) if new else operand


def order_of(node: Expr, is_moving: bool) -> Cond:
    """The comparison that holds where a minimum or maximum is its operand in more variables (else the other one)."""
    a, b = node.args
    assert isinstance(a, Expr) and isinstance(b, Expr)
    moving, still = (a, b) if len(a.free_vars()) > len(b.free_vars()) else (b, a)
    return moving <= still if (node.op is ops.MIN) is is_moving else still <= moving


def _made(node: Any, new: dict[Any, Any], decide: Callable[[Cond], bool | None]) -> Any:
    if node.op in ops.COMPARISONS and isinstance(node, Cond):
        holds = None if opaque_terms(node) else decide(node)
        return None if holds is None else truth(holds)
    if node.op in _JUNCTIONS:
        return _junction(node, new)
    if node.op is ops.NOT or node.op is ValueOp.NOT:
        known = _truth(new.get(node.args[0]))
        return None if known is None else truth(not known)
    if node.op in _SELECTS:
        known = _truth(new.get(node.args[0], node.args[0]))
        if known is not None:
            return walk.rewrite(node.args[1 if known else 2], dict(new))
    if node.op in (ops.MIN, ops.MAX):
        return _chosen(node, new, decide)
    return None


def _chosen(node: Expr, new: dict[Any, Any], decide: Callable[[Cond], bool | None]) -> Any:
    if opaque_terms(node):
        return None
    a, b = node.args
    for is_moving in (False, True):
        cond = order_of(node, is_moving)
        holds = decide(cond)
        if holds is not None:
            return walk.rewrite(a if ((cond.args[0] is a) is holds) is (node.op is ops.MIN) else b, dict(new))
    return None


def _junction(node: Any, new: dict[Any, Any]) -> Any:
    if not any(arg in new for arg in node.args):
        return None
    args = [new.get(arg, arg) for arg in node.args]
    strong = _JUNCTIONS[node.op]
    if any(_truth(arg) is strong for arg in args):
        return truth(strong)
    rest = [walk.rewrite(arg, dict(new)) for arg in args if _truth(arg) is None]
    if not rest:
        return truth(not strong)
    if len(rest) == 1:
        return rest[0]
    if all(isinstance(arg, Cond) for arg in rest):
        return ints.logical_or(*rest) if strong else ints.logical_and(*rest)
    return build.any_of(*rest) if strong else build.all_of(*rest)


def _truth(node: Any) -> bool | None:
    if node is None:
        return None
    if node.op is ops.BOOL or (isinstance(node, Value) and node.op is ValueOp.CONST and node.dtype == "bool"):
        return bool(node.data)
    return None
