"""Unions with fewer disjuncts."""

from __future__ import annotations

from typing import Any

from intset.domains.isl.session import isl


def coalesced(union: Any) -> Any:
    """The same set, in fewer disjuncts where isl finds some.

    isl can end the process when it coalesces disjuncts with quantified variables that no division defines, as a
    projection leaves them; a union with one of these stays as it is.
    """
    return union if any(map(_is_implicit, union.get_basic_sets())) else union.coalesce()


def _is_implicit(part: Any) -> bool:
    kind = isl().dim_type.div
    divisions = part.dim(kind)
    return bool(divisions) and part.remove_unknown_divs().dim(kind) != divisions
