"""The text of what statements compute with, in Python's syntax and with Python's precedence.

`operands.py` reads it back. A function unknown to `bound.tir` is written with its result type, as in
`float32.twice(A[i])`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bound import dtypes
from bound.tir.build import FUNCTIONS, PREDICATES
from bound.tir.value import CALL, CONVERT, DIV, NUMBER, PARAM, SHORT, SPELLED, IntFunction, Operand, Value
from bound.tir.walk import loaded_tensor, substitute
from intset.expr import ops
from intset.expr.dag import size
from intset.expr.node import Expr, Var, const, constant_value, make
from intset.expr.printer import INFIX as WHOLE_INFIX
from intset.expr.printer import Placed, Precedence, composed, layout_of, listed
from intset.expr.range import Range
from intset.linear.form import Linear
from lowering.nest.ir import ShapeOf
from lowering.nest.undef import is_undef

Names = Mapping[Any, str]
PLAIN: Final[Names] = {}

_LEVELS: Final = {DIV: Precedence.PRODUCT, ops.AND: Precedence.AND, ops.OR: Precedence.OR}
INFIX: Final = {op: (symbol, _LEVELS.get(op) or WHOLE_INFIX[op][1]) for op, symbol in SPELLED.items()}
_KNOWN: Final = {*FUNCTIONS, "pow"}


def text(operand: Operand, names: Names = PLAIN) -> str:
    """An operand as text. Long texts bind repeated subexpressions to names, as the printer of `intset` does.

    Parameters
    ----------
    names: replacements for the names of variables, parameters and tensors.
    """
    if not names and isinstance(operand, Var):
        return operand.name
    return composed(operand, lambda node: _layout(node, names))


def _layout(node: Operand, names: Names) -> Placed:
    if isinstance(node, Var):
        return Precedence.ATOM, [names.get(node, node.name)]
    if is_undef(node):
        return Precedence.ATOM, ["undef()"]
    tensor = loaded_tensor(node)
    if tensor is not None:
        return Precedence.ATOM, listed(f"{names.get(tensor, tensor.name)}[", node.args, "]")
    if isinstance(node, Value):
        return _value(node, names)
    if node.op is ops.LOAD and isinstance(node.data, IntFunction):
        return _value(substitute(node.data.body, dict(zip(node.data.params, node.args, strict=True))), names)
    if node.op is ops.LOAD and isinstance(node.data, ShapeOf):
        of = node.data.tensor
        return Precedence.ATOM, listed(f"{names.get(of, of.name)}.shape[", node.args, "]")
    if node.op is ops.ASSERTING and node.data == ops.SIZE and isinstance(node.args[1], Var):
        return _layout(node.args[1], names)
    return layout_of(node)


def _value(node: Operand, names: Names) -> Placed:
    op, args = node.op, node.args
    if op in INFIX:
        symbol, level = INFIX[op]
        left = level + 1 if level is Precedence.COMPARE else level
        return level, [(args[0], left), f" {symbol} ", (args[1], level + 1)]
    if op is NUMBER:
        dtype = getattr(node, "dtype", "bool")
        written = str(node.data) if dtype == "bool" else dtypes.decimal(node.data, dtype)
        return (Precedence.UNARY if written.startswith("-") else Precedence.ATOM), [written]
    if op is PARAM:
        return Precedence.ATOM, [names.get(node, str(node.data[0]))]
    if op is ops.NEG:
        return Precedence.UNARY, [
            "-",
            (args[0], Precedence.CLOSED if args[0].op is NUMBER else Precedence.UNARY),
        ]
    if op is ops.NOT:
        return Precedence.NOT, ["not ", (args[0], Precedence.NOT)]
    if isinstance(node, Value) and op is CALL:
        return Precedence.ATOM, listed(f"{_function(node)}(", args, ")")
    if isinstance(node, Value) and op is CONVERT:
        return Precedence.ATOM, listed(f"{node.dtype}(", args, ")")
    return Precedence.ATOM, listed(f"{SHORT.get(op, op.name)}(", args, ")")


def _function(node: Value) -> str:
    """The name of a function, qualified by its result type if that is ambiguous."""
    if node.data == "popcount":
        return "popcount"
    dtype = "bool" if node.data in PREDICATES else node.dtype
    is_plain = all(isinstance(arg, Value) and arg.dtype != "bool" for arg in node.args) and node.dtype == dtype
    return str(node.data) if node.data in _KNOWN and is_plain else f"{node.dtype}.{node.data}"


def range_text(r: Range, names: Names = PLAIN) -> str:
    """A range as `[min, end)`."""
    low, extent = r.min, r.extent
    assert isinstance(low, Expr) and isinstance(extent, Expr)
    return f"[{text(low, names)}, {text(end_of(low, extent), names)})"


def end_of(low: Expr, extent: Expr) -> Expr:
    """The end of a range, with cancelled terms; divisions keep their machine form."""
    if extent.op is ops.SUB and extent.args[1] is low:
        answer: Expr = extent.args[0]
        return answer
    if constant_value(low) == 0:
        return extent
    short = weighed((extent, 1), (low, 1))
    return short if size(short) < size(low + extent) else low + extent


def weighed(*summands: tuple[Expr, int]) -> Expr:
    """The sum of expressions, each so many times, without what cancels in it; products by constants are opened."""
    rest = 0
    terms: dict[Expr, int] = {}
    stack = list(summands)
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
    return Linear(rest, {e: times for e, times in terms.items() if times}).expr()


def range_between(low: Expr, end: Expr) -> Range:
    """The range from `low` to `end`, exclusive. Guarantee: `end_of` returns `end`.

    The extent is `end - low` with cancelled terms, if that reproduces the end.
    """
    if low.is_const and end.is_const:
        count = end.data - low.data
        # the parser accepts an end before the start: keep the difference as written
        return Range(low, const(count) if count >= 0 else make(ops.SUB, (end, low)))
    if constant_value(low) == 0:
        return Range(low, end)
    likely = end.args[1] if end.op is ops.ADD and end.args[0] is low else weighed((low, -1), (end, 1))
    extent = likely if end_of(low, likely) is end else end - low
    return Range(low, extent)
