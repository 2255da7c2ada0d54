"""Loops that are meant to be unrolled, written out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bound.tensor import Tensor
from bound.tir import walk
from intset.expr.node import Var, const, constant_value
from intset.expr.range import Range
from lowering.nest.ir import Allocate, For, Function, LoopKind, Seq, Stmt, seq
from lowering.nest.walk import range_ends, rebuilt, statements, transform
from lowering.passes.constants import decided
from lowering.passes.unique import with_fresh_names

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
    return seq(*_sharing([_at(stmt.body, stmt.var, low + k) for k in range(count)])) if count > 0 else Seq()


def _sharing(copies: Sequence[Stmt]) -> list[Stmt]:
    """Copies that stand in one sequence, with the storage of the first for all: it is allocated once."""
    made: dict[Tensor, tuple[Range, ...]] = {}
    found: list[Stmt] = []
    for copy in copies:
        kept = []
        for part in copy.stmts if isinstance(copy, Seq) else (copy,):
            if isinstance(part, Allocate):
                if made.get(part.tensor) == part.ranges:
                    continue
                made[part.tensor] = part.ranges
            kept.append(part)
        found.append(seq(*kept))
    return found


def _at(body: Stmt, var: Var, value: int) -> Stmt:
    return with_fresh_names(transform(body, lambda e: decided(walk.substitute(e, {var: const(value)}))))
