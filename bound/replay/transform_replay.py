"""What was done to one domain found again in another, or done to it: the two halves of every replay.

replayPasC and replayCasP: the loops of one tensor made like those of its reader, or of what it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from bound.errors import InputError
from bound.itervar import IterVar
from bound.replay.domain import REDUCTION, AxisMap, TensorDomain, axis_map, made_alone, position_of
from bound.schedule import Fuse, Rebase, Relation, Split
from bound.schedule.message import with_ancestors
from bound.schedule.relations import children, parents
from intset.expr.text import shown


@dataclass(frozen=True, eq=False)
class ReplayMatch:
    """What `detect` found.

    Attributes
    ----------
    image: for each axis of the model the axis of the own domain that is the same.
    used: the relations of the own domain by which that came about.
    """

    image: Mapping[IterVar, IterVar]
    used: frozenset[Relation]


@dataclass(eq=False)
class TransformHistory:
    """The relations of a domain, looked up by what they start from.

    Attributes
    ----------
    relations: in order.
    alone: axes that only this domain has and that have one element, with all that is made from them alone.
    """

    relations: Sequence[Relation]
    alone: set[IterVar]
    _next: dict[IterVar, Relation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for relation in self.relations:
            self._next.update(dict.fromkeys(parents(relation), relation))

    def step(self, iv: IterVar) -> Relation | None:
        """The relation that an axis goes into."""
        return self._next.get(iv)

    def forwarded(self, iv: IterVar) -> tuple[IterVar, list[Relation]]:
        """The axis that `iv` becomes by being fused with axes that only this domain has, and these fusions."""
        fusions: list[Relation] = []
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


def history(relations: Sequence[Relation], only_here: Iterable[IterVar]) -> TransformHistory:
    """The history of a domain of which `only_here` are the roots that the other has not and that have one element."""
    return TransformHistory(relations, made_alone(relations, only_here))


def detect(model: TransformHistory, own: TransformHistory, start: Mapping[IterVar, IterVar]) -> ReplayMatch:
    """BestEffortReplay: which relations of the model happened to the own domain as well.

    A relation of the model is the same as one of the own domain where it starts from the same axes and has the same
    kind, factor and tail. What was fused with an axis of one element that the other domain has not counts as what it
    was before ("forwarding").

    Parameters
    ----------
    start: from roots of the model to roots of the own domain.
    """
    image = dict(start)
    used: dict[Relation, None] = {}
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
        starts = parents(relation)
        if not starts or any(iv not in image for iv in starts):
            continue
        ends = [own.forwarded(image[iv]) for iv in starts]
        same = own.step(ends[0][0])
        if same is None or not is_same_transform(relation, same, [iv for iv, _ in ends]):
            continue
        for _, fusions in ends:
            used.update(dict.fromkeys(fusions))
        used[same] = None
        image.update(zip(children(relation), children(same), strict=True))
    for iv, found in image.items():
        image[iv], fusions = own.forwarded(found)
        used.update(dict.fromkeys(fusions))
    return ReplayMatch(image, frozenset(used))


def is_same_transform(model: Relation, own: Relation, starts: Sequence[IterVar]) -> bool:
    """Whether `own` does to `starts` what `model` does."""
    if type(model) is not type(own) or len(parents(own)) != len(starts):
        return False
    if any(a is not b for a, b in zip(parents(own), starts, strict=True)):
        return False
    if isinstance(model, Split) and isinstance(own, Split):
        return model.factor is own.factor and model.nparts is own.nparts and model.tail is own.tail
    return True


def create(model: TransformHistory, start: Mapping[IterVar, IterVar]) -> tuple[dict[IterVar, IterVar], list[Relation]]:
    """Do what the model did to axes of the own domain: the image of every axis that is left, and the relations made.

    A fusion with an axis of one element that the own domain has not is left out; one with anything else that it has
    not cannot be done.

    Parameters
    ----------
    start: for axes of the model the axes of the own domain that are the same and were not made into others yet.
    """
    image = dict(start)
    made: list[Relation] = []
    for relation in model.relations:
        if isinstance(relation, Split) and relation.parent in image:
            own = image.pop(relation.parent)
            outer, inner = (own.part(f"{own.name}.{part}") for part in ("outer", "inner"))
            made.append(Split(own, outer, inner, relation.factor, relation.nparts, relation.tail))
            image[relation.outer], image[relation.inner] = outer, inner
        elif isinstance(relation, Fuse):
            has = [iv in image for iv in (relation.outer, relation.inner)]
            if all(has):
                image[relation.fused] = _fused(image.pop(relation.outer), image.pop(relation.inner), made)
            elif any(has):
                kept, other = (relation.outer, relation.inner) if has[0] else (relation.inner, relation.outer)
                if other in model.alone:
                    image[relation.fused] = image.pop(kept)
    return image, made


def _fused(outer: IterVar, inner: IterVar, made: list[Relation]) -> IterVar:
    fused = IterVar(None, f"{outer.name}.{inner.name}.fused", max(outer.iter_type, inner.iter_type))
    fused.learn_sizes((*outer.sizes, *inner.sizes))
    made.append(Fuse(outer, inner, fused))
    return fused


@dataclass(frozen=True)
class Replayed:
    """A domain after a replay, and how many of its leading loops are those that were asked for."""

    domain: TensorDomain
    position: int


def replay_producer_as_consumer(producer: TensorDomain, consumer: TensorDomain, position: int) -> Replayed:
    """replayPasC: the producer with loops like the first `position` loops of a direct reader.

    What is not needed for that stays as it was. The loops come in this order: those asked for; other loops of the
    reader that came about on the way; the producer's own old loops; what is left of loops that were taken apart.
    """
    _check(producer, consumer)
    axes = axis_map(producer, consumer)
    target = consumer.loop[: position_of(position, consumer.depth, consumer.op.name)]
    return _replay(producer, consumer, target, axes.to_producer, (axes.added, axes.squeezed))


def replay_consumer_as_producer(consumer: TensorDomain, producer: TensorDomain, position: int) -> Replayed:
    """replayCasP: a direct reader with loops like the first `position` loops of the producer, reductions left out."""
    _check(producer, consumer)
    axes = axis_map(producer, consumer)
    depth = position_of(position, producer.depth, producer.op.name)
    target = [iv for iv in producer.loop[:depth] if producer.kinds[iv] != REDUCTION]
    return _replay(consumer, producer, target, axes.to_reader, (axes.squeezed, axes.added))


def _check(producer: TensorDomain, consumer: TensorDomain) -> None:
    """Refuse what are no domains of a tensor and of one that reads it."""
    for given in (producer, consumer):
        if not isinstance(given, TensorDomain):
            raise InputError(f"a domain made by replay.domain is needed, not {shown(given)}")
    if not any(tensor.op is producer.op for tensor in consumer.op.input_tensors):
        raise InputError(f"{consumer.op.name} does not read {producer.op.name}")


def _replay(
    own: TensorDomain,
    model: TensorDomain,
    target: Sequence[IterVar],
    roots: Mapping[IterVar, IterVar],
    only: tuple[Iterable[IterVar], Iterable[IterVar]],
) -> Replayed:
    """`own` with loops like `target`, which are loops of `model`.

    Parameters
    ----------
    roots: from roots of the model to roots of `own`.
    only: the broadcast roots that only the model has, and those that only `own` has.
    """
    needed = with_ancestors(model.relations, target)
    shown = history([r for r in model.relations if any(iv in needed for iv in children(r))], only[0])
    found = detect(shown, history(own.relations, only[1]), {iv: to for iv, to in roots.items() if iv in needed})
    alive = dict.fromkeys(own.root)
    before = with_ancestors(own.relations, [iv for r in found.used for iv in parents(r)])
    applied = [r for r in own.relations if r in found.used or any(iv in before for iv in children(r))]
    for relation in applied:
        _apply(relation, alive)
    image, made = create(shown, {iv: to for iv, to in found.image.items() if to in alive})
    for relation in made:
        _apply(relation, alive)
    head = list(dict.fromkeys(image[iv] for iv in target if iv in image))
    for relation in own.relations:  # what was done to the rest before, as far as it can still be done
        if relation not in applied and all(iv in alive and iv not in head for iv in parents(relation)):
            _apply(relation, alive)
            applied.append(relation)
    order = [*head, *(image[iv] for iv in model.loop if iv in image), *own.loop, *alive]
    kept = [r for r in own.relations if r in applied]
    loop = tuple(iv for iv in dict.fromkeys(order) if iv in alive)
    return Replayed(TensorDomain(own.op, own.root, loop, (*kept, *made)), len(head))


def _apply(relation: Relation, alive: dict[IterVar, None]) -> None:
    for iv in parents(relation):
        del alive[iv]
    alive.update(dict.fromkeys(children(relation)))


@dataclass(frozen=True, eq=False)
class Matching:
    """Which loops of a producer and of one of its readers are the same.

    Attributes
    ----------
    axes: the map between their roots.
    image: for each axis of the reader the axis of the producer that is the same.
    mapped: the axes of the reader that come from mapped roots; all others are passed over.
    alone: axes of one element that only the producer has; they are passed over, too.
    """

    producer: TensorDomain
    reader: TensorDomain
    axes: AxisMap
    image: Mapping[IterVar, IterVar]
    mapped: frozenset[IterVar]
    alone: frozenset[IterVar]

    def of_producer(self, position: int) -> int | None:
        """How many loops of the producer are the first `position` loops of the reader; `None` where they differ."""
        depth, place = self.producer.depth, 0
        for iv in self.reader.loop[:position]:
            if iv not in self.mapped:
                continue
            while place < depth and self.producer.loop[place] in self.alone:
                place += 1
            if place == depth or self.image.get(iv) is not self.producer.loop[place]:
                return None
            place += 1
        return place

    def of_reader(self, position: int) -> int | None:
        """How deep the first `position` loops of the producer reach into the reader; `None` where they differ."""
        if position > self.longest:
            return None
        return max((there + 1 for here, there in self.pairs if here < position), default=0)

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The places of loops that are the same in both, from the outermost as far as they agree."""
        return self._agreement[0]

    @property
    def longest(self) -> int:
        """The largest position of the producer at which the loops agree."""
        return self._agreement[1]

    @cached_property
    def _agreement(self) -> tuple[tuple[tuple[int, int], ...], int]:
        found: list[tuple[int, int]] = []
        there = 0
        for here, iv in enumerate(self.producer.loop):
            if iv in self.alone or self.producer.kinds[iv] == REDUCTION:
                continue
            while there < self.reader.depth and self.reader.loop[there] not in self.mapped:
                there += 1
            if there == self.reader.depth or self.image.get(self.reader.loop[there]) is not iv:
                return tuple(found), here
            found.append((here, there))
            there += 1
        return tuple(found), self.producer.depth


def matching(producer: TensorDomain, reader: TensorDomain) -> Matching:
    """The loops that two neighbours have in common."""
    axes = axis_map(producer, reader)
    model, own = history(reader.relations, axes.added), history(producer.relations, axes.squeezed)
    image = detect(model, own, axes.to_producer).image
    mapped = _made_from_any(reader.relations, axes.to_reader.values())
    return Matching(producer, reader, axes, image, mapped, frozenset(own.alone))


def _made_from_any(relations: Sequence[Relation], roots: Iterable[IterVar]) -> frozenset[IterVar]:
    found = set(roots)
    for relation in relations:
        if any(parent in found for parent in parents(relation)):
            found.update(children(relation))
    return frozenset(found)


def matched_producer_position(producer: TensorDomain, consumer: TensorDomain, position: int) -> int | None:
    """The position in the producer that is `position` in a direct reader; `None` where the loops differ.

    Loops of the reader that come from none of the producer's axes do not count.
    """
    _check(producer, consumer)
    depth = position_of(position, consumer.depth, consumer.op.name)
    return matching(producer, consumer).of_producer(depth)


def matched_consumer_position(consumer: TensorDomain, producer: TensorDomain, position: int) -> int | None:
    """The position in a direct reader that is `position` in the producer; `None` where the loops differ.

    Reductions of the producer do not count, nor do loops of the reader that come from none of the producer's axes.
    """
    _check(producer, consumer)
    depth = position_of(position, producer.depth, producer.op.name)
    return matching(producer, consumer).of_reader(depth)
