"""Rows that the tables of several adapters share: operators, signs of comparisons, choices, registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from intset.expr import Cond, Expr, Node, ops
from intset.expr.build import select
from intset.expr.convert import integer_of, truth_of
from intset.expr.ops import Op
from intset.expr.printer import INFIX

SIGNS: Final = {INFIX[op][0]: op for op in ops.COMPARISONS}
RING: Final = (ops.ADD, ops.SUB, ops.MUL, ops.NEG)


def by_operators(*known: Op) -> dict[Op, Callable[..., Any]]:
    """Rows of operations that the terms of a library compute by Python's operators."""

    def row(meaning: Callable[..., Any]) -> Callable[..., Any]:
        return lambda e, *args: meaning(*args)

    return {op: row(op.meaning) for op in known if op.meaning is not None}


def wrapped(e: Expr, a: Any) -> Any:
    """A cast as arithmetic, for libraries without registers of any width."""
    bits, signed = e.data
    low = 1 << (bits - 1) if signed else 0
    return (a + low) % (1 << bits) - low


def chosen(term: Any, c: Node, a: Node, b: Node) -> Node:
    """`a` where `c` holds, else `b`: a condition of two conditions, an integer of all others."""
    condition = truth_of(c)
    if isinstance(a, Cond) and isinstance(b, Cond):
        return (condition & a) | (~condition & b)
    return select(condition, integer_of(a), integer_of(b))
