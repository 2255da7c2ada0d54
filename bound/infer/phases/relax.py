"""Phase 1 of InferRootBound: which loops around a read are fixed for the producer, and which it must serve whole."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from bound.errors import ScheduleError
from bound.infer.phases.threads import tag_of
from bound.itervar import IterVar
from bound.schedule import Stage
from bound.schedule.attach import AttachPath
from bound.schedule.scopes import default_storage_rank, needs_relax, storage_rank


@dataclass(frozen=True)
class LoopState:
    """One loop around a read.

    Attributes
    ----------
    stage: the stage the loop belongs to.
    iv: the loop.
    is_fixed: whether one execution of the producer serves one value of the loop only.
    """

    stage: Stage
    iv: IterVar
    is_fixed: bool


def storage_rank_of(stage: Stage, path: AttachPath) -> int:
    """The rank of the storage of a stage: of its scope, or what the threads around it suggest."""
    if stage.scope:
        return storage_rank(stage.scope)
    return default_storage_rank(tuple(tag_of(at, iv) for at, iv in path))


def initialise_leaves(
    producer: Stage,
    producer_path: AttachPath,
    consumer: Stage,
    consumer_path: AttachPath,
    shared: Container[IterVar] = (),
) -> tuple[LoopState, ...]:
    """The loops around the consumer's formula, innermost first, each fixed or relaxed for the producer.

    A loop is fixed when the producer is computed inside it, unless the storage of the producer is shared by the
    threads the loop runs on. A loop on threads that the producer is not inside of is relaxed even where every thread
    has storage of its own (TVM fixes it): each thread then computes what any of them needs, for which of them it is
    cannot be told outside of the loop. In a loop that both share (`shared`) each thread serves itself.
    """
    rank = storage_rank_of(producer, producer_path)
    around = {iv for _, iv in producer_path}
    own = tuple((consumer, iv) for iv in reversed(consumer.leaf_iter_vars))
    states = []
    found = False
    for stage, iv in (*own, *consumer_path):
        found = found or iv in around
        is_fixed = found and (iv in shared or not needs_relax(tag_of(stage, iv), rank, True))
        states.append(LoopState(stage, iv, is_fixed))
    if not found and producer_path:
        at, axis = producer_path[0]
        raise ScheduleError(
            f"stage {producer.name}: it is computed at {axis.name} of {at.name}, "
            f"but {consumer.name}, which reads it, is outside that loop"
        )
    return tuple(states)
