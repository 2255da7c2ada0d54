"""Inclusion between two sets, or two regions, of any kinds.

Guarantee: two sets are compared at all parameter values within their declared bounds; an undecided comparison is false.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, TypeGuard, TypeVar

from intset.config import Configured, as_configured
from intset.domains.sets.bounds import Represented, own_budget, shape_of_conditions
from intset.domains.sets.ends import placed_conditions
from intset.errors import BudgetError, InputError, UndecidedError
from intset.expr.build import logical_and
from intset.expr.dag import conjuncts, free_vars
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr
from intset.expr.printer import Drawn, shown
from intset.facts import DERIVED, Fact
from intset.frame import Frame
from intset.prover.proof import prove_in
from intset.ranges import declared_of
from intset.regions.derived import coordinates
from intset.regions.shape import Shape

Operand = TypeVar("Operand", bound="Ordered")


def included(a: Represented, b: Represented) -> bool | None:
    """Decide `a` <= `b` by shapes, then by the prover; `None` for undecided.

    Raises
    ------
    InputError: the dimensions of the sets differ.
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


def failing(facts: Iterable[Cond], values: Mapping[Var, IntLike]) -> tuple[Cond, ...]:
    """The facts and declared bounds that are false or undefined at `values`, each by itself."""
    declared = [fact.condition for var in values for fact in declared_of(var, var)]
    asked = dict.fromkeys((*facts, *declared))
    return tuple(fact for fact in asked if placed_conditions((fact,), values) is None)


def note(facts: Iterable[Cond], values: Mapping[Var, IntLike]) -> str:
    """The note of an empty answer: which facts exclude the values."""
    reasons = tuple(facts)
    about = [v for v in free_vars(*reasons) if v in values]
    point = ", ".join(f"{v.name} = {shown(as_expr(values[v]))}" for v in about) or "every value"
    return f"{point} is excluded by {' and '.join(shown(fact) for fact in reasons)}"


class Ordered(Configured, Drawn, ABC):
    """Base of sets and regions: elements as a shape, ordered by inclusion."""

    _kind: ClassVar[str]  # sets compare with sets, regions with regions
    dims: int
    is_exact: bool

    @property
    @abstractmethod
    def params(self) -> tuple[Var, ...]: ...

    @property
    @abstractmethod
    def is_empty(self) -> bool: ...

    @abstractmethod
    def conditions(self, point: Sequence[Expr]) -> tuple[Cond, ...]:
        """The conditions of membership, on `point` and on parameters."""

    def in_instances(self) -> Represented:
        """The set restricted to the parameter values of its known instances; empty elsewhere."""
        return self

    @property
    def mentioned(self) -> Represented:
        """The set without the condition that its domain is not empty (`sets.where`)."""
        return self

    def knows_where_empty(self) -> bool:
        """Whether every instance is empty whose true set is empty."""
        return True

    def _relied_on(self) -> tuple[Cond, ...]:
        """The conditions on parameters outside which the set is empty."""
        return ()

    def _spoken_of(self) -> tuple[Var, ...]:
        """The parameters, with variables of conditions on parameters."""
        return tuple(dict.fromkeys((*self.params, *free_vars(*self._relied_on()))))

    def _excluding(self, values: Mapping[Var, Expr]) -> tuple[Cond, ...]:
        """The facts and declared bounds that exclude these values."""
        return failing(self._relied_on(), values)

    def _combined_with(self: Operand, other: Operand, operation: Callable[[Operand, Operand], Operand]) -> Operand:
        """Apply a binary operation to this set and another."""
        return operation(self, other)

    @property
    @as_configured
    def shape(self) -> Shape:
        """The elements as a shape.

        Raises
        ------
        BudgetError: no domain represents the set within its budget.
        """
        return shape_of_conditions(self)

    def _is_written_as(self, other: object) -> bool:
        """Whether both sets are equal by structure."""
        return self is other

    def _is_comparable(self, other: object) -> TypeGuard[Ordered]:
        return isinstance(other, Ordered) and other._kind == self._kind

    @as_configured
    def __le__(self, other: Ordered) -> bool:
        """Whether the set is a proved subset of `other`, for all parameters."""
        if not self._is_comparable(other):
            return NotImplemented
        return self._is_written_as(other) or included(self, other) is True

    @as_configured
    def __lt__(self, other: Ordered) -> bool:
        """Whether the set is a proved subset of `other`, proper for some parameters."""
        if not self._is_comparable(other):
            return NotImplemented
        return included(self, other) is True and included(other, self) is False

    @as_configured
    def __eq__(self, other: object) -> bool:
        """Whether both sets are proved equal, for all parameters."""
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
    # Shapes treat a term such as n*m as independent of n, so a difference between them proves nothing.
    return False if all(isinstance(p, Var) for p in params) else None


def _by_proof(a: Represented, b: Represented) -> bool | None:
    point = coordinates(a.dims)
    facts = [Fact(part, DERIVED) for cond in a.conditions(point) for part in conjuncts(cond)]
    status = prove_in(Frame.of(dict.fromkeys(point), facts), logical_and(*b.conditions(point))).status
    return {"proved": True, "refuted": False}.get(status)
