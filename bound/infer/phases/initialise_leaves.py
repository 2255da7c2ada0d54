"""InitialiseLeaves, phase 1 of InferRootBound: which loops around a read are fixed and which are relaxed."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from bound.errors import ScheduleError
from bound.itervar import IterVar
from bound.schedule import Stage
from bound.schedule.attach import AttachPath
from bound.schedule.scopes import default_storage_rank, needs_relax, storage_rank


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
