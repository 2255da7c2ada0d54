"""The order of sets and of regions: which elements of one are elements of another, whatever kinds the two are.

Two sets are compared as functions of their parameters, at the values that the parameters declare to have.
"""

from __future__ import annotations

from intset.domains.budgeted import Represented, own_budget
from intset.errors import BudgetError, InputError, UndecidedError
from intset.expr.build import logical_and
from intset.expr.node import Var
from intset.expr.walk import conjuncts
from intset.facts import DERIVED, Fact
from intset.frame import Frame
from intset.prover.cache import prove_in
from intset.regions.derived import coordinates


def included(a: Represented, b: Represented) -> bool | None:
    """Whether every element that `a` represents is one that `b` represents; `None` where that is not known.

    Raises
    ------
    InputError: the two have elements of different dimension.
    """
    if a.dims != b.dims:
        raise InputError(f"elements of {a.dims} dimensions are not compared with elements of {b.dims}")
    if a is b:
        return True
    try:
        a = a.in_instances()
        if a.is_empty:
            return True
        decided = _by_shapes(a, b)
        return _by_proof(a, b) if decided is None else decided
    except (BudgetError, UndecidedError):
        return None


def is_subset(a: Represented, b: Represented) -> bool:
    """Whether `a` is known to be a subset of `b`."""
    return included(a, b) is True


def is_proper_subset(a: Represented, b: Represented) -> bool:
    """Whether `a` is known to be a subset of `b`, and `b` known not to be one of `a`."""
    return included(a, b) is True and included(b, a) is False


def _by_shapes(a: Represented, b: Represented) -> bool | None:
    try:
        left, right = a.shape, b.shape
        with own_budget(left):
            right = right.like(left)
            if right.includes(left):
                return True
            params = (*left.atoms(), *right.atoms())
    except BudgetError:
        return None
    # A term such as n*m was taken to be independent of n: then a difference need not be one.
    return False if all(isinstance(p, Var) for p in params) else None


def _by_proof(a: Represented, b: Represented) -> bool | None:
    point = coordinates(a.dims)
    facts = [Fact(part, DERIVED) for cond in a.conditions(point) for part in conjuncts(cond)]
    status = prove_in(Frame.of(dict.fromkeys(point), facts), logical_and(*b.conditions(point))).status
    return {"proved": True, "refuted": False}.get(status)
