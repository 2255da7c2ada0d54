"""The nest that stages form when they share leading loops, as a value, and the reasons why loops cannot be shared.

A *leaf* is the k-th loop of an operation, `(op, k)`. A stage with compute-at position p shares its first p loops with
all of its consumers, loop by loop. Leaves connected by such pairs form one `SharedLoop`. Example: `T1` at position 1
under its consumers `T2` and `T3`, all over `(i, j)`:

    for i:                 # leaves (T1, 0), (T2, 0), (T3, 0)
      for j: T1[i, j] = ..
      for j: T2[i, j] = T1[i, j] ..
      for j: T3[i, j] = T1[i, j] ..

`legality` builds and checks the nest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bound.errors import ScheduleError
from bound.itervar import IterVar
from bound.operation import Operation
from bound.replay.domain import TensorDomain, has_one
from bound.replay.transform_replay import Matching
from bound.schedule import IterVarAttr, IterVarRelation, Schedule
from bound.schedule.relations import with_ancestors
from bound.tensor import Tensor

REDUCTION: Final = "reduction"
MISMATCH: Final = "mismatch"
UNMAPPED: Final = "unmapped"
KIND: Final = "kind"
PERSISTENT: Final = "persistent"
FROZEN: Final = "frozen"
SELF_MAPPED: Final = "self_mapped"
ORDER: Final = "order"

_BECAUSE: Final = {
    REDUCTION: "{axis} is a reduction of {tensor}: a value is complete only behind that loop",
    MISMATCH: "the loops of {consumer} differ there",
    UNMAPPED: "no loop of {consumer} runs over the same axis as {axis}",
    KIND: "{axis} is vectorized, unrolled, or annotated otherwise than the loop it would be one with",
    PERSISTENT: "what {consumer} needs is complete only behind the reduction that would share {axis}",
    FROZEN: "other stages are computed in the loops of {tensor} already",
    SELF_MAPPED: "two loops of {consumer} would become one",
    ORDER: "a tensor would be read before it is complete",
}


@dataclass(frozen=True)
class Reason:
    """Why a tensor shares fewer leading loops than requested.

    Attributes
    ----------
    rule: see below.
    tensor: the tensor that shares fewer loops.
    axis: its first unshared loop; `None` if no single loop is at fault.
    consumer: the consumer in the way, if any.
    asked, allowed: positions of `tensor`.

    Rules:

    - `reduction`: the loop is a reduction of the tensor;
    - `mismatch`: the consumer has different loops there;
    - `unmapped`: the consumer has no such axis;
    - `kind`: the loop is vectorized or unrolled, or annotations of the two loops differ;
    - `persistent`: the consumer needs the result of a reduction over the same loop;
    - `frozen`: an earlier call shared the loops, or attached stages to them;
    - `self_mapped`: two loops of one stage would become one;
    - `order`: every nest reads a tensor before it is complete.
    """

    rule: str
    tensor: Tensor
    axis: IterVar | None
    consumer: Tensor | None
    asked: int
    allowed: int

    def __str__(self) -> str:
        axis = "the loop" if self.axis is None else self.axis.name
        consumer = "a reader" if self.consumer is None else self.consumer.name
        because = _BECAUSE[self.rule].format(axis=axis, tensor=self.tensor.name, consumer=consumer)
        loops = "1 loop" if self.allowed == 1 else f"{self.allowed} loops"
        return f"{self.tensor.name} can share {loops}, not {self.asked}: {because} ({self.rule})"


@dataclass(frozen=True, eq=False)
class Repair:
    """An alternative to the refused call. Guarantee: it succeeded on a copy of the schedule.

    Attributes
    ----------
    kind: `position`: fewer shared loops; `mode`: each tensor shares what it can; `reorder`: the consumer's loops in
        another order; `recompute`: clones for tensors with several consumers.
    text: description of the call.
    call: takes the schedule; a `functools.partial` of a module function, hence picklable.
    """

    kind: str
    text: str
    call: Callable[[Schedule], object]

    def apply(self, schedule: Schedule) -> object:
        """Apply the repair to the refused schedule, or to a copy of it; returns the result of the call."""
        return self.call(schedule)

    def __repr__(self) -> str:
        return f"<Repair {self.kind}: {self.text}>"


class ReplayError(ScheduleError):
    """The error for an impossible position. The schedule is unchanged.

    Attributes
    ----------
    reasons: obstacles, at least one.
    repairs: alternatives. `compute_at` finds at least one for positions above 0.
    """

    def __init__(self, message: str, reasons: tuple[Reason, ...], repairs: tuple[Repair, ...] = ()) -> None:
        super().__init__(message)
        self.reasons = reasons
        self.repairs = repairs

    def __reduce__(self) -> tuple[type[ReplayError], tuple[str, tuple[Reason, ...], tuple[Repair, ...]]]:
        """Pickle reasons and repairs with the message."""
        return ReplayError, (str(self), self.reasons, self.repairs)


Leaf = tuple[Operation, int]


@dataclass(eq=False)
class SharedLoop:
    """A loop of the shared nest.

    Attributes
    ----------
    leaves: the loops of stages that it stands for, in stage order.
    parent: the enclosing shared loop.
    depth: the number of enclosing shared loops.
    positions: maps each operation to the position of its leaf.
    """

    leaves: list[Leaf]
    parent: SharedLoop | None = None
    depth: int = 0
    positions: dict[Operation, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for op, position in self.leaves:
            self.positions.setdefault(op, position)

    def leaf_of(self, op: Operation) -> Leaf | None:
        """Return the leaf of an operation in this loop, if any."""
        return (op, self.positions[op]) if op in self.positions else None

    def path(self) -> tuple[SharedLoop, ...]:
        """Return this loop and its ancestors, innermost first."""
        loops: list[SharedLoop] = []
        at: SharedLoop | None = self
        while at is not None:
            loops.append(at)
            at = at.parent
        return tuple(loops)


@dataclass(frozen=True, eq=False)
class Conflict:
    """An obstacle to a legal nest.

    Attributes
    ----------
    rule: one of the rules of a `Reason`.
    apart: two leaves of one shared loop that must not be shared.
    """

    rule: str
    apart: tuple[Leaf, Leaf]


@dataclass(frozen=True, eq=False)
class ExtendedLoops:
    """Loops of an operation, rebuilt to match an operation with additional axes.

    Attributes
    ----------
    relations: derive `loop` from the roots of the operation and `added`.
    added: axes that the operation lacks, each mapped to the axis of the other operation that it copies.
    loop: replacements of the operation's loops, followed by leftover axes of extent 1.
    """

    relations: tuple[IterVarRelation, ...]
    added: Mapping[IterVar, IterVar]
    loop: tuple[IterVar, ...]


@dataclass(eq=False)
class SharedNest:
    """The shared loops of a schedule.

    Invariant: if `conflicts` is empty, every leaf in `loop_of` has a unique parent chain, and `chain` lists for each
    operation its shared loops, outermost first.

    Attributes
    ----------
    domains: the domain of each operation.
    shared: the number of leading loops that each operation shares with its consumers.
    readers: the consumers of each operation.
    match, attrs, fixed, outputs: see `shared_loops`.
    links: the leaves that each leaf is paired with.
    up: leaves that an operation shares with its consumers.
    loop_of: the shared loop of each leaf.
    chain: the shared loops of each operation, outermost first.
    home: the innermost loop that an operation shares with its consumers; each of its iterations computes it anew.
    strict: whether the shared loops of an operation equal, axis by axis, those of the stage that runs them.
    extended: rebuilt loops of operations that run in longer loops; they replace the operation's own.
    conflicts: reasons why the nest is illegal. A conflict may hide others, which appear when it is resolved.
    """

    domains: Mapping[Operation, TensorDomain]
    shared: Mapping[Operation, int]
    readers: Mapping[Operation, Sequence[Operation]]
    match: Mapping[tuple[Operation, Operation], Matching]
    attrs: Mapping[Leaf, IterVarAttr]
    fixed: Collection[Operation] = ()
    outputs: Sequence[Operation] = ()
    links: dict[Leaf, list[Leaf]] = field(default_factory=dict)
    up: set[Leaf] = field(default_factory=set)
    loop_of: dict[Leaf, SharedLoop] = field(default_factory=dict)
    chain: dict[Operation, tuple[SharedLoop, ...]] = field(default_factory=dict)
    home: dict[Operation, SharedLoop | None] = field(default_factory=dict)
    strict: dict[Operation, bool] = field(default_factory=dict)
    extended: dict[Operation, ExtendedLoops] = field(default_factory=dict)
    conflicts: Sequence[Conflict] = ()
    _owner: dict[SharedLoop, Leaf] = field(default_factory=dict)

    def body(self, op: Operation) -> SharedLoop | None:
        """Return the innermost shared loop around the formula of an operation."""
        chain = self.chain.get(op)
        return chain[-1] if chain else None

    def kind(self, leaf: Leaf) -> str:
        """Return the kind of a leaf: iteration, reduction or broadcast."""
        domain = self.domains[leaf[0]]
        return domain.kinds[domain.loop[leaf[1]]]

    def axis(self, leaf: Leaf) -> IterVar:
        """Return the axis of a leaf."""
        return self.domains[leaf[0]].loop[leaf[1]]

    def owns(self, leaf: Leaf) -> bool:
        """Return whether an operation runs this leaf itself, instead of sharing it with its consumers."""
        return leaf not in self.up

    def owner(self, loop: SharedLoop) -> Leaf:
        """Return the leaf that defines the loop: the one with the most axes among unshared leaves, the last in case of
        ties.
        """
        owner = self._owner.get(loop)
        if owner is None:
            owners = [leaf for leaf in loop.leaves if self.owns(leaf)]
            owner = owners[-1] if len(owners) == 1 else max(reversed(owners), key=self._axes)
            self._owner[loop] = owner
        return owner

    def _axes(self, leaf: Leaf) -> int:
        """Count the root axes of extent other than 1 behind a leaf."""
        domain = self.domains[leaf[0]]
        ancestors = with_ancestors(domain.relations, (self.axis(leaf),))
        return sum(iv in ancestors and not has_one(iv) for iv in domain.root)

    @property
    def conflict(self) -> Conflict | None:
        """The first conflict, if any."""
        return self.conflicts[0] if self.conflicts else None

    def part(self, op: Operation, position: int) -> None:
        """Unlink the loops of an operation from its consumers' loops, from `position` on."""
        for reader in self.readers[op]:
            for here, there in self.match[op, reader].pairs:
                if position <= here < self.shared.get(op, 0):
                    self._unlink((op, here), (reader, there))
                    self._unlink((reader, there), (op, here))

    def _unlink(self, leaf: Leaf, other: Leaf) -> None:
        if other in self.links.get(leaf, ()):
            self.links[leaf].remove(other)

    def between(self, one: Leaf, other: Leaf) -> list[Leaf]:
        """Return the shortest path between two leaves over paired leaves; empty if there is none."""
        before: dict[Leaf, Leaf | None] = {one: None}
        waiting = deque([one])
        while waiting and other not in before:
            at = waiting.popleft()
            for leaf in self.links.get(at, ()):
                if leaf not in before:
                    before[leaf] = at
                    waiting.append(leaf)
        way: list[Leaf] = []
        step: Leaf | None = other if other in before else None
        while step is not None:
            way.append(step)
            step = before.get(step)
        return way[::-1]
