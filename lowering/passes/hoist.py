"""Loop-invariant divisions: what a loop divides without changing it is divided once, before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import intset
from bound.tir import walk
from bound.tir.opaque import IntFunction
from bound.tir.reduce import Parameter
from bound.tir.value import Operand, ValueOp
from intset.config import Effort, tiers_within
from intset.expr import ops
from intset.expr.build import select
from intset.expr.node import Expr, Node, Var, as_expr, constant_value
from intset.expr.walk import free_vars, opaque_terms, postorder
from lowering.nest.ir import Assert, Assume, For, Let, Seq, Stmt, seq
from lowering.nest.scope import Scope
from lowering.nest.walk import operands, range_ends, statements, transform

_LAZY = (ops.SELECT, ops.AND, ops.OR, ValueOp.SELECT, ValueOp.AND, ValueOp.OR)


def hoist(loop: For, scope: Scope) -> tuple[list[Let], For]:
    """The loop without the divisions that it does not change, and the names of their values, to stand before it.

    Taken are the divisions, by what is no constant, that every iteration reaches. Before the loop they are done where
    it runs at all, so what they divide by is not 0 there, and nothing is computed that was not computed before.
    """
    inside = {loop.var, *(c.var for c in loop.carried), *bound_inside(loop)}
    parts = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
    lets: list[Let] = []
    kept: list[Stmt] = []
    for stmt in parts:
        if isinstance(stmt, Let) and _is_movable(stmt, inside):
            lets.append(Let(stmt.var, _where_it_runs(as_expr(stmt.value), loop, scope)))
            inside.discard(stmt.var)
        else:
            kept.append(stmt)
    names: dict[Expr, Var] = {}
    for e in always_evaluated(seq(*kept)):
        if _is_division(e) and not inside & set(free_vars(e)) and not opaque_terms(e):
            names[e] = Var("hoisted")
    outer = {e: var for e, var in names.items() if not any(e in postorder(o.args) for o in names if o is not e)}
    lets += [Let(var, _where_it_runs(e, loop, scope)) for e, var in outer.items()]
    if not lets:
        return [], loop
    body = transform(seq(*kept), lambda operand: walk.rewrite(operand, dict(outer)))
    return lets, replace(loop, body=body)


def _is_movable(let: Let, inside: set[Parameter]) -> bool:
    """Whether a name stands for a division of what the loop does not change."""
    if not isinstance(let.var, Var) or not isinstance(let.value, Expr) or opaque_terms(let.value):
        return False
    divides = any(_is_division(node) for node in postorder((let.value,)))
    return divides and not inside & set(free_vars(let.value))


def _is_division(node: Node) -> bool:
    return node.op in ops.DIVISIONS and constant_value(node.args[1]) is None


def _where_it_runs(e: Expr, loop: For, scope: Scope) -> Expr:
    runs = range_ends(loop.range)[1] >= 1
    with intset.using(tiers=tiers_within(Effort.LOOK_UP)):
        return e if scope.ctx.prove(runs) else select(runs, e, 0)


def bound_inside(loop: For) -> set[Parameter]:
    """The variables that are bound inside the body of a loop."""
    found: set[Parameter] = set()
    for stmt in statements(loop.body):
        if isinstance(stmt, For):
            found |= {stmt.var, *(c.var for c in stmt.carried)}
        elif isinstance(stmt, Let):
            found.add(stmt.var)
    return found


def always_evaluated(body: Stmt) -> dict[Expr, None]:
    """The integer expressions that are evaluated whenever the statement is executed, users before what they use."""
    found: dict[Expr, None] = {}
    stack: list[Stmt] = [body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, Seq):
            reached = next((k for k, inner in enumerate(stmt.stmts) if isinstance(inner, Assert)), len(stmt.stmts))
            stack.extend(reversed(stmt.stmts[: reached + 1]))  # behind an assertion, only where it holds
        elif isinstance(stmt, For):
            firsts = [c.first for c in stmt.carried]
            found |= dict.fromkeys(node for e in (*range_ends(stmt.range), *firsts) for node in _strict(e))
            count = constant_value(range_ends(stmt.range)[1])
            if count is not None and count >= 1:
                stack.append(stmt.body)
        elif not isinstance(stmt, Assume):  # which nothing computes
            found |= dict.fromkeys(node for e in operands(stmt) for node in _strict(e))
    return found


def _strict(operand: Operand) -> Iterator[Expr]:
    """The nodes below an operand, itself among them, that are evaluated whenever it is."""
    seen: set[Operand] = set()
    stack: list[Operand] = [operand]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Expr):
            yield node
        if node.op is ops.LOAD and isinstance(node.data, IntFunction):
            continue  # its arguments are evaluated where its formula uses them
        args = node.args[:1] if node.op in _LAZY else node.args
        stack.extend(reversed(args))
