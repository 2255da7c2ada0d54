"""`compute_at` and `inline_at`: loops made one, for one tensor and all that has to follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bound.errors import InputError, ScheduleError
from bound.operation import Operation
from bound.replay.carry import Carried, carry_loops, carry_position, unmapped
from bound.replay.chains import check_depends
from bound.replay.domain import current, position_of
from bound.replay.positions import settle
from bound.replay.reasons import Reason, Repair, ReplayError
from bound.replay.scene import Scene, is_inlined
from bound.replay.spanning import C2P, Edge
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
    scene = Scene(schedule)
    depth = position_of(pos, scene.domain(last).depth, last.name)
    check_depends(scene.graph, first, last)
    if mode == MOST_INLINED:
        depth = scene.domain(last).depth
    moving = _moving(scene, first, last)
    if depth:
        _refuse_immovable(scene, moving if mode == STANDARD else {first.op}, first, last)

    def allowed(edge: Edge) -> bool:
        inside = edge.target.op in moving
        return inside or (edge.kind != C2P and edge.source.op in moving)

    carried = carry_loops(scene, last, depth, allowed)
    free = [op for op in scene.ops if op in moving and scene.obstacle(op) is None]
    if mode == MOST_INLINED:
        wanted = {op: scene.domains[op].depth for op in free}
        found = settle(scene, wanted, best=True)
    else:
        mapped = carry_position(scene, last, depth, carried.held)
        wanted = {op: mapped.position.get(op, 0) for op in free}
        found = [reason for op, reason in mapped.reasons.items() if op in moving]
        chain = {t.op for t in scene.graph.needed((last,))} | {last.op}
        apart = [unmapped(scene, op, mapped, chain) for op in scene.ops if op in moving and op in chain]
        found += [reason for reason in apart if reason is not None]
        found += settle(scene, wanted, best=mode == BEST_EFFORT)
    reasons = _explained(scene, found)
    if mode == STANDARD and reasons:
        _refuse_held(scene, carried, reasons)
        asked = f"compute_at of {first.name} at position {depth} of {last.name}"
        raise ReplayError(f"{asked}: {reasons[0]}", reasons)
    scene.write()
    return Outcome(scene.position[first.op], reasons)


def _moving(scene: Scene, producer: Tensor, consumer: Tensor) -> set[Operation]:
    """The operations up to the common consumer; without one, the producer and all that depend on it and are read."""
    graph = scene.graph
    behind = {producer, *graph.dependents((producer,))}
    end = graph.common_consumer(producer, consumer)
    if end is not None:
        return {t.op for t in behind & graph.needed((end,))} - {end.op}
    return {t.op for t in behind if graph.consumers(t)} | {producer.op}


def _refuse_immovable(scene: Scene, moving: set[Operation], producer: Tensor, consumer: Tensor) -> None:
    call = f"compute_at of {producer.name} at {consumer.name}"
    for op in scene.ops:
        obstacle = scene.obstacle(op) if op in moving else None
        if obstacle is not None:
            raise ScheduleError(f"stage {op.name}: {call} would have to move it, but it {obstacle}")
    if is_inlined(scene.stage(consumer.op)):
        raise ScheduleError(f"stage {consumer.name}: {call} needs its loops, but it is inlined")


def _refuse_held(scene: Scene, carried: Carried, reasons: tuple[Reason, ...]) -> None:
    """Where a reader cannot be moved at all, that is the reason in words."""
    for reason in reasons:
        for tensor in (reason.tensor, reason.consumer):
            obstacle = scene.obstacle(tensor.op) if tensor is not None and tensor.op in carried.held else None
            if tensor is not None and obstacle is not None:
                raise ScheduleError(f"stage {tensor.name}: compute_at would have to move it, but it {obstacle}")


def _explained(scene: Scene, found: list[Reason]) -> tuple[Reason, ...]:
    """One reason a tensor, in an order that does not depend on how outputs are listed."""
    best: dict[Tensor, Reason] = {}
    for reason in found:
        best.setdefault(reason.tensor, reason)
    return tuple(sorted(best.values(), key=lambda reason: scene.rank[reason.tensor.op]))


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
    scene = Scene(schedule)
    wanted = {op: scene.domains[op].depth for op in scene.ops if scene.obstacle(op) is None}
    reasons = tuple(settle(scene, wanted, best=True))
    scene.write()
    return reasons


def _inline(schedule: Schedule, tensor: Tensor, pos: int, mode: str, name: str) -> Outcome:
    """`inline_at` or `inline_all_at`, by its name."""
    check_mode(mode)
    now = current(schedule, tensor)
    scene = Scene(schedule)
    depth = position_of(pos, scene.domain(now).depth, now.name)
    if mode == MOST_INLINED:
        depth = scene.domain(now).depth
    wanted = {now.op: depth}
    if name == "inline_all_at":
        mapped = carry_position(scene, now, depth, {}).position
        wanted = {op: mapped[op] for op in scene.ops if op in mapped}
    call = f"{name} of {now.name} at position {depth}"
    standard = mode == STANDARD
    kept: dict[Operation, int] = {}
    for op, place in wanted.items():
        obstacle = scene.obstacle(op)
        if obstacle is None:
            kept[op] = place
        elif place and (standard or op is now.op):
            raise ScheduleError(f"stage {op.name}: {call} would have to move it, but it {obstacle}")
    reasons = tuple(settle(scene, kept, best=not standard))
    if standard and reasons:
        again = partial(_inline, tensor=tensor, name=name)
        found = tuple(_repairs(schedule, again, depth))
        raise ReplayError(f"{call}: {reasons[0]}; what works instead: {in_words(found)}", reasons, found)
    scene.write()
    return Outcome(scene.position[now.op], reasons)


def _repairs(schedule: Schedule, again: Callable[..., Outcome], depth: int) -> Iterator[Repair]:
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
