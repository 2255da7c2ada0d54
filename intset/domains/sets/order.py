"""The order of sets and of regions: which elements of one are elements of another, whatever kinds the two are.

Two sets are compared as functions of their parameters, at the values that the parameters declare to have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeGuard

from intset.config import Configured, as_configured
from intset.domains.sets.bounds import Represented, own_budget, shape_of_conditions
from intset.errors import BudgetError, InputError, UndecidedError
from intset.expr.build import logical_and
from intset.expr.node import Cond, Expr, Var
from intset.expr.walk import conjuncts
from intset.facts import DERIVED, Fact
from intset.frame import Frame
from intset.prover.proof import prove_in
from intset.regions.derived import coordinates
from intset.regions.shape import Shape


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


class Ordered(Configured, ABC):
    """What sets and regions have in common: their elements as a shape, and the order that these have."""

    _kind: ClassVar[str]  # only what is of one kind is compared
    dims: int
    is_exact: bool

    @property
    @abstractmethod
    def is_empty(self) -> bool: ...

    @abstractmethod
    def conditions(self, point: Sequence[Expr]) -> tuple[Cond, ...]:
        """What holds of `point` and the parameters where `point` is an element."""

    @abstractmethod
    def in_instances(self) -> Ordered:
        """The same where its parameters are among the instances it is known to have; elsewhere empty."""

    @property
    @as_configured
    def shape(self) -> Shape:
        """What is represented, as a shape.

        Raises
        ------
        BudgetError: it is none, or needs too many operations.
        """
        return shape_of_conditions(self)

    def _is_written_as(self, other: object) -> bool:
        """Whether both are one and the same by how they are written, so that nothing has to be asked."""
        return self is other

    def _is_comparable(self, other: object) -> TypeGuard[Ordered]:
        return isinstance(other, Ordered) and other._kind == self._kind

    @as_configured
    def __le__(self, other: Ordered) -> bool:
        """Whether every element is known to be one of `other`, for all parameters (comparing what is represented)."""
        if not self._is_comparable(other):
            return NotImplemented
        return self._is_written_as(other) or included(self, other) is True

    @as_configured
    def __lt__(self, other: Ordered) -> bool:
        """Whether this is known to be a subset of `other`, and to differ from it for some parameters."""
        if not self._is_comparable(other):
            return NotImplemented
        return included(self, other) is True and included(other, self) is False

    @as_configured
    def __eq__(self, other: object) -> bool:
        """Whether both are known to have the same elements, for all parameters."""
        if not self._is_comparable(other) or self.dims != other.dims:
            return False
        return included(self, other) is True and included(other, self) is True


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
