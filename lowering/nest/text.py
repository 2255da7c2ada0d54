"""The text of what statements compute with, in Python's syntax and with Python's precedence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bound import dtypes
from bound.tir.opaque import IntFunction
from bound.tir.value import Operand, Value, ValueOp
from bound.tir.walk import substitute
from intset.expr import ops
from intset.expr.node import Expr, Node, constant_value
from intset.expr.range import Range
from intset.expr.walk import postorder, size
from intset.linear.form import Linear

LIMIT: Final = 2000
_ATOM: Final = 10
_LEVEL: Final[dict[ValueOp, int]] = {
    ValueOp.SELECT: 1,
    ValueOp.OR: 2,
    ValueOp.AND: 3,
    ValueOp.NOT: 4,
    **dict.fromkeys((ValueOp.LT, ValueOp.LE, ValueOp.GT, ValueOp.GE, ValueOp.EQ, ValueOp.NE), 5),
    ValueOp.ADD: 6,
    ValueOp.SUB: 6,
    ValueOp.MUL: 7,
    ValueOp.DIV: 7,
    ValueOp.NEG: 8,
}
_WORD: Final = {ValueOp.AND: "and", ValueOp.OR: "or"}


def text(operand: Operand) -> str:
    """An operand as text; what would be longer than about 2,000 characters is cut to `...`."""
    if isinstance(operand, Node) and not _has_function(operand):
        return repr(operand)
    known: dict[Any, tuple[str, int]] = {}
    below: Iterator[Any] = postorder((operand,))  # type: ignore[arg-type]  # values are walked like expressions
    for node in below:
        if isinstance(node, Value):
            written, level = _value(node, [known[arg] if arg in known else (repr(arg), 0) for arg in node.args])
        elif node.op is ops.LOAD and isinstance(node.data, IntFunction):
            written, level = _function(node)
        else:
            written, level = repr(node), _ATOM if node.op in (ops.CONST, ops.VAR, ops.LOAD) else 0
        known[node] = (written if len(written) <= LIMIT else "...", level)
    return known[operand][0]


def _has_function(e: Node) -> bool:
    return e.op is ops.LOAD and isinstance(e.data, IntFunction)


def _function(node: Any) -> tuple[str, int]:
    """An integer that depends on data, written as the formula it stands for."""
    body = substitute(node.data.body, dict(zip(node.data.params, node.args, strict=True)))
    if body.op is ValueOp.CAST:
        return f"{body.dtype}({text(body.args[0])})", _ATOM
    return text(body), 0


def _value(node: Value, args: list[tuple[str, int]]) -> tuple[str, int]:
    op = node.op
    level = _LEVEL.get(op, _ATOM)
    plain = [a for a, _ in args]

    def at(k: int, needed: int) -> str:
        return plain[k] if args[k][1] >= needed else f"({plain[k]})"

    if op is ValueOp.CONST:
        return repr(node.data), _ATOM if node.data == node.data and not _is_negative(node.data) else 8
    if op is ValueOp.PARAM:
        return str(node.data[0]), _ATOM
    if op is ValueOp.LOAD:
        return f"{node.data.name}[{', '.join(plain)}]", _ATOM
    if op is ValueOp.CALL:
        return f"{node.data}({', '.join(plain)})", _ATOM
    if op is ValueOp.CAST:
        return f"{node.dtype}({plain[0]})", _ATOM
    if op is ValueOp.SELECT:
        return f"select({', '.join(plain)})", _ATOM
    if op is ValueOp.NEG:
        return f"-{at(0, level)}", level
    if op is ValueOp.NOT:
        return f"not {at(0, level)}", level
    if len(args) == 2 and op in _LEVEL:
        tight = level + 1
        left = tight if level == _LEVEL[ValueOp.LT] else level
        return f"{at(0, left)} {_WORD.get(op, op)} {at(1, tight)}", level
    return f"{op}({', '.join(plain)})", _ATOM


def _is_negative(x: Any) -> bool:
    return not isinstance(x, bool) and (x < 0 or str(x).startswith("-"))


def range_text(r: Range) -> str:
    """A range as `[min, end)`."""
    low, extent = r.min, r.extent
    assert isinstance(low, Expr) and isinstance(extent, Expr)
    if low.is_const and extent.is_const:
        return f"[{low.data}, {low.data + extent.data})"
    if low.is_const and low.data == 0:
        return f"[0, {extent!r})"
    return f"[{low!r}, {_total(low, extent)!r})"


def _total(low: Expr, extent: Expr) -> Expr:
    """The sum without what cancels in it; divisions stay those of a machine, as they are written."""
    rest = 0
    terms: dict[Expr, int] = {}
    stack: list[tuple[Any, int]] = [(extent, 1), (low, 1)]
    while stack:
        e, times = stack.pop()
        factor = constant_value(e.args[1]) if e.op is ops.MUL else None
        if e.op is ops.ADD or e.op is ops.SUB:
            stack += [(e.args[1], -times if e.op is ops.SUB else times), (e.args[0], times)]
        elif e.is_const:
            rest += times * e.data
        elif factor is not None:
            stack.append((e.args[0], times * factor))
        else:
            terms[e] = terms.get(e, 0) + times
    short = Linear(rest, {e: times for e, times in terms.items() if times}).expr()
    return short if size(short) < size(low + extent) else low + extent


def type_text(dtype: str) -> str:
    return dtypes.check(dtype)
