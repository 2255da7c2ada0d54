"""The loops of a nest in which stages share some of theirs, as a value; `nests` finds them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from bound.itervar import IterVar
from bound.operation import Operation
from bound.replay.domain import TensorDomain, has_one
from bound.replay.transform_replay import Matching
from bound.schedule import IterVarAttr, Relation
from bound.schedule.message import with_ancestors

Leaf = tuple[Operation, int]


@dataclass(eq=False)
class SharedLoop:
    """One loop of the nest.

    Attributes
    ----------
    leaves: the loops of stages that are this one, in the order of the stages.
    parent: the loop around it.
    depth: the number of loops around it.
    places: the place of the leaf of each operation.
    """

    leaves: list[Leaf]
    parent: SharedLoop | None = None
    depth: int = 0
    positions: dict[Operation, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for op, position in self.leaves:
            self.positions.setdefault(op, position)

    def leaf_of(self, op: Operation) -> Leaf | None:
        """The leaf of an operation that is this loop."""
        return (op, self.positions[op]) if op in self.positions else None

    def path(self) -> tuple[SharedLoop, ...]:
        """It and the loops around it, innermost first."""
        found: list[SharedLoop] = []
        at: SharedLoop | None = self
        while at is not None:
            found.append(at)
            at = at.parent
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Conflict:
    """Why there is no nest.

    Attributes
    ----------
    rule: one of the rules of a `Reason`.
    apart: two leaves that are one loop and must not be.
    """

    rule: str
    apart: tuple[Leaf, Leaf]


@dataclass(frozen=True, eq=False)
class ExtendedLoops:
    """How the loops of an operation are made where they are those of another that has more axes.

    Attributes
    ----------
    relations: from the roots of the operation and `added` to `loop`.
    added: axes that the operation has not, each with its range and the axis of the other that it stands for.
    loop: for each loop of the operation the one in its place; behind them axes of one element that are left over.
    """

    relations: tuple[Relation, ...]
    added: Mapping[IterVar, IterVar]
    loop: tuple[IterVar, ...]


@dataclass(eq=False)
class SharedNest:
    """The shared loops of a schedule.

    Attributes
    ----------
    domains, shared: of each operation its loops, and how many of them it shares with its readers.
    readers: who reads each operation.
    match, attrs, fixed, outputs: see `shared_loops`.
    node: the loop that a leaf is.
    chain: the loops of an operation that are nodes, outermost first.
    home: the innermost loop that an operation shares with its readers: it is done anew in each iteration.
    strict: whether the loops that an operation shares are, axis by axis, those of the stage that runs them.
    longer: how the loops of an operation are made that run in longer ones; these stand for its own then.
    conflicts: why there is no nest; where one hides others, these are found when that is resolved.
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
        """The innermost shared loop around the formula of an operation."""
        chain = self.chain.get(op)
        return chain[-1] if chain else None

    def kind(self, leaf: Leaf) -> str:
        domain = self.domains[leaf[0]]
        return domain.kinds[domain.loop[leaf[1]]]

    def axis(self, leaf: Leaf) -> IterVar:
        return self.domains[leaf[0]].loop[leaf[1]]

    def owns(self, leaf: Leaf) -> bool:
        """Whether an operation does not share this loop of its own with its readers."""
        return leaf not in self.up

    def owner(self, loop: SharedLoop) -> Leaf:
        """The leaf that the loop is made from: of those not shared with readers that with the most axes, the last."""
        found = self._owner.get(loop)
        if found is None:
            owners = [leaf for leaf in loop.leaves if self.owns(leaf)]
            found = owners[-1] if len(owners) == 1 else max(reversed(owners), key=self._axes)
            self._owner[loop] = found
        return found

    def _axes(self, leaf: Leaf) -> int:
        """How many axes of more than one element a loop is made of."""
        domain = self.domains[leaf[0]]
        made = with_ancestors(domain.relations, (self.axis(leaf),))
        return sum(iv in made and not has_one(iv) for iv in domain.root)

    @property
    def conflict(self) -> Conflict | None:
        """The first of the conflicts."""
        return self.conflicts[0] if self.conflicts else None

    def part(self, op: Operation, position: int) -> None:
        """Forget that the loops of an operation from this place on are those of its readers."""
        for reader in self.readers[op]:
            for here, there in self.match[op, reader].pairs:
                if position <= here < self.shared.get(op, 0):
                    self._unlink((op, here), (reader, there))
                    self._unlink((reader, there), (op, here))

    def _unlink(self, leaf: Leaf, other: Leaf) -> None:
        if other in self.links.get(leaf, ()):
            self.links[leaf].remove(other)

    def between(self, one: Leaf, other: Leaf) -> list[Leaf]:
        """The shortest way from one leaf to another over leaves that are one loop because of each other.

        Empty where there is none.
        """
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
