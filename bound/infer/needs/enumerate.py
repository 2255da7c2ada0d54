"""Exact regions of what is not Presburger, such as a product of loops: every iteration of a small box is visited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bound.infer.needs.known import Known
from bound.infer.needs.need import Need, from_shape
from intset import config
from intset.context import Context
from intset.domains.consistency import values_of
from intset.domains.query import Query
from intset.errors import BudgetError
from intset.expr.node import Expr, Var
from intset.expr.walk import is_small, opaque_terms

_MAX_NODES: Final = 1000  # of expressions that are evaluated at every point
MAX_POINTS: Final = 3000  # different (instance, element) pairs that a set may list


def enumerated(known: Known, context: Context, exprs: Sequence[Expr], fixed: Sequence[Var]) -> Need | None:
    """The image of `exprs` in each instance; `None` where sizes, data or too many points are in the way."""
    frame = context.frame
    if opaque_terms(*exprs) or not is_small(_MAX_NODES, (*exprs, *frame.conditions)):
        return None
    query = Query((*fixed, *exprs), frame.ranges, frame.conditions, (), frame.base, frame.known, config.current())
    values = values_of(query)
    if values is None or len(values) > MAX_POINTS:
        return None
    try:
        shape = known.shapes.listing(sorted(values), fixed, len(exprs))
    except BudgetError:
        return None
    return from_shape(known, len(exprs), shape, True)
