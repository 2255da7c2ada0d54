"""`StageBounds`, the bounds of one stage; `StageNest`, its nest for a code generator; idle threads.

All loops bound to one thread axis have equal extents. A tile that a small tensor leaves incomplete keeps its number of
threads; threads past the end are idle. Later stages on the same threads may then be short of work as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bound.infer.footprints.box import SymbolicInterval
from bound.infer.footprints.environment import constant_extent
from bound.infer.footprints.footprint import Footprint
from bound.itervar import IterType, IterVar
from bound.operation import ComputeOp, Operation, TensorComputeOp
from bound.schedule import IterVarRelation, Rebase, Split, Stage, simple
from bound.schedule.attach import AttachPath
from bound.schedule.relations import with_ancestors
from bound.tensor import Tensor
from intset.expr import Cond, Expr, Range, Var
from intset.expr.printer import Displayed


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
    """The nest that initialises a reduction before its first reduction loop (`finish_nest`).

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
class StageNest(Displayed):
    """The loops, values and guards of a stage, as `bound.infer` describes them."""

    stage: Stage
    loops: tuple[StageLoop, ...]
    values: Mapping[IterVar, Expr]
    guards: tuple[Cond, ...]
    start: ReductionInit | None = None


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
    stage, op: the stage and its operation.
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
    stays_inside: whether the loops, without guards of the region, are proved to compute nothing outside it.
    """

    stage: Stage
    op: Operation = field(init=False)
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
    stays_inside: bool = False

    def __post_init__(self) -> None:
        self.op = self.stage.op

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


def idle_threads(bounds: StageBounds) -> dict[IterVar, int]:
    """Thread axes of a stage that overrun a root axis, with their numbers of threads."""
    idle: dict[IterVar, int] = {}
    for iv, limits in bounds.loops.items():
        thread, number = bounds.stage.thread_of(iv), constant_extent(limits)
        if thread is None or number is None:
            continue
        above = with_ancestors(bounds.relations, (iv,))
        if any(isinstance(r, Split) and r.parent in above and r.overruns(bounds.ranges) for r in bounds.relations):
            idle[thread] = number
    return idle


def started(bounds: StageBounds, root: IterVar, threads: Mapping[IterVar, int]) -> int | None:
    """The extent of a root axis that gives its thread loop one iteration a thread; `None` if the schedule fixes it."""
    axis, times = root, 1
    for relation in bounds.relations:
        if isinstance(relation, Rebase) and relation.parent is axis:
            axis = relation.rebased
        elif isinstance(relation, Split) and relation.parent is axis:
            size = relation.nparts if relation.factor is None else relation.factor
            number = simple.number(size) if size is not None else None
            if number is None:
                return None
            axis, times = (relation.inner if relation.factor is None else relation.outer), times * number
    thread = bounds.stage.thread_of(axis) if axis in bounds.stage.leaf_iter_vars else None
    return None if thread is None or thread not in threads else threads[thread] * times
