"""What the pass tells a code generator about one stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bound.itervar import IterType, IterVar
from bound.schedule import Stage
from intset.expr.node import Cond, Expr
from intset.expr.range import Range


@dataclass(frozen=True)
class Loop:
    """One loop of a nest.

    Attributes
    ----------
    iv: the loop variable.
    range: what it runs over, in sizes and variables of loops around it.
    thread: the thread axis that it runs on, or `None`.
    kind: what the loop means, annotations included.
    """

    iv: IterVar
    range: Range
    thread: IterVar | None
    kind: IterType


@dataclass(frozen=True)
class Start:
    """What initialises a reduction, before the first loop that it runs over (`phases.start`).

    Attributes
    ----------
    place: the number of loops of the nest around it.
    loops: the loops inside of these, over the data alone.
    values: of each axis of the data its value, in these loops and those around them.
    guards: the conditions under which an element is initialised.
    """

    place: int
    loops: tuple[Loop, ...]
    values: Mapping[IterVar, Expr]
    guards: tuple[Cond, ...]


@dataclass(frozen=True)
class Nest:
    """The loops of a stage, as `bound.infer` describes them."""

    stage: Stage
    loops: tuple[Loop, ...]
    values: Mapping[IterVar, Expr]
    guards: tuple[Cond, ...]
    start: Start | None = None

    @property
    def data_guards(self) -> tuple[Cond, ...]:
        """Those of the guards that no loop of a reduction is in."""
        return tuple(guard for guard in self.guards if not self._reduces(guard))

    @property
    def reduce_guards(self) -> tuple[Cond, ...]:
        """Those of the guards that a loop of a reduction is in."""
        return tuple(guard for guard in self.guards if self._reduces(guard))

    def _reduces(self, guard: Cond) -> bool:
        reducing = {loop.iv for loop in self.loops if loop.iv.is_reduce}
        return any(v in reducing for v in guard.free_vars())
