"""Initializations of reductions: in front of the loops of the reduction, or guarded in their first iteration.

    for k in [0, 8):                           B[i] = 0.0
        if k == 0:                             for k in [0, 8):
            B[i] = 0.0           <->               B[i] = B[i] + A[i, k]
        B[i] = B[i] + A[i, k]

The right form is easier to analyse; a block of TVM has the left one, since `T.init` runs in the first iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bound.tir.walk import loaded_tensor, nodes
from intset.expr.build import logical_and
from intset.expr.dag import conjuncts, opaque_terms, substitute
from intset.expr.node import Cond, Expr, truth
from lowering.nest.driver import Cursor, rewritten
from lowering.nest.ir import For, Function, If, LoopKind, Seq, Stmt, Store, flat, seq, with_fields
from lowering.nest.scope import Scope, proves
from lowering.nest.walk import operands, range_ends, statements, tensors_read, variables

_SEQUENTIAL: Final = (LoopKind.SERIAL, LoopKind.UNROLLED)


class GuardedStmts(NamedTuple):
    """Statements under a condition on integers that reads no element; `truth(True)` without one."""

    cond: Cond
    stmts: list[Stmt]


def guarded(stmt: Stmt) -> GuardedStmts | None:
    """Return condition and statements of a branch; `None` if it has an `else` or depends on data."""
    if not isinstance(stmt, If):
        return GuardedStmts(truth(True), flat(stmt))
    if stmt.orelse is not None or not isinstance(stmt.cond, Cond) or opaque_terms(stmt.cond):
        return None
    return GuardedStmts(stmt.cond, flat(stmt.then))


def is_initialization(stmts: Sequence[Stmt]) -> bool:
    """Whether statements only store, and read none of the tensors that they store."""
    written = {stmt.tensor for stmt in stmts if isinstance(stmt, Store)}
    every = all(isinstance(stmt, Store) for stmt in stmts) and bool(stmts)
    return every and written.isdisjoint(tensors_read(*(e for stmt in stmts for e in operands(stmt))))


def with_hoisted_initializations(f: Function) -> Function:
    """Move what only the first iteration of a loop stores in front of the loop.

    Guarantee: equal stores in equal order. Loops that may be empty or run in parallel keep theirs.
    """
    return f.with_body(rewritten(f.body, Cursor.root(f), leave={For: (_hoist,)}))


def _hoist(loop: For, here: Cursor) -> Stmt:
    whole = guarded(loop.body)
    if whole is None or not whole.stmts or loop.kind not in _SEQUENTIAL or loop.carried:
        return loop
    first = whole.stmts[0]
    start = guarded(first)
    if start is None or not isinstance(first, If) or not is_initialization(start.stmts):
        return loop
    low, extent = range_ends(loop.range)
    cond = logical_and(*conjuncts(whole.cond), *conjuncts(start.cond))
    if loop.var in variables(*(e for stmt in start.stmts for e in operands(stmt))) or opaque_terms(low, extent):
        return loop
    inside = here.scope.inside(loop)
    once = any(part is loop.var.eq(low) for part in conjuncts(cond)) or proves(inside.where(cond), loop.var.eq(low))
    if not once or not _is_run(extent, here.scope):
        return loop
    left = [substitute(part, {loop.var: low}) for part in conjuncts(cond) if part is not loop.var.eq(low)]
    left = [part for part in left if not proves(here.scope, part)]
    simple = [here.ctx.simplify(part) for part in left]
    init = If(logical_and(*simple), seq(*start.stmts)) if simple else seq(*start.stmts)
    body = seq(*whole.stmts[1:])
    return seq(init, with_fields(loop, body=body if whole.cond is truth(True) else If(whole.cond, body)))


def _is_run(extent: Expr, scope: Scope) -> bool:
    return extent.data >= 1 if extent.is_const else proves(scope, extent >= 1)


def with_guarded_initializations(f: Function) -> Function:
    """Move stores in front of a reduction into its first iteration, if its loops hold nothing but updates of them.

    Guarantee: equal stores in equal order, since the loops are proved to have an iteration.
    """
    return f.with_body(rewritten(f.body, Cursor.root(f), enter={Seq: (_sink,)}))


def _sink(stmt: Seq, here: Cursor) -> Stmt:
    parts: list[Stmt] = []
    waiting = list(stmt.stmts)
    while waiting:
        joined = _joined(waiting, here)
        if joined is None:
            parts.append(waiting.pop(0))
        else:
            count, loops = joined
            parts.append(loops)
            del waiting[:count]
    return stmt if len(parts) == len(stmt.stmts) else seq(*parts)


def _joined(stmts: Sequence[Stmt], here: Cursor) -> tuple[int, Stmt] | None:
    """The initialization and the loops at the front as one nest, and the number of statements replaced."""
    count = next((k for k, stmt in enumerate(stmts) if isinstance(stmt, For)), 0)
    start = guarded(stmts[0]) if count == 1 else GuardedStmts(truth(True), list(stmts[:count]))
    if not count or start is None or not is_initialization(start.stmts):
        return None
    loops, inner = _chain(stmts[count])
    whole = guarded(inner)
    scope = here.scope
    for loop in loops:
        low, extent = range_ends(loop.range)
        if loop.carried or loop.kind not in _SEQUENTIAL or opaque_terms(low, extent) or not _is_run(extent, scope):
            return None
        scope = scope.inside(loop)
    own = {loop.var for loop in loops}
    if whole is None or not _updates(start.stmts, whole.stmts) or own & set(variables(*_places(start.stmts))):
        return None
    first = logical_and(*(loop.var.eq(range_ends(loop.range)[0]) for loop in loops))
    if whole.cond is not truth(True) and not proves(scope.where(first, start.cond), whole.cond):
        return None
    then = scope.where(first, whole.cond)
    left = [part for part in conjuncts(start.cond) if part is not truth(True) and not proves(then, part)]
    body: Stmt = seq(If(logical_and(first, *left), seq(*start.stmts)), *whole.stmts)
    body = body if whole.cond is truth(True) else If(whole.cond, body)
    for loop in reversed(loops):
        body = with_fields(loop, body=body)
    return count + 1, body


def _chain(stmt: Stmt) -> tuple[list[For], Stmt]:
    """A perfect nest as its loops, outermost first, and the innermost body."""
    loops: list[For] = []
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def _places(stmts: Sequence[Stmt]) -> list[Expr]:
    return [e for stmt in stmts if isinstance(stmt, Store) for e in stmt.indices]


def _updates(start: Sequence[Stmt], body: Sequence[Stmt]) -> bool:
    """Whether the body stores the initialized elements, reading each tensor it stores, and nothing else."""
    stores = [stmt for part in body for stmt in statements(part) if isinstance(stmt, Store)]
    if any(isinstance(stmt, For) for part in body for stmt in statements(part)):
        return False
    initialized = {(stmt.tensor, stmt.indices) for stmt in start if isinstance(stmt, Store)}
    read = {loaded_tensor(n) for part in body for stmt in statements(part) for n in nodes(*operands(stmt))}
    return {(s.tensor, s.indices) for s in stores} == initialized and {t for t, _ in initialized} <= read
