"""Choices that an innermost loop makes alike in every iteration, made once before it: compilers do not vectorize a loop
in whose indices something is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bound.tir import walk
from intset.expr import ops
from intset.expr.definedness import definedness
from intset.expr.node import Expr, Var
from intset.expr.walk import opaque_terms
from intset.linear.canonical import Normalizer
from lowering.nest.ir import For, Function, If, Let, Seq, Stmt, seq
from lowering.nest.walk import Visit, drive, operands, statements, transform


def name_choices(f: Function) -> Function:
    """The function with a `Let` before each innermost loop for every select of indices that does not depend on it."""
    return f.with_body(drive(_visit(f.body)))


def _visit(stmt: Stmt) -> Visit[Stmt]:
    if isinstance(stmt, Seq):
        parts: list[Stmt] = []
        for inner in stmt.stmts:
            parts.append((yield _visit(inner)))  # noqa: PERF401  # a comprehension cannot yield
        return seq(*parts)
    if isinstance(stmt, If):
        then = yield _visit(stmt.then)
        return If(stmt.cond, then, None if stmt.orelse is None else (yield _visit(stmt.orelse)))
    if not isinstance(stmt, For):
        return stmt
    if any(isinstance(inner, For) for inner in statements(stmt.body)):
        return replace(stmt, body=(yield _visit(stmt.body)))
    inside = {inner.var for inner in statements(stmt) if isinstance(inner, (For, Let))}
    inside.update(c.var for c in stmt.carried)
    made: dict[Expr, Var] = {}
    names: dict[Expr, Expr] = {}
    for choice in _choices(stmt.body):
        if choice in names or not inside.isdisjoint(choice.free_vars()):
            continue
        if definedness((choice,)) or opaque_terms(choice):  # it must not be asked where the loop does not run
            continue
        near = ((var, k) for known, var in made.items() if (k := _beyond(known, choice)) is not None)
        var, k = next(near, (None, 0))
        if var is None:
            names[choice] = made[choice] = Var(f"{stmt.var.name}.choice")
        else:
            names[choice] = var + k if k > 0 else var - -k
    if not names:
        return stmt
    body = transform(stmt.body, lambda e: walk.rewrite(e, dict(names)))
    return seq(*(Let(var, choice) for choice, var in made.items()), replace(stmt, body=body))


def _beyond(known: Expr, choice: Expr) -> int | None:
    """The constant by which a choice is more than a known one of the same condition."""
    if known.args[0] is not choice.args[0]:
        return None
    forms = Normalizer({})
    first, second = (forms.form(b - a) for a, b in zip(known.args[1:], choice.args[1:], strict=True))
    return first.const if first.is_const and first.same(second) else None


def _choices(body: Stmt) -> Iterator[Expr]:
    """The selects of integers in a body that stand in no other."""
    stack = [e for stmt in statements(body) for e in operands(stmt)]
    seen = set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is ops.SELECT and isinstance(node, Expr):
            yield node
        else:
            stack.extend(node.args)
