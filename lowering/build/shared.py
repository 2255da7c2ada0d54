"""Loops that several stages share: the body of each put together of what its stages do in it.

What a place of the nest (the root, or the body of a loop) holds are loops that are shared there, the nests of stages
whose remaining loops are their own, and what starts a reduction that runs over a shared loop, before that loop.
Everything stands behind what it reads, else in the order of the schedule.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bound.errors import ScheduleError
from bound.schedule import Stage
from bound.tensor import Tensor
from intset.expr.node import Cond
from intset.expr.walk import opaque_terms
from intset.linear.canonical import Normalizer
from lowering.nest.ir import Allocate, For, If, Seq, Stmt, seq
from lowering.nest.walk import operands, statements, tensors_read

_FORMS: Final = Normalizer({})


@dataclass(eq=False)
class Item:
    """One thing in the body of a loop.

    Attributes
    ----------
    stages: those that do something in it, with their numbers in the schedule.
    stmt: what is done.
    starts: whether it starts a reduction that goes on in a later item.
    """

    stages: dict[Stage, int]
    stmt: Stmt
    starts: bool = False
    reads: set[Tensor] = field(default_factory=set)
    writes: set[Tensor] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.starts:
            self.reads = {t for stmt in statements(self.stmt) for t in tensors_read(*operands(stmt))}
        else:
            self.reads = {t for stage in self.stages for t in stage.op.input_tensors}
            self.writes = {t for stage in self.stages for t in stage.op.outputs}

    @property
    def number(self) -> int:
        return min(self.stages.values())


def ordered(items: Sequence[Item]) -> list[Item]:
    """The items, each behind those that make what it reads; else in the order of the schedule."""
    made: dict[Tensor, int] = {t: k for k, item in enumerate(items) for t in item.writes}
    before: list[set[int]] = [{made[t] for t in item.reads if t in made} - {k} for k, item in enumerate(items)]
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
    ready = [(items[k].number, k) for k, count in enumerate(left) if not count]
    heapq.heapify(ready)
    found: list[Item] = []
    while ready:
        _, k = heapq.heappop(ready)
        found.append(items[k])
        for later in after[k]:
            left[later] -= 1
            if not left[later]:
                heapq.heappush(ready, (items[later].number, later))
    if len(found) < len(items):
        late = next(item for k, item in enumerate(items) if left[k])
        names = ", ".join(stage.name for stage in late.stages)
        raise ScheduleError(f"no order of {names} in one loop has everything complete before it is read")
    return found


def merged(stmts: Iterable[Stmt]) -> list[Stmt]:
    """Neighbours under the same condition under one. Conditions are on loops and sizes, no statement changes them."""
    found: list[Stmt] = []
    for stmt in stmts:
        last = found[-1] if found else None
        if isinstance(last, If) and isinstance(stmt, If) and _is_same(last, stmt):
            found[-1] = If(last.cond, seq(last.then, stmt.then))
        else:
            found.append(stmt)
    return found


def _is_same(one: If, other: If) -> bool:
    if one.orelse is not None or other.orelse is not None:
        return False
    if not (isinstance(one.cond, Cond) and isinstance(other.cond, Cond)) or opaque_terms(one.cond, other.cond):
        return False
    return one.cond is other.cond or _FORMS.cond(one.cond) is _FORMS.cond(other.cond)


def around(loop: For) -> Stmt:
    """A loop, inside the condition of all of its body where that does not depend on it."""
    body = loop.body
    stmts = body.stmts if isinstance(body, Seq) else (body,)
    storage = tuple(stmt for stmt in stmts if isinstance(stmt, Allocate))
    rest = stmts[len(storage) :]
    if len(rest) != 1 or stmts[: len(storage)] != storage:
        return loop
    only = rest[0]
    if not isinstance(only, If) or only.orelse is not None or not isinstance(only.cond, Cond):
        return loop
    if loop.var in only.cond.free_vars() or opaque_terms(only.cond):
        return loop
    return If(only.cond, replace(loop, body=seq(*storage, only.then)))
