"""In which order a loop holds what stages do in it: whether everything can be complete before it is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from bound.itervar import IterType
from bound.operation import Operation
from bound.replay.domain import BROADCAST, REDUCTION
from bound.replay.loops import Conflict, Leaf, Loops, Node
from bound.replay.reasons import KIND, MISMATCH, ORDER, PERSISTENT
from bound.schedule import IterVarAttr


def check_order(loops: Loops) -> Sequence[Conflict]:
    """Whether in each loop there is an order in which all is complete before it is read.

    Of operations that are read too soon all are named; else one circle or more in each loop.
    """
    after: dict[Node | None, dict[object, dict[object, tuple[Operation, Operation]]]] = {}
    unfinished: list[Conflict] = []
    for op, readers in loops.readers.items():
        for reader in readers:
            at = _common(loops.body(op), loops.body(reader))
            found = _unfinished(loops, at, op, reader)
            if found is not None:
                unfinished.append(found)
            first, second = _item(loops, op, at), _item(loops, reader, at)
            if first is not second:
                after.setdefault(at, {}).setdefault(first, {}).setdefault(second, (op, reader))
    if unfinished:
        return unfinished
    circles = [circle for inside in after.values() for circle in _circles(inside)]
    nodes = dict.fromkeys(item for circle in circles for item, _ in circle if isinstance(item, Node))
    apart = _entered_again(loops, nodes) if nodes else []
    return apart or [_circular(loops, circle) for circle in circles[:1]]


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


def _circles(
    after: Mapping[object, Mapping[object, tuple[Operation, Operation]]],
) -> Iterator[list[tuple[object, tuple[Operation, Operation]]]]:
    """Circles of items, no item in two of them, each item with the read by which the next comes after it."""
    done: set[object] = set()
    for start in after:
        if start in done:
            continue
        way: list[object] = [start]
        place = {start: 0}
        steps = [iter(after[start])]
        while way:
            step = next(steps[-1], None)
            if step is not None and step in place:
                found = way[place[step] :]
                yield [(item, after[item][nxt]) for item, nxt in zip(found, [*found[1:], found[0]], strict=True)]
            elif step is not None:
                if step not in done:
                    place[step] = len(way)
                    way.append(step)
                    steps.append(iter(after.get(step, ())))
                continue
            gone = 1 if step is None else len(way) - place[step]
            for item in way[-gone:]:
                done.add(item)
                del place[item]
            del way[-gone:], steps[-gone:]


def _entered_again(loops: Loops, nodes: Collection[Node]) -> list[Conflict]:
    """Why loops are left and entered again: what a stage in one makes another in it needs through operations outside
    of it, in the body that the loop stands in."""
    order = list(loops.domains)
    number = {op: k for k, op in enumerate(order)}
    around = {op: () if (body := loops.body(op)) is None else body.path() for op in order}
    inside: dict[Node, list[int]] = {node: [] for node in nodes}
    for op in order:
        for node in around[op]:
            if node in inside:
                inside[node].append(number[op])
    found: list[Conflict] = []
    for node, places in inside.items():
        left: dict[Operation, Operation] = {}
        for op in order[places[0] : places[-1] + 1]:
            is_in = node in around[op]
            made = op if is_in else left.get(op)
            if made is None:
                continue
            for reader in loops.readers[op]:
                if node in around[reader]:
                    found += [] if is_in else _in_one_loop(loops, node, made, reader)
                elif node.parent is None or node.parent in around[reader]:
                    left[reader] = max(made, left.get(reader, made), key=number.__getitem__)
    return found


def check_parallel(loops: Loops) -> Iterator[Conflict]:
    """Whether what iterations of a parallel loop store for others is told apart by that loop."""
    kinds = {loops.node[leaf] for leaf, attr in loops.attrs.items() if _is_parallel(attr) and leaf in loops.node}
    for op, node in stored_anew(loops) if kinds else ():
        own = node.leaf_of(op)
        if node in kinds and own is not None:
            yield Conflict(KIND, (own, loops.owner(node)))
        elif node in kinds:
            yield from (replace(one, rule=KIND) for one in _in_one_loop(loops, node, op, loops.owner(node)[0]))


def stored_anew(loops: Loops) -> Iterator[tuple[Operation, Node]]:
    """The operations that store an element in several iterations of a loop, to what is kept outside of it."""
    for op, chain in loops.chain.items():
        home = loops.home[op]
        kept = () if home is None or op in loops.outputs else home.path()
        for node in chain[-1].path() if chain else ():
            own = node.leaf_of(op)
            if node not in kept and (own is None or op in loops.longer or _is_longer(loops, node, own)):
                yield op, node


def _is_parallel(attr: IterVarAttr) -> bool:
    return attr.iter_type is IterType.PARALLELIZED


def _in_one_loop(loops: Loops, node: Node, *both: Operation) -> list[Conflict]:
    """Why two operations are in one loop: it is a loop of both, or around a loop of one for the sake of another."""
    for op in both:
        if op in node.places:
            continue
        inner = next((n for n in loops.chain[op] if node in n.path()), None)
        if inner is None:
            return []
        its = next((leaf for leaf in inner.leaves if inner.parent is not None and leaf[0] in inner.parent.places), None)
        return [] if its is None else [Conflict(ORDER, ((op, inner.places[op]), its))]
    own, its = ((op, node.places[op]) for op in both)
    return [Conflict(PERSISTENT if loops.kind(own) == REDUCTION else ORDER, (own, its))]


def _unfinished(loops: Loops, at: Node | None, op: Operation, reader: Operation) -> Conflict | None:
    """That `reader` is inside a loop that `op` runs but does not share with it."""
    node = at
    while node is not None:
        own = node.leaf_of(op)
        if own is not None and loops.owns(own) and loops.kind(own) != BROADCAST:
            why = next(iter(_in_one_loop(loops, node, op, reader)), None)
            return why or Conflict(ORDER, (own, next((leaf for leaf in reversed(node.leaves) if leaf != own), own)))
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


def check_once(loops: Loops) -> Iterator[Conflict]:
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
                yield Conflict(MISMATCH, ((op, inner.places[op]), its))
                break


def _is_longer(loops: Loops, node: Node, leaf: Leaf) -> bool:
    """Whether a loop runs more than once over what is one element of a stage."""
    return loops.kind(leaf) == BROADCAST and loops.kind(loops.owner(node)) != BROADCAST
