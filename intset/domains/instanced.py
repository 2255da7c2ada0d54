"""Images that are empty exactly for the parameter values at which no point of the domain is left.

`Context.image` speaks of the parameter values for which the set is not empty, so facts on parameters alone, or on
variables that have nothing to do with the question, drop out of it. Who asks for the elements needed in each of many
instances wants them kept: in an instance where a guard never holds, nothing is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from intset import config as configuration
from intset.domains.protocols import Points, Regions
from intset.domains.query import Query
from intset.expr.node import Expr, Var
from intset.expr.walk import free_vars

if TYPE_CHECKING:
    from intset.context import Context


def image_in_instances(context: Context, exprs: Sequence[Expr], keep: Sequence[Var], domain: Regions) -> Points:
    """The points that `exprs` reach for each value of the variables in `keep`; none where the facts exclude all.

    Raises
    ------
    BudgetError: the domain needs more operations than the configuration allows for one query.
    """
    frame = context.frame.where_defined(exprs)
    config = configuration.current()
    kept = frozenset(keep)
    # Read through the ranges alone: what the facts decide would otherwise not be there to be seen.
    query = Query(exprs, frame.ranges, frame.conditions, tuple(kept), frame.base, frame.base, config)
    query.also = tuple(v for v in free_vars(*frame.conditions) if v in kept or v in frame.ranges)
    kind = domain.everything(0)
    with kind.budget(max(1, config.isl_operations)):
        if frame.known.empty:
            return Points(kind.listing((), (), len(exprs)), ())
        return domain.points(query)
