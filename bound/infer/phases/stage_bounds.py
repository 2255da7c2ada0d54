"""What the pass tells a code generator about one stage.

`StageBounds`: all that the pass finds out about one stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bound.infer.footprints.box import SymbolicInterval
from bound.infer.footprints.footprint import Footprint
from bound.intrin import TensorComputeOp
from bound.itervar import IterType, IterVar
from bound.operation import ComputeOp, Operation
from bound.schedule import Relation, Stage
from bound.schedule.attach import AttachPath
from bound.tensor import Tensor
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range


@dataclass(frozen=True)
class StageLoop:
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
class ReductionInit:
    """What initialises a reduction, before the first loop that it runs over (`phases.start`).

    Attributes
    ----------
    place: the number of loops of the nest around it.
    loops: the loops inside of these, over the data alone.
    values: of each axis of the data its value, in these loops and those around them.
    guards: the conditions under which an element is initialised.
    """

    place: int
    loops: tuple[StageLoop, ...]
    values: Mapping[IterVar, Expr]
    guards: tuple[Cond, ...]


@dataclass(frozen=True)
class StageNest:
    """The loops of a stage, as `bound.infer` describes them."""

    stage: Stage
    loops: tuple[StageLoop, ...]
    values: Mapping[IterVar, Expr]
    guards: tuple[Cond, ...]
    start: ReductionInit | None = None

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


@dataclass(frozen=True, eq=False)
class SlidingWindow:
    """A window that only moves on, in dimension `dim`: what is `new` in an iteration, and what it fills in the first
    iteration and in later ones. No more is kept: what is before that is not needed any more.
    """

    new: Footprint
    dim: int
    filled: tuple[SymbolicInterval, ...]


@dataclass(eq=False)
class StageBounds:
    """The bounds of one stage.

    Attributes
    ----------
    stage, path: the stage, and the loops it is computed in, innermost first.
    relations: those of the stage, with the sizes that are fixed put in.
    outer: the loops around it that stand for leading leaves of its own.
    aligned: the root axes whose loops are those of other stages: they run over all of the axis.
    foreign: the root axes whose first loops are not run: what is computed at a time is as long in every instance.
    slid: the loops between the storage and the stage, outermost first: what their iterations computed is kept.
    window: how what they keep moves on, where that is known.
    fixed: the variables that tell one instance from another: the loops of the path that are not relaxed.
    required: for each output what its consumers need.
    computed: what the loops compute, in the dimensions of the outputs.
    wholes: where every output is computed whole, each in its own dimensions.
    sides: the interval that each root axis runs over.
    ranges: the range of every axis, from which indices are made.
    loops: the range of each leaf as a loop: that of `ranges`, or shorter in the last tile of a split that shrinks.
    widened: the roots whose range is longer than their interval in some instance.
    values: the value of each root axis in terms of the loops.
    guards: the conditions under which the body runs.
    start: what initialises its reduction.
    """

    stage: Stage
    path: AttachPath
    relations: tuple[Relation, ...] = ()
    outer: tuple[IterVar, ...] = ()
    aligned: frozenset[IterVar] = frozenset()
    foreign: frozenset[IterVar] = frozenset()
    slid: tuple[IterVar, ...] = ()
    window: SlidingWindow | None = None
    fixed: tuple[Var, ...] = ()
    required: dict[Tensor, Footprint] = field(default_factory=dict)
    computed: Footprint | None = None
    wholes: dict[Tensor, Footprint] = field(default_factory=dict)
    sides: dict[IterVar, SymbolicInterval] = field(default_factory=dict)
    ranges: dict[IterVar, Range] = field(default_factory=dict)
    loops: dict[IterVar, Range] = field(default_factory=dict)
    widened: set[IterVar] = field(default_factory=set)
    values: dict[IterVar, Expr] = field(default_factory=dict)
    guards: tuple[Cond, ...] = ()
    start: ReductionInit | None = None

    @property
    def op(self) -> Operation:
        return self.stage.op

    @property
    def region(self) -> Footprint:
        """`computed`, once it is known."""
        assert self.computed is not None
        return self.computed

    def computed_of(self, tensor: Tensor) -> Footprint:
        """What is computed of one output; of a placeholder what is required."""
        if self.computed is None:
            return self.required[tensor]
        return self.wholes.get(tensor, self.computed)


def data_axes(op: Operation) -> tuple[IterVar, ...]:
    """The axes that are the dimensions of the outputs; empty for what is computed as a whole."""
    return op.axis if isinstance(op, (ComputeOp, TensorComputeOp)) else ()
