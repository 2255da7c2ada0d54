"""Order of execution inside a loop body: items that stages share, fills of double buffers, outputs with storage.

Lowering builds nests by these decisions, and `live_storage` counts what such nests keep.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from bound.errors import ScheduleError
from bound.operation import ComputeOp, Operation, PlaceholderOp, TensorComputeOp
from bound.schedule import Stage
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.reduce import CommReducer
from bound.tir.value import REDUCE, Operand, Value
from intset.expr.dag import reachable


class ExecutedItem(Protocol):
    """One part of a loop body.

    Attributes
    ----------
    stages: computed stages, with schedule positions.
    starts: it initialises a reduction that a later item continues.
    reads, writes: the tensors of these stages.
    """

    @property
    def stages(self) -> Mapping[Stage, int]: ...
    @property
    def starts(self) -> bool: ...
    @property
    def reads(self) -> Collection[Tensor]: ...
    @property
    def writes(self) -> Collection[Tensor]: ...


ItemT = TypeVar("ItemT", bound=ExecutedItem)


def ordered(items: Sequence[ItemT]) -> list[ItemT]:
    """Sort items topologically, by producers; ties follow the schedule.

    Raises
    ------
    ScheduleError: items depend on one another in a cycle.
    """
    numbers = [min(item.stages.values()) for item in items]
    producer = {t: k for k, item in enumerate(items) if not item.starts for t in item.writes}
    before: list[set[int]] = [{producer[t] for t in item.reads if t in producer} - {k} for k, item in enumerate(items)]
    for k, item in enumerate(items):
        if item.starts:
            for later, other in enumerate(items):
                if not other.starts and any(stage in other.stages for stage in item.stages):
                    before[later].add(k)
                    before[k].discard(later)
    after: list[list[int]] = [[] for _ in items]
    for k, earlier in enumerate(before):
        for first in earlier:
            after[first].append(k)
    left = [len(earlier) for earlier in before]
    ready = [(numbers[k], k) for k, count in enumerate(left) if not count]
    heapq.heapify(ready)
    order: list[ItemT] = []
    while ready:
        _, k = heapq.heappop(ready)
        order.append(items[k])
        for later in after[k]:
            left[later] -= 1
            if not left[later]:
                heapq.heappush(ready, (numbers[later], later))
    if len(order) < len(items):
        late = next(item for k, item in enumerate(items) if left[k])
        names = ", ".join(stage.name for stage in late.stages)
        raise ScheduleError(f"no order of {names} in one loop has everything complete before it is read")
    return order


def filled_ahead(
    accesses: Sequence[tuple[Iterable[Tensor], Iterable[Tensor]]], buffers: Collection[Tensor]
) -> set[int]:
    """The parts of a loop body that fill double buffers, and the producers that serve these parts alone.

    Parameters
    ----------
    accesses: for each part, the tensors it only reads and the tensors it writes.
    buffers: the double buffers.
    """
    wanted = set(buffers)
    parts = [(set(reads), set(writes)) for reads, writes in accesses]
    ahead = {k for k, (_, writes) in enumerate(parts) if wanted & writes}
    while True:
        read = set().union(*(parts[k][0] for k in ahead))
        others = set().union(*(reads for k, (reads, _) in enumerate(parts) if k not in ahead))
        more = {k for k, (_, writes) in enumerate(parts) if writes and writes <= read and not writes & others}
        if more <= ahead:
            return ahead
        ahead |= more


def stored_outputs(op: Operation, wanted: Container[Tensor]) -> tuple[Tensor, ...]:
    """Outputs of an operation that need storage: wanted outputs, and operands of their combiners.

    Extern operations and scans write all of their outputs; so do those of which nothing is wanted.
    """
    asked = [k for k, t in enumerate(op.outputs) if t in wanted]
    if not isinstance(op, (ComputeOp, TensorComputeOp)):
        return () if isinstance(op, PlaceholderOp) and not asked else op.outputs
    body = op.body if isinstance(op, ComputeOp) else op.call.intrin.op.body
    top = body[0]
    if isinstance(top, Value) and top.op is REDUCE:
        asked = _combined(top.data.combiner, asked)
    return tuple(op.outputs[k] for k in asked)


def _combined(combiner: CommReducer, asked: Sequence[int]) -> list[int]:
    """The transitive closure of some results under the combiner's dependences."""
    place: dict[Operand, int] = {parameter: k for k, parameter in enumerate(combiner.lhs)}
    return sorted(
        reachable(asked, lambda k: [place[node] for node in walk.nodes(combiner.results[k]) if node in place])
    )
