"""`compute_at` as it is called: with repairs, each of which was tried, where it is refused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from bound.errors import InputError, ScheduleError
from bound.itervar import IterVar
from bound.replay.domain import REDUCTION, current, domain, position_of
from bound.replay.place import BEST_EFFORT, STANDARD, Outcome, check_mode, in_words, place_at, works
from bound.replay.reasons import Repair, ReplayError
from bound.replay.recompute import recompute
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset.expr.text import shown

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
        found = tuple(_repairs(schedule, first, last, pos))
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


def _repairs(schedule: Schedule, producer: Tensor, consumer: Tensor, pos: int) -> Iterator[Repair]:
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
