"""Bounds on the bit length of intermediate values; nested products double it at each level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from intset.budgets import LONGEST_VALUE
from intset.errors import InputError
from intset.expr import ops
from intset.expr.arguments import as_int
from intset.expr.text import shown
from intset.expr.walk import postorder

if TYPE_CHECKING:
    from intset.expr.node import Node


def as_width(bits: object, what: str) -> int:
    """The width of a register in bits.

    Raises
    ------
    InputError: `bits` is not an integer in [1, LONGEST_VALUE].
    """
    width = as_int(bits, what)
    if width < 1:
        raise InputError(f"{what} must be at least 1, not {shown(width)}")
    if width > LONGEST_VALUE:
        raise InputError(f"{what} must be at most {LONGEST_VALUE}, not {shown(width)}")
    return width


def length(span: range) -> int:
    """The number of elements of a range; unlike `len`, of a range of any length."""
    return max(0, -((span.start - span.stop) // span.step))


def may_be_long(roots: Sequence[Node], leaves: Mapping[Any, int]) -> bool:
    """Whether an intermediate value may exceed `LONGEST_VALUE` bits; `leaves` has the bit length of each leaf."""
    return some_may_be_long(postorder(roots), leaves)


def some_may_be_long(nodes: Sequence[Node], leaves: Mapping[Any, int]) -> bool:
    """`may_be_long` of the last of `nodes`, which are in postorder."""
    return not _is_surely_short(nodes, leaves) and _becomes_long(nodes, leaves)


def _is_surely_short(nodes: Sequence[Node], leaves: Mapping[Any, int]) -> bool:
    """A cheap sufficient test: without products of variables and shifts, each step adds at most the bits of the
    longest constant plus one."""
    longest = max(1, *leaves.values()) if leaves else 1
    for node in nodes:
        op = node.op
        if op is ops.CONST:
            longest = max(longest, node.data.bit_length())
        elif op is ops.SHL or (op is ops.MUL and all(arg.op is not ops.CONST for arg in node.args)):
            return False
    return (longest + 1) * (len(nodes) + 1) <= LONGEST_VALUE


def _becomes_long(nodes: Sequence[Node], leaves: Mapping[Any, int]) -> bool:
    bits: dict[Node, int] = {}
    for node in nodes:
        if node.op is ops.CONST:
            length = node.data.bit_length()
        elif not node.args or node.op is ops.LOAD:
            length = leaves.get(node, 1)
        elif node.op is ops.MUL:
            length = sum(bits[arg] for arg in node.args)
        elif node.op is ops.SHL:
            length = bits[node.args[0]] + (1 << min(bits[node.args[1]], LONGEST_VALUE.bit_length()))
        else:
            length = 1 + max(bits[arg] for arg in node.args)
        if length > LONGEST_VALUE and node.op is not ops.CONST:
            return True
        bits[node] = length
    return False
