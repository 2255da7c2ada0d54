"""Names of indices, replaced by what they stand for: where an index is read, what it is made of is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bound.tir.reduce import Parameter
from bound.tir.value import Operand
from intset.expr import ops
from intset.expr.definedness import definedness
from intset.expr.node import Expr, Var
from intset.expr.walk import is_small, opaque_terms, postorder
from lowering.nest.driver import Descent, each_operand, rewritten
from lowering.nest.ir import Function, Let, Seq, Stmt, is_empty
from lowering.nest.walk import replaced

MOST: Final = 9  # nodes of what is written at each of its uses


def inline_values(f: Function, most: int = MOST) -> Function:
    """The function without the names of integer expressions of at most so many nodes: the inverse of `name_values` for
    these.

    It is for what looks at the form of indices, as partitioning does and compilers do, which find what loops do not
    change by themselves. Names of choices, of long expressions and of what is read from elements stay.
    """
    enter = {Stmt: (each_operand(_use_values),), Let: (_drop_short_name,)}
    return f.with_body(rewritten(f.body, _Inlining({}, most), enter))


def _is_short(value: Operand, most: int) -> bool:
    if not isinstance(value, Expr) or not is_small(most, (value,)) or opaque_terms(value):
        return False
    return not definedness((value,)) and not any(node.op is ops.SELECT for node in postorder((value,)))


class _Inlining(Descent):
    """The short values of the names in sight.

    Invariant: values hold no name that is inlined.
    """

    __slots__ = ("known", "most")

    def __init__(self, known: dict[Parameter, Operand], most: int) -> None:
        self.known, self.most = known, most

    def after(self, old: Stmt, new: Stmt) -> _Inlining:
        if not isinstance(old, Let) or not is_empty(new):
            return self
        return _Inlining({**self.known, old.var: replaced(old.value, self.known)}, self.most)


def _drop_short_name(stmt: Let, names: _Inlining) -> Stmt:
    value = replaced(stmt.value, names.known)
    return Seq() if isinstance(stmt.var, Var) and _is_short(value, names.most) else replace(stmt, value=value)


def _use_values(operand: Operand, names: _Inlining) -> Operand:
    return replaced(operand, names.known) if names.known else operand
