"""Strength reduction: quotients and remainders that a loop carries from one iteration to the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import intset
from bound.tir import walk
from intset.expr import ops
from intset.expr.node import Expr, constant_value
from intset.expr.walk import free_vars, opaque_terms, postorder
from lowering.division import induction
from lowering.nest.ir import Carry, For, Function, If, Let, LoopKind, Seq, Stmt, seq
from lowering.nest.scope import Scope, scope_of
from lowering.nest.walk import Visit, drive, operands, statements, transform


def strength_reduce(f: Function, bits: int = 64) -> Function:
    """The function in which `x // n` and `x % n` of a serial loop's variable are carried by the loop.

    That is done where n is a variable that the loop does not change: a division by a constant is cheap as it is. The
    pass comes before `lower_divisions`, which lowers what remains, the first quotient among it.
    """
    return f.with_body(drive(_visit(f.body, scope_of(f), bits)))


def _visit(stmt: Stmt, scope: Scope, bits: int) -> Visit[Stmt]:
    if isinstance(stmt, Seq):
        parts = []
        for inner in stmt.stmts:
            parts.append((yield _visit(inner, scope, bits)))
            scope = scope.after(inner)
        return seq(*parts)
    if isinstance(stmt, If):
        then = yield _visit(stmt.then, scope.then(stmt), bits)
        orelse = None if stmt.orelse is None else (yield _visit(stmt.orelse, scope.otherwise(stmt), bits))
        return replace(stmt, then=then, orelse=orelse)
    if isinstance(stmt, For):
        body = yield _visit(stmt.body, scope.inside(stmt), bits)
        loop = replace(stmt, body=body)
        return _reduced(loop, scope, bits) if loop.kind is LoopKind.SERIAL else loop
    return stmt


def _reduced(loop: For, scope: Scope, bits: int) -> Stmt:
    lets: list[Stmt] = []
    carried = list(loop.carried)
    new: dict[Any, Any] = {}
    for e in _candidates(loop):
        if e in new:
            continue
        with intset.using(tiers=("linear",)):
            found = induction(e, loop.var, loop.range, scope.ctx, bits)
            if found is None or not found.update_after_last or found.requires:
                continue
        lets += [Let(var, value) for var, value in found.invariants.items()]
        carried.append(Carry(found.quotient, found.first_quotient, found.next_quotient))
        carried.append(Carry(found.remainder, found.first_remainder, found.next_remainder))
        new.update(found.replacements)
    if not new:
        return loop
    body = transform(loop.body, lambda operand: walk.rewrite(operand, dict(new)))
    return seq(*lets, replace(loop, body=body, carried=tuple(carried)))


def _candidates(loop: For) -> list[Expr]:
    """Divisions of what changes with the loop by what does not, over nothing that is bound further inside."""
    inside: set[Any] = set()
    for stmt in statements(loop.body):
        if isinstance(stmt, For):
            inside |= {stmt.var, *(c.var for c in stmt.carried)}
        elif isinstance(stmt, Let):
            inside.add(stmt.var)
    inside |= {c.var for c in loop.carried}
    found: dict[Expr, None] = {}
    for stmt in statements(loop.body):
        for node in postorder(operands(stmt)):  # type: ignore[arg-type]  # values are walked like expressions
            if node.op is not ops.FLOORDIV and node.op is not ops.FLOORMOD:
                continue
            x, n = node.args
            if constant_value(n) is not None or loop.var in free_vars(n) or loop.var not in free_vars(x):
                continue
            if not inside & set(free_vars(node)) and not opaque_terms(node):
                found[node] = None  # type: ignore[index]
    return list(found)
