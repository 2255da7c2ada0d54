"""A stage in loops that are longer than its own, because another stage has an axis there that it has not.

Of T4[i] and T7[i, j], which both read what is computed in the loop that i and j are fused to, T7 has the longer loop.
T4 runs in that loop as well: what it has no axis for is computed anew. Its loops are made as those of T7 are, from its
own axes and from one, added for that, which its formula does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from bound.itervar import IterVar
from bound.operation import ComputeOp, Operation
from bound.replay.axes import same_extent
from bound.replay.domain import BROADCAST, REDUCTION, TensorDomain
from bound.replay.history import History, alike, history
from bound.replay.loops import Leaf, Longer, Loops
from bound.schedule import Fuse, Rebase, Relation, Singleton, Split, Tail
from bound.schedule.message import pass_down_domain, with_ancestors
from bound.schedule.relations import children, parents
from intset.expr.range import Range

_WHOLE_TILES: Final = (Tail.ROUND_UP, Tail.SHIFT_INWARDS)  # what they compute depends on where the axis ends


def longer(loops: Loops, op: Operation, other: Operation) -> Longer | None:
    """The loops of an operation, made as those of another that it shares its first loops with.

    `None` where they cannot be, or where to compute an element anew is not to compute the same.
    """
    chain = loops.chain[op]
    if not isinstance(op, ComputeOp) or op in loops.fixed:
        return None
    if any(other not in node.places for node in chain) or _accumulates(loops, op):
        return None
    roots = _roots(loops, (other, chain[0].places[other]), (op, chain[0].places[op]))
    model, own = loops.domains[other], loops.domains[op]
    same = {iv: axis for iv, axis in roots.items() if same_extent(iv, axis)}
    shared = {model.loop[node.places[other]]: own.loop[node.places[op]] for node in chain}
    return _Making(own, model, same).result(shared)


def _accumulates(loops: Loops, op: ComputeOp) -> bool:
    """Whether an element that is met again would count twice: a loop over data stands in one that reduces."""
    kinds = loops.domains[op].kinds
    seen = False
    for iv in loops.domains[op].loop:
        if seen and kinds[iv] != REDUCTION:
            return True
        seen = seen or kinds[iv] == REDUCTION
    return any(loops.kind((op, node.places[op])) == REDUCTION for node in loops.chain[op])


def _roots(loops: Loops, start: Leaf, end: Leaf) -> dict[IterVar, IterVar]:
    """From the roots of one operation to those of another, over all that their loops are one because of."""
    found = {iv: iv for iv in loops.domains[start[0]].root}
    way = loops.between(start, end)
    for (here, _), (there, _) in pairwise(way):
        up = loops.match.get((there, here))
        step = up.axes.to_producer if up is not None else loops.match[here, there].axes.to_reader
        found = {iv: step[axis] for iv, axis in found.items() if axis in step}
    return found


@dataclass(eq=False)
class _Making:
    """The relations of `model` done to `own`, as far as loops of both need them.

    Attributes
    ----------
    roots: from roots of the model to those of `own` that are the same axis.
    at: for axes of the model the axis of `own` that is the same, before `own` fused it with axes of one element.
    new: for axes of the model the axis that stands for them now.
    """

    own: TensorDomain
    model: TensorDomain
    roots: Mapping[IterVar, IterVar]
    at: dict[IterVar, IterVar] = field(default_factory=dict)
    new: dict[IterVar, IterVar] = field(default_factory=dict)
    added: dict[IterVar, IterVar] = field(default_factory=dict)

    def result(self, shared: Mapping[IterVar, IterVar]) -> Longer | None:
        """`shared`: loops of the model with those of `own` that are the same."""
        needed = with_ancestors(self.model.relations, shared)
        mapped = set(self.roots.values())
        only_here = (iv for iv in self.own.root if self.own.kinds[iv] == BROADCAST and iv not in mapped)
        steps = history(self.own.relations, only_here)
        self.at = {iv: axis for iv, axis in self.roots.items() if iv in needed}
        self.new = dict(self.at)
        made: list[Relation] = []
        for relation in self.model.relations:
            if any(iv in needed for iv in children(relation)) and any(iv in self.at for iv in parents(relation)):
                found = self._done(relation, steps)
                if found is None:
                    return None
                made.append(found)
        instead: dict[IterVar, IterVar] = {}
        for iv, leaf in shared.items():
            if iv not in self.at or steps.forwarded(self.at[iv])[0] is not leaf:
                return None
            instead[leaf] = self.new[iv]
        gone = with_ancestors(self.own.relations, shared.values())
        kept = [r for r in self.own.relations if not any(iv in gone for iv in children(r))]
        return self._complete([*made, *kept], instead, steps)

    def _done(self, relation: Relation, steps: History) -> Relation | None:
        """One relation of the model, done to the axes that stand for its own."""
        if isinstance(relation, (Rebase, Singleton)):
            return None
        inside = [iv for iv in parents(relation) if iv in self.at]
        if isinstance(relation, Fuse) and len(inside) == 1:
            self.at[relation.fused] = self.at[inside[0]]
            fused = self.new[relation.fused] = relation.fused.part(f"{self.new[inside[0]].name}.fused")
            ends = [self.new[iv] if iv in self.new else self._axis(iv) for iv in (relation.outer, relation.inner)]
            return Fuse(ends[0], ends[1], fused)
        starts = [steps.forwarded(self.at[iv])[0] for iv in inside]
        same = steps.step(starts[0])
        if same is None or not alike(relation, same, starts):
            return None
        for iv, own in zip(children(relation), children(same), strict=True):
            self.at[iv] = self.new[iv] = own
        if isinstance(relation, Fuse):
            return Fuse(self.new[relation.outer], self.new[relation.inner], self.new[relation.fused])
        if relation.tail in _WHOLE_TILES:
            return None
        own_ends = self.new[relation.parent], self.new[relation.outer], self.new[relation.inner]
        return Split(*own_ends, relation.factor, relation.nparts, relation.tail)

    def _axis(self, iv: IterVar) -> IterVar:
        """An axis as long as one of the model."""
        roots = {root: root.dom for root in self.model.root if root.dom is not None}
        extent = pass_down_domain(self.model.relations, roots)[iv].extent
        made = IterVar(Range(0, extent), iv.name, iv.iter_type, sizes=iv.sizes)
        self.added[made] = iv
        return made

    def _complete(
        self, relations: Sequence[Relation], instead: Mapping[IterVar, IterVar], steps: History
    ) -> Longer | None:
        """The whole, if the relations lead from all axes to the loops."""
        alive = dict.fromkeys((*self.own.root, *self.added))
        for relation in relations:
            if any(iv not in alive for iv in parents(relation)):
                return None
            for iv in parents(relation):
                del alive[iv]
            alive.update(dict.fromkeys(children(relation)))
        loop = [instead.get(iv, iv) for iv in self.own.loop]
        left = [iv for iv in alive if iv not in set(loop)]
        if any(iv not in alive for iv in loop) or any(iv not in steps.alone or iv not in self.own.root for iv in left):
            return None
        return Longer(tuple(relations), self.added, (*loop, *left))
