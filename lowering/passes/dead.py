"""Dead code: storage that nothing reads, the loops that fill it, names that nothing uses."""

from __future__ import annotations

from dataclasses import replace

from bound.tensor import Tensor
from bound.tir.reduce import Parameter
from lowering.nest.ir import (
    Allocate,
    Carry,
    Evaluate,
    For,
    Function,
    If,
    Let,
    Seq,
    Stmt,
    Store,
    checked_function,
    is_empty,
    seq,
)
from lowering.nest.walk import Visit, calls, drive, operands, statements, tensors_read, touched, variables


def drop_dead(f: Function) -> Function:
    """The function without the computation of tensors that no output depends on, and of names that nothing uses.

    A tensor that only its own elements are computed from counts as not read.
    """
    checked_function(f, "drop_dead")
    live = _live_tensors(f)
    while True:  # a name may be used by a name that nothing uses
        used = {v for stmt in statements(f.body) if _is_live(stmt, live) for v in variables(*operands(stmt))}
        new = f.with_body(drive(_visit(f.body, live, used)))
        if _names(new) == _names(f):
            return new
        f = new


def _names(f: Function) -> int:
    return sum(len(s.carried) if isinstance(s, For) else isinstance(s, Let) for s in statements(f.body))


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


def _needed(loop: For, body: Stmt) -> tuple[Carry, ...]:
    """The variables that the loop carries for its body, or for others that it carries for it."""
    used = {v for stmt in statements(body) for v in variables(*operands(stmt))}
    waiting = [c for c in loop.carried if c.var in used]
    needed = set(waiting)
    while waiting:
        read = variables(waiting.pop().following)
        more = [c for c in loop.carried if c.var in read and c not in needed]
        needed.update(more)
        waiting += more
    return tuple(c for c in loop.carried if c in needed)


def _visit(stmt: Stmt, live: set[Tensor], used: set[Parameter]) -> Visit[Stmt]:
    if isinstance(stmt, Seq):
        parts: list[Stmt] = []
        for inner in stmt.stmts:
            parts.append((yield _visit(inner, live, used)))  # noqa: PERF401  # a comprehension cannot yield
        return seq(*parts)
    if isinstance(stmt, For):
        body = yield _visit(stmt.body, live, used)
        return Seq() if is_empty(body) else replace(stmt, body=body, carried=_needed(stmt, body))
    if isinstance(stmt, If):
        then = yield _visit(stmt.then, live, used)
        orelse = None if stmt.orelse is None else (yield _visit(stmt.orelse, live, used))
        nothing_else = orelse is None or is_empty(orelse)
        return Seq() if is_empty(then) and nothing_else else If(stmt.cond, then, None if nothing_else else orelse)
    is_dead = not _is_live(stmt, live) or (isinstance(stmt, Let) and stmt.var not in used)
    return Seq() if is_dead else stmt


def without_unused(stmt: Stmt) -> Stmt:
    """A sequence without the storage that nothing in it uses."""
    parts = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
    if not any(isinstance(part, Allocate) for part in parts):
        return stmt
    used = set(touched(stmt)).union(*((*call.reads, *call.writes) for call in calls(stmt)))
    return seq(*(part for part in parts if not isinstance(part, Allocate) or part.tensor in used))
