"""The maximum-information spanning tree: over which neighbours the loops of one tensor are carried to all others."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

from bound.itervar import IterVar
from bound.operation import Operation
from bound.replay.axes import AxisMap, axis_map
from bound.replay.chains import Graph
from bound.replay.domain import TensorDomain, current, domain, position_of
from bound.schedule import Schedule
from bound.schedule.message import with_ancestors
from bound.tensor import Tensor

C2P: Final = "C2P"
P2C: Final = "P2C"


@dataclass(frozen=True)
class Edge:
    """One step: from a reader to what it reads ("C2P"), or from what is read to a reader ("P2C")."""

    kind: str
    source: Tensor
    target: Tensor

    @property
    def producer(self) -> Operation:
        return self.target.op if self.kind == C2P else self.source.op

    @property
    def consumer(self) -> Operation:
        return self.source.op if self.kind == C2P else self.target.op

    def __repr__(self) -> str:
        return f"{self.kind} {self.source.name}->{self.target.name}"


Allowed = Callable[[Edge], bool]


class Neighbours:
    """The domains of a schedule as they are at the start of a question, and the axes of neighbours that are the same.

    A replay adds no root axis, so the maps hold whatever loops become.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.graph = Graph(schedule)
        self.domains: dict[Operation, TensorDomain] = {}
        self._maps: dict[tuple[Operation, Operation], AxisMap] = {}

    def domain(self, tensor: Tensor) -> TensorDomain:
        found = self.domains.get(tensor.op)
        if found is None:
            found = self.domains[tensor.op] = domain(self.schedule, tensor)
        return found

    def axes(self, producer: Tensor, consumer: Tensor) -> AxisMap:
        key = (producer.op, consumer.op)
        found = self._maps.get(key)
        if found is None:
            found = self._maps[key] = axis_map(self.domain(producer), self.domain(consumer))
        return found

    def edges(self, tensor: Tensor) -> Iterator[Edge]:
        """The steps from the operation of a tensor, to producers before readers, each neighbour once."""
        outputs = tensor.op.outputs
        read = dict.fromkeys(t for output in outputs for t in self.graph.producers(output))
        yield from (Edge(C2P, tensor, t) for t in read)
        reading = {t.op: t for output in outputs for t in reversed(self.graph.consumers(output))}
        yield from (Edge(P2C, tensor, t) for t in sorted(reading.values(), key=lambda t: self.graph.rank[t.op]))


def spanning_tree(schedule: Schedule, tensor: Tensor, pos: int = -1) -> tuple[Edge, ...]:
    """The maximum spanning tree from a tensor, in the order in which it grows.

    The information that a step carries is the number of root axes of `tensor`, of those that its first `pos` loops come
    from, that are still axes of the tensor it leads to; a step that carries none is not taken. The next step is always
    one that carries most. Where several carry as much, it is the one that ends fewest steps from `tensor`; of these one
    to a producer before one to a reader; then the one that leads to the operation to which the longest chain is
    shortest; then the one whose name comes first; and only of operations of one name the one of the earlier stage. So
    the order in which outputs are listed decides among operations of one name alone.
    """
    start = current(schedule, tensor)
    around = Neighbours(schedule)
    first = around.domain(start)
    return tuple(tree(around, start, position_of(pos, first.depth, start.name)))


def tree(around: Neighbours, start: Tensor, position: int, allowed: Allowed | None = None) -> Iterator[Edge]:
    """The edges of the maximum spanning tree, over those that are allowed."""
    first = around.domain(start)
    needed = with_ancestors(first.relations, first.loop[:position])
    reached: set[Operation] = {start.op}
    ticket = count()
    heap: list[tuple[int, int, str, int, int, Edge, frozenset[IterVar]]] = []

    def look(at: Tensor, known: frozenset[IterVar], steps: int) -> None:
        """`known`: the roots of `at` that are such axes."""
        for edge in around.edges(at):
            if edge.target.op in reached or not (allowed is None or allowed(edge)):
                continue
            there = _carried(around, edge, known)
            if there:
                rank = around.graph.rank[edge.target.op]
                heapq.heappush(heap, (-len(there), steps, edge.kind, rank, next(ticket), edge, there))

    look(start, frozenset(iv for iv in first.root if iv in needed), 1)
    while heap:
        _, steps, _, _, _, edge, there = heapq.heappop(heap)
        if edge.target.op not in reached:
            reached.add(edge.target.op)
            yield edge
            look(edge.target, there, steps + 1)


def _carried(around: Neighbours, edge: Edge, known: frozenset[IterVar]) -> frozenset[IterVar]:
    if edge.kind == C2P:
        axes = around.axes(edge.target, edge.source).to_reader
        return frozenset(own for own, reader in axes.items() if reader in known)
    axes = around.axes(edge.source, edge.target).to_reader
    return frozenset(axes[own] for own in known if own in axes)
