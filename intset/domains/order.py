"""The order of sets and of regions: which elements of one are elements of another, whatever kinds the two are.

Two sets are compared as functions of their parameters, at the values that the parameters declare to have.
"""

from __future__ import annotations

from collections.abc import Iterable

from intset.domains.budgeted import Represented, own_budget
from intset.errors import BudgetError, InputError, UndecidedError
from intset.expr.build import logical_and
from intset.expr.node import Cond, Expr, Var
from intset.expr.walk import conjuncts
from intset.facts import DERIVED, Fact
from intset.frame import Frame
from intset.linear.canonical import Normalizer
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
            # Only one of them may know what the parameters declare.
            params = tuple(dict.fromkeys((*left.atoms(), *right.atoms())))
            declared = left.where((), logical_and(*_declared(params)))
            if right.includes(left.within(declared)):
                return True
    except BudgetError:
        return None
    # A term such as n*m was taken to be independent of n: then a difference need not be one.
    return False if all(isinstance(p, Var) for p in params) else None


def _declared(params: Iterable[Expr]) -> list[Cond]:
    """What is known of parameters by what their variables declare."""
    plain, found = Normalizer({}), []
    for e in params:
        plain.form(e)
        low, high = plain.atom_bounds(e)
        found += [] if low is None else [e >= low]
        found += [] if high is None else [e <= high]
        step = e.declared()[2] if isinstance(e, Var) else 1
        found += [(e % step).eq(0)] if step > 1 else []
    return found


def _by_proof(a: Represented, b: Represented) -> bool | None:
    point = coordinates(a.dims)
    facts = [Fact(part, DERIVED) for cond in a.conditions(point) for part in conjuncts(cond)]
    status = prove_in(Frame.of(dict.fromkeys(point), facts), logical_and(*b.conditions(point))).status
    return {"proved": True, "refuted": False}.get(status)
