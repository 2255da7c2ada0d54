"""Unions with fewer disjuncts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intset.domains.isl.session import isl
from intset.regions.remarks import remark

if TYPE_CHECKING:
    from islpy import BasicSet, Set


def coalesced(union: Set) -> Set:
    """The same set, in fewer disjuncts where isl finds some.

    isl can end the process when it coalesces disjuncts that differ in their quantified variables. So all get the same
    divisions first; a union with a variable that no division defines, as a projection leaves it, stays as it is. An
    answer with fewer disjuncts is compared with the union; if they differ, the union is returned and a remark is made.
    """
    if union.n_basic_set() == 1:
        return union.coalesce()
    parts = union.get_basic_sets()
    if any(map(_is_implicit, parts)):
        return union
    found: Set = (union.align_divs() if any(map(_divisions, parts)) else union).coalesce()
    if found.n_basic_set() < len(parts) and not found.is_equal(union):
        remark("isl's coalesced set was another set, and was not used")
        return union
    return found


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
