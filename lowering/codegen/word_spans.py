"""Ranges of integers that depend on data, and which results may leave 64 bits.

Machine arithmetic of a nest: an integer that depends on data is a signed number of 64 bits, whatever its elements'
type, and wraps around; a store to an element, or a cast, keeps the low bits of that type. Index arithmetic is
mathematical. C and Python emitters share these bounds, so equal results wrap.
"""

from __future__ import annotations

from typing import Any, Final

from bound import dtypes
from bound.tir.build import dtype_of
from bound.tir.opaque import IntFunction
from bound.tir.value import ValueOp
from bound.tir.walk import loaded_tensor
from intset.expr import ops
from intset.expr.node import Expr, Node, constant_value
from intset.expr.ops import Op
from intset.linear.bounds import Interval, negated
from lowering.passes.values.index_width import INTERVAL_RULES

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
        low, high = _exact(op, [self.of(arg) for arg in operands])
        if low is None or high is None or low < INT64[0] or high > INT64[1]:
            self._known[node] = INT64
            return True
        self._known[node] = (low, high)
        return False

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


def _exact(op: Op, spans: list[Interval]) -> Interval:
    """Bounds of the mathematical result; those of bit operations on two's complement are at most 64 bits wide."""
    if op is ops.CEILDIV:
        return negated(INTERVAL_RULES[ops.FLOORDIV](negated(spans[0]), spans[1]))
    return INTERVAL_RULES[op](*spans) if op in INTERVAL_RULES else INT64
