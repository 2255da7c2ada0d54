"""Loops that are meant to be unrolled, written out."""

from __future__ import annotations

from typing import Final

from bound.schedule import simple
from bound.tir import walk
from bound.tir.value import Operand, Value, ValueOp
from intset.expr import ops
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Var, const, constant_value, truth
from intset.expr.walk import opaque_terms, postorder
from lowering.nest.ir import Allocate, For, Function, Let, LoopKind, Seq, Stmt, seq
from lowering.nest.walk import Visit, children, drive, range_ends, statements, transform, with_children

_ARITHMETIC: Final = {ops.ADD: simple.add, ops.SUB: simple.sub, ops.MUL: simple.mul}
MOST: Final = 256  # statements that a loop may become


def unroll(f: Function) -> Function:
    """The function with unrolled loops of constant extent written out, as far as each stays below `MOST` statements.

    Conditions and integers that are constants then, and selections between them, are decided.
    """
    return f.with_body(drive(_visit(f.body)))


def _visit(stmt: Stmt) -> Visit[Stmt]:
    inner = []
    for child in children(stmt):
        inner.append((yield _visit(child)))  # noqa: PERF401  # a comprehension cannot yield
    stmt = with_children(stmt, tuple(inner)) if inner else stmt
    if not isinstance(stmt, For) or stmt.kind is not LoopKind.UNROLLED or stmt.carried:
        return stmt
    low, count = (constant_value(e) for e in range_ends(stmt.range))
    inside = list(statements(stmt.body))
    if low is None or count is None or len(inside) * count > MOST:
        return stmt
    if any(isinstance(s, (Allocate, Let)) for s in inside):
        return stmt  # names and storage would be there twice
    return seq(*(_at(stmt.body, stmt.var, low + k) for k in range(count))) if count > 0 else Seq()


def _at(body: Stmt, var: Var, value: int) -> Stmt:
    return transform(body, lambda e: decided(walk.substitute(e, {var: const(value)})))


def decided(operand: Operand) -> Operand:
    """An operand whose constant parts are constants, without selections that are decided, `+ 0` and `* 1`."""
    new: dict[Operand, Operand] = {}
    for node in postorder((operand,)) if isinstance(operand, (Expr, Cond)) else walk.nodes(operand):
        if isinstance(node, Value) and node.op is ValueOp.SELECT:
            holds = constant_truth(new.get(node.args[0], node.args[0]))
            if holds is not None:
                new[node] = walk.rewrite(node.args[1 if holds else 2], dict(new))
        elif isinstance(node, (Expr, Cond)) and node.args and not node.free_vars() and not opaque_terms(node):
            known = _constant(node)
            if known is not None:
                new[node] = known
        elif isinstance(node, Expr) and node.op in _ARITHMETIC:
            sides = [constant_value(new.get(arg, arg)) for arg in node.args]
            if 0 in sides or 1 in sides:
                new[node] = _ARITHMETIC[node.op](*(walk.rewrite(arg, dict(new)) for arg in node.args))
    if not new:
        return operand
    return walk.rewrite(operand, new)


def _constant(node: Expr | Cond) -> Operand | None:
    """What a node without variables is; `None` where it has no value."""
    try:
        value = evaluate(node, {})
    except ArithmeticError:
        return None
    return truth(bool(value)) if isinstance(node, Cond) else const(value)


def constant_truth(cond: Operand) -> bool | None:
    """The value of `true` and `false`, else `None`."""
    return bool(cond.data) if cond.op is ops.BOOL else None
