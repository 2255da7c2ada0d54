"""Expressions: hash-consed nodes, their reference semantics, their text.

What every room speaks of, nodes, ranges and the text of a value, is here; functions come by the module that has them.
"""

from intset.expr.node import (
    NEG_INF,
    POS_INF,
    Cond,
    Expr,
    Infinity,
    IntLike,
    Node,
    ShapeVar,
    Term,
    Var,
    as_cond,
    as_expr,
    const,
    constant_value,
)
from intset.expr.printer import shown
from intset.expr.range import Range

__all__ = [
    "NEG_INF",
    "POS_INF",
    "Cond",
    "Expr",
    "Infinity",
    "IntLike",
    "Node",
    "Range",
    "ShapeVar",
    "Term",
    "Var",
    "as_cond",
    "as_expr",
    "const",
    "constant_value",
    "shown",
]
