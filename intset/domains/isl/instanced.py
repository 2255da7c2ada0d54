"""Images that are empty exactly for the parameter values at which no point of the domain is left.

`Context.image` speaks of the parameter values for which the set is not empty, so facts on parameters alone, or on
variables that have nothing to do with the question, drop out of it. Who asks for the elements needed in each of many
instances wants them kept: in an instance where a guard never holds, nothing is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from intset import config as configuration
from intset.domains.isl.coalesced import coalesced
from intset.domains.isl.domain import image_of, relaxation_notes
from intset.domains.isl.session import budget, isl
from intset.domains.isl.sets import IslRegion, Presburger
from intset.domains.isl.translate import Translation
from intset.domains.query import Query
from intset.expr.node import Expr, Var
from intset.expr.walk import free_vars

if TYPE_CHECKING:
    from intset.context import Context


def image_in_instances(context: Context, exprs: Sequence[Expr], keep: Sequence[Var]) -> IslRegion:
    """The points that `exprs` reach for each value of the variables in `keep`; none where the facts exclude all.

    Raises
    ------
    BudgetError: isl needs more operations than the configuration allows for one query.
    """
    frame = context._frame.where_defined(exprs)
    config = configuration.current()
    kept = frozenset(keep)
    involved = [v for v in free_vars(*frame.conditions) if v in kept or v in frame.ranges]
    # Read through the ranges alone: what the facts decide would otherwise not be there to be seen.
    query = Query((*exprs, *involved), frame.ranges, frame.conditions, tuple(kept), frame.base, frame.base, config)
    with budget(config.isl_operations):
        translation = Translation(query)
        points = image_of(translation)
        points = coalesced(points.project_out(isl().dim_type.set, len(exprs), len(involved)))
        if frame.known.empty:
            points = isl().Set.empty(points.get_space())
    notes = relaxation_notes(query, translation)
    return IslRegion(Presburger(points, translation.params), "isl", not notes, notes, dims=len(exprs))
