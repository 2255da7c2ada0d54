"""Dependency chains, use chains, common consumers, and the maximum-information spanning tree of tensors.

Example: with `T2 = f(T1)`, `T3 = g(T1)`, `T4 = T2 + T3`, the dependency chains from `T1` to `T4` are `T1, T2, T4` and
`T1, T3, T4`; the use chains of `T1` are the same, and `T4` is its common consumer.

The spanning tree decides along which edges a replay propagates loops: from a start tensor, each other tensor is reached
over the path that preserves the most root axes of the start. Terms: nvFuser, *computeAt* and *MaxInfoSpanningTree*.
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
from bound.schedule.relations import with_ancestors
from bound.tensor import Tensor
from bound.tir import walk
from intset.errors import BudgetError

MAX_CHAINS: Final = 100_000  # tensors in all chains together

Chain = tuple[Tensor, ...]


class DependencyGraph:
    """Producers and consumers of each tensor of a schedule.

    Attributes
    ----------
    tensors: in stage order, so producers first; outputs of one operation are adjacent.
    number: the index of each tensor in `tensors`.
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
        """Order operations by the length of the longest chain that leads to them, then by name, then by stage.

        Guarantee: the order does not depend on how outputs are listed, unless operations share a name.
        """
        depth: dict[Operation, int] = {}
        for t in self.tensors:
            depth[t.op] = max((depth[r.op] + 1 for r in t.op.input_tensors if r.op in depth), default=0)
        order = sorted(depth, key=lambda op: (depth[op], op.name, self.number[op.outputs[0]]))
        return {op: k for k, op in enumerate(order)}

    def producers(self, tensor: Tensor) -> Chain:
        """Tensors that the formula of a tensor reads."""
        return self._read[tensor]

    def consumers(self, tensor: Tensor) -> Chain:
        """Tensors whose formulas read a tensor."""
        return tuple(self._readers[tensor])

    def dependents(self, tensors: Iterable[Tensor]) -> set[Tensor]:
        """Return all tensors that depend on one of `tensors`."""
        return _reached(tensors, self.consumers)

    def needed(self, tensors: Iterable[Tensor]) -> set[Tensor]:
        """Return all tensors on which one of `tensors` depends."""
        return _reached(tensors, self.producers)

    def common_consumers(self, tensor: Tensor) -> Chain:
        """Return the tensors on every use chain of a tensor, in stage order."""
        common: list[Tensor] = []
        behind = sorted(self.dependents((tensor,)), key=self.number.__getitem__)
        farthest = max((self.number[t] for t in self._readers[tensor]), default=-1)
        for t in behind:
            if farthest <= self.number[t]:
                common.append(t)
            if not self._readers[t]:
                break
            farthest = max(farthest, *(self.number[r] for r in self._readers[t]))
        return tuple(common)

    def common_consumer(self, producer: Tensor, consumer: Tensor) -> Tensor | None:
        """Return the first common consumer of `producer` that is `consumer` or depends on it."""
        behind = {consumer, *self.dependents((consumer,))}
        return next((t for t in self.common_consumers(producer) if t in behind), None)


def _read_by(tensor: Tensor) -> Chain:
    op = tensor.op
    if isinstance(op, ComputeOp) and op.num_outputs > 1:
        return walk.input_tensors((op.body[tensor.value_index],))
    return op.input_tensors


def _reached(start: Iterable[Tensor], step: Callable[[Tensor], Chain]) -> set[Tensor]:
    reached: set[Tensor] = set()
    stack = list(start)
    while stack:
        new = [t for t in step(stack.pop()) if t not in reached]
        reached.update(new)
        stack.extend(new)
    return reached


def producers(schedule: Schedule, tensor: Tensor) -> Chain:
    """Return the tensors that the formula of a tensor reads."""
    now = current(schedule, tensor)
    return DependencyGraph(schedule).producers(now)


def consumers(schedule: Schedule, tensor: Tensor) -> Chain:
    """Return the tensors whose formulas read a tensor, in stage order."""
    now = current(schedule, tensor)
    return DependencyGraph(schedule).consumers(now)


def dependency_chains(schedule: Schedule, producer: Tensor, consumer: Tensor) -> tuple[Chain, ...]:
    """Return all paths from `producer` to `consumer`, both ends included; n consecutive diamonds have 2^n paths.

    Raises
    ------
    BudgetError: the chains contain more than `MAX_CHAINS` tensors in total.
    """
    start, end = current(schedule, producer), current(schedule, consumer)
    graph = DependencyGraph(schedule)
    inside = {end, *graph.needed((end,))}
    return _chains(start, lambda t: () if t is end else tuple(r for r in graph.consumers(t) if r in inside), {end})


def use_chains(schedule: Schedule, tensor: Tensor) -> tuple[Chain, ...]:
    """Return all paths from a tensor to tensors without consumers, both ends included.

    Raises
    ------
    BudgetError: the chains contain more than `MAX_CHAINS` tensors in total.
    """
    start = current(schedule, tensor)
    graph = DependencyGraph(schedule)
    return _chains(start, graph.consumers, {t for t in graph.tensors if not graph.consumers(t)})


def _chains(start: Tensor, step: Callable[[Tensor], Chain], ends: set[Tensor]) -> tuple[Chain, ...]:
    chains: list[Chain] = []
    size = 0
    stack: list[Chain] = [(start,)]
    while stack:
        chain = stack.pop()
        if chain[-1] in ends and len(chain) > 1:
            chains.append(chain)
            size += len(chain)
        else:
            more = [(*chain, t) for t in reversed(step(chain[-1]))]
            size += len(more)
            stack += more
        if size > MAX_CHAINS:
            raise BudgetError(f"the chains from {start.name} have more than {MAX_CHAINS} tensors together")
    return tuple(chains)


def common_consumers(schedule: Schedule, tensor: Tensor) -> Chain:
    """Return the tensors on every use chain of a tensor, in stage order; the tensor itself is excluded."""
    now = current(schedule, tensor)
    return DependencyGraph(schedule).common_consumers(now)


def common_consumer(schedule: Schedule, producer: Tensor, consumer: Tensor) -> Tensor | None:
    """Return the first common consumer of `producer` that is `consumer` or depends on it; `None` if there is none.

    Raises
    ------
    ScheduleError: `consumer` does not depend on `producer`.
    """
    first, second = current(schedule, producer), current(schedule, consumer)
    graph = DependencyGraph(schedule)
    check_depends(graph, first, second)
    return graph.common_consumer(first, second)


def check_depends(graph: DependencyGraph, producer: Tensor, consumer: Tensor) -> None:
    """Raise `ScheduleError` unless `consumer` depends on `producer`, directly or indirectly."""
    if consumer is producer:
        raise ScheduleError(f"{producer.name} is given as what it is read by, but it does not read itself")
    if consumer not in graph.dependents((producer,)):
        raise ScheduleError(f"{consumer.name} does not depend on {producer.name}, not even through other tensors")


C2P: Final = "C2P"
P2C: Final = "P2C"


@dataclass(frozen=True)
class Edge:
    """A step of a propagation: from a consumer to a producer ("C2P"), or from a producer to a consumer ("P2C")."""

    kind: str
    source: Tensor
    target: Tensor

    @property
    def producer(self) -> Operation:
        """The operation that the other one reads."""
        return self.target.op if self.kind == C2P else self.source.op

    @property
    def consumer(self) -> Operation:
        """The operation that reads the other one."""
        return self.source.op if self.kind == C2P else self.target.op

    def __repr__(self) -> str:
        return f"{self.kind} {self.source.name}->{self.target.name}"


Allowed = Callable[[Edge], bool]


class RootMaps:
    """Domains of tensors and root maps of neighbours, computed on demand.

    Invariant: replays add no root axis, so root maps stay valid while loops change.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.graph = DependencyGraph(schedule)
        self.domains: dict[Operation, TensorDomain] = {}
        self._maps: dict[tuple[Operation, Operation], AxisMap] = {}

    def domain(self, tensor: Tensor) -> TensorDomain:
        """Domain of a tensor; replays replace it."""
        known_domain = self.domains.get(tensor.op)
        if known_domain is None:
            known_domain = self.domains[tensor.op] = domain(self.schedule, tensor)
        return known_domain

    def axes(self, producer: Tensor, consumer: Tensor) -> AxisMap:
        """Root map of a producer and a direct consumer."""
        key = (producer.op, consumer.op)
        root_map = self._maps.get(key)
        if root_map is None:
            root_map = self._maps[key] = axis_map(self.domain(producer), self.domain(consumer))
        return root_map

    def edges(self, tensor: Tensor) -> Iterator[Edge]:
        """Edges from the operation of a tensor, producers first; each neighbour occurs once per direction."""
        outputs = tensor.op.outputs
        read = dict.fromkeys(t for output in outputs for t in self.graph.producers(output))
        yield from (Edge(C2P, tensor, t) for t in read)
        reading = {t.op: t for output in outputs for t in reversed(self.graph.consumers(output))}
        yield from (Edge(P2C, tensor, t) for t in sorted(reading.values(), key=lambda t: self.graph.rank[t.op]))


def spanning_tree(schedule: Schedule, tensor: Tensor, pos: int = -1) -> tuple[Edge, ...]:
    """Return the edges of the maximum-information spanning tree from a tensor, in the order of their selection.

    The weight of an edge is the number of root axes behind the first `pos` loops of `tensor` that are still axes of the
    target; edges of weight 0 are excluded. The heaviest edge is selected next. Ties, in order: fewest edges from
    `tensor`; C2P before P2C; shortest longest chain to the target; name; stage. So the order in which outputs are
    listed matters only among operations of one name.

    Raises
    ------
    InputError: the position is out of range.
    """
    start = current(schedule, tensor)
    around = RootMaps(schedule)
    first = around.domain(start)
    return tuple(tree(around, start, position_of(pos, first.depth, start.name)))


def tree(around: RootMaps, start: Tensor, position: int, allowed: Allowed | None = None) -> Iterator[Edge]:
    """Yield the edges of the maximum-information spanning tree, restricted to the allowed ones."""
    first = around.domain(start)
    needed = with_ancestors(first.relations, first.loop[:position])
    reached: set[Operation] = {start.op}
    ticket = count()
    heap: list[tuple[int, int, str, int, int, Edge, frozenset[IterVar]]] = []

    def look(at: Tensor, roots: frozenset[IterVar], steps: int) -> None:
        """Push the edges of `at`; `known` are its roots that are root axes of the start."""
        for edge in around.edges(at):
            if edge.target.op in reached or not (allowed is None or allowed(edge)):
                continue
            there = _carried(around, edge, roots)
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


def _carried(around: RootMaps, edge: Edge, roots: frozenset[IterVar]) -> frozenset[IterVar]:
    if edge.kind == C2P:
        axes = around.axes(edge.target, edge.source).to_reader
        return frozenset(own for own, reader in axes.items() if reader in roots)
    axes = around.axes(edge.source, edge.target).to_reader
    return frozenset(axes[own] for own in roots if own in axes)
