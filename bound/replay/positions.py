"""Compute-at positions: propagate loops and positions along the spanning tree, and settle how many loops can be shared.

The maximum-information spanning tree decides along which edges a replay propagates loops: from a start tensor, each
other tensor is reached over the path that preserves the most root axes of the start. Terms: nvFuser,
*MaxInfoSpanningTree*.

Example: `T1` is read by the reductions `T2` and `T3` over its second axis, both are read by `T4`. Propagating position
1 of `T4` gives every other tensor position 1: its first loop is the one of `T4`. `settle` then lowers positions until
the nest is legal (`legality`), and records a `Reason` for each tensor it lowered.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from bound.errors import InputError, ScheduleError
from bound.itervar import IterType, IterVar
from bound.operation import ComputeOp, Operation, PlaceholderOp
from bound.replay import loops
from bound.replay.domain import BROADCAST, REDUCTION, TensorDomain, current, position_of, reads
from bound.replay.loops import Conflict, Leaf, Reason, SharedNest
from bound.replay.snapshot import ScheduleSnapshot, is_inlined
from bound.replay.transform_replay import Matching, Replayed, replay_consumer_as_producer, replay_producer_as_consumer
from bound.schedule import Schedule
from bound.schedule.relations import with_ancestors
from bound.tensor import Tensor
from intset.expr.printer import shown

_NEVER: Final = (IterType.VECTORIZED, IterType.TENSORIZED)
_ROUNDS: Final = 8  # attempts to raise lowered positions again
_BEST: Final = (*_NEVER, IterType.UNROLLED)  # kinds that best effort leaves unshared


def limit(snapshot: ScheduleSnapshot, op: Operation, asked: int, best: bool) -> tuple[int, Reason | None]:
    """Return the largest position up to `asked` that an operation and each of its consumers allow, and what limits it.

    Only pairs of stages are checked; `settle` checks the whole nest.

    Parameters
    ----------
    best: also leave unrolled loops unshared.
    """
    domain, kinds = snapshot.domains[op], _BEST if best else _NEVER
    allowed, reason = asked, None
    attrs = snapshot.attrs(op)
    for position in range(asked):
        iv = domain.loop[position]
        is_reduction = domain.kinds[iv] == REDUCTION
        if is_reduction or iv in snapshot.slid or (position in attrs and attrs[position].iter_type in kinds):
            rule = loops.REDUCTION if is_reduction else loops.KIND
            allowed, reason = position, Reason(rule, op.outputs[0], iv, None, asked, position)
            break
    for reader in snapshot.readers[op]:
        position, rule = _limit_of_reader(snapshot, op, reader, allowed, kinds)
        if position < allowed:
            allowed = position
            reason = Reason(rule, op.outputs[0], domain.loop[position], reader.outputs[0], asked, position)
    return allowed, reason


def _limit_of_reader(
    snapshot: ScheduleSnapshot, op: Operation, reader: Operation, asked: int, kinds: tuple[IterType, ...]
) -> tuple[int, str]:
    if is_inlined(snapshot.stage(reader)):
        return 0, loops.MISMATCH
    match = snapshot.match(op, reader)
    allowed, rule = asked, loops.MISMATCH
    if match.longest < allowed:
        allowed, rule = match.longest, rule_at(match, match.longest)
    attrs = snapshot.attrs(reader)
    for here, there in match.pairs if attrs or snapshot.slid else ():
        is_alone = match.reader.loop[there] in snapshot.slid or (there in attrs and attrs[there].iter_type in kinds)
        if here < allowed and is_alone:
            return here, loops.KIND
    return allowed, rule


def rule_at(match: Matching, position: int) -> str:
    """Return why the producer's loop at `place` does not match the consumer's."""
    roots = with_ancestors(match.producer.relations, match.producer.loop[position : position + 1])
    mapped = any(iv in roots for iv in match.axes.to_reader)
    return loops.MISMATCH if mapped else loops.UNMAPPED


def without_broadcast(domain: TensorDomain, position: int) -> int:
    """Drop trailing broadcast loops from a position: sharing them saves nothing."""
    while position > 0 and domain.kinds[domain.loop[position - 1]] == BROADCAST:
        position -= 1
    return position


def settle(snapshot: ScheduleSnapshot, wanted: Mapping[Operation, int], best: bool) -> list[Reason]:
    """Raise positions towards `wanted` as far as the nest stays legal; returns the reasons for lower ones.

    Guarantee: positions never fall below those before the call. With `best`, no single tensor can share more loops.
    Conflicts are resolved at a tensor on the path between the conflicting leaves, preferably one read by both
    neighbours, and the last in the schedule. Afterwards positions are raised again, in schedule order.
    """
    reasons: dict[Operation, Reason] = {}
    most: dict[Operation, int] = {}
    for op, asked in wanted.items():
        if isinstance(op, PlaceholderOp):
            continue
        target = without_broadcast(snapshot.domains[op], asked)
        allowed, reason = limit(snapshot, op, target, best)
        if reason is not None:
            reasons[op] = reason
        most[op] = max(snapshot.before[op], without_broadcast(snapshot.domains[op], allowed))
    snapshot.position.update(most)
    limited = dict(reasons)
    _cut(snapshot, snapshot.before, wanted, reasons, _in_the_middle)
    for _ in range(_ROUNDS if best else 0):  # one of two cuts for two conflicts may suffice
        low = dict(snapshot.position)
        again = [op for op in most if snapshot.position[op] < most[op]]
        why_not = {op: limited[op] for op in again if op in limited}
        snapshot.position.update((op, most[op]) for op in again)
        _cut(snapshot, low, wanted, why_not, _last)
        if snapshot.position == low:
            break
        reasons = {op: reason for op, reason in reasons.items() if op not in again} | why_not
    return [reasons[op] for op in snapshot.rank if op in reasons]


Chosen = Callable[[ScheduleSnapshot, Sequence[Leaf], Collection[Leaf]], Leaf]


def _cut(
    snapshot: ScheduleSnapshot,
    floor: Mapping[Operation, int],
    wanted: Mapping[Operation, int],
    reasons: dict[Operation, Reason],
    choose: Chosen,
) -> None:
    """Lower positions, none below `floor`, until the nest is legal; records reasons in `found`."""
    nest = snapshot.nest()
    while nest.conflicts:
        is_first = True
        for conflict in nest.conflicts:
            leaf = _to_part(snapshot, nest, conflict, floor, choose, is_first)
            if leaf is None:
                continue  # an earlier cut resolved it, or the next round does
            is_first = False
            op, position = leaf
            asked = max(without_broadcast(snapshot.domains[op], wanted.get(op, position)), position)
            snapshot.position[op] = max(floor[op], without_broadcast(snapshot.domains[op], position))
            reasons[op] = _reason(nest, conflict, leaf, asked)
            nest.part(op, snapshot.position[op])
        nest = snapshot.nest()


def _to_part(
    snapshot: ScheduleSnapshot,
    nest: SharedNest,
    conflict: Conflict,
    floor: Mapping[Operation, int],
    choose: Chosen,
    is_first: bool,
) -> Leaf | None:
    """Choose the leaf to unshare so that the conflicting leaves no longer form one loop."""
    way = nest.between(*conflict.apart)
    raised = [leaf for leaf in way if floor[leaf[0]] <= leaf[1] < snapshot.position[leaf[0]]]
    if raised:
        return choose(snapshot, way, raised)
    if not is_first:
        return None
    # The positions before the call are legal, so some position was raised: undo the last.
    raised = [(op, floor[op]) for op in snapshot.ops if snapshot.position[op] > floor[op] and snapshot.readers[op]]
    if not raised:
        (op, _), (other, _) = conflict.apart
        raise ScheduleError(f"stage {op.name}: it cannot run in one loop with {other.name} any more ({conflict.rule})")
    return _last(snapshot, way, raised)


def _in_the_middle(snapshot: ScheduleSnapshot, way: Sequence[Leaf], raised: Collection[Leaf]) -> Leaf:
    """Choose the last leaf, by rank, whose neighbours on the path both read it; any raised leaf if there is none."""
    both = [
        leaf
        for before, leaf, after in zip(way, way[1:], way[2:], strict=False)
        if leaf in raised and before[0] in snapshot.readers[leaf[0]] and after[0] in snapshot.readers[leaf[0]]
    ]
    return _last(snapshot, way, both or raised)


def _last(snapshot: ScheduleSnapshot, way: Sequence[Leaf], raised: Collection[Leaf]) -> Leaf:
    """Choose the raised leaf of the last operation by rank."""
    return max(raised, key=lambda leaf: (snapshot.rank[leaf[0]], leaf[1]))


def _reason(nest: SharedNest, conflict: Conflict, leaf: Leaf, asked: int) -> Reason:
    """Describe a conflict as the reason why a leaf is not shared."""
    op, position = leaf
    other = next((other for other in reversed(conflict.apart) if other[0] is not op), None)
    consumer = None if other is None else other[0].outputs[0]
    return Reason(conflict.rule, op.outputs[0], nest.axis(leaf), consumer, asked, position)


C2P: Final = "C2P"
P2C: Final = "P2C"


@dataclass(frozen=True)
class Edge:
    """A step of a propagation: from a consumer to a producer ("C2P"), or from a producer to a consumer ("P2C")."""

    kind: str
    source: Tensor
    target: Tensor

    @property
    def producer(self) -> Operation:
        """The operation that the other one reads."""
        return self.target.op if self.kind == C2P else self.source.op

    @property
    def consumer(self) -> Operation:
        """The operation that reads the other one."""
        return self.source.op if self.kind == C2P else self.target.op

    def __repr__(self) -> str:
        return f"{self.kind} {self.source.name}->{self.target.name}"


Allowed = Callable[[Edge], bool]


def spanning_tree(schedule: Schedule, tensor: Tensor, pos: int = -1) -> tuple[Edge, ...]:
    """Return the edges of the maximum-information spanning tree from a tensor, in the order of their selection.

    The weight of an edge is the number of root axes behind the first `pos` loops of `tensor` that are still axes of the
    target; edges of weight 0 are excluded. The heaviest edge is selected next. Ties, in order: fewest edges from
    `tensor`; C2P before P2C; shortest longest chain to the target; name; stage. So the order in which outputs are
    listed matters only among operations of one name.

    Raises
    ------
    InputError: the position is out of range.
    """
    start = current(schedule, tensor)
    snapshot = ScheduleSnapshot(schedule)
    return tuple(tree(snapshot, start, position_of(pos, snapshot.domain(start).depth, start.name)))


def tree(snapshot: ScheduleSnapshot, start: Tensor, position: int, allowed: Allowed | None = None) -> Iterator[Edge]:
    """Yield the edges of the maximum-information spanning tree, restricted to the allowed ones."""
    first = snapshot.domain(start)
    needed = with_ancestors(first.relations, first.loop[:position])
    reached: set[Operation] = {start.op}
    ticket = count()
    heap: list[tuple[int, int, str, int, int, Edge, frozenset[IterVar]]] = []

    def look(at: Tensor, roots: frozenset[IterVar], steps: int) -> None:
        """Push the edges of `at`; `known` are its roots that are root axes of the start."""
        for edge in _edges(snapshot, at):
            if edge.target.op in reached or not (allowed is None or allowed(edge)):
                continue
            there = _carried(snapshot, edge, roots)
            if there:
                rank = snapshot.rank[edge.target.op]
                heapq.heappush(heap, (-len(there), steps, edge.kind, rank, next(ticket), edge, there))

    look(start, frozenset(iv for iv in first.root if iv in needed), 1)
    while heap:
        _, steps, _, _, _, edge, there = heapq.heappop(heap)
        if edge.target.op not in reached:
            reached.add(edge.target.op)
            yield edge
            look(edge.target, there, steps + 1)


def _edges(snapshot: ScheduleSnapshot, tensor: Tensor) -> Iterator[Edge]:
    """Edges from the operation of a tensor, producers first; each neighbour occurs once per direction."""
    outputs, graph = tensor.op.outputs, snapshot.graph
    read = dict.fromkeys(t for output in outputs for t in graph.producers(output))
    yield from (Edge(C2P, tensor, t) for t in read)
    reading = {t.op: t for output in outputs for t in reversed(graph.consumers(output))}
    yield from (Edge(P2C, tensor, t) for t in sorted(reading.values(), key=lambda t: snapshot.rank[t.op]))


def _carried(snapshot: ScheduleSnapshot, edge: Edge, roots: frozenset[IterVar]) -> frozenset[IterVar]:
    axes = snapshot.axes(edge.producer, edge.consumer).to_reader
    if edge.kind == C2P:
        return frozenset(own for own, reader in axes.items() if reader in roots)
    return frozenset(axes[own] for own in roots if own in axes)


@dataclass(eq=False)
class PropagatedPositions:
    """Positions of tensors that correspond to a position of the start tensor.

    Attributes
    ----------
    position: of each operation that the spanning tree reaches.
    reasons: for operations whose loops agree with fewer than the requested ones.
    held: the rules that forbid changing the loops of an operation.
    """

    position: dict[Operation, int]
    reasons: dict[Operation, Reason] = field(default_factory=dict)
    held: dict[Operation, str] = field(default_factory=dict)


def carry_loops(snapshot: ScheduleSnapshot, start: Tensor, position: int, allowed: Allowed) -> PropagatedPositions:
    """Replay the first `position` loops of `start` on all tensors that the allowed edges reach."""
    result = PropagatedPositions({start.op: position})
    for edge in tree(snapshot, start, position, allowed):
        op, asked = edge.target.op, result.position[edge.source.op]
        there = matched(snapshot, edge, asked)
        if there is None:
            new = _replayed(snapshot, edge, asked)
            if new.domain.loop == snapshot.domains[op].loop:
                there = new.position if new.position == _mapped(snapshot, edge, asked) else None
            else:
                rule = snapshot.held(op, new.domain)
                if rule is None:
                    snapshot.domains[op] = new.domain
                    there = matched(snapshot, edge, asked)
                else:
                    result.held[op] = rule
        result.position[op] = there if there is not None else _largest(snapshot, edge, asked, result)
    return result


def carry_position(
    snapshot: ScheduleSnapshot, start: Tensor, position: int, held: Mapping[Operation, str]
) -> PropagatedPositions:
    """Map the position of `start` to all tensors without changing loops; a shorter prefix where loops differ.

    Parameters
    ----------
    held: the rules that forbade changing loops, for the reasons.
    """
    result = PropagatedPositions({start.op: position}, held=dict(held))
    for edge in tree(snapshot, start, position):
        asked = result.position[edge.source.op]
        mapped = matched(snapshot, edge, asked)
        result.position[edge.target.op] = mapped if mapped is not None else _largest(snapshot, edge, asked, result)
    return result


def matched(snapshot: ScheduleSnapshot, edge: Edge, position: int) -> int | None:
    """Map a position across an edge; `None` if the loops differ."""
    match = snapshot.match(edge.producer, edge.consumer)
    return match.of_producer(position) if edge.kind == C2P else match.of_reader(position)


def _replayed(snapshot: ScheduleSnapshot, edge: Edge, position: int) -> Replayed:
    source, target = snapshot.domains[edge.source.op], snapshot.domains[edge.target.op]
    replay: Callable[[TensorDomain, TensorDomain, int], Replayed]
    replay = replay_producer_as_consumer if edge.kind == C2P else replay_consumer_as_producer
    return replay(target, source, position)


def _mapped(snapshot: ScheduleSnapshot, edge: Edge, position: int) -> int:
    """Count the target loops that the first `position` loops of the source correspond to."""
    match = snapshot.match(edge.producer, edge.consumer)
    return sum(iv in match.mapped for iv in match.reader.loop[:position]) if edge.kind == C2P else position


def _largest(snapshot: ScheduleSnapshot, edge: Edge, asked: int, result: PropagatedPositions) -> int:
    """Map the longest prefix of `asked` across an edge, and record why it is shorter."""
    less, position = asked, None
    while position is None:
        less -= 1
        position = matched(snapshot, edge, less)
    match, rule = snapshot.match(edge.producer, edge.consumer), result.held.get(edge.target.op)
    if edge.kind == C2P or rule is not None:
        own, wanted = snapshot.domains[edge.target.op].loop, max(_mapped(snapshot, edge, asked), position + 1)
        axis = own[position] if position < len(own) else None
        reader = edge.source if edge.kind == C2P else None
        reason = Reason(rule or loops.MISMATCH, edge.target, axis, reader, wanted, position)
    else:
        axis = match.producer.loop[match.longest]
        reason = Reason(rule_at(match, match.longest), edge.source, axis, edge.target, asked, match.longest)
    result.reasons[edge.target.op] = reason
    return position


def unmapped(
    snapshot: ScheduleSnapshot, op: Operation, mapped: PropagatedPositions, chain: Collection[Operation]
) -> Reason | None:
    """Return why an operation does not share a loop of a consumer that reads it at another index of that loop's axis.

    A loop of the consumer whose axis occurs in no index of the read is ignored.
    """
    allowed = mapped.position.get(op, 0)
    for reader in snapshot.readers[op]:
        depth = mapped.position.get(reader, 0) if reader in chain else 0
        if not depth or not isinstance(reader, ComputeOp):
            continue
        match = snapshot.match(op, reader)
        used = {v for indices in reads(op, reader) for index in indices for v in index.free_vars()}
        for iv in match.reader.loop[:depth]:
            roots = with_ancestors(match.reader.relations, (iv,)) & used
            if iv not in match.mapped and roots:
                return Reason(loops.UNMAPPED, op.outputs[0], iv, reader.outputs[0], allowed + 1, allowed)
    return None


def propagate(
    schedule: Schedule, tensor: Tensor, pos: int = -1, within: Collection[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Replay the first `pos` loops of a tensor on other tensors, along the spanning tree; positions stay.

    Returns the tensors whose loops changed; tensors whose loops match already stay unchanged.

    Parameters
    ----------
    within: tensors allowed to change; all, if `None`.

    Raises
    ------
    ScheduleError: an immovable stage needs other loops. The schedule is unchanged.
    InputError: `within` is not a collection of tensors; the position is out of range.
    """
    start = current(schedule, tensor)
    if within is not None and not isinstance(within, Collection):
        raise InputError(f"within is a collection of tensors, not {shown(within)}")
    inside = None if within is None else {current(schedule, t).op for t in within}
    snapshot = ScheduleSnapshot(schedule)
    depth = position_of(pos, snapshot.domain(start).depth, start.name)
    before = dict(snapshot.domains)
    result = carry_loops(snapshot, start, depth, lambda edge: inside is None or edge.target.op in inside)
    for op, rule in result.held.items():
        obstacle = snapshot.obstacle(op)
        said = {loops.FROZEN: "other stages are computed in them", loops.KIND: "they are annotated"}
        reason = f"it {obstacle}" if obstacle else said.get(rule, "its reduction would count elements twice")
        raise ScheduleError(f"stage {op.name}: propagate would have to change its loops, but {reason}")
    snapshot.write()
    nest = [op for op in snapshot.ops if not isinstance(op, PlaceholderOp)]
    changed = [op for op in nest if before[op].loop != snapshot.domains[op].loop]
    return tuple(t for op in changed for t in schedule[op].op.outputs)
