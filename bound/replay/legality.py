"""Legality of shared loops: build the nest that compute-at positions imply, and check it.

The nest exists if

- no stage has two leaves in one loop (`_self_mapped`), and each loop has one parent (`_nested`);
- annotations of the leaves of one loop agree (`_one_kind`);
- every loop body can be ordered so that values are complete before they are read (`check_order`);
- reductions count every element once (`check_once`);
- extents of a loop are equal for all of its stages, extended stages included (`loop_extents`);
- iterations of a parallel loop store to different elements (`check_parallel`).

Example of an order conflict (*persistent*, in nvFuser's word): with `m[i] = max_r(x[i, r])` and `y[i, r] = x[i, r] -
m[i]`,
`m` and `y` cannot share the loop `r`, since `m[i]` is complete only behind it.

The checks run in the order above and stop at the first that finds conflicts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from bound.itervar import IterType
from bound.operation import Operation
from bound.replay.domain import BROADCAST, REDUCTION, TensorDomain
from bound.replay.loop_extents import check_lengths
from bound.replay.loops import KIND, MISMATCH, ORDER, PERSISTENT, SELF_MAPPED, Conflict, Leaf, SharedLoop, SharedNest
from bound.replay.transform_replay import Matching
from bound.schedule import IterVarAttr
from intset.expr.dag import reachable

_WHOLE: Final = (IterType.VECTORIZED, IterType.TENSORIZED)  # of these nothing can be inside


def shared_loops(
    domains: Mapping[Operation, TensorDomain],
    shared: Mapping[Operation, int],
    readers: Mapping[Operation, Sequence[Operation]],
    match: Mapping[tuple[Operation, Operation], Matching],
    attrs: Mapping[Leaf, IterVarAttr],
    fixed: Collection[Operation] = (),
    outputs: Sequence[Operation] = (),
) -> SharedNest:
    """Build and check the nest in which each operation shares its first `shared` loops with all of its consumers.

    Parameters
    ----------
    domains: of all operations, producers first.
    readers: the consumers of each operation.
    match: the matched loops of each operation that shares some and each of its consumers.
    attrs: annotations of leaves.
    fixed: operations attached to a loop of another stage by `Stage.compute_at`.
    outputs: operations that must be computed completely, whatever consumers need.
    """
    nest = SharedNest(domains, shared, readers, match, attrs, fixed, outputs)
    reach = dict(shared)
    for op, count in shared.items():
        for reader in readers[op] if count else ():
            for here, there in match[op, reader].pairs:
                if here < count:
                    nest.up.add((op, here))
                    nest.links.setdefault((op, here), []).append((reader, there))
                    nest.links.setdefault((reader, there), []).append((op, here))
                    reach[reader] = max(reach.get(reader, 0), there + 1)
    number = {op: k for k, op in enumerate(domains)}
    _nodes(nest, reach, number)
    for step in (_self_mapped, _nested, _one_kind, check_order, check_once, check_lengths, check_parallel):
        if not nest.conflicts:
            nest.conflicts = tuple(step(nest))
    return nest


def _nodes(nest: SharedNest, reach: Mapping[Operation, int], number: Mapping[Operation, int]) -> None:
    """Build the shared loops and the chain of each operation.

    Loops of extent 1 in every stage stay separate.
    """
    for op in sorted((op for op, count in reach.items() if count), key=number.__getitem__):
        chain: list[SharedLoop] = []
        own = [(op, position) for position in range(reach[op])]
        for leaf in own:
            if leaf not in nest.loop_of:
                loop = SharedLoop(_component(nest, leaf, number))
                if all(nest.kind(other) == BROADCAST for other in loop.leaves):
                    continue  # a loop of one element: each stage has its own
                nest.loop_of.update(dict.fromkeys(loop.leaves, loop))
            chain.append(nest.loop_of[leaf])
        nest.chain[op] = tuple(chain)
        mine = [nest.loop_of[leaf] for leaf in own if leaf in nest.up and leaf in nest.loop_of]
        nest.home[op] = mine[-1] if mine else None


def _component(nest: SharedNest, start: Leaf, number: Mapping[Operation, int]) -> list[Leaf]:
    """Return the leaves connected to `start`, in stage order."""
    component = reachable([start], lambda leaf: nest.links.get(leaf, ()))
    return sorted(component, key=lambda leaf: (number[leaf[0]], leaf[1]))


def _self_mapped(nest: SharedNest) -> Iterator[Conflict]:
    """Yield a conflict for every operation with two leaves in one loop."""
    for loop in dict.fromkeys(nest.loop_of.values()):
        for first, second in pairwise(loop.leaves):
            if first[0] is second[0]:
                yield Conflict(SELF_MAPPED, (first, second))


def _nested(nest: SharedNest) -> Iterator[Conflict]:
    """Set the parent of each loop: the innermost of its outer loops, which must contain all others."""
    outer: dict[SharedLoop, dict[SharedLoop, Leaf]] = {loop: {} for loop in nest.loop_of.values()}
    inner: dict[SharedLoop, list[SharedLoop]] = {loop: [] for loop in outer}
    for op, chain in nest.chain.items():
        for around, loop in pairwise(chain):
            if around not in outer[loop]:
                outer[loop][around] = (op, loop.positions[op])
                inner[around].append(loop)
    waiting = {loop: len(around) for loop, around in outer.items()}
    ready = deque(loop for loop, count in waiting.items() if not count)
    while ready:
        loop = ready.popleft()
        if outer[loop]:
            loop.parent = max(outer[loop], key=lambda around: around.depth)
            loop.depth = loop.parent.depth + 1
            path = set(loop.parent.path())
            astray = next((around for around in outer[loop] if around not in path), None)
            if astray is not None:
                yield Conflict(MISMATCH, (outer[loop][loop.parent], outer[loop][astray]))
        for inside in inner[loop]:
            waiting[inside] -= 1
            if not waiting[inside]:
                ready.append(inside)
    stuck = next((loop for loop, count in waiting.items() if count), None)
    if stuck is not None:
        yield Conflict(MISMATCH, (stuck.leaves[0], stuck.leaves[-1]))


def _one_kind(nest: SharedNest) -> Iterator[Conflict]:
    """Yield conflicts of annotations between the leaves of one loop."""
    for loop in dict.fromkeys(nest.loop_of.values()):
        said = [(leaf, nest.attrs[leaf]) for leaf in loop.leaves if leaf in nest.attrs]
        for leaf, attr in said:
            other = next((x for x in loop.leaves if x is not leaf), None)
            if other is None:
                continue
            if attr.iter_type in _WHOLE:
                yield Conflict(KIND, (leaf, other))
            if attr.iter_type is IterType.PARALLELIZED:
                reduced = next((x for x in loop.leaves if nest.kind(x) == REDUCTION), None)
                if reduced is not None:
                    yield Conflict(KIND, (leaf, reduced))
        for (first, one), (second, two) in pairwise(said):
            if one != two and contrary(one, two):
                yield Conflict(KIND, (first, second))


def contrary(one: IterVarAttr, two: IterVarAttr) -> bool:
    """Return whether two annotations cannot hold for one loop."""
    kinds = one.iter_type is not None and two.iter_type is not None and one.iter_type is not two.iter_type
    threads = one.bind_thread is not None and two.bind_thread is not None and one.bind_thread is not two.bind_thread
    mixed = (one.bind_thread is not None and two.iter_type is not None) or (
        two.bind_thread is not None and one.iter_type is not None
    )
    return kinds or threads or mixed


def check_order(nest: SharedNest) -> Sequence[Conflict]:
    """Check that each loop body has an order in which values are complete before they are read.

    Guarantee: all reads of incomplete values are reported; otherwise at least one cycle per illegal loop body.
    """
    after: dict[SharedLoop | None, dict[object, dict[object, tuple[Operation, Operation]]]] = {}
    unfinished: list[Conflict] = []
    for op, readers in nest.readers.items():
        for reader in readers:
            at = _common(nest.body(op), nest.body(reader))
            conflict = _unfinished(nest, at, op, reader)
            if conflict is not None:
                unfinished.append(conflict)
            first, second = _item(nest, op, at), _item(nest, reader, at)
            if first is not second:
                after.setdefault(at, {}).setdefault(first, {}).setdefault(second, (op, reader))
    if unfinished:
        return unfinished
    circles = [circle for inside in after.values() for circle in _circles(inside)]
    loops = dict.fromkeys(item for circle in circles for item, _ in circle if isinstance(item, SharedLoop))
    apart = _entered_again(nest, loops) if loops else []
    return apart or [_circular(nest, circle) for circle in circles[:1]]


def _common(one: SharedLoop | None, other: SharedLoop | None) -> SharedLoop | None:
    """Return the innermost loop that contains both."""
    while one is not other:
        assert one is not None or other is not None
        if other is None or (one is not None and one.depth >= other.depth):
            assert one is not None
            one = one.parent
        else:
            other = other.parent
    return one


def _item(nest: SharedNest, op: Operation, at: SharedLoop | None) -> object:
    """Return the item of the body of loop `at` that contains an operation: a loop directly inside, or the operation."""
    loop = nest.body(op)
    if loop is at:
        return op
    while loop is not None and loop.parent is not at:
        loop = loop.parent
    return loop


def _circles(
    after: Mapping[object, Mapping[object, tuple[Operation, Operation]]],
) -> Iterator[list[tuple[object, tuple[Operation, Operation]]]]:
    """Yield disjoint cycles of items, each item with the read that orders the next one behind it."""
    done: set[object] = set()
    for start in after:
        if start in done:
            continue
        way: list[object] = [start]
        position = {start: 0}
        steps = [iter(after[start])]
        while way:
            step = next(steps[-1], None)
            if step is not None and step in position:
                cycle = way[position[step] :]
                yield [(item, after[item][nxt]) for item, nxt in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
            elif step is not None:
                if step not in done:
                    position[step] = len(way)
                    way.append(step)
                    steps.append(iter(after.get(step, ())))
                continue
            gone = 1 if step is None else len(way) - position[step]
            for item in way[-gone:]:
                done.add(item)
                del position[item]
            del way[-gone:], steps[-gone:]


def _entered_again(nest: SharedNest, loops: Collection[SharedLoop]) -> list[Conflict]:
    """Report loops that dependences force to be left and entered again.

    An operation inside such a loop depends on another one inside through operations outside, all in the same enclosing
    body.
    """
    order = list(nest.domains)
    number = {op: k for k, op in enumerate(order)}
    around = {op: () if (body := nest.body(op)) is None else body.path() for op in order}
    inside: dict[SharedLoop, list[int]] = {loop: [] for loop in loops}
    for op in order:
        for loop in around[op]:
            if loop in inside:
                inside[loop].append(number[op])
    conflicts: list[Conflict] = []
    for loop, positions in inside.items():
        left: dict[Operation, Operation] = {}
        for op in order[positions[0] : positions[-1] + 1]:
            is_in = loop in around[op]
            source = op if is_in else left.get(op)
            if source is None:
                continue
            for reader in nest.readers[op]:
                if loop in around[reader]:
                    conflicts += [] if is_in else _in_one_loop(nest, loop, source, reader)
                elif loop.parent is None or loop.parent in around[reader]:
                    left[reader] = max(source, left.get(reader, source), key=number.__getitem__)
    return conflicts


def check_parallel(nest: SharedNest) -> Iterator[Conflict]:
    """Check that a parallel loop distinguishes the elements that its iterations store for use outside of it."""
    kinds = {nest.loop_of[leaf] for leaf, attr in nest.attrs.items() if _is_parallel(attr) and leaf in nest.loop_of}
    for op, loop in stored_anew(nest) if kinds else ():
        own = loop.leaf_of(op)
        if loop in kinds and own is not None:
            yield Conflict(KIND, (own, nest.owner(loop)))
        elif loop in kinds:
            yield from (replace(one, rule=KIND) for one in _in_one_loop(nest, loop, op, nest.owner(loop)[0]))


def stored_anew(nest: SharedNest) -> Iterator[tuple[Operation, SharedLoop]]:
    """Yield operations that store an element in several iterations of a loop, into storage outside of that loop."""
    for op, chain in nest.chain.items():
        home = nest.home[op]
        kept = () if home is None or op in nest.outputs else home.path()
        for loop in chain[-1].path() if chain else ():
            own = loop.leaf_of(op)
            if loop not in kept and (own is None or op in nest.extended or _is_longer(nest, loop, own)):
                yield op, loop


def _is_parallel(attr: IterVarAttr) -> bool:
    return attr.iter_type is IterType.PARALLELIZED


def _in_one_loop(nest: SharedNest, loop: SharedLoop, *both: Operation) -> list[Conflict]:
    """Explain why two operations are in one loop: through leaves of both, or as the parent of a shared loop."""
    for op in both:
        if op in loop.positions:
            continue
        inner = next((n for n in nest.chain[op] if loop in n.path()), None)
        if inner is None:
            return []
        its = next(
            (leaf for leaf in inner.leaves if inner.parent is not None and leaf[0] in inner.parent.positions), None
        )
        return [] if its is None else [Conflict(ORDER, ((op, inner.positions[op]), its))]
    own, its = ((op, loop.positions[op]) for op in both)
    return [Conflict(PERSISTENT if nest.kind(own) == REDUCTION else ORDER, (own, its))]


def _unfinished(nest: SharedNest, at: SharedLoop | None, op: Operation, reader: Operation) -> Conflict | None:
    """Return a conflict if `reader` is inside a loop that `op` runs but does not share with it."""
    loop = at
    while loop is not None:
        own = loop.leaf_of(op)
        if own is not None and nest.owns(own) and nest.kind(own) != BROADCAST:
            why = next(iter(_in_one_loop(nest, loop, op, reader)), None)
            return why or Conflict(ORDER, (own, next((leaf for leaf in reversed(loop.leaves) if leaf != own), own)))
        loop = loop.parent
    return None


def _circular(nest: SharedNest, circle: Sequence[tuple[object, tuple[Operation, Operation]]]) -> Conflict:
    """Turn a cycle into a conflict: a loop that one read leaves and a later read enters again must not be shared."""
    for k, (item, (leaves, _)) in enumerate(circle):
        enters = circle[k - 1][1][1]
        if isinstance(item, SharedLoop) and leaves is not enters:
            own = item.leaf_of(leaves)
            its = item.leaf_of(enters)
            if own is not None and its is not None:
                rule = PERSISTENT if nest.kind(own) == REDUCTION else ORDER
                return Conflict(rule, (own, its))
    item = next(item for item, _ in circle if isinstance(item, SharedLoop))
    return Conflict(ORDER, (item.leaves[0], item.leaves[-1]))


def check_once(nest: SharedNest) -> Iterator[Conflict]:
    """Check that reductions count each element once: no loop inside of a reduction repeats iterations."""
    for op, chain in nest.chain.items():
        begin = next((loop for loop in chain if nest.kind((op, loop.positions[op])) == REDUCTION), None)
        if begin is None:
            continue
        for loop in reversed(chain[-1].path()):
            own = loop.leaf_of(op)
            if loop.depth > begin.depth and (own is None or _is_longer(nest, loop, own)):
                inner = chain[-1]
                its = inner.leaf_of(nest.owner(loop)[0]) or nest.owner(inner)
                yield Conflict(MISMATCH, ((op, inner.positions[op]), its))
                break


def _is_longer(nest: SharedNest, loop: SharedLoop, leaf: Leaf) -> bool:
    """Return whether a loop iterates over a single element of a stage."""
    return nest.kind(leaf) == BROADCAST and nest.kind(nest.owner(loop)) != BROADCAST
