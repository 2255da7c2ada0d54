"""Names of indices, replaced by what they stand for: where an index is read, what it is made of is seen."""

from __future__ import annotations

from typing import Final

from bound.tir.reduce import Parameter
from bound.tir.value import Operand
from intset.expr import ops
from intset.expr.definedness import definedness
from intset.expr.node import Expr, Var
from intset.expr.walk import is_small, opaque_terms, postorder
from lowering.nest.ir import Function, Let, Seq, Stmt, seq
from lowering.nest.walk import Visit, children, drive, map_operands, replaced, with_children

MOST: Final = 9  # nodes of what is written at each of its uses


def inline_values(f: Function, most: int = MOST) -> Function:
    """The function without the names of integer expressions of at most so many nodes: the inverse of `name_values` for
    these.

    It is for what looks at the form of indices, as partitioning does and compilers do, which find what loops do not
    change by themselves. Names of choices, of long expressions and of what is read from elements stay.
    """
    return f.with_body(drive(_visit(f.body, {}, most)))


def _is_short(value: Operand, most: int) -> bool:
    if not isinstance(value, Expr) or not is_small(most, (value,)) or opaque_terms(value):
        return False
    return not definedness((value,)) and not any(node.op is ops.SELECT for node in postorder((value,)))


def _visit(stmt: Stmt, known: dict[Parameter, Operand], most: int) -> Visit[Stmt]:
    parts: list[Stmt] = []
    for inner in children(stmt):
        if isinstance(inner, Let) and isinstance(stmt, Seq) and isinstance(inner.var, Var):
            value = replaced(inner.value, known)
            if _is_short(value, most):
                known = {**known, inner.var: value}
                continue
        parts.append((yield _visit(inner, known, most)))
    if isinstance(stmt, Seq):
        return seq(*parts)
    return with_children(map_operands(stmt, lambda e: replaced(e, known)) if known else stmt, tuple(parts))
