"""computeAt by replay: one call moves a producer into the loops of its consumers and transforms every tensor concerned.

>>> from bound import replay, te
>>> A = te.placeholder((8, 9), name="A")
>>> T1 = te.compute((8, 9), lambda i, j: A[i, j] + 1, name="T1")
>>> r1, r2 = te.reduce_axis((0, 9), "r1"), te.reduce_axis((0, 9), "r2")
>>> T2 = te.compute((8,), lambda i: te.max(T1[i, r1], axis=r1), name="T2")
>>> T3 = te.compute((8,), lambda i: te.min(T1[i, r2], axis=r2), name="T3")
>>> T4 = te.compute((8,), lambda i: T2[i] + T3[i], name="T4")
>>> s = te.create_schedule(T4.op)
>>> replay.compute_at(s, T1, T2, -1, mode="best_effort").position
2
>>> [s[T].compute_at_position for T in (T1, T2, T3, T4)]
[2, 1, 1, 0]

Modules, in the order of their imports
--------------------------------------

    transform_replay   TensorDomain, a tensor's axes from root to loop; dependency chains; replayPasC, replayCasP
    loops              SharedNest, the nest that positions imply, built and checked; Reason, Repair, ReplayError;
                       ScheduleSnapshot, state that a call changes before it writes back
    compute_at         the spanning tree, propagation of loops and positions; the calls, their repairs, and clones

A position counts leading loops of the tensor that it belongs to. Converting it between a producer and a consumer skips
reductions of the producer, and consumer loops without a producer axis.
"""

from bound.replay.compute_at import (
    Edge,
    Outcome,
    compute_at,
    inline_all_at,
    inline_at,
    inline_most,
    propagate,
    spanning_tree,
)
from bound.replay.loops import Reason, Repair, ReplayError
from bound.replay.transform_replay import (
    Replayed,
    TensorDomain,
    common_consumer,
    common_consumers,
    consumers,
    dependency_chains,
    domain,
    matched_consumer_position,
    matched_producer_position,
    producers,
    replay_consumer_as_producer,
    replay_producer_as_consumer,
    use_chains,
)

__all__ = [
    "Edge",
    "Outcome",
    "Reason",
    "Repair",
    "ReplayError",
    "Replayed",
    "TensorDomain",
    "common_consumer",
    "common_consumers",
    "compute_at",
    "consumers",
    "dependency_chains",
    "domain",
    "inline_all_at",
    "inline_at",
    "inline_most",
    "matched_consumer_position",
    "matched_producer_position",
    "producers",
    "propagate",
    "replay_consumer_as_producer",
    "replay_producer_as_consumer",
    "spanning_tree",
    "use_chains",
]
