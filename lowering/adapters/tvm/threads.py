"""Loops on threads as TVM launches them: they count from 0, and all loops on one thread run equally far.

A shared tile that threads fetch together is a loop on `threadIdx.x` inside another one, over another range. TVM takes
both for one launched thread and binds its index to the start of the range; division by the extent then fails.
"""

from __future__ import annotations

from intset.expr.build import ceildiv
from intset.expr.node import Expr, Var, const
from intset.expr.range import Range
from lowering.nest.driver import Cursor, rewritten
from lowering.nest.ir import For, Function, If, LoopKind, Stmt, with_fields
from lowering.nest.scope import proves
from lowering.nest.walk import map_operands, range_ends, rebuilt, replaced, substitute

_ON_THREADS = (LoopKind.THREAD, LoopKind.VTHREAD)


def with_launched_threads(f: Function) -> Function:
    """The function with loops on threads that count from 0.

    A nested loop on the same thread but with another extent becomes a serial loop over a guarded loop with the launched
    extent.
    """
    return f.with_body(rewritten(f.body, Cursor.root(f), enter={For: (_from_zero, _on_launched)}))


def _from_zero(loop: For, here: Cursor) -> Stmt:
    low, extent = range_ends(loop.range)
    if loop.kind not in _ON_THREADS or low is const(0):
        return loop
    var = Var(loop.var.name)
    ctx = here.ctx

    def moved(stmt: Stmt) -> Stmt:
        new = map_operands(stmt, lambda e: replaced(e, {loop.var: low + var}))
        return new if new is stmt else map_operands(new, lambda e: ctx.simplify(e) if isinstance(e, Expr) else e)

    return with_fields(loop, var=var, range=Range(0, extent), body=rebuilt(loop.body, moved))


def _on_launched(loop: For, here: Cursor) -> Stmt:
    _, extent = range_ends(loop.range)
    launched = next((outer for outer in here.loops if outer.thread == loop.thread), None)
    if loop.kind not in _ON_THREADS or launched is None:
        return loop
    _, threads = range_ends(launched.range)
    if threads is extent or proves(here.scope, threads.eq(extent)):
        return loop
    if proves(here.scope, threads >= extent):
        return with_fields(loop, range=Range(0, threads), body=If(loop.var < extent, loop.body))
    outer, inner = Var(f"{loop.var.name}_outer"), Var(loop.var.name)
    index = outer * threads + inner
    body = substitute(loop.body, {loop.var: index})
    within = body if proves(here.scope, (extent % threads).eq(0)) else If(index < extent, body)
    return For(
        outer, Range(0, ceildiv(extent, threads)), with_fields(loop, var=inner, range=Range(0, threads), body=within)
    )
