"""Unions with fewer disjuncts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intset.domains.isl.session import isl

if TYPE_CHECKING:
    from islpy import BasicSet, Set


def coalesced(union: Set) -> Set:
    """The same set, in fewer disjuncts where isl finds some.

    isl can end the process when it coalesces disjuncts that differ in their quantified variables. So all get the same
    divisions first; a union with a variable that no division defines, as a projection leaves it, stays as it is.
    """
    if union.n_basic_set() == 1:
        return union.coalesce()
    parts = union.get_basic_sets()
    if any(map(_is_implicit, parts)):
        return union
    return (union.align_divs() if any(map(_divisions, parts)) else union).coalesce()


def _divisions(part: BasicSet) -> int:
    count: int = part.dim(isl().dim_type.div)
    return count


def _is_implicit(part: BasicSet) -> bool:
    """Whether some quantified variable has no definition. (isl can loop for ever in removing those that have none.)"""
    space = part.get_local_space()
    try:
        for k in range(_divisions(part)):
            space.get_div(k)
    except isl().Error:
        return True
    return False
