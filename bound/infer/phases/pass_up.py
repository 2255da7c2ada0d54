"""Phases 1 and 2 of InferRootBound: InitialiseLeaves, and PassUpDomain, the iterations of a consumer in few variables.

Phase 1 decides which loops around a read are fixed and which are relaxed. Phase 2, case 1 of the document: an axis with
relaxed loops only is one variable over its range, whatever splits and fuses are below. Case 2: axes between a fixed
loop and a root are expressions in loop variables.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from bound.errors import ScheduleError
from bound.infer.footprints.box import SymbolicInterval, end_forms
from bound.infer.footprints.environment import LoopEnvironment, constant_extent
from bound.infer.phases.pass_down import overruns_unguarded, roots_above, split_guards, within_side, without_products
from bound.infer.phases.stage_bounds import StageBounds, data_axes
from bound.itervar import IterVar
from bound.schedule import Fuse, IterVarRelation, Rebase, Split, Stage, simple
from bound.schedule.attach import AttachPath, default_storage_rank, needs_relax, storage_rank
from bound.schedule.relations import pass_up_index
from bound.schedule.simple import extent, low
from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var, as_expr
from intset.expr.range import Range
from intset.linear.form import Linear


@dataclass(frozen=True)
class LoopState:
    """A loop around a read, fixed or relaxed.

    Attributes
    ----------
    stage: the owner of the loop.
    iv: the loop variable.
    is_fixed: whether one instance of the producer serves a single iteration; else it serves the whole range.
    """

    stage: Stage
    iv: IterVar
    is_fixed: bool


def storage_rank_of(stage: Stage, path: AttachPath) -> int:
    """The storage rank of a stage: its scope's, by default that of surrounding threads."""
    if stage.scope:
        return storage_rank(stage.scope)
    return default_storage_rank(tuple(at.tag_of(iv) for at, iv in path))


def initialise_leaves(
    producer: Stage,
    producer_path: AttachPath,
    consumer: Stage,
    consumer_path: AttachPath,
    shared: Container[IterVar] = (),
) -> tuple[LoopState, ...]:
    """The loops around the consumer's formula, innermost first, each fixed or relaxed for the producer.

    A loop is fixed if the producer is computed inside it, except a thread loop whose threads share the producer's
    storage. A thread loop outside the producer's attach path is relaxed even for private storage, unlike in TVM: each
    thread computes the union over all threads, because the producer cannot name its reader. In a loop that
    both stages share (`shared`) each thread serves itself.

    Raises
    ------
    ScheduleError: the consumer is outside the loop at which the producer is computed.
    """
    rank = storage_rank_of(producer, producer_path)
    around = {iv for _, iv in producer_path}
    own = tuple((consumer, iv) for iv in reversed(consumer.leaf_iter_vars))
    states = []
    is_inside = False
    for stage, iv in (*own, *consumer_path):
        is_inside = is_inside or iv in around
        is_fixed = is_inside and (iv in shared or not needs_relax(stage.tag_of(iv), rank, True))
        states.append(LoopState(stage, iv, is_fixed))
    if not is_inside and producer_path:
        at, axis = producer_path[0]
        raise ScheduleError(
            f"stage {producer.name}: it is computed at {axis.name} of {at.name}, "
            f"but {consumer.name}, which reads it, is outside that loop"
        )
    return tuple(states)


@dataclass
class Iterations:
    """The iteration domain of a consumer during one instance of a producer.

    Guarantee: contains every evaluation of the consumer's formula; exact without notes.

    Attributes
    ----------
    values: each root axis as an expression in relaxed and fixed variables.
    relaxed: the variables that run, each over an interval with ends in fixed and other relaxed variables.
    fixed: the parameters of the footprint, with their ranges.
    where: forms that are nonnegative throughout the domain.
    conditions: further conditions, not necessarily linear.
    notes: where precision was given up.
    """

    values: dict[IterVar, Expr]
    relaxed: dict[Var, SymbolicInterval]
    fixed: dict[Var, Range]
    where: list[Linear] = field(default_factory=list)
    conditions: list[Cond] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def pass_up(env: LoopEnvironment, bounds: StageBounds, states: Sequence[LoopState]) -> Iterations:
    """PassUpDomain: the iteration domain of one consumer.

    Parameters
    ----------
    bounds: the bounds of the consumer.
    states: the loops around its formula, from `initialise_leaves`.
    """
    own = {state.iv: state for state in states if state.stage is bounds.stage}
    points = {iv: low(r) for iv, r in bounds.loops.items() if constant_extent(r) == 1}
    above = roots_above(bounds)
    whole = _wholly_relaxed(bounds, own, points, above)
    spelled = [r for r in bounds.relations if not all(parent in whole for parent in r.parents) or not r.parents]
    hidden = {child for r in bounds.relations if r not in spelled for child in r.children}
    fixed: dict[Var, Range] = {}
    start: dict[IterVar, Expr] = {}
    relaxed: dict[Var, SymbolicInterval] = {}
    for iv, state in own.items():
        if iv in points:
            start[iv] = points[iv]
        elif state.is_fixed:
            fixed[iv] = bounds.loops[iv]
            start[iv] = iv
    for iv in bounds.outer:  # shared loops in place of its own
        limits = env.ranges[iv]
        start[iv] = low(limits) if constant_extent(limits) == 1 else iv
    for iv in whole:
        if iv in hidden or iv in points and iv not in bounds.op.root_iter_vars:
            continue
        side = None if bounds.stays_inside and iv in bounds.widened else bounds.sides.get(iv)
        side = side or _interval(env, bounds.loops.get(iv, bounds.ranges[iv]))
        only = _only_element(side)
        start[iv] = iv if only is None else only
        if only is None:
            relaxed[iv] = side
    values = pass_up_index(spelled, bounds.ranges, start)
    if any(isinstance(r, Split) and simple.number(extent(bounds.ranges[r.inner])) is None for r in spelled):
        values = {iv: without_products(env, e) for iv, e in values.items()}
    it = Iterations({iv: values[iv] for iv in bounds.op.root_iter_vars if iv in values}, relaxed, fixed)
    for iv in bounds.op.root_iter_vars:  # axes without loops, such as those of a tensorized tile
        if iv not in it.values and iv in bounds.sides:
            only = _only_element(bounds.sides[iv])
            it.values[iv] = iv if only is None else only
            if only is None:
                relaxed[iv] = bounds.sides[iv]
    _outer_loops(env, bounds, states, it)
    _conditions(env, bounds, spelled, values, it, above)
    return it


def _only_element(side: SymbolicInterval) -> Expr | None:
    """The single element of an interval whose ends coincide, else `None`."""
    if len(side.lows) == len(side.highs) == 1 and side.lows[0].same(side.highs[0]):
        return side.lows[0].expr()
    return None


def _wholly_relaxed(
    bounds: StageBounds,
    own: Mapping[IterVar, LoopState],
    points: Mapping[IterVar, Expr],
    above: Mapping[IterVar, IterVar],
) -> dict[IterVar, None]:
    """The axes that run over their whole range while all fixed loops stay put."""
    whole = dict.fromkeys(iv for iv, state in own.items() if not state.is_fixed or iv in points)
    for relation in reversed(bounds.relations):
        if isinstance(relation, Split):
            inside = not overruns_unguarded(bounds, relation) or relation.parent in above
            if inside and relation.outer in whole and relation.inner in whole:
                whole[relation.parent] = None
        elif isinstance(relation, Fuse):
            if relation.fused in whole:
                whole[relation.outer] = whole[relation.inner] = None
        elif isinstance(relation, Rebase) and relation.rebased in whole:
            whole[relation.parent] = None
    return whole


def _interval(env: LoopEnvironment, r: Range) -> SymbolicInterval:
    return SymbolicInterval(tuple(end_forms(env, low(r), ops.MAX)), tuple(end_forms(env, as_expr(r.max), ops.MIN)))


def _outer_loops(env: LoopEnvironment, bounds: StageBounds, states: Sequence[LoopState], it: Iterations) -> None:
    """Enter the loops around the consumer as fixed or relaxed variables."""
    for state in states:
        if state.stage is bounds.stage:
            continue
        limits = env.ranges[state.iv]
        if constant_extent(limits) == 1:
            continue
        if state.is_fixed:
            it.fixed[state.iv] = limits
        else:
            it.relaxed[state.iv] = _interval(env, limits)


def _conditions(
    env: LoopEnvironment,
    bounds: StageBounds,
    spelled: Sequence[IterVarRelation],
    values: Mapping[IterVar, Expr],
    it: Iterations,
    above: Mapping[IterVar, IterVar],
) -> None:
    """Enter the guards of case 2, and membership in the computed region."""
    it.conditions += split_guards(env, bounds, spelled, values)
    if bounds.stays_inside:
        return
    footprint = bounds.region
    for iv in bounds.widened:
        if iv in values and iv not in it.relaxed:
            it.conditions += within_side(env, bounds, iv, values[iv])
    if footprint.box is not None:
        it.where += footprint.box.where
        it.conditions += footprint.box.also
        return
    axes = data_axes(bounds.op)
    if not axes:
        return
    try:
        it.conditions += footprint.conditions([it.values[iv] for iv in axes])
    except BudgetError as error:
        it.notes.append(f"the guard of {bounds.stage.name} was not used: {error}")
