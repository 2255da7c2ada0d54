"""The order of sets and of regions: which elements of one are elements of another, whatever kinds the two are.

Two sets are compared as functions of their parameters, at the values that the parameters declare to have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from intset.domains.base import IntSet
from intset.domains.combine import conditions, query_in, region_shape, shape_of
from intset.domains.region import Region
from intset.errors import BudgetError, InputError, UndecidedError
from intset.expr.build import logical_and
from intset.expr.node import Expr, Var

if TYPE_CHECKING:
    from intset.domains.isl.sets import Presburger


def included(a: IntSet | Region, b: IntSet | Region) -> bool | None:
    """Whether every element that `a` represents is one that `b` represents; `None` where that is not known.

    Raises
    ------
    InputError: the two have elements of different dimension.
    """
    dims = dimensions(a)
    if dims != dimensions(b):
        raise InputError(f"elements of {dims} dimensions are not compared with elements of {dimensions(b)}")
    if a is b:
        return True
    try:
        a = a.in_instances() if isinstance(a, Region) else a
        if a.is_empty:
            return True
        decided = _by_shapes(_shape(a), _shape(b))
        return _by_proof(a, b, dims) if decided is None else decided
    except (BudgetError, UndecidedError):
        return None


def is_subset(a: IntSet | Region, b: IntSet | Region) -> bool:
    """Whether `a` is known to be a subset of `b`."""
    return included(a, b) is True


def is_proper_subset(a: IntSet | Region, b: IntSet | Region) -> bool:
    """Whether `a` is known to be a subset of `b`, and `b` known not to be one of `a`."""
    return included(a, b) is True and included(b, a) is False


def dimensions(s: IntSet | Region) -> int:
    return s.dims if isinstance(s, Region) else 1


def _shape(s: IntSet | Region) -> Presburger | None:
    return region_shape(s) if isinstance(s, Region) else shape_of(s)


def _by_shapes(a: Presburger | None, b: Presburger | None) -> bool | None:
    from intset.domains.isl.presburger import own_budget

    if a is None or b is None:
        return None
    params = tuple(dict.fromkeys((*a.params, *b.params)))
    try:
        with own_budget():
            if a.get().is_subset(b.get()):
                return True
            # Only one of them may know what the parameters declare.
            if a.get().intersect_params(_declared(params)).is_subset(b.get()):
                return True
    except BudgetError:
        return None
    # A term such as n*m was taken to be independent of n: then a difference need not be one.
    return False if all(isinstance(p, Var) for p in params) else None


def _declared(params: Sequence[Expr]) -> Any:
    """The isl set of the values that the variables of `params` declare to have."""
    from intset.context import Context
    from intset.domains.isl.translate import Translation

    return Translation(query_in(Context().frame, ()), seeds=params).domain.params()


def _by_proof(a: IntSet | Region, b: IntSet | Region, dims: int) -> bool | None:
    from intset.context import Context

    point = tuple(Var(f"x{k}") for k in range(dims))
    ctx = Context(dict.fromkeys(point)).extended(facts=conditions(a, point))
    status = ctx.prove(logical_and(*conditions(b, point))).status
    return {"proved": True, "refuted": False}.get(status)
