"""Dead code: storage that nothing reads, the loops that fill it, names that nothing uses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bound.tensor import Tensor
from lowering.nest.ir import Allocate, Evaluate, For, Function, If, Let, Seq, Stmt, Store, is_empty, seq
from lowering.nest.walk import Visit, drive, operands, statements, tensors_read, variables


def drop_dead(f: Function) -> Function:
    """The function without the computation of tensors that no output depends on.

    A tensor that only its own elements are computed from counts as not read.
    """
    live = _live_tensors(f)
    used = {v for stmt in statements(f.body) if _is_live(stmt, live) for v in variables(*operands(stmt))}
    return f.with_body(drive(_visit(f.body, live, used)))


def _is_live(stmt: Stmt, live: set[Tensor]) -> bool:
    return not isinstance(stmt, (Store, Allocate)) or stmt.tensor in live


def _live_tensors(f: Function) -> set[Tensor]:
    live = set(f.params)
    feeds: dict[Tensor, set[Tensor]] = {}
    for stmt in statements(f.body):
        if isinstance(stmt, Evaluate):
            live.update((*stmt.reads, *stmt.writes))
        read = tensors_read(*operands(stmt))
        if isinstance(stmt, Store):
            feeds.setdefault(stmt.tensor, set()).update(read)
        else:
            live.update(read)
    waiting = list(live)
    while waiting:
        new = feeds.get(waiting.pop(), set()) - live
        live |= new
        waiting += new
    return live


def _visit(stmt: Stmt, live: set[Tensor], used: set[Any]) -> Visit[Stmt]:
    if isinstance(stmt, Seq):
        parts: list[Stmt] = []
        for inner in stmt.stmts:
            parts.append((yield _visit(inner, live, used)))  # noqa: PERF401  # a comprehension cannot yield
        return seq(*parts)
    if isinstance(stmt, For):
        body = yield _visit(stmt.body, live, used)
        return Seq() if is_empty(body) else replace(stmt, body=body)
    if isinstance(stmt, If):
        then = yield _visit(stmt.then, live, used)
        orelse = None if stmt.orelse is None else (yield _visit(stmt.orelse, live, used))
        nothing_else = orelse is None or is_empty(orelse)
        return Seq() if is_empty(then) and nothing_else else If(stmt.cond, then, None if nothing_else else orelse)
    is_dead = not _is_live(stmt, live) or (isinstance(stmt, Let) and stmt.var not in used)
    return Seq() if is_dead else stmt
