"""How many of its leading loops a tensor can share, and why not more.

The loops of one tensor carried to others, step by step along the spanning tree; and positions, in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bound.errors import InputError, ScheduleError
from bound.itervar import IterType
from bound.operation import ComputeOp, Operation, PlaceholderOp
from bound.replay import reasons as why
from bound.replay.dependencies import C2P, Allowed, Edge, tree
from bound.replay.domain import BROADCAST, REDUCTION, TensorDomain, current, position_of, reads
from bound.replay.loops import Conflict, Leaf, SharedNest
from bound.replay.reasons import Reason
from bound.replay.snapshot import ScheduleSnapshot, is_inlined
from bound.replay.transform_replay import Matching, Replayed, replay_consumer_as_producer, replay_producer_as_consumer
from bound.schedule import Schedule
from bound.schedule.message import with_ancestors
from bound.tensor import Tensor
from intset.expr.text import shown

_NEVER: Final = (IterType.VECTORIZED, IterType.TENSORIZED)
_ROUNDS: Final = 8  # how often it is tried to raise again what was lowered
_BEST: Final = (*_NEVER, IterType.UNROLLED)  # kinds that are not shared where it is not asked for in so many words


def limit(snapshot: ScheduleSnapshot, op: Operation, asked: int, best: bool) -> tuple[int, Reason | None]:
    """The largest position up to `asked` at which an operation and all of its readers can share loops.

    Looked at are its own loops and those of each reader; whether all positions together make a nest is another
    question.

    Parameters
    ----------
    best: whether unrolled loops are left alone, too.
    """
    domain, kinds = snapshot.domains[op], _BEST if best else _NEVER
    allowed, reason = asked, None
    attrs = snapshot.attrs(op)
    for place in range(asked):
        iv = domain.loop[place]
        is_reduction = domain.kinds[iv] == REDUCTION
        if is_reduction or iv in snapshot.slid or (place in attrs and attrs[place].iter_type in kinds):
            rule = why.REDUCTION if is_reduction else why.KIND
            allowed, reason = place, Reason(rule, op.outputs[0], iv, None, asked, place)
            break
    for reader in snapshot.readers[op]:
        place, rule = _limit_of_reader(snapshot, op, reader, allowed, kinds)
        if place < allowed:
            allowed = place
            reason = Reason(rule, op.outputs[0], domain.loop[place], reader.outputs[0], asked, place)
    return allowed, reason


def _limit_of_reader(
    snapshot: ScheduleSnapshot, op: Operation, reader: Operation, asked: int, kinds: tuple[IterType, ...]
) -> tuple[int, str]:
    if is_inlined(snapshot.stage(reader)):
        return 0, why.MISMATCH
    match = snapshot.match(op, reader)
    allowed, rule = asked, why.MISMATCH
    if match.longest < allowed:
        allowed, rule = match.longest, rule_at(match, match.longest)
    attrs = snapshot.attrs(reader)
    for here, there in match.pairs if attrs or snapshot.slid else ():
        is_alone = match.reader.loop[there] in snapshot.slid or (there in attrs and attrs[there].iter_type in kinds)
        if here < allowed and is_alone:
            return here, why.KIND
    return allowed, rule


def rule_at(match: Matching, place: int) -> str:
    """Why the loop of the producer at `place` is none of the reader's."""
    roots = with_ancestors(match.producer.relations, match.producer.loop[place : place + 1])
    mapped = any(iv in roots for iv in match.axes.to_reader)
    return why.MISMATCH if mapped else why.UNMAPPED


def without_broadcast(domain: TensorDomain, position: int) -> int:
    """The position without trailing broadcast loops: to share these saves nothing."""
    while position > 0 and domain.kinds[domain.loop[position - 1]] == BROADCAST:
        position -= 1
    return position


def settle(snapshot: ScheduleSnapshot, wanted: Mapping[Operation, int], best: bool) -> list[Reason]:
    """Raise positions to those that are wanted, as far as can be, all together; gives what was in the way of the rest.

    Positions that are there already stay. Where all together make no nest, the loops of one tensor are kept apart that
    make one loop of two: of those on the way from one to the other, of a tensor that both ends read, and of these the
    last in the schedule. What can be raised again when all of that is done is raised, in the order of the schedule; so
    where `best` is asked for, no tensor alone can share more.
    """
    found: dict[Operation, Reason] = {}
    most: dict[Operation, int] = {}
    for op, asked in wanted.items():
        if isinstance(op, PlaceholderOp):
            continue
        target = without_broadcast(snapshot.domains[op], asked)
        allowed, reason = limit(snapshot, op, target, best)
        if reason is not None:
            found[op] = reason
        most[op] = max(snapshot.before[op], without_broadcast(snapshot.domains[op], allowed))
    snapshot.position.update(most)
    limited = dict(found)
    _cut(snapshot, snapshot.before, wanted, found, _in_the_middle)
    for _ in range(_ROUNDS if best else 0):  # what was kept apart for two reasons may need only one of them
        low = dict(snapshot.position)
        again = [op for op in most if snapshot.position[op] < most[op]]
        why_not = {op: limited[op] for op in again if op in limited}
        snapshot.position.update((op, most[op]) for op in again)
        _cut(snapshot, low, wanted, why_not, _last)
        if snapshot.position == low:
            break
        found = {op: reason for op, reason in found.items() if op not in again} | why_not
    return [found[op] for op in snapshot.rank if op in found]


Chosen = Callable[[ScheduleSnapshot, Sequence[Leaf], Collection[Leaf]], Leaf]


def _cut(
    snapshot: ScheduleSnapshot,
    floor: Mapping[Operation, int],
    wanted: Mapping[Operation, int],
    found: dict[Operation, Reason],
    choose: Chosen,
) -> None:
    """Lower positions, none below `floor`, until there is a nest; enters why in `found`."""
    nest = snapshot.nest()
    while nest.conflicts:
        is_first = True
        for conflict in nest.conflicts:
            leaf = _to_part(snapshot, nest, conflict, floor, choose, is_first)
            if leaf is None:
                continue  # what was done for another one is enough, or it is looked at when that was done
            is_first = False
            op, place = leaf
            asked = max(without_broadcast(snapshot.domains[op], wanted.get(op, place)), place)
            snapshot.position[op] = max(floor[op], without_broadcast(snapshot.domains[op], place))
            found[op] = _reason(nest, conflict, leaf, asked)
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
    """The loop of a tensor that is not to be shared, so that two leaves are no longer one loop."""
    way = nest.between(*conflict.apart)
    raised = [leaf for leaf in way if floor[leaf[0]] <= leaf[1] < snapshot.position[leaf[0]]]
    if raised:
        return choose(snapshot, way, raised)
    if not is_first:
        return None
    # what was before makes a nest, so some loop of the same node was raised: undo the last of these
    raised = [(op, floor[op]) for op in snapshot.ops if snapshot.position[op] > floor[op] and snapshot.readers[op]]
    if not raised:
        (op, _), (other, _) = conflict.apart
        raise ScheduleError(f"stage {op.name}: it cannot run in one loop with {other.name} any more ({conflict.rule})")
    return _last(snapshot, way, raised)


def _in_the_middle(snapshot: ScheduleSnapshot, way: Sequence[Leaf], raised: Collection[Leaf]) -> Leaf:
    """Of leaves on the way from one to another the last in the schedule, of such that both neighbours read if any."""
    both = [
        leaf
        for before, leaf, after in zip(way, way[1:], way[2:], strict=False)
        if leaf in raised and before[0] in snapshot.readers[leaf[0]] and after[0] in snapshot.readers[leaf[0]]
    ]
    return _last(snapshot, way, both or raised)


def _last(snapshot: ScheduleSnapshot, way: Sequence[Leaf], raised: Collection[Leaf]) -> Leaf:
    return max(raised, key=lambda leaf: (snapshot.rank[leaf[0]], leaf[1]))


def _reason(nest: SharedNest, conflict: Conflict, leaf: Leaf, asked: int) -> Reason:
    op, place = leaf
    other = next((other for other in reversed(conflict.apart) if other[0] is not op), None)
    consumer = None if other is None else other[0].outputs[0]
    return Reason(conflict.rule, op.outputs[0], nest.axis(leaf), consumer, asked, place)


@dataclass(eq=False)
class PropagatedPositions:
    """Where the position of one tensor is in others.

    Attributes
    ----------
    position: of each operation that the tree leads to.
    reasons: of those whose loops agree with fewer than those asked for.
    held: the rules by which loops could not be made like the others'.
    """

    position: dict[Operation, int]
    reasons: dict[Operation, Reason] = field(default_factory=dict)
    held: dict[Operation, str] = field(default_factory=dict)


def carry_loops(snapshot: ScheduleSnapshot, start: Tensor, position: int, allowed: Allowed) -> PropagatedPositions:
    """Make the loops of neighbours like the first `position` loops of `start`, where they are not yet."""
    result = PropagatedPositions({start.op: position})
    for edge in tree(snapshot, start, position, allowed):
        op, asked = edge.target.op, result.position[edge.source.op]
        place = matched(snapshot, edge, asked)
        if place is None:
            new = _replayed(snapshot, edge, asked)
            if new.domain.loop == snapshot.domains[op].loop:
                place = new.position if new.position == _mapped(snapshot, edge, asked) else None
            else:
                rule = snapshot.held(op, new.domain)
                if rule is None:
                    snapshot.domains[op] = new.domain
                    place = matched(snapshot, edge, asked)
                else:
                    result.held[op] = rule
        result.position[op] = place if place is not None else _largest(snapshot, edge, asked, result)
    return result


def carry_position(
    snapshot: ScheduleSnapshot, start: Tensor, position: int, held: Mapping[Operation, str]
) -> PropagatedPositions:
    """Where the position of `start` is in all tensors, as loops are now; as much of it as they agree with.

    `held`: the rules by which loops could not be made to agree.
    """
    result = PropagatedPositions({start.op: position}, held=dict(held))
    for edge in tree(snapshot, start, position):
        asked = result.position[edge.source.op]
        place = matched(snapshot, edge, asked)
        result.position[edge.target.op] = place if place is not None else _largest(snapshot, edge, asked, result)
    return result


def matched(snapshot: ScheduleSnapshot, edge: Edge, position: int) -> int | None:
    """The position at the end of a step that is `position` at its start; `None` where the loops differ."""
    match = snapshot.match(edge.producer, edge.consumer)
    return match.of_producer(position) if edge.kind == C2P else match.of_reader(position)


def _replayed(snapshot: ScheduleSnapshot, edge: Edge, position: int) -> Replayed:
    source, target = snapshot.domains[edge.source.op], snapshot.domains[edge.target.op]
    replay: Callable[[TensorDomain, TensorDomain, int], Replayed]
    replay = replay_producer_as_consumer if edge.kind == C2P else replay_consumer_as_producer
    return replay(target, source, position)


def _mapped(snapshot: ScheduleSnapshot, edge: Edge, position: int) -> int:
    match = snapshot.match(edge.producer, edge.consumer)
    return sum(iv in match.mapped for iv in match.reader.loop[:position]) if edge.kind == C2P else position


def _largest(snapshot: ScheduleSnapshot, edge: Edge, asked: int, result: PropagatedPositions) -> int:
    """The position at the end of a step that is as much of `asked` as there is; it says why that is not all."""
    less, place = asked, None
    while place is None:
        less -= 1
        place = matched(snapshot, edge, less)
    match, rule = snapshot.match(edge.producer, edge.consumer), result.held.get(edge.target.op)
    if edge.kind == C2P or rule is not None:
        own, wanted = snapshot.domains[edge.target.op].loop, max(_mapped(snapshot, edge, asked), place + 1)
        axis = own[place] if place < len(own) else None
        reader = edge.source if edge.kind == C2P else None
        found = Reason(rule or why.MISMATCH, edge.target, axis, reader, wanted, place)
    else:
        axis = match.producer.loop[match.longest]
        found = Reason(rule_at(match, match.longest), edge.source, axis, edge.target, asked, match.longest)
    result.reasons[edge.target.op] = found
    return place


def unmapped(
    snapshot: ScheduleSnapshot, op: Operation, mapped: PropagatedPositions, chain: Collection[Operation]
) -> Reason | None:
    """Why an operation does not share a loop of a reader with which it is read otherwise than at the same axis.

    A loop of the reader whose axis occurs in no index of the read does not concern it.
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
                return Reason(why.UNMAPPED, op.outputs[0], iv, reader.outputs[0], allowed + 1, allowed)
    return None


def propagate(
    schedule: Schedule, tensor: Tensor, pos: int = -1, within: Collection[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Make the loops of other tensors like the first `pos` loops of one, along the spanning tree; positions stay.

    Gives the tensors whose loops changed. A tensor whose loops are alike already is left as it is.

    Parameters
    ----------
    within: the tensors that may change; all, when `None`.

    Raises
    ------
    ScheduleError: a stage would have to change that cannot be moved, or loops that are shared. Nothing is changed.
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
        said = {why.FROZEN: "other stages are computed in them", why.KIND: "they are annotated"}
        reason = f"it {obstacle}" if obstacle else said.get(rule, "its reduction would count elements twice")
        raise ScheduleError(f"stage {op.name}: propagate would have to change its loops, but {reason}")
    snapshot.write()
    nest = [op for op in snapshot.ops if not isinstance(op, PlaceholderOp)]
    changed = [op for op in nest if before[op].loop != snapshot.domains[op].loop]
    return tuple(t for op in changed for t in schedule[op].op.outputs)
