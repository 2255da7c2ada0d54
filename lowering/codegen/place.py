"""The number of an element in its storage, without the quotient and remainder of one division that meet in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from intset.context import Context
from intset.expr import ops
from intset.expr.node import Expr, Node, const, make
from intset.expr.walk import is_small, postorder, rewrite
from lowering.nest.scope import Scope
from lowering.passes.values.index_width import offset

MAX_NODES: Final = 100  # a larger expression stays as it is
_DIVIDING: Final = frozenset((*ops.DIVISIONS, ops.SHR, ops.BITAND))


def place_of(indices: Iterable[Expr], shape: Iterable[Expr], scope: Scope | None = None) -> Expr:
    """The number of the element at these indices in storage of this shape, by rows.

    `A[i / n][i % n]` with n columns is element i. The steps of the result are those of the plain number, at which
    `narrow` looks, or need no wider type than these.

    Parameters
    ----------
    scope: what is known where the element is touched.
    """
    place = offset(indices, shape)
    if is_small(MAX_NODES, (place,)) and any(node.op in _DIVIDING for node in postorder((place,))):
        return _without_rounding((Context() if scope is None else scope.ctx).simplify(place, bits=32), place)
    return place


def _without_rounding(e: Expr, plain: Expr) -> Expr:
    """`e` with shifts and masks for divisions by powers of two; `plain` where a rounding that it lacks is left."""
    new: dict[Node, Node] = {}
    for node in postorder((e,)):
        if node.op in _BY_BITS and node.args[1].op is ops.CONST and _is_power(node.args[1].data):
            c = node.args[1].data
            number = c.bit_length() - 1 if node.op is ops.FLOORDIV else c - 1
            new[node] = make(_BY_BITS[node.op], (rewrite(node.args[0], new), const(number)))
    lowered: Expr = rewrite(e, new)
    have = {node.op for node in postorder((plain,))}
    return plain if any(node.op in _ROUNDED and node.op not in have for node in postorder((lowered,))) else lowered


_BY_BITS: Final = {ops.FLOORDIV: ops.SHR, ops.FLOORMOD: ops.BITAND}
_ROUNDED: Final = (ops.FLOORDIV, ops.FLOORMOD, ops.CEILDIV)  # operations that C has not


def _is_power(c: int) -> bool:
    return c > 0 and c & (c - 1) == 0
