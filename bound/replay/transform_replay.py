"""replayPasC and replayCasP: repeat the transforms of one domain on a neighbour.

Example: the consumer `C[i, j]` has loops `(i.outer, i.inner, j)` after `split(i, 4)`, the producer `P[i, j]` is not
scheduled. `replay_producer_as_consumer(P, C, 1)` gives `P` the loops `(i.outer, i.inner, j)` and position 1.

A replay has two halves. `detect` (nvFuser's BestEffortReplay) finds the relations of the model that the other domain
has undergone as well; `create` applies those it has not. *Forwarding*: an axis fused with broadcast axes that only one
domain has counts as the axis before the fusion.

Invariant: a replay keeps the root axes, and every relation of the domain that does not conflict with the target loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from bound.errors import InputError
from bound.itervar import IterVar
from bound.replay.domain import REDUCTION, AxisMap, TensorDomain, axis_map, made_alone, position_of
from bound.schedule import Fuse, IterVarRelation, Rebase, Split
from bound.schedule.relations import with_ancestors, with_descendants
from intset.expr.printer import shown


@dataclass(frozen=True, eq=False)
class ReplayMatch:
    """Correspondence of two domains, as `detect` finds it.

    Attributes
    ----------
    image: maps axes of the model to equal axes of the other domain.
    used: relations of the other domain that occur in the model or forward an axis.
    """

    image: Mapping[IterVar, IterVar]
    used: frozenset[IterVarRelation]


@dataclass(eq=False)
class TransformHistory:
    """Relations of a domain, indexed by the axes they consume.

    Attributes
    ----------
    relations: in the order in which they were made.
    alone: broadcast axes that only this domain has, and all axes derived from them alone.
    """

    relations: Sequence[IterVarRelation]
    alone: set[IterVar]
    _next: dict[IterVar, IterVarRelation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for relation in self.relations:
            self._next.update(dict.fromkeys(relation.parents, relation))

    def step(self, iv: IterVar) -> IterVarRelation | None:
        """Return the relation that consumes an axis, if any."""
        return self._next.get(iv)

    def forwarded(self, iv: IterVar) -> tuple[IterVar, list[IterVarRelation]]:
        """Forward `iv` through fusions with axes in `alone`: the final axis and the relations passed."""
        fusions: list[IterVarRelation] = []
        relation = self.step(iv)
        while isinstance(relation, (Fuse, Rebase)):
            if isinstance(relation, Rebase):
                fusions.append(relation)
                iv = relation.rebased
                relation = self.step(iv)
                continue
            other = relation.inner if relation.outer is iv else relation.outer
            if other not in self.alone:
                break
            fusions.append(relation)
            iv = relation.fused
            relation = self.step(iv)
        return iv, fusions


def history(relations: Sequence[IterVarRelation], only_here: Iterable[IterVar]) -> TransformHistory:
    """Index the relations of a domain; `only_here` are broadcast roots without a counterpart in the neighbour."""
    return TransformHistory(relations, made_alone(relations, only_here))


def detect(model: TransformHistory, own: TransformHistory, start: Mapping[IterVar, IterVar]) -> ReplayMatch:
    """BestEffortReplay: find the relations of the model that `own` has undergone as well.

    Relations match if they have the same kind, factor and tail, and consume matching axes.

    Parameters
    ----------
    start: maps roots of the model to roots of the other domain.
    """
    image = dict(start)
    used: dict[IterVarRelation, None] = {}
    for relation in model.relations:
        if isinstance(relation, Rebase):
            if relation.parent in image:
                image[relation.rebased] = image[relation.parent]
            continue
        if isinstance(relation, Fuse):
            alone = [iv in model.alone for iv in (relation.outer, relation.inner)]
            if alone != [False, False]:
                kept = relation.inner if alone[0] else relation.outer
                if not all(alone) and kept in image:
                    image[relation.fused] = image[kept]
                continue
        starts = relation.parents
        if not starts or any(iv not in image for iv in starts):
            continue
        ends = [own.forwarded(image[iv]) for iv in starts]
        same = own.step(ends[0][0])
        if same is None or not is_same_transform(relation, same, [iv for iv, _ in ends]):
            continue
        for _, fusions in ends:
            used.update(dict.fromkeys(fusions))
        used[same] = None
        image.update(zip(relation.children, same.children, strict=True))
    for iv, axis in image.items():
        image[iv], fusions = own.forwarded(axis)
        used.update(dict.fromkeys(fusions))
    return ReplayMatch(image, frozenset(used))


def is_same_transform(model: IterVarRelation, own: IterVarRelation, starts: Sequence[IterVar]) -> bool:
    """Return whether `own` applies to `starts` the transform that `model` applies to its axes."""
    same = model.is_like(own) and len(own.parents) == len(starts)
    return same and all(a is b for a, b in zip(own.parents, starts, strict=True))


def create(
    model: TransformHistory, start: Mapping[IterVar, IterVar]
) -> tuple[dict[IterVar, IterVar], list[IterVarRelation]]:
    """Apply the relations of the model to axes of the other domain.

    Returns the image of the axes that no relation consumed, and the new relations. A fusion with an axis in
    `model.alone` is skipped. A fusion with any other unmapped axis cannot be repeated; its mapped parent stays unfused.

    Parameters
    ----------
    start: maps axes of the model to equal axes of the other domain that no relation consumes yet.
    """
    image = dict(start)
    relations: list[IterVarRelation] = []
    for relation in model.relations:
        if isinstance(relation, Split) and relation.parent in image:
            own = image.pop(relation.parent)
            outer, inner = (own.part(f"{own.name}.{part}") for part in ("outer", "inner"))
            relations.append(replace(relation, parent=own, outer=outer, inner=inner))
            image[relation.outer], image[relation.inner] = outer, inner
        elif isinstance(relation, Fuse):
            has = [iv in image for iv in (relation.outer, relation.inner)]
            if all(has):
                image[relation.fused] = _fused(image.pop(relation.outer), image.pop(relation.inner), relations)
            elif any(has):
                kept, other = (relation.outer, relation.inner) if has[0] else (relation.inner, relation.outer)
                if other in model.alone:
                    image[relation.fused] = image.pop(kept)
    return image, relations


def _fused(outer: IterVar, inner: IterVar, relations: list[IterVarRelation]) -> IterVar:
    fused = IterVar(None, f"{outer.name}.{inner.name}.fused", max(outer.iter_type, inner.iter_type))
    fused.learn_sizes((*outer.sizes, *inner.sizes))
    relations.append(Fuse(outer, inner, fused))
    return fused


@dataclass(frozen=True)
class Replayed:
    """A domain after a replay, and the number of its leading loops that match the requested ones."""

    domain: TensorDomain
    position: int


def replay_producer_as_consumer(producer: TensorDomain, consumer: TensorDomain, position: int) -> Replayed:
    """replayPasC: give the producer loops like the first `position` loops of a direct consumer.

    Guarantee: transforms of the producer that the target loops do not need stay. Order of the new loops: target loops;
    other loops of the consumer that the transforms create; loops the producer had; axes left over from loops taken
    apart.

    Raises
    ------
    InputError: an argument is not a domain, `consumer` does not read `producer`, or the position is out of range.
    """
    _check(producer, consumer)
    axes = axis_map(producer, consumer)
    target = consumer.loop[: position_of(position, consumer.depth, consumer.op.name)]
    return _replay(producer, consumer, target, axes.to_producer, (axes.added, axes.squeezed))


def replay_consumer_as_producer(consumer: TensorDomain, producer: TensorDomain, position: int) -> Replayed:
    """replayCasP: give a direct consumer loops like the first `position` loops of the producer, reductions excluded.

    Raises
    ------
    InputError: an argument is not a domain, `consumer` does not read `producer`, or the position is out of range.
    """
    _check(producer, consumer)
    axes = axis_map(producer, consumer)
    depth = position_of(position, producer.depth, producer.op.name)
    target = [iv for iv in producer.loop[:depth] if producer.kinds[iv] != REDUCTION]
    return _replay(consumer, producer, target, axes.to_reader, (axes.squeezed, axes.added))


def _check(producer: TensorDomain, consumer: TensorDomain) -> None:
    """Refuse arguments that are not the domains of a producer and a direct consumer."""
    for domain in (producer, consumer):
        if not isinstance(domain, TensorDomain):
            raise InputError(f"a domain made by replay.domain is needed, not {shown(domain)}")
    if not any(tensor.op is producer.op for tensor in consumer.op.input_tensors):
        raise InputError(f"{consumer.op.name} does not read {producer.op.name}")


def _replay(
    own: TensorDomain,
    model: TensorDomain,
    target: Sequence[IterVar],
    roots: Mapping[IterVar, IterVar],
    only: tuple[Iterable[IterVar], Iterable[IterVar]],
) -> Replayed:
    """Give `own` loops like `target`, which are loops of `model`.

    Parameters
    ----------
    roots: maps roots of the model to roots of `own`.
    only: broadcast roots without a counterpart, of the model and of `own`.
    """
    needed = with_ancestors(model.relations, target)
    shown = history([r for r in model.relations if any(iv in needed for iv in r.children)], only[0])
    match = detect(shown, history(own.relations, only[1]), {iv: to for iv, to in roots.items() if iv in needed})
    alive = dict.fromkeys(own.root)
    before = with_ancestors(own.relations, [iv for r in match.used for iv in r.parents])
    applied = [r for r in own.relations if r in match.used or any(iv in before for iv in r.children)]
    for relation in applied:
        _apply(relation, alive)
    image, created = create(shown, {iv: to for iv, to in match.image.items() if to in alive})
    for relation in created:
        _apply(relation, alive)
    head = list(dict.fromkeys(image[iv] for iv in target if iv in image))
    for relation in own.relations:  # keep other transforms whose axes still exist
        if relation not in applied and all(iv in alive and iv not in head for iv in relation.parents):
            _apply(relation, alive)
            applied.append(relation)
    order = [*head, *(image[iv] for iv in model.loop if iv in image), *own.loop, *alive]
    kept = [r for r in own.relations if r in applied]
    loop = tuple(iv for iv in dict.fromkeys(order) if iv in alive)
    return Replayed(TensorDomain(own.op, own.root, loop, (*kept, *created)), len(head))


def _apply(relation: IterVarRelation, alive: dict[IterVar, None]) -> None:
    for iv in relation.parents:
        del alive[iv]
    alive.update(dict.fromkeys(relation.children))


@dataclass(frozen=True, eq=False)
class Matching:
    """Loops that a producer and a direct consumer have in common.

    Attributes
    ----------
    axes: the root map.
    image: maps axes of the consumer to the equal axes of the producer.
    mapped: axes of the consumer derived from mapped roots; loops outside of this set are skipped.
    alone: broadcast axes that only the producer has; skipped as well.
    """

    producer: TensorDomain
    reader: TensorDomain
    axes: AxisMap
    image: Mapping[IterVar, IterVar]
    mapped: frozenset[IterVar]
    alone: frozenset[IterVar]

    def of_producer(self, position: int) -> int | None:
        """Convert a position from consumer to producer; `None` if the loops differ."""
        depth, depth_reached = self.producer.depth, 0
        for iv in self.reader.loop[:position]:
            if iv not in self.mapped:
                continue
            while depth_reached < depth and self.producer.loop[depth_reached] in self.alone:
                depth_reached += 1
            if depth_reached == depth or self.image.get(iv) is not self.producer.loop[depth_reached]:
                return None
            depth_reached += 1
        return depth_reached

    def of_reader(self, position: int) -> int | None:
        """Convert a position from producer to consumer; `None` if the loops differ."""
        if position > self.longest:
            return None
        return max((there + 1 for here, there in self.pairs if here < position), default=0)

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Positions (producer, consumer) of equal loops, from the outermost up to the first difference."""
        return self._agreement[0]

    @property
    def longest(self) -> int:
        """The largest position of the producer at which the loops agree."""
        return self._agreement[1]

    @cached_property
    def _agreement(self) -> tuple[tuple[tuple[int, int], ...], int]:
        pairs: list[tuple[int, int]] = []
        there = 0
        for here, iv in enumerate(self.producer.loop):
            if iv in self.alone or self.producer.kinds[iv] == REDUCTION:
                continue
            while there < self.reader.depth and self.reader.loop[there] not in self.mapped:
                there += 1
            if there == self.reader.depth or self.image.get(self.reader.loop[there]) is not iv:
                return tuple(pairs), here
            pairs.append((here, there))
            there += 1
        return tuple(pairs), self.producer.depth


def matching(producer: TensorDomain, reader: TensorDomain, axes: AxisMap) -> Matching:
    """Match the loops of a producer with those of a direct consumer; `axes` is their root map."""
    model, own = history(reader.relations, axes.added), history(producer.relations, axes.squeezed)
    image = detect(model, own, axes.to_producer).image
    mapped = frozenset(with_descendants(reader.relations, axes.to_reader.values()))
    return Matching(producer, reader, axes, image, mapped, frozenset(own.alone))


def matched_producer_position(producer: TensorDomain, consumer: TensorDomain, position: int) -> int | None:
    """Convert a position of a direct consumer to one of the producer; `None` if the loops differ.

    Loops of the consumer that derive from no axis of the producer do not count.

    Raises
    ------
    InputError: as `replay_producer_as_consumer`.
    """
    _check(producer, consumer)
    depth = position_of(position, consumer.depth, consumer.op.name)
    return matching(producer, consumer, axis_map(producer, consumer)).of_producer(depth)


def matched_consumer_position(consumer: TensorDomain, producer: TensorDomain, position: int) -> int | None:
    """Convert a position of the producer to one of a direct consumer; `None` if the loops differ.

    Reductions of the producer do not count, nor do loops of the consumer that derive from no axis of the producer.

    Raises
    ------
    InputError: as `replay_consumer_as_producer`.
    """
    _check(producer, consumer)
    depth = position_of(position, producer.depth, producer.op.name)
    return matching(producer, consumer, axis_map(producer, consumer)).of_reader(depth)
