"""Protocols of domains with regions, below sets and the prover; `protocols.py` has those that speak of sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from intset.domains.query import Query
from intset.expr.node import Cond, Expr, Var
from intset.regions.shape import Shape


class Points(NamedTuple):
    """The image of a query, or a superset with the reasons in `notes`."""

    shape: Shape
    notes: tuple[str, ...]


@runtime_checkable
class Regions(Protocol):
    """A domain of sets of tuples, with the algebra of `Shape`.

    Attributes
    ----------
    strength: the rank of its precision; callers with a choice take the strongest. isl has 100.
    """

    @property
    def name(self) -> str:
        """The name of the registration."""

    strength: ClassVar[int]

    def everything(self, dims: int) -> Shape:
        """The universe of `dims` coordinates."""
        ...

    def points(self, query: Query) -> Points:
        """The image of the expression tuple, parametric in kept variables.

        Raises
        ------
        BudgetError: the image exceeds the budget of the caller.
        """
        ...


@runtime_checkable
class Installable(Protocol):
    """A domain that needs an optional library; without it, every method refuses and the domain ranks last."""

    def is_installed(self) -> bool: ...


@dataclass(slots=True)
class Verdict:
    """The verdict of one tier of the prover: a status with a counterexample or a reason.

    `vacuous`: the domain is empty. `by_clock`: a timeout ended the tier; a faster machine may decide.
    """

    status: str
    point: dict[Expr, int] | None = None
    reason: str = ""
    vacuous: bool = False
    by_clock: bool = False


@runtime_checkable
class Deciding(Regions, Protocol):
    """A domain with regions that has its own decision procedure for conditions."""

    def judge(self, query: Query, facts: Sequence[Cond]) -> str:
        """Consistency of facts that share no variable with the question: "holds", "empty" or "unknown"."""
        ...

    def decide(
        self, query: Query, goal: Cond, seeds: Sequence[Var], refutes: Callable[[dict[Expr, int]], bool]
    ) -> Verdict:
        """Decide whether a goal in canonical form holds at all points of a query.

        Parameters
        ----------
        seeds: further variables to which a counterexample assigns values.
        refutes: completes a proposed point and checks that it is a counterexample.
        """
        ...
