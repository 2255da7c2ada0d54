"""Dependency chains, use chains and common consumers of tensors.

Example: with `T2 = f(T1)`, `T3 = g(T1)`, `T4 = T2 + T3`, the dependency chains from `T1` to `T4` are `T1, T2, T4` and
`T1, T3, T4`; the use chains of `T1` are the same, and `T4` is its common consumer.

Terms: nvFuser, *computeAt*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Final

from bound.errors import ScheduleError
from bound.operation import ComputeOp, Operation
from bound.replay.domain import current
from bound.schedule import Schedule
from bound.tensor import Tensor
from bound.tir import walk
from intset.errors import BudgetError
from intset.expr.dag import reachable

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
        return set(reachable((c for t in tensors for c in self.consumers(t)), self.consumers))

    def needed(self, tensors: Iterable[Tensor]) -> set[Tensor]:
        """Return all tensors on which one of `tensors` depends."""
        return set(reachable((p for t in tensors for p in self.producers(t)), self.producers))

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
