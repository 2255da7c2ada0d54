"""The number of an element in its storage, without the quotient and remainder of one division that meet in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from intset.context import Context
from intset.expr import ops
from intset.expr.node import Expr
from intset.expr.walk import is_small, postorder
from lowering.nest.scope import Scope
from lowering.passes.narrow import offset

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
        answer: Expr = (Context() if scope is None else scope.ctx).simplify(place, bits=32)
        return answer
    return place
