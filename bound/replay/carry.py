"""The loops of one tensor carried to others, step by step along the spanning tree; and positions, in the same way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from bound.errors import InputError, ScheduleError
from bound.operation import ComputeOp, Operation, PlaceholderOp
from bound.replay import reasons as why
from bound.replay.axes import reads
from bound.replay.domain import TensorDomain, current, position_of
from bound.replay.positions import rule_at
from bound.replay.reasons import Reason
from bound.replay.replays import Replayed, replay_consumer_as_producer, replay_producer_as_consumer
from bound.replay.scene import Scene
from bound.replay.spanning import C2P, Allowed, Edge, tree
from bound.schedule import Schedule
from bound.schedule.message import with_ancestors
from bound.tensor import Tensor
from intset.expr.text import shown


@dataclass(eq=False)
class Carried:
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


def carry_loops(scene: Scene, start: Tensor, position: int, allowed: Allowed) -> Carried:
    """Make the loops of neighbours like the first `position` loops of `start`, where they are not yet."""
    result = Carried({start.op: position})
    for edge in tree(scene, start, position, allowed):
        op, asked = edge.target.op, result.position[edge.source.op]
        place = matched(scene, edge, asked)
        if place is None:
            new = _replayed(scene, edge, asked)
            if new.domain.loop == scene.domains[op].loop:
                place = new.position if new.position == _mapped(scene, edge, asked) else None
            else:
                rule = scene.held(op, new.domain)
                if rule is None:
                    scene.domains[op] = new.domain
                    place = matched(scene, edge, asked)
                else:
                    result.held[op] = rule
        result.position[op] = place if place is not None else _largest(scene, edge, asked, result)
    return result


def carry_position(scene: Scene, start: Tensor, position: int, held: Mapping[Operation, str]) -> Carried:
    """Where the position of `start` is in all tensors, as loops are now; as much of it as they agree with.

    `held`: the rules by which loops could not be made to agree.
    """
    result = Carried({start.op: position}, held=dict(held))
    for edge in tree(scene, start, position):
        asked = result.position[edge.source.op]
        place = matched(scene, edge, asked)
        result.position[edge.target.op] = place if place is not None else _largest(scene, edge, asked, result)
    return result


def matched(scene: Scene, edge: Edge, position: int) -> int | None:
    """The position at the end of a step that is `position` at its start; `None` where the loops differ."""
    match = scene.match(edge.producer, edge.consumer)
    return match.of_producer(position) if edge.kind == C2P else match.of_reader(position)


def _replayed(scene: Scene, edge: Edge, position: int) -> Replayed:
    source, target = scene.domains[edge.source.op], scene.domains[edge.target.op]
    replay: Callable[[TensorDomain, TensorDomain, int], Replayed]
    replay = replay_producer_as_consumer if edge.kind == C2P else replay_consumer_as_producer
    return replay(target, source, position)


def _mapped(scene: Scene, edge: Edge, position: int) -> int:
    match = scene.match(edge.producer, edge.consumer)
    return sum(iv in match.mapped for iv in match.reader.loop[:position]) if edge.kind == C2P else position


def _largest(scene: Scene, edge: Edge, asked: int, result: Carried) -> int:
    """The position at the end of a step that is as much of `asked` as there is; it says why that is not all."""
    less, place = asked, None
    while place is None:
        less -= 1
        place = matched(scene, edge, less)
    match, rule = scene.match(edge.producer, edge.consumer), result.held.get(edge.target.op)
    if edge.kind == C2P or rule is not None:
        own, wanted = scene.domains[edge.target.op].loop, max(_mapped(scene, edge, asked), place + 1)
        axis = own[place] if place < len(own) else None
        reader = edge.source if edge.kind == C2P else None
        found = Reason(rule or why.MISMATCH, edge.target, axis, reader, wanted, place)
    else:
        axis = match.producer.loop[match.longest]
        found = Reason(rule_at(match, match.longest), edge.source, axis, edge.target, asked, match.longest)
    result.reasons[edge.target.op] = found
    return place


def unmapped(scene: Scene, op: Operation, mapped: Carried, chain: Collection[Operation]) -> Reason | None:
    """Why an operation does not share a loop of a reader with which it is read otherwise than at the same axis.

    A loop of the reader whose axis occurs in no index of the read does not concern it.
    """
    allowed = mapped.position.get(op, 0)
    for reader in scene.readers[op]:
        depth = mapped.position.get(reader, 0) if reader in chain else 0
        if not depth or not isinstance(reader, ComputeOp):
            continue
        match = scene.match(op, reader)
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
    scene = Scene(schedule)
    depth = position_of(pos, scene.domain(start).depth, start.name)
    before = dict(scene.domains)
    result = carry_loops(scene, start, depth, lambda edge: inside is None or edge.target.op in inside)
    for op, rule in result.held.items():
        obstacle = scene.obstacle(op)
        said = {why.FROZEN: "other stages are computed in them", why.KIND: "they are annotated"}
        reason = f"it {obstacle}" if obstacle else said.get(rule, "its reduction would count elements twice")
        raise ScheduleError(f"stage {op.name}: propagate would have to change its loops, but {reason}")
    scene.write()
    loops = [op for op in scene.ops if not isinstance(op, PlaceholderOp)]
    changed = [op for op in loops if before[op].loop != scene.domains[op].loop]
    return tuple(t for op in changed for t in schedule[op].op.outputs)
