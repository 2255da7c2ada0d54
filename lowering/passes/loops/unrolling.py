"""Loops that are meant to be unrolled, written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bound.tir import walk
from intset.expr.node import Var, const, constant_value
from intset.expr.range import Range
from lowering.nest.ir import Allocate, For, Function, Let, LoopKind, Stmt, flat, seq
from lowering.nest.walk import operands, range_ends, rebuilt, statements, transform, variables
from lowering.passes.alpha_renaming import with_fresh_names
from lowering.passes.values.constant_folding import decided

MOST: Final = 256  # statements that a loop may become


def unroll(f: Function) -> Function:
    """The function with unrolled loops of constant extent written out, as far as each stays below `MOST` statements.

    Conditions and integers that are constants then, and selections between them, are decided.
    """
    return f.with_body(rebuilt(f.body, _written_out))


def _written_out(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, For) or stmt.kind is not LoopKind.UNROLLED or stmt.carried:
        return stmt
    low, count = (constant_value(e) for e in range_ends(stmt.range))
    inside = list(statements(stmt.body))
    if low is None or count is None or len(inside) * count > MOST:
        return stmt
    copies = [_at(stmt.body, stmt.var, low + k) for k in range(count)]
    storage = _shared(copies)
    return seq(*storage, *(_block(stmt, low + k, copy, storage) for k, copy in enumerate(copies)))


def _shared(copies: Sequence[Stmt]) -> list[Allocate]:
    """Storage that all copies can share: allocated in each copy with equal ranges."""
    made = [{part.tensor: part for part in flat(copy) if isinstance(part, Allocate)} for copy in copies]
    named = {part.var for copy in copies for part in flat(copy) if isinstance(part, Let)}
    return [
        first
        for tensor, first in (made[0] if made else {}).items()
        if all(other[tensor].ranges == first.ranges for other in made) and named.isdisjoint(variables(*operands(first)))
    ]


def _block(loop: For, value: int, copy: Stmt, storage: Sequence[Allocate]) -> Stmt:
    """One iteration with fresh names. A loop of one iteration remains around storage of its own."""
    shared = {part.tensor for part in storage}
    kept = [part for part in flat(copy) if not (isinstance(part, Allocate) and part.tensor in shared)]
    body = with_fresh_names(seq(*kept))
    if not any(isinstance(part, Allocate) for part in flat(body)):
        return body
    return replace(loop, var=Var(loop.var.name), range=Range(value, 1), body=body, kind=LoopKind.SERIAL)


def _at(body: Stmt, var: Var, value: int) -> Stmt:
    return transform(body, lambda e: decided(walk.substitute(e, {var: const(value)})))
