"""Methods of operands that call modules above `value`: operators, conversion, text. Set when the package is imported.

`intset` knows no tensors, so `i * A[j]` must call the reflected operator of `A[j]`: that is a `Guest`, to which
operators
of `Expr` and `Cond` defer. Every operand of a tensor program has `dtype` and `astype`, integers included.
"""

from __future__ import annotations

from typing import Final

from bound import dtypes
from bound.tir import build
from bound.tir.value import ARITHMETIC, COMPARISONS, INFIX, OPERATORS, Operand, Value, ValueOp
from intset.expr.node import Cond, Expr
from intset.expr.walk import postorder

_LIMIT: Final = 2000
_INFIX: Final = INFIX | COMPARISONS | {ValueOp.AND, ValueOp.OR}


def to_text(value: Value) -> str:
    """Print a value in Python's syntax; parts longer than about 2,000 characters are cut to `...`."""
    texts: dict[Operand, str] = {}
    roots: tuple[Operand, ...] = (value,)
    for node in postorder(roots):
        if isinstance(node, Value):
            text = _node_text(node, [texts.get(arg) or str(arg) for arg in node.args])
            texts[node] = text if len(text) <= _LIMIT else "..."
    return texts[value]


def _node_text(node: Value, args: list[str]) -> str:
    op = node.op
    if op is ValueOp.CONST:
        return str(node.data) if node.dtype == "bool" else dtypes.decimal(node.data, node.dtype)
    if op is ValueOp.PARAM:
        return str(node.data[0])
    if op is ValueOp.UNDEF:
        return "undef()"
    if op is ValueOp.LOAD:
        return f"{node.data.name}[{', '.join(args)}]"
    if op in _INFIX:
        return f"({args[0]} {op} {args[1]})"
    if op in ARITHMETIC or op is ValueOp.ABS or op is ValueOp.NOT:
        return f"{op}({', '.join(args)})"
    if op is ValueOp.NEG:
        return f"-{args[0]}"
    if op is ValueOp.CALL:
        return f"{node.data}({', '.join(args)})"
    if op is ValueOp.CAST:
        return f"{node.dtype}({args[0]})"
    if op is ValueOp.SELECT:
        return f"({args[1]} if {args[0]} else {args[2]})"
    reduction = node.data
    axes = ", ".join(axis.name for axis in reduction.axis)
    source = ", ".join(args[: reduction.arity])
    where = args[reduction.arity]
    chosen = f"[{reduction.index}]" if reduction.arity > 1 else ""
    return f"{reduction.combiner.name}({source}, axis=[{axes}]{'' if where == 'True' else ', where=' + where}){chosen}"


def _dtype(self: Operand) -> str:
    return build.dtype_of(self)


def _astype(self: Operand, dtype: str) -> Operand:
    return build.cast(dtype, self)


OPERATORS.binary = build.binary
OPERATORS.cast = build.cast
OPERATORS.logical = build.logical
OPERATORS.negation = build.negation
OPERATORS.text = to_text
OPERATORS.unary = build.unary
for cls in (Expr, Cond):
    for name, member in (("dtype", property(_dtype)), ("astype", _astype)):
        setattr(cls, name, member)
