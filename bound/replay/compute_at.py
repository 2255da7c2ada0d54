"""`compute_at`, `inline_at`, `inline_most`: share loops of a tensor with its consumers, and repair what is refused.

Loops and positions are propagated along a spanning tree; then it is settled how many loops can be shared. The
maximum-information spanning tree decides along which edges a replay propagates loops: from a start tensor, each
other tensor is reached over the path that preserves the most root axes of the start. Terms: nvFuser,
*MaxInfoSpanningTree*.

Example: `T1` is read by the reductions `T2` and `T3` over its second axis, both are read by `T4`. Propagating position
1 of `T4` gives every other tensor position 1: its first loop is the one of `T4`. `settle` then lowers positions until
the nest is legal (`loops`), and records a `Reason` for each tensor it lowered.

Example: `compute_at(s, P, C, 1)` replays the first loop of `C` on `P` and on every tensor between the two (replayPasC,
replayCasP), then sets their compute-at positions, so that all run in that loop. A call in mode "standard" that cannot
share all requested loops raises `ReplayError` with reasons and with repairs.

Recomputation clones tensors for one of their consumers: `T1` is read by `T2` and `T3`; `recompute(s, T1, T2)` adds
`T1.clone` with the loops of `T1`; `T2` reads the clone, `T3` still reads `T1`.

Guarantee: a refused call leaves the schedule unchanged, and each repair was tried on a copy.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final

from bound.errors import InputError, ScheduleError
from bound.itervar import IterType, IterVar
from bound.replay import loops
from bound.replay.loops import Conflict, Leaf, Reason, Repair, ReplayError, ScheduleSnapshot, SharedNest
from bound.replay.transform_replay import (
    BROADCAST,
    REDUCTION,
    DependencyGraph,
    Matching,
    Replayed,
    TensorDomain,
    check_depends,
    current,
    domain,
    position_of,
    reads,
    replay_consumer_as_producer,
    replay_producer_as_consumer,
)
from bound.schedule import Schedule, Stage
from bound.schedule.relations import with_ancestors
from bound.schedule.rewrites import insert_stage, redirect
from bound.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, redirected
from bound.tir import walk
from bound.tir.reduce import Reduction
from bound.tir.value import REDUCE, Value, make
from intset.errors import IntSetError
from intset.expr import arguments, shown

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
    if snapshot.stage(reader).is_inlined:
        return 0, loops.MISMATCH
    match = snapshot.match(op, reader)
    allowed, rule = asked, loops.MISMATCH
    if match.longest < allowed:
        allowed, rule = match.longest, rule_at_end(match)
    attrs = snapshot.attrs(reader)
    for here, there in match.pairs if attrs or snapshot.slid else ():
        is_alone = match.reader.loop[there] in snapshot.slid or (there in attrs and attrs[there].iter_type in kinds)
        if here < allowed and is_alone:
            return here, loops.KIND
    return allowed, rule


def rule_at_end(match: Matching) -> str:
    """Return why the first loop of the producer that the consumer does not share has no equal there."""
    roots = with_ancestors(match.producer.relations, match.producer.loop[match.longest : match.longest + 1])
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
    """Lower positions, none below `floor`, until the nest is legal; records reasons in `reasons`."""
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
        """Push the edges of `at`; `roots` are its roots that are root axes of the start."""
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
        reason = Reason(rule_at_end(match), edge.source, axis, edge.target, asked, match.longest)
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
    given = None if within is None else arguments.listed(within, "within", "a collection of tensors")
    inside = None if given is None else {current(schedule, t).op for t in given}
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


STANDARD: Final = "standard"
BEST_EFFORT: Final = "best_effort"
MOST_INLINED: Final = "most_inlined"
MODES: Final = (STANDARD, BEST_EFFORT, MOST_INLINED)


@dataclass(frozen=True)
class Outcome:
    """Result of a call.

    Attributes
    ----------
    position: the number of leading loops that the tensor now shares with all of its consumers.
    reasons: why tensors share fewer loops than requested.
    clones: the clone of each cloned tensor; a tensor rewritten before occurs under its old and its new name.
    """

    position: int
    reasons: tuple[Reason, ...] = ()
    clones: Mapping[Tensor, Tensor] = field(default_factory=dict)


def place_at(schedule: Schedule, producer: Tensor, consumer: Tensor, pos: int, mode: str) -> Outcome:
    """`compute_at` without repairs."""
    first, last = current(schedule, producer), current(schedule, consumer)
    snapshot = ScheduleSnapshot(schedule)
    depth = position_of(pos, snapshot.domain(last).depth, last.name)
    check_depends(snapshot.graph, first, last)
    if mode == MOST_INLINED:
        depth = snapshot.domain(last).depth
    moving = _moving(snapshot, first, last)
    if depth:
        _refuse_immovable(snapshot, moving if mode == STANDARD else {first.op}, first, last)

    def allowed(edge: Edge) -> bool:
        inside = edge.target.op in moving
        return inside or (edge.kind != C2P and edge.source.op in moving)

    carried = carry_loops(snapshot, last, depth, allowed)
    free = [op for op in snapshot.ops if op in moving and snapshot.obstacle(op) is None]
    if mode == MOST_INLINED:
        positions = {op: snapshot.domains[op].depth for op in free}
        obstacles = settle(snapshot, positions, best=True)
    else:
        mapped = carry_position(snapshot, last, depth, carried.held)
        positions = {op: mapped.position.get(op, 0) for op in free}
        obstacles = [reason for op, reason in mapped.reasons.items() if op in moving]
        chain = {t.op for t in snapshot.graph.needed((last,))} | {last.op}
        apart = [unmapped(snapshot, op, mapped, chain) for op in snapshot.ops if op in moving and op in chain]
        obstacles += [reason for reason in apart if reason is not None]
        obstacles += settle(snapshot, positions, best=mode == BEST_EFFORT)
    reasons = _explained(snapshot, obstacles)
    if mode == STANDARD and reasons:
        _refuse_held(snapshot, carried, reasons)
        call = f"compute_at of {first.name} at position {depth} of {last.name}"
        raise ReplayError(f"{call}: {reasons[0]}", reasons)
    snapshot.write()
    return Outcome(snapshot.position[first.op], reasons)


def _moving(snapshot: ScheduleSnapshot, producer: Tensor, consumer: Tensor) -> set[Operation]:
    """Return the operations between the producer and the common consumer, which is excluded.

    If there is no common consumer, return the producer and its dependents, outputs excluded.
    """
    graph = snapshot.graph
    behind = {producer, *graph.dependents((producer,))}
    end = graph.common_consumer(producer, consumer)
    if end is not None:
        return {t.op for t in behind & graph.needed((end,))} - {end.op}
    return {t.op for t in behind if graph.consumers(t)} | {producer.op}


def _refuse_immovable(snapshot: ScheduleSnapshot, moving: set[Operation], producer: Tensor, consumer: Tensor) -> None:
    call = f"compute_at of {producer.name} at {consumer.name}"
    for op in snapshot.ops:
        obstacle = snapshot.obstacle(op) if op in moving else None
        if obstacle is not None:
            raise ScheduleError(f"stage {op.name}: {call} would have to move it, but it {obstacle}")
    if snapshot.stage(consumer.op).is_inlined:
        raise ScheduleError(f"stage {consumer.name}: {call} needs its loops, but it is inlined")


def _refuse_held(snapshot: ScheduleSnapshot, carried: PropagatedPositions, reasons: tuple[Reason, ...]) -> None:
    """Raise `ScheduleError` if a reason is due to a stage that cannot be moved at all."""
    for reason in reasons:
        for tensor in (reason.tensor, reason.consumer):
            obstacle = snapshot.obstacle(tensor.op) if tensor is not None and tensor.op in carried.held else None
            if tensor is not None and obstacle is not None:
                raise ScheduleError(f"stage {tensor.name}: compute_at would have to move it, but it {obstacle}")


def _explained(snapshot: ScheduleSnapshot, obstacles: list[Reason]) -> tuple[Reason, ...]:
    """Keep the first reason per tensor, ordered by rank."""
    best: dict[Tensor, Reason] = {}
    for reason in obstacles:
        best.setdefault(reason.tensor, reason)
    return tuple(sorted(best.values(), key=lambda reason: snapshot.rank[reason.tensor.op]))


def inline_at(schedule: Schedule, tensor: Tensor, pos: int, mode: str = STANDARD) -> Outcome:
    """Share the first `pos` loops of one tensor with all of its consumers, without changing loops.

    Raises
    ------
    ReplayError: a loop cannot be shared (mode "standard").
    InputError: unknown mode; position out of range.
    """
    return _inline(schedule, tensor, pos, mode, "inline_at")


def inline_all_at(schedule: Schedule, tensor: Tensor, pos: int, mode: str = STANDARD) -> Outcome:
    """Share the first `pos` loops of one tensor, and the corresponding ones of all others, without changing loops.

    Raises
    ------
    ReplayError: a tensor cannot share all of them (mode "standard").
    InputError: unknown mode; position out of range.
    """
    return _inline(schedule, tensor, pos, mode, "inline_all_at")


def inline_most(schedule: Schedule) -> tuple[Reason, ...]:
    """Share as many leading loops of every tensor as is legal, without changing loops; returns what limits the others.

    Raises
    ------
    InputError: `schedule` is not a schedule.
    """
    if not isinstance(schedule, Schedule):
        raise InputError(f"a schedule made by te.create_schedule is needed, not {shown(schedule)}")
    snapshot = ScheduleSnapshot(schedule)
    depths = {op: snapshot.domains[op].depth for op in snapshot.ops if snapshot.obstacle(op) is None}
    reasons = tuple(settle(snapshot, depths, best=True))
    snapshot.write()
    return reasons


def _inline(schedule: Schedule, tensor: Tensor, pos: int, mode: str, name: str) -> Outcome:
    """Implement `inline_at` and `inline_all_at`; `name` selects one."""
    arguments.one_of(MODES, mode, "mode")
    now = current(schedule, tensor)
    snapshot = ScheduleSnapshot(schedule)
    depth = position_of(pos, snapshot.domain(now).depth, now.name)
    if mode == MOST_INLINED:
        depth = snapshot.domain(now).depth
    positions = {now.op: depth}
    if name == "inline_all_at":
        mapped = carry_position(snapshot, now, depth, {}).position
        positions = {op: mapped[op] for op in snapshot.ops if op in mapped}
    call = f"{name} of {now.name} at position {depth}"
    standard = mode == STANDARD
    kept: dict[Operation, int] = {}
    for op, position in positions.items():
        obstacle = snapshot.obstacle(op)
        if obstacle is None:
            kept[op] = position
        elif position and (standard or op is now.op):
            raise ScheduleError(f"stage {op.name}: {call} would have to move it, but it {obstacle}")
    reasons = tuple(settle(snapshot, kept, best=not standard))
    if standard and reasons:
        again = partial(_inline, tensor=tensor, name=name)
        repairs = tuple(_position_repairs(schedule, again, depth))
        raise ReplayError(f"{call}: {reasons[0]}; what works instead: {in_words(repairs)}", reasons, repairs)
    snapshot.write()
    return Outcome(snapshot.position[now.op], reasons)


def _position_repairs(schedule: Schedule, again: Callable[..., Outcome], depth: int, of: str = "") -> Iterator[Repair]:
    """Yield the largest smaller position that works, and mode "best_effort"; `of` names the tensor of the position."""
    shallower = ((less, partial(again, pos=less, mode=STANDARD)) for less in range(depth - 1, -1, -1))
    largest = next(((less, at) for less, at in shallower if works(schedule, at)), None)
    if largest is not None:
        yield Repair("position", f"position {largest[0]}{of}", largest[1])
    best = partial(again, pos=depth, mode=BEST_EFFORT)
    if works(schedule, best):
        yield Repair("mode", f"mode {BEST_EFFORT!r}", best)


def in_words(repairs: Iterable[Repair]) -> str:
    """Join the texts of repairs."""
    return ", ".join(repair.text for repair in repairs)


def works(schedule: Schedule, call: Callable[[Schedule], Outcome]) -> bool:
    """Return whether a copy of the schedule accepts a call."""
    try:
        call(schedule.copy())
    except IntSetError:
        return False
    return True


RECOMPUTE: Final = "recompute"


def compute_at(
    schedule: Schedule, producer: Tensor, consumer: Tensor, pos: int, mode: str = STANDARD, repair: str | None = None
) -> Outcome:
    """Compute `producer` inside the first `pos` loops of `consumer`, which depends on it directly or indirectly.

    All tensors between the two get loops like those of the consumer, and equal loops become shared.

    Parameters
    ----------
    pos: number of loops of `consumer`; a negative one counts from the end (-1: inside all loops).
    mode: "standard": every tensor shares exactly the requested loops, or the call is refused. "best_effort": each
        tensor shares as many of the requested loops as possible. "most_inlined": each tensor shares as many loops as
        possible.
    repair: "recompute": if the call is refused, clone tensors that have other consumers, and try again.

    Raises
    ------
    ReplayError: mode "standard", with reasons and repairs. The schedule is unchanged.
    ScheduleError: `consumer` does not depend on `producer`, or a stage that cannot be moved would have to.
    InputError: the mode or the repair is unknown, or the position is outside -n-1..n for n loops.
    """
    arguments.one_of(MODES, mode, "mode")
    if repair is not None and (not isinstance(repair, str) or repair != RECOMPUTE):
        raise InputError(f"repair must be None or {shown(RECOMPUTE)}, not {shown(repair)}")
    try:
        return place_at(schedule, producer, consumer, pos, mode)
    except ReplayError as error:
        cloned = partial(_recomputed, producer=producer, consumer=consumer, pos=pos)
        if repair == RECOMPUTE and works(schedule, cloned):
            return cloned(schedule)
        first, last = current(schedule, producer), current(schedule, consumer)
        repairs = tuple(_compute_at_repairs(schedule, first, last, pos))
        raise ReplayError(f"{error}; what works instead: {in_words(repairs)}", error.reasons, repairs) from None


def _recomputed(schedule: Schedule, producer: Tensor, consumer: Tensor, pos: int) -> Outcome:
    """Clone, then call again.

    Raises
    ------
    ScheduleError: there is nothing to clone, or the second call is refused; the schedule may contain clones.
    """
    first = current(schedule, producer)
    clones = recompute(schedule, producer, consumer)
    if not clones:
        raise ScheduleError(f"compute_at of {first.name}: there is nothing to recompute apart")
    done = place_at(schedule, clones.get(first, first), current(schedule, consumer), pos, STANDARD)
    return Outcome(done.position, done.reasons, clones)


def _compute_at_repairs(schedule: Schedule, producer: Tensor, consumer: Tensor, pos: int) -> Iterator[Repair]:
    """Yield the repairs that work: a smaller position, mode "best_effort", reordered loops, recomputation."""
    depth = position_of(pos, domain(schedule, consumer).depth, consumer.name)
    at = partial(place_at, producer=producer, consumer=consumer)
    yield from _position_repairs(schedule, at, depth, f" of {consumer.name}")
    order = _reductions_last(schedule, consumer)
    if order is not None:
        reordered = partial(_reordered, producer=producer, consumer=consumer, pos=depth, order=order)
        if works(schedule, reordered):
            names = ", ".join(iv.name for iv in order)
            yield Repair("reorder", f"the loops of {consumer.name} in the order {names}", reordered)
    cloned = partial(_recomputed, producer=producer, consumer=consumer, pos=depth)
    if works(schedule, cloned):
        yield Repair(RECOMPUTE, f"repair={RECOMPUTE!r}", cloned)


def _reordered(schedule: Schedule, producer: Tensor, consumer: Tensor, pos: int, order: tuple[IterVar, ...]) -> Outcome:
    schedule[consumer].reorder(*order)
    return place_at(schedule, producer, consumer, pos, STANDARD)


def _reductions_last(schedule: Schedule, tensor: Tensor) -> tuple[IterVar, ...] | None:
    """Return the unshared loops of a tensor with reductions last; `None` if they are in that order."""
    current_domain = domain(schedule, tensor)
    stage = schedule[tensor]
    free = current_domain.loop[stage.shared_loops :]
    order = tuple(sorted(free, key=lambda iv: current_domain.kinds[iv] == REDUCTION))
    return None if all(a is b for a, b in zip(order, free, strict=True)) else order


def recompute(schedule: Schedule, producer: Tensor, consumer: Tensor) -> dict[Tensor, Tensor]:
    """Clone every computed tensor on dependency chains from `producer` to `consumer` that has other consumers or is an
    output.

    The chains then read the clones, all other tensors the originals. A clone has the loops and the position of its
    original. Returns a map from tensors, and from their names before rewrites, to clones; empty if there is nothing to
    clone.

    Raises
    ------
    ScheduleError: a tensor cannot be cloned, or the shared loops would not nest.
    """
    first, last = current(schedule, producer), current(schedule, consumer)
    graph = DependencyGraph(schedule)
    check_depends(graph, first, last)
    between = {first, *graph.dependents((first,))} & graph.needed((last,))
    chain = {t.op for t in between if not isinstance(t.op, PlaceholderOp)} - {last.op}
    cloned: set[Operation] = set()
    for stage in reversed(schedule.stages):
        if stage.op in chain:
            readers = {reader.op for t in stage.op.outputs for reader in graph.consumers(t)}
            if stage.is_output or not readers <= chain | {last.op} or readers & cloned:
                cloned.add(stage.op)
    clones: dict[Tensor, Tensor] = {}
    originals = [stage for stage in schedule.stages if stage.op in cloned]
    for stage in originals:
        _check_cloned(schedule, stage)
    for stage in originals:
        op = stage.op
        assert isinstance(op, ComputeOp)
        copy, axes = _copy(op, clones)
        stage_of_clone = insert_stage(stage, copy, is_after=True)
        _give_loops(stage, stage_of_clone, axes)
        clones.update(zip(op.outputs, copy.outputs, strict=True))
    known_as = ((op, stage) for op, stage in schedule.stage_map.items() if stage in originals)  # before rewrites, too
    clone_of = {t: clones[stage.op.output(t.value_index)] for op, stage in known_as for t in op.outputs}
    own = {schedule[op]: clones for op in chain - cloned | {last.op}}
    redirect(schedule, {}, own)
    # a clone shares what the original shares, with what it reads and with its readers
    snapshot = ScheduleSnapshot(schedule)
    if snapshot.nest().conflict is not None:
        raise ScheduleError(
            f"{first.name} cannot be computed apart for {last.name}: the loops it shares would not nest"
        )
    snapshot.write()
    return clone_of


def _check_cloned(schedule: Schedule, stage: Stage) -> None:
    """Raise `ScheduleError` unless a stage can be cloned."""
    if not isinstance(stage.op, ComputeOp):
        raise ScheduleError(f"stage {stage.name}: only an operation made by te.compute can be cloned")
    for other in (*schedule.stages, *schedule.groups):
        for target, done in ((other.attach_stage, "computed"), (other.store_stage, "stored")):
            if target is stage:
                raise ScheduleError(f"stage {stage.name}: {other.name} is {done} in its loops, not in those of a clone")


def _copy(op: ComputeOp, clones: Mapping[Tensor, Tensor]) -> tuple[ComputeOp, dict[IterVar, IterVar]]:
    """Copy an operation over fresh axes; it reads clones where they exist."""
    axes = {iv: _twin(iv) for iv in op.root_iter_vars}
    body = tuple(_over(redirected(value, clones), axes) for value in op.body)
    copy = op.with_body(body, tuple(axes[iv] for iv in op.axis), f"{op.name}.clone")
    for old, new in zip(op.outputs, copy.outputs, strict=True):
        new.value_range = old.value_range
    return copy, axes


def _over(value: Any, axes: Mapping[IterVar, IterVar]) -> Any:
    """Replace axes in a value, including the axes of a reduction."""
    new = walk.substitute(value, axes)
    if isinstance(new, Value) and new.op is REDUCE:
        data: Reduction = new.data
        reduced = Reduction(data.combiner, tuple(axes[iv] for iv in data.axis), data.index)
        return make(new.op, new.args, new.dtype, reduced)
    return new


def _twin(iv: IterVar) -> IterVar:
    """Return a fresh axis like `iv`."""
    return IterVar(iv.dom, iv.name, iv.iter_type, iv.thread_tag, iv.sizes, iv.ends_with_data)


def _give_loops(old: Stage, new: Stage, axes: dict[IterVar, IterVar]) -> None:
    """Copy relations, leaves, annotations, scope and position of a stage to its clone."""
    for iv in old.all_iter_vars:
        axes.setdefault(iv, _twin(iv))
    new.relations = [relation.renamed(axes) for relation in old.relations]
    new.all_iter_vars = [axes[iv] for iv in old.all_iter_vars]
    new.leaf_iter_vars = [axes[iv] for iv in old.leaf_iter_vars]
    new.iter_var_attrs = {axes[iv]: attr for iv, attr in old.iter_var_attrs.items() if iv in axes}
    new.scope, new.double_buffered = old.scope, old.double_buffered
    new.compute_at_position = old.compute_at_position
