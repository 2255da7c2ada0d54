"""Who reads whom, over tensors: dependency chains, use chains, common consumers.

The maximum-information spanning tree: over which neighbours the loops of one tensor are carried to all others.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Final

from bound.errors import ScheduleError
from bound.itervar import IterVar
from bound.operation import ComputeOp, Operation
from bound.replay.domain import AxisMap, TensorDomain, axis_map, current, domain, position_of
from bound.schedule import Schedule
from bound.schedule.message import with_ancestors
from bound.tensor import Tensor
from bound.tir import walk
from intset.errors import BudgetError

MAX_CHAINS: Final = 100_000  # tensors in all chains together

Chain = tuple[Tensor, ...]


class DependencyGraph:
    """The tensors of a schedule, producers first, each with what it reads and what reads it.

    Attributes
    ----------
    tensors: in the order of the stages; outputs of one operation follow one another.
    number: the place of each.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.tensors = tuple(t for stage in schedule.stages for t in stage.op.outputs)
        self.number = {t: k for k, t in enumerate(self.tensors)}
        self._read = {t: tuple(r for r in _read_by(t) if r in self.number) for t in self.tensors}
        self._readers: dict[Tensor, list[Tensor]] = {t: [] for t in self.tensors}
        for reader, read in self._read.items():
            for t in read:
                self._readers[t].append(reader)

    @cached_property
    def rank(self) -> dict[Operation, int]:
        """The place of each operation in an order that does not depend on how outputs are listed: by the length of the
        longest chain that leads to it, then by name, then by stage."""
        depth: dict[Operation, int] = {}
        for t in self.tensors:
            depth[t.op] = max((depth[r.op] + 1 for r in t.op.input_tensors if r.op in depth), default=0)
        order = sorted(depth, key=lambda op: (depth[op], op.name, self.number[op.outputs[0]]))
        return {op: k for k, op in enumerate(order)}

    def producers(self, tensor: Tensor) -> Chain:
        return self._read[tensor]

    def consumers(self, tensor: Tensor) -> Chain:
        return tuple(self._readers[tensor])

    def dependents(self, tensors: Iterable[Tensor]) -> set[Tensor]:
        """All that depends on one of the tensors, without these where they do not depend on one another."""
        return _reached(tensors, self.consumers)

    def needed(self, tensors: Iterable[Tensor]) -> set[Tensor]:
        """All that one of the tensors depends on."""
        return _reached(tensors, self.producers)

    def common_consumers(self, tensor: Tensor) -> Chain:
        """The tensors on every use chain: no read leads past one of them, and no chain ends before it."""
        found: list[Tensor] = []
        behind = sorted(self.dependents((tensor,)), key=self.number.__getitem__)
        farthest = max((self.number[t] for t in self._readers[tensor]), default=-1)
        for t in behind:
            if farthest <= self.number[t]:
                found.append(t)
            if not self._readers[t]:
                break
            farthest = max(farthest, *(self.number[r] for r in self._readers[t]))
        return tuple(found)

    def common_consumer(self, producer: Tensor, consumer: Tensor) -> Tensor | None:
        """The first of them that is `consumer` or depends on it."""
        behind = {consumer, *self.dependents((consumer,))}
        return next((t for t in self.common_consumers(producer) if t in behind), None)


def _read_by(tensor: Tensor) -> Chain:
    op = tensor.op
    if isinstance(op, ComputeOp) and op.num_outputs > 1:
        return walk.input_tensors((op.body[tensor.value_index],))
    return op.input_tensors


def _reached(start: Iterable[Tensor], step: Callable[[Tensor], Chain]) -> set[Tensor]:
    found: set[Tensor] = set()
    stack = list(start)
    while stack:
        new = [t for t in step(stack.pop()) if t not in found]
        found.update(new)
        stack.extend(new)
    return found


def producers(schedule: Schedule, tensor: Tensor) -> Chain:
    """The tensors that the formula of a tensor reads."""
    now = current(schedule, tensor)
    return DependencyGraph(schedule).producers(now)


def consumers(schedule: Schedule, tensor: Tensor) -> Chain:
    """The tensors whose formulas read a tensor, in the order of the stages."""
    now = current(schedule, tensor)
    return DependencyGraph(schedule).consumers(now)


def dependency_chains(schedule: Schedule, producer: Tensor, consumer: Tensor) -> tuple[Chain, ...]:
    """All paths from `producer` to `consumer`, each with both ends; of n diamonds, one behind another, 2^n.

    Raises
    ------
    BudgetError: the chains together have more than `MAX_CHAINS` tensors.
    """
    start, end = current(schedule, producer), current(schedule, consumer)
    graph = DependencyGraph(schedule)
    inside = {end, *graph.needed((end,))}
    return _chains(start, lambda t: () if t is end else tuple(r for r in graph.consumers(t) if r in inside), {end})


def use_chains(schedule: Schedule, tensor: Tensor) -> tuple[Chain, ...]:
    """All paths from a tensor to tensors that nothing reads, each with both ends; there may be 2^n of n tensors.

    Raises
    ------
    BudgetError: the chains together have more than `MAX_CHAINS` tensors.
    """
    start = current(schedule, tensor)
    graph = DependencyGraph(schedule)
    return _chains(start, graph.consumers, {t for t in graph.tensors if not graph.consumers(t)})


def _chains(start: Tensor, step: Callable[[Tensor], Chain], ends: set[Tensor]) -> tuple[Chain, ...]:
    found: list[Chain] = []
    size = 0
    stack: list[Chain] = [(start,)]
    while stack:
        chain = stack.pop()
        if chain[-1] in ends and len(chain) > 1:
            found.append(chain)
            size += len(chain)
        else:
            more = [(*chain, t) for t in reversed(step(chain[-1]))]
            size += len(more)
            stack += more
        if size > MAX_CHAINS:
            raise BudgetError(f"the chains from {start.name} have more than {MAX_CHAINS} tensors together")
    return tuple(found)


def common_consumers(schedule: Schedule, tensor: Tensor) -> Chain:
    """The tensors that are on every use chain of a tensor, which is none of them itself."""
    now = current(schedule, tensor)
    return DependencyGraph(schedule).common_consumers(now)


def common_consumer(schedule: Schedule, producer: Tensor, consumer: Tensor) -> Tensor | None:
    """The first common consumer of `producer` that is `consumer` or depends on it; `None` where there is none.

    Raises
    ------
    ScheduleError: `consumer` does not depend on `producer`.
    """
    first, second = current(schedule, producer), current(schedule, consumer)
    graph = DependencyGraph(schedule)
    check_depends(graph, first, second)
    return graph.common_consumer(first, second)


def check_depends(graph: DependencyGraph, producer: Tensor, consumer: Tensor) -> None:
    """Refuse a consumer that reads `producer` not even through others."""
    if consumer is producer:
        raise ScheduleError(f"{producer.name} is given as what it is read by, but it does not read itself")
    if consumer not in graph.dependents((producer,)):
        raise ScheduleError(f"{consumer.name} does not depend on {producer.name}, not even through other tensors")


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


class RootMaps:
    """The domains of a schedule as they are at the start of a question, and the axes of neighbours that are the same.

    A replay adds no root axis, so the maps hold whatever loops become.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.graph = DependencyGraph(schedule)
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
    around = RootMaps(schedule)
    first = around.domain(start)
    return tuple(tree(around, start, position_of(pos, first.depth, start.name)))


def tree(around: RootMaps, start: Tensor, position: int, allowed: Allowed | None = None) -> Iterator[Edge]:
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


def _carried(around: RootMaps, edge: Edge, known: frozenset[IterVar]) -> frozenset[IterVar]:
    if edge.kind == C2P:
        axes = around.axes(edge.target, edge.source).to_reader
        return frozenset(own for own, reader in axes.items() if reader in known)
    axes = around.axes(edge.source, edge.target).to_reader
    return frozenset(axes[own] for own in known if own in axes)
