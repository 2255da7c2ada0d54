"""`StageBounds`, the bounds of one stage; `StageNest`, its nest for a code generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bound.infer.footprints.box import SymbolicInterval
from bound.infer.footprints.footprint import Footprint
from bound.intrin import TensorComputeOp
from bound.itervar import IterType, IterVar
from bound.operation import ComputeOp, Operation
from bound.schedule import IterVarRelation, Stage
from bound.schedule.attach import AttachPath
from bound.tensor import Tensor
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range


@dataclass(frozen=True)
class StageLoop:
    """A loop of a nest.

    Attributes
    ----------
    iv: the loop variable.
    range: its iterations, over sizes and variables of outer loops.
    thread: its thread axis, or `None`.
    kind: its type, annotations included.
    """

    iv: IterVar
    range: Range
    thread: IterVar | None
    kind: IterType


@dataclass(frozen=True)
class ReductionInit:
    """The nest that initialises a reduction before its first reduction loop (`phases.start`).

    Attributes
    ----------
    place: the number of outer loops shared with the nest of the stage.
    loops: its own loops, over data axes alone.
    values: each data axis as an expression in these loops.
    guards: the conditions of the initialisation.
    """

    place: int
    loops: tuple[StageLoop, ...]
    values: Mapping[IterVar, Expr]
    guards: tuple[Cond, ...]


@dataclass(frozen=True)
class StageNest:
    """The loops, values and guards of a stage, as `bound.infer` describes them."""

    stage: Stage
    loops: tuple[StageLoop, ...]
    values: Mapping[IterVar, Expr]
    guards: tuple[Cond, ...]
    start: ReductionInit | None = None

    @property
    def data_guards(self) -> tuple[Cond, ...]:
        """The guards without reduction loops."""
        return tuple(guard for guard in self.guards if not self._reduces(guard))

    @property
    def reduce_guards(self) -> tuple[Cond, ...]:
        """The guards over reduction loops."""
        return tuple(guard for guard in self.guards if self._reduces(guard))

    def _reduces(self, guard: Cond) -> bool:
        reducing = {loop.iv for loop in self.loops if loop.iv.is_reduce}
        return any(v in reducing for v in guard.free_vars())


@dataclass(frozen=True, eq=False)
class SlidingWindow:
    """A window that advances monotonically in one dimension.

    Attributes
    ----------
    new: the elements computed in an iteration.
    dim: the dimension of the advance.
    filled: the window in the first iteration, and in later ones. Elements before it are dead.
    """

    new: Footprint
    dim: int
    filled: tuple[SymbolicInterval, ...]


@dataclass(eq=False)
class StageBounds:
    """The bounds of one stage, filled phase by phase.

    Invariant: `required` is a subset of `computed`, and `guards` restrict `loops` to `computed`.

    Attributes
    ----------
    stage: the stage.
    path: its attach path, innermost loop first.
    relations: its relations at the fixed sizes.
    outer: shared loops in place of its own leading leaves.
    aligned: root axes with shared loops, which run over the whole axis.
    foreign: root axes whose leading loops are other stages' loops; they have one extent in all instances.
    slid: the loops between storage and stage, outermost first; elements of earlier iterations are kept.
    window: how the kept elements advance, if known.
    fixed: the loops of the path that distinguish instances.
    required: the union of the consumers' footprints, by output.
    computed: the elements that the loops compute, in the dimensions of the outputs.
    wholes: by output, for an operation that always computes whole tensors.
    sides: the interval of each root axis.
    ranges: the range of every axis, in which values are written.
    loops: the range of each leaf as a loop; shorter than in `ranges` in the last tile of a shrinking split.
    widened: the roots with a range longer than their interval in some instance.
    values: each root axis as an expression in loops.
    guards: the conditions of the body.
    start: the initialisation of its reduction.
    """

    stage: Stage
    path: AttachPath
    relations: tuple[IterVarRelation, ...] = ()
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
        """`computed`, after GatherBound."""
        assert self.computed is not None
        return self.computed

    def computed_of(self, tensor: Tensor) -> Footprint:
        """The computed elements of one output; the required ones of a placeholder."""
        if self.computed is None:
            return self.required[tensor]
        return self.wholes.get(tensor, self.computed)


def data_axes(op: Operation) -> tuple[IterVar, ...]:
    """The axes of the output dimensions; empty for operations that compute whole tensors."""
    return op.axis if isinstance(op, (ComputeOp, TensorComputeOp)) else ()
