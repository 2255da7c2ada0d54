"""Ranges of integers that depend on data, and the machine words that hold them.

Machine arithmetic of a nest: an integer that depends on data is exact where 64 bits hold it, with or without a sign,
and wraps around to a signed number of 64 bits beyond. A store to an element, or a cast, keeps the low bits of its
type. Index arithmetic is mathematical. C and Python emitters share these bounds, so equal results wrap.
"""

from __future__ import annotations

from typing import Any

from bound import dtypes
from bound.tir.opaque import OF_LOW_BITS, WORDS, IntFunction, is_word
from bound.tir.walk import loaded_tensor
from intset.expr import ops
from intset.expr.node import Expr, Node, constant_value
from intset.linear.bounds import of_operation

Span = tuple[int, int]
INT64, UINT64 = WORDS


def is_within(span: Span, other: Span) -> bool:
    return other[0] <= span[0] and span[1] <= other[1]


class WordSpans:
    """Bounds of the integers of a nest; operands are entered before their operations.

    Invariant: a node that depends on data ("wide") has a span within `INT64` or within `UINT64` that contains its
    value; every other integer is an index of `bits` bits.
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._known: dict[Any, Span] = {}

    def is_wide(self, node: Any) -> bool:
        """Whether an integer depends on data."""
        return node in self._known

    def word(self, node: Any) -> str:
        """The machine type of an integer: `uint64` where `int64` may not hold it."""
        if not self.is_wide(node):
            return "int64" if is_within(self.of(node), INT64) else "uint64"
        return "int64" if is_within(self._known[node], INT64) else "uint64"

    def of(self, node: Any) -> Span:
        """Bounds of an integer; by default those of its machine type."""
        if node.op is ops.CONST:
            return (node.data, node.data)
        return self._known.get(node, (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1))

    def word_of_operands(self, node: Node) -> str:
        """The machine type in which an operation computes; `int128` where a sign meets large numbers without one."""
        integers = [arg for arg in node.args if isinstance(arg, Expr)]
        if node.op in OF_LOW_BITS or node.op is ops.SHL:
            return self.word(node)
        spans = [self.of(arg) for arg in (integers[:1] if node.op is ops.SHR else integers)]
        whole = (min(low for low, _ in spans), max(high for _, high in spans))
        return "int64" if is_within(whole, INT64) else "uint64" if is_within(whole, UINT64) else "int128"

    def enter(self, node: Expr) -> bool:
        """Enter an integer; returns whether its exact value may leave 64 bits."""
        op = node.op
        if op is ops.LOAD:
            span = _loaded(node)
            if span is not None:
                self._known[node] = span
            return False
        if op is ops.CAST:
            self._known[node] = dtypes.int_range(dtypes.int_named(*node.data))
            return False
        if op is ops.ASSERTING:
            self.name(node, node.args[1])
            return False
        operands = [arg for arg in node.args if isinstance(arg, Expr)]
        if not any(self.is_wide(arg) for arg in operands):
            return False
        low, high = of_operation(op, *map(self.of, operands))
        if low is not None and high is not None and is_word((low, high)):
            self._known[node] = (low, high)
            return False
        self._known[node] = INT64
        return True

    def name(self, var: Any, value: Any) -> None:
        """Enter a name for an integer."""
        if self.is_wide(value):
            self._known[var] = self._known[value]


def is_plain_shift(node: Node, bits: int) -> bool:
    """Whether a shift amount is a constant within the width, as C requires."""
    places = constant_value(node.args[1])
    return places is not None and 0 <= places < bits


def _loaded(node: Expr) -> Span | None:
    """Bounds of an element, or of an integer function of data; `None` for loads of no data, such as extents."""
    tensor = loaded_tensor(node)
    if tensor is not None:
        return tensor.value_range or dtypes.int_range(tensor.dtype)
    if not isinstance(node.data, IntFunction):
        return None
    dtype = node.data.dtype
    is_exact = node.data.body.op is ops.SELECT and dtype != "uint64"  # it chooses among results beyond the type
    return INT64 if is_exact else dtypes.int_range(dtype)
