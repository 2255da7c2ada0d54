"""The loops of a nest in which stages share some of theirs: which loops are one, and which loop stands in which.

Loops become one by position: the first loops of a stage, as many as it shares, are those of each of its readers. What
belongs to one loop is found with a union-find over (operation, place); one loop is inside another where that is so in
some stage. A nest exists if each loop has one loop around it, no stage has a loop twice, and in each loop there is an
order in which everything is complete before it is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from bound.itervar import IterType, IterVar
from bound.operation import Operation
from bound.replay.axes import equal_sizes
from bound.replay.domain import BROADCAST, REDUCTION, TensorDomain
from bound.replay.reasons import KIND, MISMATCH, ORDER, PERSISTENT, SELF_MAPPED
from bound.replay.replays import Matching
from bound.schedule import Fuse, IterVarAttr, Rebase, Relation, Singleton, Split
from bound.schedule.relations import parents
from intset.expr.node import Expr

Leaf = tuple[Operation, int]
_WHOLE: Final = (IterType.VECTORIZED, IterType.TENSORIZED)  # of these nothing can be inside


@dataclass(eq=False)
class Node:
    """One loop of the nest.

    Attributes
    ----------
    leaves: the loops of stages that are this one, in the order of the stages.
    parent: the loop around it.
    depth: the number of loops around it.
    places: the place of the leaf of each operation.
    """

    leaves: list[Leaf]
    parent: Node | None = None
    depth: int = 0
    places: dict[Operation, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for op, place in self.leaves:
            self.places.setdefault(op, place)

    def leaf_of(self, op: Operation) -> Leaf | None:
        """The leaf of an operation that is this loop."""
        return (op, self.places[op]) if op in self.places else None

    def path(self) -> tuple[Node, ...]:
        """It and the loops around it, innermost first."""
        found: list[Node] = []
        at: Node | None = self
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


@dataclass(eq=False)
class Loops:
    """The shared loops of a schedule.

    Attributes
    ----------
    domains, shared: of each operation its loops, and how many of them it shares with its readers.
    readers: who reads each operation.
    attrs, fixed: see `shared_loops`.
    node: the loop that a leaf is.
    chain: the loops of an operation that are nodes, outermost first.
    home: the innermost loop that an operation shares with its readers: it is done anew in each iteration.
    strict: whether the loops that an operation shares are, axis by axis, those of the stage that runs them.
    conflict: why there is no nest.
    """

    domains: Mapping[Operation, TensorDomain]
    shared: Mapping[Operation, int]
    readers: Mapping[Operation, Sequence[Operation]]
    attrs: Mapping[Leaf, IterVarAttr]
    fixed: Collection[Operation] = ()
    links: dict[Leaf, list[Leaf]] = field(default_factory=dict)
    up: set[Leaf] = field(default_factory=set)
    node: dict[Leaf, Node] = field(default_factory=dict)
    chain: dict[Operation, tuple[Node, ...]] = field(default_factory=dict)
    home: dict[Operation, Node | None] = field(default_factory=dict)
    strict: dict[Operation, bool] = field(default_factory=dict)
    conflict: Conflict | None = None
    _owner: dict[Node, Leaf] = field(default_factory=dict)

    def body(self, op: Operation) -> Node | None:
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

    def owner(self, node: Node) -> Leaf:
        """The leaf that the loop is made from: of those not shared with readers, the last with all elements."""
        found = self._owner.get(node)
        if found is None:
            owners = [leaf for leaf in node.leaves if self.owns(leaf)]
            found = next((leaf for leaf in reversed(owners) if self.kind(leaf) != BROADCAST), owners[-1])
            self._owner[node] = found
        return found

    def between(self, one: Leaf, other: Leaf) -> list[Leaf]:
        """The shortest way from one leaf to another over leaves that are one loop because of each other."""
        before: dict[Leaf, Leaf | None] = {one: None}
        waiting = deque([one])
        while waiting and other not in before:
            at = waiting.popleft()
            for leaf in self.links.get(at, ()):
                if leaf not in before:
                    before[leaf] = at
                    waiting.append(leaf)
        way: list[Leaf] = []
        step: Leaf | None = other
        while step is not None:
            way.append(step)
            step = before.get(step)
        return way[::-1]


def shared_loops(
    domains: Mapping[Operation, TensorDomain],
    shared: Mapping[Operation, int],
    readers: Mapping[Operation, Sequence[Operation]],
    match: Mapping[tuple[Operation, Operation], Matching],
    attrs: Mapping[Leaf, IterVarAttr],
    fixed: Collection[Operation] = (),
) -> Loops:
    """The nest in which each operation shares its first `shared` loops with all of its readers.

    Parameters
    ----------
    domains: of all operations, producers first.
    readers: of all operations.
    match: the loops in common, for each operation that shares some and each of its readers.
    attrs: what stages say of their leaves.
    fixed: those that are computed in a loop of another stage by `Stage.compute_at`.
    """
    loops = Loops(domains, shared, readers, attrs, fixed)
    reach = dict(shared)
    for op, count in shared.items():
        for reader in readers[op] if count else ():
            for here, there in match[op, reader].pairs:
                if here < count:
                    loops.up.add((op, here))
                    loops.links.setdefault((op, here), []).append((reader, there))
                    loops.links.setdefault((reader, there), []).append((op, here))
                    reach[reader] = max(reach.get(reader, 0), there + 1)
    number = {op: k for k, op in enumerate(domains)}
    _nodes(loops, reach, number)
    for step in (_self_mapped, _nested, _one_kind, _ordered, _same_length):
        if loops.conflict is None:
            loops.conflict = step(loops)
    return loops


def _nodes(loops: Loops, reach: Mapping[Operation, int], number: Mapping[Operation, int]) -> None:
    for op in sorted((op for op, count in reach.items() if count), key=number.__getitem__):
        chain: list[Node] = []
        own = [(op, place) for place in range(reach[op])]
        for leaf in own:
            if leaf not in loops.node:
                node = Node(_component(loops, leaf, number))
                if all(loops.kind(other) == BROADCAST for other in node.leaves):
                    continue  # a loop of one element: each stage has its own
                loops.node.update(dict.fromkeys(node.leaves, node))
            chain.append(loops.node[leaf])
        loops.chain[op] = tuple(chain)
        mine = [loops.node[leaf] for leaf in own if leaf in loops.up and leaf in loops.node]
        loops.home[op] = mine[-1] if mine else None


def _component(loops: Loops, start: Leaf, number: Mapping[Operation, int]) -> list[Leaf]:
    found = {start}
    stack = [start]
    while stack:
        for leaf in loops.links.get(stack.pop(), ()):
            if leaf not in found:
                found.add(leaf)
                stack.append(leaf)
    return sorted(found, key=lambda leaf: (number[leaf[0]], leaf[1]))


def _self_mapped(loops: Loops) -> Conflict | None:
    for node in dict.fromkeys(loops.node.values()):
        for first, second in pairwise(node.leaves):
            if first[0] is second[0]:
                return Conflict(SELF_MAPPED, (first, second))
    return None


def _nested(loops: Loops) -> Conflict | None:
    """Find the loop around each loop: the innermost of those that are around it in some stage, if all are around it."""
    outer: dict[Node, dict[Node, Leaf]] = {node: {} for node in loops.node.values()}
    inner: dict[Node, list[Node]] = {node: [] for node in outer}
    for op, chain in loops.chain.items():
        for around, node in pairwise(chain):
            if around not in outer[node]:
                outer[node][around] = (op, node.places[op])
                inner[around].append(node)
    waiting = {node: len(around) for node, around in outer.items()}
    ready = deque(node for node, count in waiting.items() if not count)
    while ready:
        node = ready.popleft()
        if outer[node]:
            node.parent = max(outer[node], key=lambda around: around.depth)
            node.depth = node.parent.depth + 1
            path = set(node.parent.path())
            astray = next((around for around in outer[node] if around not in path), None)
            if astray is not None:
                return Conflict(MISMATCH, (outer[node][node.parent], outer[node][astray]))
        for inside in inner[node]:
            waiting[inside] -= 1
            if not waiting[inside]:
                ready.append(inside)
    stuck = next((node for node, count in waiting.items() if count), None)
    return None if stuck is None else Conflict(MISMATCH, (stuck.leaves[0], stuck.leaves[-1]))


def _one_kind(loops: Loops) -> Conflict | None:
    """Whether what stages say of their leaves can hold for the one loop that they are."""
    for node in dict.fromkeys(loops.node.values()):
        said = [(leaf, loops.attrs[leaf]) for leaf in node.leaves if leaf in loops.attrs]
        for leaf, attr in said:
            other = next((x for x in node.leaves if x is not leaf), None)
            if other is None:
                continue
            if attr.iter_type in _WHOLE:
                return Conflict(KIND, (leaf, other))
            if attr.iter_type is IterType.PARALLELIZED:
                reduced = next((x for x in node.leaves if loops.kind(x) == REDUCTION), None)
                if reduced is not None:
                    return Conflict(KIND, (leaf, reduced))
        for (first, one), (second, two) in pairwise(said):
            if one != two and contrary(one, two):
                return Conflict(KIND, (first, second))
    return None


def contrary(one: IterVarAttr, two: IterVarAttr) -> bool:
    """Whether one loop cannot be what both say."""
    kinds = one.iter_type is not None and two.iter_type is not None and one.iter_type is not two.iter_type
    threads = one.bind_thread is not None and two.bind_thread is not None and one.bind_thread is not two.bind_thread
    mixed = (one.bind_thread is not None and two.iter_type is not None) or (
        two.bind_thread is not None and one.iter_type is not None
    )
    return kinds or threads or mixed


# -- order ------------------------------------------------------------------------------------------------------------


def _ordered(loops: Loops) -> Conflict | None:
    """Whether in each loop there is an order in which all is complete before it is read."""
    after: dict[Node | None, dict[object, dict[object, tuple[Operation, Operation]]]] = {}
    for op, readers in loops.readers.items():
        for reader in readers:
            at = _common(loops.body(op), loops.body(reader))
            unfinished = _unfinished(loops, at, op, reader)
            if unfinished is not None:
                return unfinished
            first, second = _item(loops, op, at), _item(loops, reader, at)
            if first is not second:
                after.setdefault(at, {}).setdefault(first, {}).setdefault(second, (op, reader))
    for inside in after.values():
        circle = _circle(inside)
        if circle is not None:
            return _circular(loops, circle)
    return None


def _common(one: Node | None, other: Node | None) -> Node | None:
    """The innermost loop around both."""
    while one is not other:
        assert one is not None or other is not None
        if other is None or (one is not None and one.depth >= other.depth):
            assert one is not None
            one = one.parent
        else:
            other = other.parent
    return one


def _item(loops: Loops, op: Operation, at: Node | None) -> object:
    """What of the body of a loop an operation is part of: a loop directly inside, or itself."""
    node = loops.body(op)
    if node is at:
        return op
    while node is not None and node.parent is not at:
        node = node.parent
    return node


def _circle(
    after: Mapping[object, Mapping[object, tuple[Operation, Operation]]],
) -> list[tuple[object, tuple[Operation, Operation]]] | None:
    """A circle of items, each with the read by which the next comes after it."""
    done: set[object] = set()
    for start in after:
        if start in done:
            continue
        way: list[object] = [start]
        place = {start: 0}
        steps = [iter(after[start])]
        while way:
            step = next(steps[-1], None)
            if step is None:
                done.add(way[-1])
                del place[way.pop()]
                steps.pop()
            elif step in place:
                found = way[place[step] :]
                return [(item, after[item][nxt]) for item, nxt in zip(found, [*found[1:], found[0]], strict=True)]
            elif step not in done:
                place[step] = len(way)
                way.append(step)
                steps.append(iter(after.get(step, ())))
    return None


def _unfinished(loops: Loops, at: Node | None, op: Operation, reader: Operation) -> Conflict | None:
    """That `reader` is inside a loop that `op` runs but does not share with it."""
    node = at
    while node is not None:
        own = node.leaf_of(op)
        if own is not None and loops.owns(own) and loops.kind(own) != BROADCAST:
            its = node.leaf_of(reader) or next(leaf for leaf in reversed(node.leaves) if leaf is not own)
            return Conflict(PERSISTENT if loops.kind(own) == REDUCTION else ORDER, (own, its))
        node = node.parent
    return None


def _circular(loops: Loops, circle: Sequence[tuple[object, tuple[Operation, Operation]]]) -> Conflict:
    """Some loop of the circle is left by one read and entered again by a later one: these two must not be in one."""
    for k, (item, (leaves, _)) in enumerate(circle):
        enters = circle[k - 1][1][1]
        if isinstance(item, Node) and leaves is not enters:
            own = item.leaf_of(leaves)
            its = item.leaf_of(enters)
            if own is not None and its is not None:
                rule = PERSISTENT if loops.kind(own) == REDUCTION else ORDER
                return Conflict(rule, (own, its))
    item = next(item for item, _ in circle if isinstance(item, Node))
    return Conflict(ORDER, (item.leaves[0], item.leaves[-1]))


# -- one length -------------------------------------------------------------------------------------------------------


def _same_length(loops: Loops) -> Conflict | None:
    """Whether a loop that several stages run is as long for each of them; and who runs loops as they are."""
    marks = _Marks(loops)
    for op in reversed(list(loops.chain)):
        places = [k for k in range(loops.shared.get(op, 0)) if (op, k) in loops.node]
        loops.strict[op] = op not in loops.fixed and all(_is_strict(loops, marks, (op, k)) for k in places)
    for node in dict.fromkeys(loops.node.values()):
        owners = [leaf for leaf in node.leaves if loops.owns(leaf)]
        real = [leaf for leaf in owners if loops.kind(leaf) != BROADCAST]
        for first, second in pairwise(owners):
            if not (loops.strict[first[0]] and loops.strict[second[0]]):
                return Conflict(MISMATCH, (first, second))
        for first, second in pairwise(real):
            if marks.of(first) != marks.of(second):
                return Conflict(MISMATCH, (first, second))
    return None


def _is_strict(loops: Loops, marks: _Marks, leaf: Leaf) -> bool:
    if loops.kind(leaf) == BROADCAST:
        return True
    owner = loops.owner(loops.node[leaf])
    return loops.strict[owner[0]] and marks.of(leaf) == marks.of(owner)


class _Marks:
    """How loops came about from extents, as numbers: two loops with one mark run over the same values.

    Axes of one element that were fused with others leave no mark.
    """

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self._numbers: dict[object, int] = {}
        self._extents: list[Expr] = []
        self._of: dict[Operation, dict[IterVar, int]] = {}

    def of(self, leaf: Leaf) -> int:
        op, place = leaf
        if op not in self._of:
            self._of[op] = self._marked(self.loops.domains[op])
        return self._of[op][self.loops.domains[op].loop[place]]

    def _marked(self, domain: TensorDomain) -> dict[IterVar, int]:
        found = {iv: self._number(("axis", self._extent(iv))) for iv in domain.root}
        for relation in domain.relations:
            self._mark(relation, domain, found)
        return found

    def _mark(self, relation: Relation, domain: TensorDomain, found: dict[IterVar, int]) -> None:
        if isinstance(relation, Split):
            how = (found[relation.parent], relation.factor, relation.nparts, relation.tail)
            found[relation.outer] = self._number(("outer", *how))
            found[relation.inner] = self._number(("inner", *how))
        elif isinstance(relation, Singleton):
            found[relation.iter] = self._number(("one",))
        elif isinstance(relation, Rebase):
            found[relation.rebased] = found[relation.parent]
        elif isinstance(relation, Fuse):
            fused = [iv for iv in parents(relation) if domain.kinds[iv] != BROADCAST]
            marks = [found[iv] for iv in fused or parents(relation)[:1]]
            found[relation.fused] = marks[0] if len(marks) == 1 else self._number(("fuse", *marks))

    def _extent(self, iv: IterVar) -> int:
        assert iv.dom is not None and isinstance(iv.dom.extent, Expr)
        for k, known in enumerate(self._extents):
            if equal_sizes(known, iv.dom.extent):
                return k
        self._extents.append(iv.dom.extent)
        return len(self._extents) - 1

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
