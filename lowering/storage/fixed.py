"""Allocations of a constant size, where it is only for small sizes of the function that less is enough.

    allocate C: float32[minimum(m, 24), minimum(n, 64)]    becomes    allocate C: float32[24, 64]

Its rows then are a constant distance apart, and it is an array on the stack.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from bound import dtypes
from intset.expr import ops
from intset.expr.node import Expr, constant_value
from intset.expr.range import Range
from intset.expr.walk import chain
from lowering.nest.ir import Allocate, Function, Stmt
from lowering.nest.walk import range_ends, rebuilt
from lowering.storage.plan import STACK_ARRAY


def with_fixed_storage(f: Function) -> Function:
    """The same function with constant extents for what begins at 0 and is small whatever the sizes are."""
    return f.with_body(rebuilt(f.body, _fixed))


def _fixed(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, Allocate) or stmt.padding is not None:
        return stmt
    ends = [range_ends(r) for r in stmt.ranges]
    counts = [_most(extent) for _, extent in ends]
    if any(constant_value(low) != 0 for low, _ in ends) or all(constant_value(e) is not None for _, e in ends):
        return stmt
    known = [count for count in counts if count is not None]
    width = max(1, dtypes.bits(stmt.tensor.dtype) // 8)
    if len(known) < len(counts) or width * prod(known) > STACK_ARRAY:
        return stmt
    return replace(stmt, ranges=tuple(Range(0, count) for count in known))


def _most(extent: Expr) -> int | None:
    """The number that an extent is not above, as it is written."""
    numbers = [n for part in chain(ops.MIN, extent) if (n := constant_value(part)) is not None]
    return max(0, min(numbers)) if numbers else None
