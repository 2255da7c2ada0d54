"""`compute_at`, `inline_at` and `inline_most`: share loops of a tensor with its consumers, and repair what is refused.

Example: `compute_at(s, P, C, 1)` replays the first loop of `C` on `P` and on every tensor between the two (replayPasC,
replayCasP), then sets their compute-at positions, so that all run in that loop. A call in mode "standard" that cannot
share all requested loops raises `ReplayError` with reasons and with repairs.

Recomputation clones tensors for one of their consumers: `T1` is read by `T2` and `T3`; `recompute(s, T1, T2)` adds
`T1.clone` with the loops of `T1`; `T2` reads the clone, `T3` still reads `T1`.

Guarantee: a refused call leaves the schedule unchanged, and each repair was tried on a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from bound.errors import InputError, ScheduleError
from bound.itervar import IterVar
from bound.operation import ComputeOp, Operation, PlaceholderOp, redirected
from bound.replay.dependencies import DependencyGraph, check_depends
from bound.replay.domain import REDUCTION, current, domain, position_of
from bound.replay.loops import Reason, Repair, ReplayError
from bound.replay.positions import C2P, Edge, PropagatedPositions, carry_loops, carry_position, settle, unmapped
from bound.replay.snapshot import ScheduleSnapshot, is_inlined
from bound.schedule import Schedule, Stage
from bound.schedule.dataflow import insert_after, redirect
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.reduce import Reduction
from bound.tir.value import REDUCE, Value, make
from intset.errors import IntSetError
from intset.expr.printer import shown

STANDARD: Final = "standard"
BEST_EFFORT: Final = "best_effort"
MOST_INLINED: Final = "most_inlined"
MODES: Final = (STANDARD, BEST_EFFORT, MOST_INLINED)


@dataclass(frozen=True)
class Outcome:
    """Result of a call.

    Attributes
    ----------
    position: the number of leading loops that the tensor now shares with all of its consumers.
    reasons: why tensors share fewer loops than requested.
    clones: the clone of each cloned tensor; a tensor rewritten before occurs under its old and its new name.
    """

    position: int
    reasons: tuple[Reason, ...] = ()
    clones: Mapping[Tensor, Tensor] = field(default_factory=dict)


def check_mode(mode: object) -> None:
    """Raise `InputError` unless `mode` is one of `MODES`."""
    if mode not in MODES:
        raise InputError(f"mode must be one of {', '.join(MODES)}, not {shown(mode)}")


def place_at(schedule: Schedule, producer: Tensor, consumer: Tensor, pos: int, mode: str) -> Outcome:
    """`compute_at` without repairs."""
    first, last = current(schedule, producer), current(schedule, consumer)
    snapshot = ScheduleSnapshot(schedule)
    depth = position_of(pos, snapshot.domain(last).depth, last.name)
    check_depends(snapshot.graph, first, last)
    if mode == MOST_INLINED:
        depth = snapshot.domain(last).depth
    moving = _moving(snapshot, first, last)
    if depth:
        _refuse_immovable(snapshot, moving if mode == STANDARD else {first.op}, first, last)

    def allowed(edge: Edge) -> bool:
        inside = edge.target.op in moving
        return inside or (edge.kind != C2P and edge.source.op in moving)

    carried = carry_loops(snapshot, last, depth, allowed)
    free = [op for op in snapshot.ops if op in moving and snapshot.obstacle(op) is None]
    if mode == MOST_INLINED:
        positions = {op: snapshot.domains[op].depth for op in free}
        obstacles = settle(snapshot, positions, best=True)
    else:
        mapped = carry_position(snapshot, last, depth, carried.held)
        positions = {op: mapped.position.get(op, 0) for op in free}
        obstacles = [reason for op, reason in mapped.reasons.items() if op in moving]
        chain = {t.op for t in snapshot.graph.needed((last,))} | {last.op}
        apart = [unmapped(snapshot, op, mapped, chain) for op in snapshot.ops if op in moving and op in chain]
        obstacles += [reason for reason in apart if reason is not None]
        obstacles += settle(snapshot, positions, best=mode == BEST_EFFORT)
    reasons = _explained(snapshot, obstacles)
    if mode == STANDARD and reasons:
        _refuse_held(snapshot, carried, reasons)
        call = f"compute_at of {first.name} at position {depth} of {last.name}"
        raise ReplayError(f"{call}: {reasons[0]}", reasons)
    snapshot.write()
    return Outcome(snapshot.position[first.op], reasons)


def _moving(snapshot: ScheduleSnapshot, producer: Tensor, consumer: Tensor) -> set[Operation]:
    """Return the operations between the producer and the common consumer, which is excluded.

    If there is no common consumer, return the producer and its dependents, outputs excluded.
    """
    graph = snapshot.graph
    behind = {producer, *graph.dependents((producer,))}
    end = graph.common_consumer(producer, consumer)
    if end is not None:
        return {t.op for t in behind & graph.needed((end,))} - {end.op}
    return {t.op for t in behind if graph.consumers(t)} | {producer.op}


def _refuse_immovable(snapshot: ScheduleSnapshot, moving: set[Operation], producer: Tensor, consumer: Tensor) -> None:
    call = f"compute_at of {producer.name} at {consumer.name}"
    for op in snapshot.ops:
        obstacle = snapshot.obstacle(op) if op in moving else None
        if obstacle is not None:
            raise ScheduleError(f"stage {op.name}: {call} would have to move it, but it {obstacle}")
    if is_inlined(snapshot.stage(consumer.op)):
        raise ScheduleError(f"stage {consumer.name}: {call} needs its loops, but it is inlined")


def _refuse_held(snapshot: ScheduleSnapshot, carried: PropagatedPositions, reasons: tuple[Reason, ...]) -> None:
    """Raise `ScheduleError` if a reason is due to a stage that cannot be moved at all."""
    for reason in reasons:
        for tensor in (reason.tensor, reason.consumer):
            obstacle = snapshot.obstacle(tensor.op) if tensor is not None and tensor.op in carried.held else None
            if tensor is not None and obstacle is not None:
                raise ScheduleError(f"stage {tensor.name}: compute_at would have to move it, but it {obstacle}")


def _explained(snapshot: ScheduleSnapshot, obstacles: list[Reason]) -> tuple[Reason, ...]:
    """Keep the first reason per tensor, ordered by rank."""
    best: dict[Tensor, Reason] = {}
    for reason in obstacles:
        best.setdefault(reason.tensor, reason)
    return tuple(sorted(best.values(), key=lambda reason: snapshot.rank[reason.tensor.op]))


def inline_at(schedule: Schedule, tensor: Tensor, pos: int, mode: str = STANDARD) -> Outcome:
    """Share the first `pos` loops of one tensor with all of its consumers, without changing loops.

    Raises
    ------
    ReplayError: a loop cannot be shared (mode "standard").
    InputError: unknown mode; position out of range.
    """
    return _inline(schedule, tensor, pos, mode, "inline_at")


def inline_all_at(schedule: Schedule, tensor: Tensor, pos: int, mode: str = STANDARD) -> Outcome:
    """Share the first `pos` loops of one tensor, and the corresponding ones of all others, without changing loops.

    Raises
    ------
    ReplayError: a tensor cannot share all of them (mode "standard").
    InputError: unknown mode; position out of range.
    """
    return _inline(schedule, tensor, pos, mode, "inline_all_at")


def inline_most(schedule: Schedule) -> tuple[Reason, ...]:
    """Share as many leading loops of every tensor as is legal, without changing loops; returns what limits the others.

    Raises
    ------
    InputError: `schedule` is not a schedule.
    """
    if not isinstance(schedule, Schedule):
        raise InputError(f"a schedule made by te.create_schedule is needed, not {shown(schedule)}")
    snapshot = ScheduleSnapshot(schedule)
    depths = {op: snapshot.domains[op].depth for op in snapshot.ops if snapshot.obstacle(op) is None}
    reasons = tuple(settle(snapshot, depths, best=True))
    snapshot.write()
    return reasons


def _inline(schedule: Schedule, tensor: Tensor, pos: int, mode: str, name: str) -> Outcome:
    """Implement `inline_at` and `inline_all_at`; `name` selects one."""
    check_mode(mode)
    now = current(schedule, tensor)
    snapshot = ScheduleSnapshot(schedule)
    depth = position_of(pos, snapshot.domain(now).depth, now.name)
    if mode == MOST_INLINED:
        depth = snapshot.domain(now).depth
    positions = {now.op: depth}
    if name == "inline_all_at":
        mapped = carry_position(snapshot, now, depth, {}).position
        positions = {op: mapped[op] for op in snapshot.ops if op in mapped}
    call = f"{name} of {now.name} at position {depth}"
    standard = mode == STANDARD
    kept: dict[Operation, int] = {}
    for op, position in positions.items():
        obstacle = snapshot.obstacle(op)
        if obstacle is None:
            kept[op] = position
        elif position and (standard or op is now.op):
            raise ScheduleError(f"stage {op.name}: {call} would have to move it, but it {obstacle}")
    reasons = tuple(settle(snapshot, kept, best=not standard))
    if standard and reasons:
        again = partial(_inline, tensor=tensor, name=name)
        repairs = tuple(_position_repairs(schedule, again, depth))
        raise ReplayError(f"{call}: {reasons[0]}; what works instead: {in_words(repairs)}", reasons, repairs)
    snapshot.write()
    return Outcome(snapshot.position[now.op], reasons)


def _position_repairs(schedule: Schedule, again: Callable[..., Outcome], depth: int, of: str = "") -> Iterator[Repair]:
    """Yield the largest smaller position that works, and mode "best_effort"; `of` names the tensor of the position."""
    shallower = ((less, partial(again, pos=less, mode=STANDARD)) for less in range(depth - 1, -1, -1))
    largest = next(((less, at) for less, at in shallower if works(schedule, at)), None)
    if largest is not None:
        yield Repair("position", f"position {largest[0]}{of}", largest[1])
    best = partial(again, pos=depth, mode=BEST_EFFORT)
    if works(schedule, best):
        yield Repair("mode", f"mode {BEST_EFFORT!r}", best)


def in_words(repairs: Iterable[Repair]) -> str:
    """Join the texts of repairs."""
    return ", ".join(repair.text for repair in repairs)


def works(schedule: Schedule, call: Callable[[Schedule], Outcome]) -> bool:
    """Return whether a copy of the schedule accepts a call."""
    try:
        call(schedule.copy())
    except IntSetError:
        return False
    return True


RECOMPUTE: Final = "recompute"


def compute_at(
    schedule: Schedule,
    producer: Tensor,
    consumer: Tensor,
    pos: int,
    mode: str = STANDARD,
    repair: str | None = None,
) -> Outcome:
    """Compute `producer` inside the first `pos` loops of `consumer`, which depends on it directly or indirectly.

    All tensors between the two get loops like those of the consumer, and equal loops become shared.

    Parameters
    ----------
    pos: number of loops of `consumer`; a negative one counts from the end (-1: inside all loops).
    mode: "standard": every tensor shares exactly the requested loops, or the call is refused. "best_effort": each
        tensor shares as many of the requested loops as possible. "most_inlined": each tensor shares as many loops as
        possible.
    repair: "recompute": if the call is refused, clone tensors that have other consumers, and try again.

    Raises
    ------
    ReplayError: mode "standard", with reasons and repairs. The schedule is unchanged.
    ScheduleError: `consumer` does not depend on `producer`, or a stage that cannot be moved would have to.
    InputError: the mode or the repair is unknown, or the position is outside -n-1..n for n loops.
    """
    check_mode(mode)
    if repair not in (None, RECOMPUTE):
        raise InputError(f"repair must be None or {shown(RECOMPUTE)}, not {shown(repair)}")
    try:
        return place_at(schedule, producer, consumer, pos, mode)
    except ReplayError as error:
        cloned = partial(_recomputed, producer=producer, consumer=consumer, pos=pos)
        if repair == RECOMPUTE and works(schedule, cloned):
            return cloned(schedule)
        first, last = current(schedule, producer), current(schedule, consumer)
        repairs = tuple(_compute_at_repairs(schedule, first, last, pos))
        raise ReplayError(f"{error}; what works instead: {in_words(repairs)}", error.reasons, repairs) from None


def _recomputed(schedule: Schedule, producer: Tensor, consumer: Tensor, pos: int) -> Outcome:
    """Clone, then call again.

    Raises
    ------
    ScheduleError: there is nothing to clone, or the second call is refused; the schedule may contain clones.
    """
    first = current(schedule, producer)
    clones = recompute(schedule, producer, consumer)
    if not clones:
        raise ScheduleError(f"compute_at of {first.name}: there is nothing to recompute apart")
    done = place_at(schedule, clones.get(first, first), current(schedule, consumer), pos, STANDARD)
    return Outcome(done.position, done.reasons, clones)


def _compute_at_repairs(schedule: Schedule, producer: Tensor, consumer: Tensor, pos: int) -> Iterator[Repair]:
    """Yield the repairs that work: a smaller position, mode "best_effort", reordered loops, recomputation."""
    depth = position_of(pos, domain(schedule, consumer).depth, consumer.name)
    at = partial(place_at, producer=producer, consumer=consumer)
    yield from _position_repairs(schedule, at, depth, f" of {consumer.name}")
    order = _reductions_last(schedule, consumer)
    if order is not None:
        reordered = partial(_reordered, producer=producer, consumer=consumer, pos=depth, order=order)
        if works(schedule, reordered):
            names = ", ".join(iv.name for iv in order)
            yield Repair("reorder", f"the loops of {consumer.name} in the order {names}", reordered)
    cloned = partial(_recomputed, producer=producer, consumer=consumer, pos=depth)
    if works(schedule, cloned):
        yield Repair(RECOMPUTE, f"repair={RECOMPUTE!r}", cloned)


def _reordered(schedule: Schedule, producer: Tensor, consumer: Tensor, pos: int, order: tuple[IterVar, ...]) -> Outcome:
    schedule[consumer].reorder(*order)
    return place_at(schedule, producer, consumer, pos, STANDARD)


def _reductions_last(schedule: Schedule, tensor: Tensor) -> tuple[IterVar, ...] | None:
    """Return the unshared loops of a tensor with reductions last; `None` if they are in that order."""
    current_domain = domain(schedule, tensor)
    stage = schedule[tensor]
    free = current_domain.loop[stage.shared_loops :]
    order = tuple(sorted(free, key=lambda iv: current_domain.kinds[iv] == REDUCTION))
    return None if all(a is b for a, b in zip(order, free, strict=True)) else order


def recompute(schedule: Schedule, producer: Tensor, consumer: Tensor) -> dict[Tensor, Tensor]:
    """Clone every computed tensor on dependency chains from `producer` to `consumer` that has other consumers or is an
    output.

    The chains then read the clones, all other tensors the originals. A clone has the loops and the position of its
    original. Returns a map from tensors, and from their names before rewrites, to clones; empty if there is nothing to
    clone.

    Raises
    ------
    ScheduleError: a tensor cannot be cloned, or the shared loops would not nest.
    """
    first, last = current(schedule, producer), current(schedule, consumer)
    graph = DependencyGraph(schedule)
    check_depends(graph, first, last)
    between = {first, *graph.dependents((first,))} & graph.needed((last,))
    chain = {t.op for t in between if not isinstance(t.op, PlaceholderOp)} - {last.op}
    cloned: set[Operation] = set()
    for stage in reversed(schedule.stages):
        if stage.op in chain:
            readers = {reader.op for t in stage.op.outputs for reader in graph.consumers(t)}
            if stage.is_output or not readers <= chain | {last.op} or readers & cloned:
                cloned.add(stage.op)
    clones: dict[Tensor, Tensor] = {}
    originals = [stage for stage in schedule.stages if stage.op in cloned]
    for stage in originals:
        _check_cloned(schedule, stage)
    for stage in originals:
        op = stage.op
        assert isinstance(op, ComputeOp)
        copy, axes = _copy(op, clones)
        stage_of_clone = insert_after(schedule, stage, copy)
        _give_loops(stage, stage_of_clone, axes)
        clones.update(zip(op.outputs, copy.outputs, strict=True))
    clone_of = _known_as(schedule, originals, clones)
    own = {schedule[op]: clones for op in chain - cloned | {last.op}}
    redirect(schedule, schedule.stages, {}, own)
    snapshot = ScheduleSnapshot(
        schedule
    )  # a clone shares what the original shares, with what it reads and with its readers
    if snapshot.nest().conflict is not None:
        raise ScheduleError(
            f"{first.name} cannot be computed apart for {last.name}: the loops it shares would not nest"
        )
    snapshot.write()
    return clone_of


def _known_as(schedule: Schedule, originals: Sequence[Stage], clones: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
    """Map tensors, and what they were before rewrites, to clones."""
    before: dict[Stage, list[Tensor]] = {stage: [] for stage in originals}
    for op, stage in schedule.stage_map.items():
        if stage in before and op is not stage.op:
            before[stage] += op.outputs
    return {
        t: clones[stage.op.output(t.value_index)] for stage in originals for t in (*before[stage], *stage.op.outputs)
    }


def _check_cloned(schedule: Schedule, stage: Stage) -> None:
    """Raise `ScheduleError` unless a stage can be cloned."""
    if not isinstance(stage.op, ComputeOp):
        raise ScheduleError(f"stage {stage.name}: only an operation made by te.compute can be cloned")
    for other in (*schedule.stages, *schedule.groups):
        if other.attach_stage is stage:
            raise ScheduleError(f"stage {stage.name}: {other.name} is computed in its loops, not in those of a clone")
        if other.store_stage is stage:
            raise ScheduleError(f"stage {stage.name}: {other.name} is stored in its loops, not in those of a clone")


def _copy(op: ComputeOp, clones: Mapping[Tensor, Tensor]) -> tuple[ComputeOp, dict[IterVar, IterVar]]:
    """Copy an operation over fresh axes; it reads clones where they exist."""
    axes = {iv: _twin(iv) for iv in op.root_iter_vars}
    body = tuple(_over(redirected(value, clones), axes) for value in op.body)
    copy = ComputeOp(f"{op.name}.clone", tuple(axes[iv] for iv in op.axis), body, op.tag, op.attrs)
    for old, new in zip(op.outputs, copy.outputs, strict=True):
        new.value_range = old.value_range
    return copy, axes


def _over(value: Any, axes: Mapping[IterVar, IterVar]) -> Any:
    """Replace axes in a value, including the axes of a reduction."""
    new = walk.substitute(value, axes)
    if isinstance(new, Value) and new.op is REDUCE:
        data: Reduction = new.data
        reduced = Reduction(data.combiner, tuple(axes[iv] for iv in data.axis), data.index)
        return make(new.op, new.args, new.dtype, reduced)
    return new


def _twin(iv: IterVar) -> IterVar:
    """Return a fresh axis like `iv`."""
    return IterVar(iv.dom, iv.name, iv.iter_type, iv.thread_tag, iv.sizes)


def _give_loops(old: Stage, new: Stage, axes: dict[IterVar, IterVar]) -> None:
    """Copy relations, leaves, annotations, scope and position of a stage to its clone."""
    for iv in old.all_iter_vars:
        axes.setdefault(iv, _twin(iv))
    new.relations = [relation.renamed(axes) for relation in old.relations]
    new.all_iter_vars = [axes[iv] for iv in old.all_iter_vars]
    new.leaf_iter_vars = [axes[iv] for iv in old.leaf_iter_vars]
    new.iter_var_attrs = {axes[iv]: attr for iv, attr in old.iter_var_attrs.items() if iv in axes}
    new.scope, new.double_buffered = old.scope, old.double_buffered
    new.compute_at_position = old.compute_at_position
