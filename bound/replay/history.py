"""What was done to one domain found again in another, or done to it: the two halves of every replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bound.itervar import IterVar
from bound.replay.domain import made_alone
from bound.schedule import Fuse, Rebase, Relation, Split
from bound.schedule.relations import children, parents


@dataclass(frozen=True, eq=False)
class Found:
    """What `detect` found.

    Attributes
    ----------
    image: for each axis of the model the axis of the own domain that is the same.
    used: the relations of the own domain by which that came about.
    """

    image: Mapping[IterVar, IterVar]
    used: frozenset[Relation]


@dataclass(eq=False)
class History:
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


def history(relations: Sequence[Relation], only_here: Iterable[IterVar]) -> History:
    """The history of a domain of which `only_here` are the roots that the other has not and that have one element."""
    return History(relations, made_alone(relations, only_here))


def detect(model: History, own: History, start: Mapping[IterVar, IterVar]) -> Found:
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
        if same is None or not alike(relation, same, [iv for iv, _ in ends]):
            continue
        for _, fusions in ends:
            used.update(dict.fromkeys(fusions))
        used[same] = None
        image.update(zip(children(relation), children(same), strict=True))
    for iv, found in image.items():
        image[iv], fusions = own.forwarded(found)
        used.update(dict.fromkeys(fusions))
    return Found(image, frozenset(used))


def alike(model: Relation, own: Relation, starts: Sequence[IterVar]) -> bool:
    """Whether `own` does to `starts` what `model` does."""
    if type(model) is not type(own) or len(parents(own)) != len(starts):
        return False
    if any(a is not b for a, b in zip(parents(own), starts, strict=True)):
        return False
    if isinstance(model, Split) and isinstance(own, Split):
        return model.factor is own.factor and model.nparts is own.nparts and model.tail is own.tail
    return True


def create(model: History, start: Mapping[IterVar, IterVar]) -> tuple[dict[IterVar, IterVar], list[Relation]]:
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
