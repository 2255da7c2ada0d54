"""Values of parameters that facts or declared bounds exclude: an answer is empty there, and a note names the fact."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping

from intset.domains.end_arithmetic import placed_conditions
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr
from intset.expr.text import shown
from intset.expr.walk import free_vars
from intset.ranges import declared_of


def failing(facts: Iterable[Cond], values: Mapping[Var, IntLike]) -> tuple[Cond, ...]:
    """The facts, and the bounds that variables declare, each of which alone is false or has no value at `values`."""
    declared = [fact.condition for var in values for fact in declared_of(var, var)]
    asked = dict.fromkeys((*facts, *declared))
    return tuple(fact for fact in asked if placed_conditions((fact,), values) is None)


def note(facts: Iterable[Cond], values: Mapping[Var, IntLike]) -> str:
    """Why an answer is empty at these values."""
    reasons = tuple(facts)
    about = [v for v in free_vars(*reasons) if v in values]
    point = ", ".join(f"{v.name} = {shown(as_expr(values[v]))}" for v in about) or "every value"
    return f"{point} is excluded by {' and '.join(shown(fact) for fact in reasons)}"


class Excludable:
    """What sets and regions know of values of parameters that facts or declared bounds exclude."""

    @property
    @abstractmethod
    def params(self) -> tuple[Var, ...]: ...

    def _relied_on(self) -> tuple[Cond, ...]:
        """What holds of the parameters, one condition each."""
        return ()

    def _spoken_of(self) -> tuple[Var, ...]:
        """The parameters, and the variables that facts about them mention."""
        return tuple(dict.fromkeys((*self.params, *free_vars(*self._relied_on()))))

    def _excluding(self, values: Mapping[Var, Expr]) -> tuple[Cond, ...]:
        """The facts and declared bounds that exclude these values; none where nothing does."""
        return failing(self._relied_on(), values)
