"""Whether a loop is as long for each of the stages that run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from bound.itervar import IterVar
from bound.operation import Operation
from bound.replay.axes import FORMS, equal_sizes
from bound.replay.domain import BROADCAST, TensorDomain
from bound.replay.longer import longer
from bound.replay.loops import Conflict, Leaf, Longer, Loops
from bound.replay.reasons import MISMATCH
from bound.schedule import Fuse, Rebase, Relation, Singleton, Split
from bound.schedule.relations import parents
from intset.expr.node import Expr


def check_lengths(loops: Loops) -> Iterator[Conflict]:
    """Whether a loop that several stages run is as long for each of them; and who runs loops as they are."""
    marks, outputs = _Marks(loops), set(loops.outputs)
    for op in sorted(loops.chain, key=lambda op: -1 if (home := loops.home[op]) is None else home.depth):
        places = [k for k in range(loops.shared.get(op, 0)) if (op, k) in loops.node]
        loose = next((leaf for k in places if not _is_strict(loops, marks, leaf := (op, k))), None)
        loops.strict[op] = op not in loops.fixed and loose is None
        if places and not loops.strict[op]:
            leaf = loose or (op, places[-1])
            last = loops.owner(loops.node[leaf])
            loops.strict[op] = loops.strict[last[0]] and _lengthened(loops, marks, op, last[0])
            if op in outputs and not loops.strict[op]:
                # all of it would be computed each time: no reader says which part belongs to one iteration
                yield Conflict(MISMATCH, (leaf, last))
    for node in dict.fromkeys(loops.node.values()):
        owners = [leaf for leaf in node.leaves if loops.owns(leaf)]
        real = [leaf for leaf in owners if loops.kind(leaf) != BROADCAST]
        for first, second in pairwise(owners):
            if not (loops.strict[first[0]] and loops.strict[second[0]]):
                yield Conflict(MISMATCH, (first, second))
        last = loops.owner(node)
        for leaf in real:
            if marks.of(leaf) != marks.of(last) and not _lengthened(loops, marks, leaf[0], last[0]):
                yield Conflict(MISMATCH, (leaf, last))


def _lengthened(loops: Loops, marks: _Marks, op: Operation, other: Operation) -> bool:
    """Whether the loops of an operation can be those of another that has more axes."""
    if op not in loops.longer:
        for node in loops.chain[op]:
            leaf = node.leaf_of(other)
            if leaf is None or marks.of(leaf) != marks.of(loops.owner(node)):
                return False
        found = longer(loops, op, other)
        if found is None or not marks.agree(found, op, other):
            return False
        loops.longer[op] = found
    return True


def _is_strict(loops: Loops, marks: _Marks, leaf: Leaf) -> bool:
    if loops.kind(leaf) == BROADCAST:
        return True
    owner = loops.owner(loops.node[leaf])
    return loops.strict[owner[0]] and marks.of(leaf) == marks.of(owner)


class _Marks:
    """How loops came about from extents, as numbers: two loops with one mark run over the same values.

    Axes of one element that were fused with others leave no mark.
    """

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self._numbers: dict[object, int] = {}
        self._extents: dict[frozenset[tuple[Expr, int]], dict[int, int]] = {}  # by the terms of their forms
        self._symbolic: list[tuple[frozenset[tuple[Expr, int]], Expr, int]] = []
        self._of: dict[Operation, dict[IterVar, int]] = {}

    def of(self, leaf: Leaf) -> int:
        op, place = leaf
        if op not in self._of:
            self._of[op] = self._marked(self.loops.domains[op])
        return self._of[op][self.loops.domains[op].loop[place]]

    def agree(self, made: Longer, op: Operation, other: Operation) -> bool:
        """Whether loops that were made longer are those of the other operation."""
        domain, model = self.loops.domains[op], self.loops.domains[other]
        theirs = self._marked(model)
        longer = TensorDomain(op, (*domain.root, *made.added), made.loop, made.relations)
        own = self._marked(longer, {iv: theirs[axis] for iv, axis in made.added.items()})
        return all(
            own[made.loop[node.places[op]]] == theirs[model.loop[node.places[other]]] for node in self.loops.chain[op]
        )

    def _marked(self, domain: TensorDomain, known: Mapping[IterVar, int] | None = None) -> dict[IterVar, int]:
        found = dict(known or {})
        for iv in domain.root:
            if iv not in found:
                found[iv] = self._number(("axis", self._extent(iv)))
        for relation in domain.relations:
            self._mark(relation, domain, found)
        return found

    def _mark(self, relation: Relation, domain: TensorDomain, found: dict[IterVar, int]) -> None:
        if isinstance(relation, Split):
            how = (found[relation.parent], relation.factor, relation.nparts, relation.tail)
            found[relation.outer] = self._number(("outer", *how))
            found[relation.inner] = self._number(("inner", *how))
        elif isinstance(relation, Singleton):
            found[relation.iter] = self._number(("one",))
        elif isinstance(relation, Rebase):
            found[relation.rebased] = found[relation.parent]
        elif isinstance(relation, Fuse):
            fused = [iv for iv in parents(relation) if domain.kinds[iv] != BROADCAST]
            marks = [found[iv] for iv in fused or parents(relation)[:1]]
            found[relation.fused] = marks[0] if len(marks) == 1 else self._number(("fuse", *marks))

    def _extent(self, iv: IterVar) -> int:
        """The number of an extent; forms with the same terms are equal where their constants are."""
        assert iv.dom is not None and isinstance(iv.dom.extent, Expr)
        form = FORMS.form(iv.dom.extent)
        terms = frozenset(form.terms.items())
        alike = self._extents.setdefault(terms, {})
        if form.const not in alike:
            others = () if form.is_const else (end for end in self._symbolic if end[0] != terms)
            found = next((number for _, known, number in others if equal_sizes(known, iv.dom.extent)), None)
            alike[form.const] = self._number(("extent", terms, form.const)) if found is None else found
            if not form.is_const:
                self._symbolic.append((terms, iv.dom.extent, alike[form.const]))
        return alike[form.const]

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
