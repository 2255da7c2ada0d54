"""`compute_at` and `inline_at`: loops made one, for one tensor and all that has to follow.

`compute_at` as it is called: with repairs, each of which was tried, where it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bound.errors import InputError, ScheduleError
from bound.itervar import IterVar
from bound.operation import Operation
from bound.replay.dependencies import C2P, Edge, check_depends
from bound.replay.domain import REDUCTION, current, domain, position_of
from bound.replay.positions import PropagatedPositions, carry_loops, carry_position, settle, unmapped
from bound.replay.reasons import Reason, Repair, ReplayError
from bound.replay.recompute import recompute
from bound.replay.snapshot import ScheduleSnapshot, is_inlined
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset.errors import IntSetError
from intset.expr.text import shown

STANDARD: Final = "standard"
BEST_EFFORT: Final = "best_effort"
MOST_INLINED: Final = "most_inlined"
MODES: Final = (STANDARD, BEST_EFFORT, MOST_INLINED)


@dataclass(frozen=True)
class Outcome:
    """What a call did.

    Attributes
    ----------
    position: how many of its leading loops the tensor now shares with all of its readers.
    reasons: why tensors share fewer than was asked for.
    clones: for each tensor that was cloned the clone; for one that was rewritten before, under both tensors.
    """

    position: int
    reasons: tuple[Reason, ...] = ()
    clones: Mapping[Tensor, Tensor] = field(default_factory=dict)


def check_mode(mode: object) -> None:
    if mode not in MODES:
        raise InputError(f"mode must be one of {', '.join(MODES)}, not {shown(mode)}")


def place_at(schedule: Schedule, producer: Tensor, consumer: Tensor, pos: int, mode: str) -> Outcome:
    """`compute_at` without repairs: a refusal says why, not what to do."""
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
        wanted = {op: snapshot.domains[op].depth for op in free}
        found = settle(snapshot, wanted, best=True)
    else:
        mapped = carry_position(snapshot, last, depth, carried.held)
        wanted = {op: mapped.position.get(op, 0) for op in free}
        found = [reason for op, reason in mapped.reasons.items() if op in moving]
        chain = {t.op for t in snapshot.graph.needed((last,))} | {last.op}
        apart = [unmapped(snapshot, op, mapped, chain) for op in snapshot.ops if op in moving and op in chain]
        found += [reason for reason in apart if reason is not None]
        found += settle(snapshot, wanted, best=mode == BEST_EFFORT)
    reasons = _explained(snapshot, found)
    if mode == STANDARD and reasons:
        _refuse_held(snapshot, carried, reasons)
        asked = f"compute_at of {first.name} at position {depth} of {last.name}"
        raise ReplayError(f"{asked}: {reasons[0]}", reasons)
    snapshot.write()
    return Outcome(snapshot.position[first.op], reasons)


def _moving(snapshot: ScheduleSnapshot, producer: Tensor, consumer: Tensor) -> set[Operation]:
    """The operations up to the common consumer; without one, the producer and all that depend on it and are read."""
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
    """Where a reader cannot be moved at all, that is the reason in words."""
    for reason in reasons:
        for tensor in (reason.tensor, reason.consumer):
            obstacle = snapshot.obstacle(tensor.op) if tensor is not None and tensor.op in carried.held else None
            if tensor is not None and obstacle is not None:
                raise ScheduleError(f"stage {tensor.name}: compute_at would have to move it, but it {obstacle}")


def _explained(snapshot: ScheduleSnapshot, found: list[Reason]) -> tuple[Reason, ...]:
    """One reason a tensor, in an order that does not depend on how outputs are listed."""
    best: dict[Tensor, Reason] = {}
    for reason in found:
        best.setdefault(reason.tensor, reason)
    return tuple(sorted(best.values(), key=lambda reason: snapshot.rank[reason.tensor.op]))


def inline_at(schedule: Schedule, tensor: Tensor, pos: int, mode: str = STANDARD) -> Outcome:
    """Share the first `pos` loops of one tensor with all of its readers; no loops are changed.

    Raises
    ------
    ReplayError: in mode "standard", where not all of them can be shared.
    InputError: an unknown mode, or a position outside the loops.
    """
    return _inline(schedule, tensor, pos, mode, "inline_at")


def inline_all_at(schedule: Schedule, tensor: Tensor, pos: int, mode: str = STANDARD) -> Outcome:
    """Share the first `pos` loops of one tensor, and of every other tensor those that are the same; no loops change.

    Raises
    ------
    ReplayError: in mode "standard", where one tensor cannot share all of them.
    InputError: an unknown mode, or a position outside the loops.
    """
    return _inline(schedule, tensor, pos, mode, "inline_all_at")


def inline_most(schedule: Schedule) -> tuple[Reason, ...]:
    """Share as many leading loops of every tensor as can be; gives why the others are not. No loops are changed."""
    if not isinstance(schedule, Schedule):
        raise InputError(f"a schedule made by te.create_schedule is needed, not {shown(schedule)}")
    snapshot = ScheduleSnapshot(schedule)
    wanted = {op: snapshot.domains[op].depth for op in snapshot.ops if snapshot.obstacle(op) is None}
    reasons = tuple(settle(snapshot, wanted, best=True))
    snapshot.write()
    return reasons


def _inline(schedule: Schedule, tensor: Tensor, pos: int, mode: str, name: str) -> Outcome:
    """`inline_at` or `inline_all_at`, by its name."""
    check_mode(mode)
    now = current(schedule, tensor)
    snapshot = ScheduleSnapshot(schedule)
    depth = position_of(pos, snapshot.domain(now).depth, now.name)
    if mode == MOST_INLINED:
        depth = snapshot.domain(now).depth
    wanted = {now.op: depth}
    if name == "inline_all_at":
        mapped = carry_position(snapshot, now, depth, {}).position
        wanted = {op: mapped[op] for op in snapshot.ops if op in mapped}
    call = f"{name} of {now.name} at position {depth}"
    standard = mode == STANDARD
    kept: dict[Operation, int] = {}
    for op, place in wanted.items():
        obstacle = snapshot.obstacle(op)
        if obstacle is None:
            kept[op] = place
        elif place and (standard or op is now.op):
            raise ScheduleError(f"stage {op.name}: {call} would have to move it, but it {obstacle}")
    reasons = tuple(settle(snapshot, kept, best=not standard))
    if standard and reasons:
        again = partial(_inline, tensor=tensor, name=name)
        found = tuple(_inline_repairs(schedule, again, depth))
        raise ReplayError(f"{call}: {reasons[0]}; what works instead: {in_words(found)}", reasons, found)
    snapshot.write()
    return Outcome(snapshot.position[now.op], reasons)


def _inline_repairs(schedule: Schedule, again: Callable[..., Outcome], depth: int) -> Iterator[Repair]:
    """The next smaller position that works, and doing what can be done."""
    for less in range(depth - 1, -1, -1):
        at = partial(again, pos=less, mode=STANDARD)
        if works(schedule, at):
            yield Repair("position", f"position {less}", at)
            break
    best = partial(again, pos=depth, mode=BEST_EFFORT)
    if works(schedule, best):
        yield Repair("mode", f"mode {BEST_EFFORT!r}", best)


def in_words(repairs: Iterable[Repair]) -> str:
    """Repairs, one after another."""
    return ", ".join(repair.text for repair in repairs)


def works(schedule: Schedule, call: Callable[[Schedule], Outcome]) -> bool:
    """Whether a call is accepted, tried on a copy."""
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
    """Compute `producer` inside the first `pos` loops of `consumer`, which reads it, perhaps through others.

    The loops of what lies between the two, and of all that this concerns, are made like those of the consumer; the
    loops that are then the same become one, of which each stage has its part.

    Parameters
    ----------
    pos: a position among the loops of `consumer`; from the end where it is negative (-1: inside all of them).
    mode: "standard": every tensor concerned shares exactly the loops that are asked for, or the call is refused.
        "best_effort": each shares as many of them as it can. "most_inlined": each shares as many loops as it can.
    repair: "recompute": where the call is refused, tensors that something else needs as well are cloned for it first.

    Raises
    ------
    ReplayError: in mode "standard", with reasons and repairs. Nothing is changed.
    ScheduleError: `consumer` does not depend on `producer`, or a stage would have to move that cannot be.
    InputError: an unknown mode or repair, or a position outside -n-1..n for n loops.
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
        found = tuple(_compute_at_repairs(schedule, first, last, pos))
        raise ReplayError(f"{error}; what works instead: {in_words(found)}", error.reasons, found) from None


def _recomputed(schedule: Schedule, producer: Tensor, consumer: Tensor, pos: int) -> Outcome:
    """Clone, then call again.

    Raises
    ------
    ScheduleError: there is nothing to clone, or that is refused, too; the schedule may have clones by then.
    """
    first = current(schedule, producer)
    clones = recompute(schedule, producer, consumer)
    if not clones:
        raise ScheduleError(f"compute_at of {first.name}: there is nothing to recompute apart")
    done = place_at(schedule, clones.get(first, first), current(schedule, consumer), pos, STANDARD)
    return Outcome(done.position, done.reasons, clones)


def _compute_at_repairs(schedule: Schedule, producer: Tensor, consumer: Tensor, pos: int) -> Iterator[Repair]:
    depth = position_of(pos, domain(schedule, consumer).depth, consumer.name)
    at = partial(place_at, producer=producer, consumer=consumer)
    for less in range(depth - 1, -1, -1):
        shallower = partial(at, pos=less, mode=STANDARD)
        if works(schedule, shallower):
            yield Repair("position", f"position {less} of {consumer.name}", shallower)
            break
    best = partial(at, pos=depth, mode=BEST_EFFORT)
    if works(schedule, best):
        yield Repair("mode", f"mode {BEST_EFFORT!r}", best)
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
    """The loops of a tensor that are not shared yet, those of reductions behind all others; `None` where they are."""
    found = domain(schedule, tensor)
    stage = schedule[tensor]
    free = found.loop[stage.shared_loops :]
    order = tuple(sorted(free, key=lambda iv: found.kinds[iv] == REDUCTION))
    return None if all(a is b for a, b in zip(order, free, strict=True)) else order
