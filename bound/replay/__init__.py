"""computeAt by replay: one call makes a producer's loops those of its readers, however many there are.

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

What is a loop of whom
----------------------

    domain         a tensor's axes, from dimensions to loops, as a value
    axes           which axis of a producer is which of its reader: read off the indices of the read
    history        relations found again in another domain, or done to it
    replays        replayPasC, replayCasP; matched positions
    chains         dependency chains, use chains, common consumers
    spanning       the maximum-information spanning tree
    carry          loops and positions carried along it; `propagate`
    positions      how many loops can be shared, and why not more
    loops          the nest that positions make, as a value
    nests          which leaves are one loop, and which loop stands in which
    order          whether everything in a loop can be complete before it is read
    lengths        whether a loop is as long for each of its stages
    longer         a stage in loops that are longer than its own
    scene          what a call changes, apart from the schedule until it is written back
    place          `compute_at`, `inline_at`, `inline_all_at`, `inline_most`
    recompute      clones for some of the readers
    compute_at     the call with its repairs
    reasons        `Reason`, `Repair`, `ReplayError`

Positions are counted in the loops of the tensor they belong to. From a reader to what it reads, and back, loops of the
reader that come from no axis of the producer do not count, nor do reductions of the producer.
"""

from bound.replay.compute_at import Outcome, compute_at, inline_all_at, inline_at, inline_most
from bound.replay.dependencies import (
    Edge,
    common_consumer,
    common_consumers,
    consumers,
    dependency_chains,
    producers,
    spanning_tree,
    use_chains,
)
from bound.replay.domain import TensorDomain, domain
from bound.replay.positions import propagate
from bound.replay.reasons import Reason, Repair, ReplayError
from bound.replay.transform_replay import (
    Replayed,
    matched_consumer_position,
    matched_producer_position,
    replay_consumer_as_producer,
    replay_producer_as_consumer,
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
