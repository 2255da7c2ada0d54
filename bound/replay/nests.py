"""Which loops of stages are one, and which loop stands in which.

Loops become one by position: the first loops of a stage, as many as it shares, are those of each of its readers. What
belongs to one loop are the components of (operation, place) under that; one loop is inside another where that is so in
some stage. A nest exists if each loop has one loop around it, no stage has a loop twice, stages say nothing contrary of
a loop, in each loop there is an order in which everything is complete before it is read (`order`), and the loop is as
long for each stage that runs it (`lengths`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from bound.itervar import IterType
from bound.operation import Operation
from bound.replay.domain import BROADCAST, REDUCTION, TensorDomain
from bound.replay.lengths import check_lengths
from bound.replay.loops import Conflict, Leaf, Loops, Node
from bound.replay.order import check_once, check_order, check_parallel
from bound.replay.reasons import KIND, MISMATCH, SELF_MAPPED
from bound.replay.replays import Matching
from bound.schedule import IterVarAttr

_WHOLE: Final = (IterType.VECTORIZED, IterType.TENSORIZED)  # of these nothing can be inside


def shared_loops(
    domains: Mapping[Operation, TensorDomain],
    shared: Mapping[Operation, int],
    readers: Mapping[Operation, Sequence[Operation]],
    match: Mapping[tuple[Operation, Operation], Matching],
    attrs: Mapping[Leaf, IterVarAttr],
    fixed: Collection[Operation] = (),
    outputs: Sequence[Operation] = (),
) -> Loops:
    """The nest in which each operation shares its first `shared` loops with all of its readers.

    Parameters
    ----------
    domains: of all operations, producers first.
    readers: of all operations.
    match: the loops in common, for each operation that shares some and each of its readers.
    attrs: what stages say of their leaves.
    fixed: those that are computed in a loop of another stage by `Stage.compute_at`.
    outputs: those of which all is needed, whoever reads it.
    """
    loops = Loops(domains, shared, readers, match, attrs, fixed, outputs)
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
    for step in (_self_mapped, _nested, _one_kind, check_order, check_once, check_lengths, check_parallel):
        if not loops.conflicts:
            loops.conflicts = tuple(step(loops))
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


def _self_mapped(loops: Loops) -> Iterator[Conflict]:
    for node in dict.fromkeys(loops.node.values()):
        for first, second in pairwise(node.leaves):
            if first[0] is second[0]:
                yield Conflict(SELF_MAPPED, (first, second))


def _nested(loops: Loops) -> Iterator[Conflict]:
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
                yield Conflict(MISMATCH, (outer[node][node.parent], outer[node][astray]))
        for inside in inner[node]:
            waiting[inside] -= 1
            if not waiting[inside]:
                ready.append(inside)
    stuck = next((node for node, count in waiting.items() if count), None)
    if stuck is not None:
        yield Conflict(MISMATCH, (stuck.leaves[0], stuck.leaves[-1]))


def _one_kind(loops: Loops) -> Iterator[Conflict]:
    """Whether what stages say of their leaves can hold for the one loop that they are."""
    for node in dict.fromkeys(loops.node.values()):
        said = [(leaf, loops.attrs[leaf]) for leaf in node.leaves if leaf in loops.attrs]
        for leaf, attr in said:
            other = next((x for x in node.leaves if x is not leaf), None)
            if other is None:
                continue
            if attr.iter_type in _WHOLE:
                yield Conflict(KIND, (leaf, other))
            if attr.iter_type is IterType.PARALLELIZED:
                reduced = next((x for x in node.leaves if loops.kind(x) == REDUCTION), None)
                if reduced is not None:
                    yield Conflict(KIND, (leaf, reduced))
        for (first, one), (second, two) in pairwise(said):
            if one != two and contrary(one, two):
                yield Conflict(KIND, (first, second))


def contrary(one: IterVarAttr, two: IterVarAttr) -> bool:
    """Whether one loop cannot be what both say."""
    kinds = one.iter_type is not None and two.iter_type is not None and one.iter_type is not two.iter_type
    threads = one.bind_thread is not None and two.bind_thread is not None and one.bind_thread is not two.bind_thread
    mixed = (one.bind_thread is not None and two.iter_type is not None) or (
        two.bind_thread is not None and one.iter_type is not None
    )
    return kinds or threads or mixed
