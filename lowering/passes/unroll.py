"""Loops that are meant to be unrolled, written out."""

from __future__ import annotations

from typing import Final

from bound.tir import walk
from intset.expr.node import Var, const, constant_value
from lowering.nest.ir import For, Function, LoopKind, Seq, Stmt, seq
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
    return seq(*(_at(stmt.body, stmt.var, low + k) for k in range(count))) if count > 0 else Seq()


def _at(body: Stmt, var: Var, value: int) -> Stmt:
    return with_fresh_names(transform(body, lambda e: decided(walk.substitute(e, {var: const(value)}))))
