"""Who reads whom, over tensors: dependency chains, use chains, common consumers."""

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

MAX_CHAINS: Final = 100_000  # tensors in all chains together

Chain = tuple[Tensor, ...]


class Graph:
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
    return Graph(schedule).producers(now)


def consumers(schedule: Schedule, tensor: Tensor) -> Chain:
    """The tensors whose formulas read a tensor, in the order of the stages."""
    now = current(schedule, tensor)
    return Graph(schedule).consumers(now)


def dependency_chains(schedule: Schedule, producer: Tensor, consumer: Tensor) -> tuple[Chain, ...]:
    """All paths from `producer` to `consumer`, each with both ends; of n diamonds, one behind another, 2^n.

    Raises
    ------
    BudgetError: the chains together have more than `MAX_CHAINS` tensors.
    """
    start, end = current(schedule, producer), current(schedule, consumer)
    graph = Graph(schedule)
    inside = {end, *graph.needed((end,))}
    return _chains(start, lambda t: () if t is end else tuple(r for r in graph.consumers(t) if r in inside), {end})


def use_chains(schedule: Schedule, tensor: Tensor) -> tuple[Chain, ...]:
    """All paths from a tensor to tensors that nothing reads, each with both ends; there may be 2^n of n tensors.

    Raises
    ------
    BudgetError: the chains together have more than `MAX_CHAINS` tensors.
    """
    start = current(schedule, tensor)
    graph = Graph(schedule)
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
    return Graph(schedule).common_consumers(now)


def common_consumer(schedule: Schedule, producer: Tensor, consumer: Tensor) -> Tensor | None:
    """The first common consumer of `producer` that is `consumer` or depends on it; `None` where there is none.

    Raises
    ------
    ScheduleError: `consumer` does not depend on `producer`.
    """
    first, second = current(schedule, producer), current(schedule, consumer)
    graph = Graph(schedule)
    check_depends(graph, first, second)
    return graph.common_consumer(first, second)


def check_depends(graph: Graph, producer: Tensor, consumer: Tensor) -> None:
    """Refuse a consumer that reads `producer` not even through others."""
    if consumer is producer:
        raise ScheduleError(f"{producer.name} is given as what it is read by, but it does not read itself")
    if consumer not in graph.dependents((producer,)):
        raise ScheduleError(f"{consumer.name} does not depend on {producer.name}, not even through other tensors")
