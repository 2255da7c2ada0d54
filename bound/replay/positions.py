"""How many of its leading loops a tensor can share, and why not more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from bound.errors import ScheduleError
from bound.itervar import IterType
from bound.operation import Operation, PlaceholderOp
from bound.replay import reasons as why
from bound.replay.domain import BROADCAST, REDUCTION, TensorDomain
from bound.replay.loops import Conflict, Leaf, Loops
from bound.replay.reasons import Reason
from bound.replay.replays import Matching
from bound.replay.scene import Scene, is_inlined
from bound.schedule.message import with_ancestors

_NEVER: Final = (IterType.VECTORIZED, IterType.TENSORIZED)
_ROUNDS: Final = 8  # how often it is tried to raise again what was lowered
_BEST: Final = (*_NEVER, IterType.UNROLLED)  # kinds that are not shared where it is not asked for in so many words


def limit(scene: Scene, op: Operation, asked: int, best: bool) -> tuple[int, Reason | None]:
    """The largest position up to `asked` at which an operation and all of its readers can share loops.

    Looked at are its own loops and those of each reader; whether all positions together make a nest is another
    question.

    Parameters
    ----------
    best: whether unrolled loops are left alone, too.
    """
    domain, kinds = scene.domains[op], _BEST if best else _NEVER
    allowed, reason = asked, None
    attrs = scene.attrs(op)
    for place in range(asked):
        iv = domain.loop[place]
        is_reduction = domain.kinds[iv] == REDUCTION
        if is_reduction or iv in scene.slid or (place in attrs and attrs[place].iter_type in kinds):
            rule = why.REDUCTION if is_reduction else why.KIND
            allowed, reason = place, Reason(rule, op.outputs[0], iv, None, asked, place)
            break
    for reader in scene.readers[op]:
        place, rule = _limit_of_reader(scene, op, reader, allowed, kinds)
        if place < allowed:
            allowed = place
            reason = Reason(rule, op.outputs[0], domain.loop[place], reader.outputs[0], asked, place)
    return allowed, reason


def _limit_of_reader(
    scene: Scene, op: Operation, reader: Operation, asked: int, kinds: tuple[IterType, ...]
) -> tuple[int, str]:
    if is_inlined(scene.stage(reader)):
        return 0, why.MISMATCH
    match = scene.match(op, reader)
    allowed, rule = asked, why.MISMATCH
    if match.longest < allowed:
        allowed, rule = match.longest, rule_at(match, match.longest)
    attrs = scene.attrs(reader)
    for here, there in match.pairs if attrs or scene.slid else ():
        is_alone = match.reader.loop[there] in scene.slid or (there in attrs and attrs[there].iter_type in kinds)
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


def settle(scene: Scene, wanted: Mapping[Operation, int], best: bool) -> list[Reason]:
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
        target = without_broadcast(scene.domains[op], asked)
        allowed, reason = limit(scene, op, target, best)
        if reason is not None:
            found[op] = reason
        most[op] = max(scene.before[op], without_broadcast(scene.domains[op], allowed))
    scene.position.update(most)
    limited = dict(found)
    _cut(scene, scene.before, wanted, found, _in_the_middle)
    for _ in range(_ROUNDS if best else 0):  # what was kept apart for two reasons may need only one of them
        low = dict(scene.position)
        again = [op for op in most if scene.position[op] < most[op]]
        why_not = {op: limited[op] for op in again if op in limited}
        scene.position.update((op, most[op]) for op in again)
        _cut(scene, low, wanted, why_not, _last)
        if scene.position == low:
            break
        found = {op: reason for op, reason in found.items() if op not in again} | why_not
    return [found[op] for op in scene.rank if op in found]


Chosen = Callable[[Scene, Sequence[Leaf], Collection[Leaf]], Leaf]


def _cut(
    scene: Scene,
    floor: Mapping[Operation, int],
    wanted: Mapping[Operation, int],
    found: dict[Operation, Reason],
    choose: Chosen,
) -> None:
    """Lower positions, none below `floor`, until there is a nest; enters why in `found`."""
    loops = scene.loops()
    while loops.conflicts:
        is_first = True
        for conflict in loops.conflicts:
            leaf = _to_part(scene, loops, conflict, floor, choose, is_first)
            if leaf is None:
                continue  # what was done for another one is enough, or it is looked at when that was done
            is_first = False
            op, place = leaf
            asked = max(without_broadcast(scene.domains[op], wanted.get(op, place)), place)
            scene.position[op] = max(floor[op], without_broadcast(scene.domains[op], place))
            found[op] = _reason(loops, conflict, leaf, asked)
            loops.part(op, scene.position[op])
        loops = scene.loops()


def _to_part(
    scene: Scene,
    loops: Loops,
    conflict: Conflict,
    floor: Mapping[Operation, int],
    choose: Chosen,
    is_first: bool,
) -> Leaf | None:
    """The loop of a tensor that is not to be shared, so that two leaves are no longer one loop."""
    way = loops.between(*conflict.apart)
    raised = [leaf for leaf in way if floor[leaf[0]] <= leaf[1] < scene.position[leaf[0]]]
    if raised:
        return choose(scene, way, raised)
    if not is_first:
        return None
    # what was before makes a nest, so some loop of the same node was raised: undo the last of these
    raised = [(op, floor[op]) for op in scene.ops if scene.position[op] > floor[op] and scene.readers[op]]
    if not raised:
        (op, _), (other, _) = conflict.apart
        raise ScheduleError(f"stage {op.name}: it cannot run in one loop with {other.name} any more ({conflict.rule})")
    return _last(scene, way, raised)


def _in_the_middle(scene: Scene, way: Sequence[Leaf], raised: Collection[Leaf]) -> Leaf:
    """Of leaves on the way from one to another the last in the schedule, of such that both neighbours read if any."""
    both = [
        leaf
        for before, leaf, after in zip(way, way[1:], way[2:], strict=False)
        if leaf in raised and before[0] in scene.readers[leaf[0]] and after[0] in scene.readers[leaf[0]]
    ]
    return _last(scene, way, both or raised)


def _last(scene: Scene, way: Sequence[Leaf], raised: Collection[Leaf]) -> Leaf:
    return max(raised, key=lambda leaf: (scene.rank[leaf[0]], leaf[1]))


def _reason(loops: Loops, conflict: Conflict, leaf: Leaf, asked: int) -> Reason:
    op, place = leaf
    other = next((other for other in reversed(conflict.apart) if other[0] is not op), None)
    consumer = None if other is None else other[0].outputs[0]
    return Reason(conflict.rule, op.outputs[0], loops.axis(leaf), consumer, asked, place)
