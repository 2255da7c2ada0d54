"""Ranges of integers that depend on data, and which results may leave 64 bits.

Machine arithmetic of a nest: an integer that depends on data is a signed number of 64 bits, whatever its elements'
type, and wraps around; a store to an element, or a cast, keeps the low bits of that type. Index arithmetic is
mathematical. C and Python emitters share these bounds, so equal results wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bound import dtypes
from bound.tir.build import dtype_of
from bound.tir.opaque import IntFunction
from bound.tir.value import ValueOp
from bound.tir.walk import loaded_tensor
from intset.expr import ops
from intset.expr.node import Expr, Node, constant_value
from intset.expr.ops import Op

Span = tuple[int, int]
INT64: Final[Span] = (-(1 << 63), (1 << 63) - 1)


class WordSpans:
    """Bounds of the integers of a nest; operands are entered before their operations.

    Invariant: a node that depends on data ("wide") has a span within 64 bits that contains its value; every other
    integer is an index of `bits` bits.
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._known: dict[Any, Span] = {}

    def is_wide(self, node: Any) -> bool:
        """Whether an integer depends on data."""
        return node in self._known

    def of(self, node: Any) -> Span:
        """Bounds of an integer; by default those of its machine type."""
        if node.op is ops.CONST:
            return (node.data, node.data)
        return self._known.get(node, (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1))

    def enter(self, node: Expr) -> bool:
        """Enter an integer; returns whether its exact value may leave 64 bits."""
        op = node.op
        if op is ops.LOAD:
            span = _loaded(node)
            if span is not None:
                self._known[node] = span
            return False
        if op is ops.CAST:
            bits, signed = node.data
            self._known[node] = _within_64(dtypes.int_range(f"{'' if signed else 'u'}int{bits}"))
            return False
        if op is ops.ASSERTING:
            self.name(node, node.args[1])
            return False
        operands = [arg for arg in node.args if isinstance(arg, Expr)]
        if not any(self.is_wide(arg) for arg in operands):
            return False
        exact = _exact(op, [self.of(arg) for arg in operands])
        overflows = exact[0] < INT64[0] or exact[1] > INT64[1]
        self._known[node] = INT64 if overflows else exact
        return overflows

    def name(self, var: Any, value: Any) -> None:
        """Enter a name for an integer."""
        if self.is_wide(value):
            self._known[var] = self._known[value]


def is_plain_shift(node: Node, bits: int) -> bool:
    """Whether a shift amount is a constant within the width, as C requires."""
    places = constant_value(node.args[1])
    return places is not None and 0 <= places < bits


def is_unsigned(node: Any) -> bool:
    """Whether a conversion to a float treats an integer as unsigned."""
    return isinstance(node, Expr) and dtype_of(node) == "uint64"


def _loaded(node: Expr) -> Span | None:
    """Bounds of an element, or of an integer function of data; `None` for loads of no data, such as extents."""
    tensor = loaded_tensor(node)
    if tensor is not None:
        return _within_64(tensor.value_range or dtypes.int_range(tensor.dtype))
    if isinstance(node.data, IntFunction):
        is_narrow = dtypes.bits(node.data.dtype) < 64 and node.data.body.op is not ValueOp.SELECT
        return dtypes.int_range(node.data.dtype) if is_narrow else INT64
    return None


def _within_64(span: Span) -> Span:
    """A span reduced to signed 64 bits, in which larger numbers wrap around."""
    return span if INT64[0] <= span[0] and span[1] <= INT64[1] else INT64


def _hull(a: Span, b: Span) -> Span:
    return (min(a[0], b[0]), max(a[1], b[1]))


_EXACT: Final[dict[Op, Callable[[Span, Span], Span]]] = {
    ops.ADD: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    ops.SUB: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    ops.MUL: lambda a, b: (min(x * y for x in a for y in b), max(x * y for x in a for y in b)),
    ops.MIN: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    ops.MAX: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    ops.SELECT: _hull,
    ops.SHL: lambda a, b: _hull(*(_scaled(a, max(0, min(s, 64))) for s in b)),
    ops.FLOORMOD: lambda a, b: (min(0, b[0] + 1), max(0, b[1] - 1)),
    ops.TRUNCMOD: lambda a, b: (min(0, a[0]), max(0, a[1])),
}
_QUOTIENTS: Final = (ops.FLOORDIV, ops.CEILDIV, ops.TRUNCDIV)


def _scaled(a: Span, shift: int) -> Span:
    return (a[0] << shift, a[1] << shift)


def _exact(op: Op, spans: list[Span]) -> Span:
    """Bounds of the mathematical result."""
    first = spans[0]
    if op is ops.NEG:
        return (-first[1], -first[0])
    if op is ops.ABS:
        return (0, max(abs(first[0]), abs(first[1])))
    if op in _QUOTIENTS:
        largest = max(abs(first[0]), abs(first[1]))
        may_negate = spans[1][0] <= -1 <= spans[1][1]  # the least number of 64 bits divided by -1 leaves 64 bits
        return (-largest, largest if may_negate else min(largest, INT64[1]))
    return _EXACT[op](first, spans[1]) if op in _EXACT else INT64
