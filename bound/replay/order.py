"""In which order a loop holds what stages do in it: whether everything can be complete before it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bound.operation import Operation
from bound.replay.domain import BROADCAST, REDUCTION
from bound.replay.loops import Conflict, Leaf, Loops, Node
from bound.replay.reasons import MISMATCH, ORDER, PERSISTENT


def check_order(loops: Loops) -> Conflict | None:
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


def check_once(loops: Loops) -> Conflict | None:
    """Whether what a loop reduces is added once: no loop that the stage has no axis for is inside of that one."""
    for op, chain in loops.chain.items():
        begin = next((node for node in chain if loops.kind((op, node.places[op])) == REDUCTION), None)
        if begin is None:
            continue
        for node in reversed(chain[-1].path()):
            own = node.leaf_of(op)
            if node.depth > begin.depth and (own is None or _is_longer(loops, node, own)):
                inner = chain[-1]
                its = inner.leaf_of(loops.owner(node)[0]) or loops.owner(inner)
                return Conflict(MISMATCH, ((op, inner.places[op]), its))
    return None


def _is_longer(loops: Loops, node: Node, leaf: Leaf) -> bool:
    """Whether a loop runs more than once over what is one element of a stage."""
    return loops.kind(leaf) == BROADCAST and loops.kind(loops.owner(node)) != BROADCAST
