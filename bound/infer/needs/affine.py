"""Index expressions of parts whose length varies from instance to instance, brought to a form that stays affine."""

from __future__ import annotations

from typing import Any, Final

from bound.infer.needs.known import Known, constant_extent
from intset.expr import ops
from intset.expr.build import select
from intset.expr.node import Expr, Node, make, sum_of
from intset.expr.walk import postorder

_MAX_PARTS: Final = 8  # parts of a varying length that are told apart


def without_products(known: Known, e: Expr) -> Expr:
    """The number of a part times the length of the parts, which varies: as a sum over the parts, which is affine."""
    new: dict[Node, Any] = {}
    for node in postorder((e,)):
        args = tuple(new[arg] for arg in node.args)
        if node.op is ops.MUL:
            for part, length in (args, args[::-1]):
                limits = known.ranges.get(part)
                parts = None if limits is None else constant_extent(limits)
                if parts is not None and parts <= _MAX_PARTS and not length.is_const:
                    new[node] = sum_of([select(part >= k, length, 0) for k in range(1, parts)])
                    break
            else:
                new[node] = make(node.op, args, node.data)
        else:
            new[node] = make(node.op, args, node.data) if args else node
    answer: Expr = new[e]
    return answer
