"""`Plan`: the executable sequence of steps for a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bound.reference import Functions
from intset.config import Configured, all_as_configured
from lowering.padding.execute import Execution, passed_arrays
from lowering.padding.explain import explained
from lowering.padding.moves import Move, Step
from lowering.padding.packed import Grid
from lowering.padding.partial_evaluation import Number
from lowering.padding.states import PadState

if TYPE_CHECKING:
    from lowering.padding.graph import Graph, GraphTensor


@all_as_configured
class Plan(Configured):
    """A sequence of pads, copies, crops, fills and calls that computes a graph's outputs.

    Attributes
    ----------
    cost: sum of all step prices.
    steps: execution order.
    is_cheapest: true if the plan is proven cheapest; false if the search exceeded its budget, see `note`.
    note: explanation of an exceeded budget, else empty.
    """

    def __init__(
        self,
        graph: Graph,
        moves: tuple[Move, ...],
        outputs: tuple[int, ...],
        versions: Mapping[int, tuple[Grid | None, PadState | None]],
        passed: Mapping[GraphTensor, int],
        cost: int | float,
        note: str = "",
    ) -> None:
        self.graph, self.moves, self.cost, self.note = graph, moves, cost, note
        self._outputs, self._versions, self._passed = outputs, dict(versions), dict(passed)

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(move.step for move in self.moves)

    @property
    def is_cheapest(self) -> bool:
        return not self.note

    def run(
        self,
        arrays: Mapping[str, Any],
        undef: Callable[[str], Number] | None = None,
        functions: Functions | None = None,
    ) -> tuple[Any, ...]:
        """Execute the plan and return its outputs as logical numpy arrays, in declaration order.

        Parameters
        ----------
        arrays: input arrays by name.
        undef: callback choosing values of `UNDEF` elements, by type; default 0. Unwritten elements are poisoned.
        functions: host functions by name.

        Raises
        ------
        InputError: an array is missing, or has the wrong shape or type.
        The errors of `lowering.run`.
        """
        passed = passed_arrays(self.graph, arrays)
        given = {number: passed[tensor] for tensor, number in self._passed.items()}
        grids = {number: grid for number, (grid, _) in self._versions.items()}
        execution = Execution(given, grids, undef, functions)
        for move in self.moves:
            execution.move(move)
        return tuple(execution.arrays[number] for number in self._outputs)

    def explain(self) -> str:
        """Explain each step by its readers, and each requirement and assumption by its justification."""
        states = {number: state for number, (_, state) in self._versions.items()}
        head = f"cost {self.cost}{f', {self.note}' if self.note else ', and no plan costs less'}"
        return "\n".join([head, *explained(self.moves, states, self._outputs)])

    def __repr__(self) -> str:
        steps = ", ".join(str(step) for step in self.steps)
        return f"<Plan of cost {self.cost}: {steps or 'nothing to do'}>"
