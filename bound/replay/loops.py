"""The nest that stages form when they share leading loops, as a value, and why loops cannot be shared.

A *leaf* is the k-th loop of an operation, `(op, k)`. A stage with compute-at position p shares its first p loops with
all of its consumers, loop by loop. Leaves connected by such pairs form one `SharedLoop`. Example: `T1` at position 1
under its consumers `T2` and `T3`, all over `(i, j)`:

    for i:                 # leaves (T1, 0), (T2, 0), (T3, 0)
      for j: T1[i, j] = ..
      for j: T2[i, j] = T1[i, j] ..
      for j: T3[i, j] = T1[i, j] ..

A shared loop runs over the same values for all of its stages (`check_lengths`); `legality.py` checks the rest.

*Extension* puts a stage into a loop longer than its own. Example: `T4[i]` and `T7[i, j]` share the loop `i.j.fused` in
which a common producer is computed. `T7` defines the loop; `T4` gets the added axis `j`, unused by its formula, and
recomputes its element for each `j`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from bound.errors import ScheduleError
from bound.itervar import IterVar
from bound.replay import transform_replay
from bound.replay.transform_replay import REDUCTION as REDUCTION_AXIS
from bound.schedule import Fuse, IterVarAttr, IterVarRelation, Rebase, Schedule, Singleton, Split, Tail
from bound.schedule.relations import pass_down_domain, with_ancestors
from bound.tensor import ComputeOp, Operation, Tensor
from intset.expr import Expr, Range

REDUCTION: Final = "reduction"
MISMATCH: Final = "mismatch"
UNMAPPED: Final = "unmapped"
KIND: Final = "kind"
PERSISTENT: Final = "persistent"
FROZEN: Final = "frozen"
SELF_MAPPED: Final = "self_mapped"
ORDER: Final = "order"

_BECAUSE: Final = {
    REDUCTION: "{axis} is a reduction of {tensor}: a value is complete only behind that loop",
    MISMATCH: "the loops of {consumer} differ there",
    UNMAPPED: "no loop of {consumer} runs over the same axis as {axis}",
    KIND: "{axis} is vectorized, unrolled, or annotated otherwise than the loop it would be one with",
    PERSISTENT: "what {consumer} needs is complete only behind the reduction that would share {axis}",
    FROZEN: "other stages are computed in the loops of {tensor} already",
    SELF_MAPPED: "two loops of {consumer} would become one",
    ORDER: "a tensor would be read before it is complete",
}


@dataclass(frozen=True)
class Reason:
    """Why a tensor shares fewer leading loops than requested.

    Attributes
    ----------
    rule: see below.
    tensor: the tensor that shares fewer loops.
    axis: its first unshared loop; `None` if no single loop is at fault.
    consumer: the consumer in the way, if any.
    asked, allowed: positions of `tensor`.

    Rules:

    - `reduction`: the loop is a reduction of the tensor;
    - `mismatch`: the consumer has different loops there;
    - `unmapped`: the consumer has no such axis;
    - `kind`: the loop is vectorized or unrolled, or annotations of the two loops differ;
    - `persistent`: the consumer needs the result of a reduction over the same loop;
    - `frozen`: an earlier call shared the loops, or attached stages to them;
    - `self_mapped`: two loops of one stage would become one;
    - `order`: every nest reads a tensor before it is complete.
    """

    rule: str
    tensor: Tensor
    axis: IterVar | None
    consumer: Tensor | None
    asked: int
    allowed: int

    def __str__(self) -> str:
        axis = "the loop" if self.axis is None else self.axis.name
        consumer = "a reader" if self.consumer is None else self.consumer.name
        because = _BECAUSE[self.rule].format(axis=axis, tensor=self.tensor.name, consumer=consumer)
        loops = "1 loop" if self.allowed == 1 else f"{self.allowed} loops"
        return f"{self.tensor.name} can share {loops}, not {self.asked}: {because} ({self.rule})"


@dataclass(frozen=True, eq=False)
class Repair:
    """An alternative to the refused call. Guarantee: it succeeded on a copy of the schedule.

    Attributes
    ----------
    kind: `position`: fewer shared loops; `mode`: each tensor shares what it can; `reorder`: the consumer's loops in
        another order; `recompute`: clones for tensors with several consumers.
    text: description of the call.
    call: takes the schedule; a `functools.partial` of a module function, hence picklable.
    """

    kind: str
    text: str
    call: Callable[[Schedule], object]

    def apply(self, schedule: Schedule) -> object:
        """Apply the repair to the refused schedule, or to a copy of it; returns the result of the call."""
        return self.call(schedule)

    def __repr__(self) -> str:
        return f"<Repair {self.kind}: {self.text}>"


class ReplayError(ScheduleError):
    """The error for an impossible position. The schedule is unchanged.

    Attributes
    ----------
    reasons: obstacles, at least one.
    repairs: alternatives. `compute_at` finds at least one for positions above 0.
    """

    def __init__(self, message: str, reasons: tuple[Reason, ...], repairs: tuple[Repair, ...] = ()) -> None:
        super().__init__(message)
        self.reasons = reasons
        self.repairs = repairs

    def __reduce__(self) -> tuple[type[ReplayError], tuple[str, tuple[Reason, ...], tuple[Repair, ...]]]:
        """Pickle reasons and repairs with the message."""
        return ReplayError, (str(self), self.reasons, self.repairs)


Leaf = tuple[Operation, int]


@dataclass(eq=False)
class SharedLoop:
    """A loop of the shared nest.

    Attributes
    ----------
    leaves: the loops of stages that it stands for, in stage order.
    parent: the enclosing shared loop.
    depth: the number of enclosing shared loops.
    positions: maps each operation to the position of its leaf.
    """

    leaves: list[Leaf]
    parent: SharedLoop | None = None
    depth: int = 0
    positions: dict[Operation, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for op, position in self.leaves:
            self.positions.setdefault(op, position)

    def leaf_of(self, op: Operation) -> Leaf | None:
        """Return the leaf of an operation in this loop, if any."""
        return (op, self.positions[op]) if op in self.positions else None

    def path(self) -> tuple[SharedLoop, ...]:
        """Return this loop and its ancestors, innermost first."""
        return (self,) if self.parent is None else (self, *self.parent.path())


@dataclass(frozen=True, eq=False)
class Conflict:
    """An obstacle to a legal nest.

    Attributes
    ----------
    rule: one of the rules of a `Reason`.
    apart: two leaves of one shared loop that must not be shared.
    """

    rule: str
    apart: tuple[Leaf, Leaf]


@dataclass(frozen=True, eq=False)
class ExtendedLoops:
    """Loops of an operation, rebuilt to match an operation with additional axes.

    Attributes
    ----------
    relations: derive `loop` from the roots of the operation and `added`.
    added: axes that the operation lacks, each mapped to the axis of the other operation that it copies.
    loop: replacements of the operation's loops, followed by leftover axes of extent 1.
    """

    relations: tuple[IterVarRelation, ...]
    added: Mapping[IterVar, IterVar]
    loop: tuple[IterVar, ...]


@dataclass(eq=False)
class SharedNest:
    """The shared loops of a schedule.

    Invariant: if `conflicts` is empty, every leaf in `loop_of` has a unique parent chain, and `chain` lists for each
    operation its shared loops, outermost first.

    Attributes
    ----------
    domains: the domain of each operation, producers first.
    shared: the number of leading loops that each operation shares with its consumers.
    readers: the consumers of each operation.
    match: the matched loops of each operation that shares some and each of its consumers.
    attrs: annotations of leaves.
    fixed: operations attached to a loop of another stage by `Stage.compute_at`, or by a group.
    outputs: operations that must be computed completely, whatever consumers need.
    links: the leaves that each leaf is paired with.
    up: leaves that an operation shares with its consumers.
    loop_of: the shared loop of each leaf.
    chain: the shared loops of each operation, outermost first.
    home: the innermost loop that an operation shares with its consumers; each of its iterations computes it anew.
    strict: whether the shared loops of an operation equal, axis by axis, those of the stage that runs them.
    extended: rebuilt loops of operations that run in longer loops; they replace the operation's own.
    conflicts: reasons why the nest is illegal. A conflict may hide others, which appear when it is resolved.
    """

    domains: Mapping[Operation, transform_replay.TensorDomain]
    shared: Mapping[Operation, int]
    readers: Mapping[Operation, Sequence[Operation]]
    match: Mapping[tuple[Operation, Operation], transform_replay.Matching]
    attrs: Mapping[Leaf, IterVarAttr]
    fixed: Collection[Operation]
    outputs: Sequence[Operation]
    links: dict[Leaf, list[Leaf]] = field(default_factory=dict)
    up: set[Leaf] = field(default_factory=set)
    loop_of: dict[Leaf, SharedLoop] = field(default_factory=dict)
    chain: dict[Operation, tuple[SharedLoop, ...]] = field(default_factory=dict)
    home: dict[Operation, SharedLoop | None] = field(default_factory=dict)
    strict: dict[Operation, bool] = field(default_factory=dict)
    extended: dict[Operation, ExtendedLoops] = field(default_factory=dict)
    conflicts: Sequence[Conflict] = ()
    _owner: dict[SharedLoop, Leaf] = field(default_factory=dict)

    @property
    def loops(self) -> list[SharedLoop]:
        """All shared loops."""
        return list(dict.fromkeys(self.loop_of.values()))

    def body(self, op: Operation) -> SharedLoop | None:
        """Return the innermost shared loop around the formula of an operation."""
        chain = self.chain.get(op)
        return chain[-1] if chain else None

    def kind(self, leaf: Leaf) -> str:
        """Return the kind of a leaf: iteration, reduction or broadcast."""
        return self.domains[leaf[0]].kinds[self.axis(leaf)]

    def axis(self, leaf: Leaf) -> IterVar:
        """Return the axis of a leaf."""
        return self.domains[leaf[0]].loop[leaf[1]]

    def owns(self, leaf: Leaf) -> bool:
        """Return whether an operation runs this leaf itself, instead of sharing it with its consumers."""
        return leaf not in self.up

    def owner(self, loop: SharedLoop) -> Leaf:
        """Return the leaf that defines the loop: the one with the most axes among unshared leaves, the last in case of
        ties.
        """
        owner = self._owner.get(loop)
        if owner is None:
            owners = [leaf for leaf in loop.leaves if self.owns(leaf)]
            owner = owners[-1] if len(owners) == 1 else max(reversed(owners), key=self._axes)
            self._owner[loop] = owner
        return owner

    def _axes(self, leaf: Leaf) -> int:
        """Count the root axes of extent other than 1 behind a leaf."""
        domain = self.domains[leaf[0]]
        ancestors = with_ancestors(domain.relations, (self.axis(leaf),))
        return sum(iv in ancestors and not transform_replay.has_one(iv) for iv in domain.root)

    @property
    def conflict(self) -> Conflict | None:
        """The first conflict, if any."""
        return self.conflicts[0] if self.conflicts else None

    def part(self, op: Operation, position: int) -> None:
        """Unlink the loops of an operation from its consumers' loops, from `position` on."""
        for reader in self.readers[op]:
            for here, there in self.match[op, reader].pairs:
                own, its = (op, here), (reader, there)
                if position <= here < self.shared.get(op, 0) and its in self.links.get(own, ()):
                    self.links[own].remove(its)
                    self.links[its].remove(own)

    def between(self, one: Leaf, other: Leaf) -> list[Leaf]:
        """Return the shortest path between two leaves over paired leaves; empty if there is none."""
        before: dict[Leaf, Leaf | None] = {one: None}
        waiting = deque([one])
        while waiting and other not in before:
            at = waiting.popleft()
            for leaf in self.links.get(at, ()):
                if leaf not in before:
                    before[leaf] = at
                    waiting.append(leaf)
        way = [other] if other in before else []
        while way and (step := before[way[-1]]) is not None:
            way.append(step)
        return way[::-1]


def check_lengths(nest: SharedNest) -> Iterator[Conflict]:
    """Check that a shared loop has equal extents for all of its stages; record `strict` and `extended` loops in the
    nest.
    """
    numbers, outputs = _ExtentNumbering(nest), set(nest.outputs)
    for op in sorted(nest.chain, key=lambda op: -1 if (home := nest.home[op]) is None else home.depth):
        positions = [k for k in range(nest.shared.get(op, 0)) if (op, k) in nest.loop_of]
        loose = next((leaf for k in positions if not _is_strict(nest, numbers, leaf := (op, k))), None)
        nest.strict[op] = op not in nest.fixed and loose is None
        if positions and not nest.strict[op]:
            leaf = loose or (op, positions[-1])
            last = nest.owner(nest.loop_of[leaf])
            nest.strict[op] = nest.strict[last[0]] and _lengthened(nest, numbers, op, last[0])
            if op in outputs and not nest.strict[op]:
                # all of it would be computed each time: no reader says which part belongs to one iteration
                yield Conflict(MISMATCH, (leaf, last))
    for loop in nest.loops:
        owners = [leaf for leaf in loop.leaves if nest.owns(leaf)]
        real = [leaf for leaf in owners if nest.kind(leaf) != transform_replay.BROADCAST]
        for first, second in pairwise(owners):
            if not (nest.strict[first[0]] and nest.strict[second[0]]):
                yield Conflict(MISMATCH, (first, second))
        last = nest.owner(loop)
        for leaf in real:
            if numbers.of(leaf) != numbers.of(last) and not _lengthened(nest, numbers, leaf[0], last[0]):
                yield Conflict(MISMATCH, (leaf, last))


def _lengthened(nest: SharedNest, numbers: _ExtentNumbering, op: Operation, other: Operation) -> bool:
    """Return whether two operations have equal loops in the nest; extends those of `op` if needed."""
    if op not in nest.extended:
        for loop in nest.chain[op]:
            leaf = loop.leaf_of(other)
            if leaf is None or numbers.of(leaf) != numbers.of(nest.owner(loop)):
                return False
        extended = extend_loops(nest, op, other)
        if extended is None or not numbers.agree(extended, op, other):
            return False
        nest.extended[op] = extended
    return True


def _is_strict(nest: SharedNest, numbers: _ExtentNumbering, leaf: Leaf) -> bool:
    """Return whether the loop of a leaf equals the leaf's own loop."""
    if nest.kind(leaf) == transform_replay.BROADCAST:
        return True
    owner = nest.owner(nest.loop_of[leaf])
    return nest.strict[owner[0]] and numbers.of(leaf) == numbers.of(owner)


class _ExtentNumbering:
    """Value numbering of loops by how they derive from extents.

    Invariant: leaves with equal numbers run over the same values. Axes of extent 1 fused into a loop do not change its
    number.
    """

    def __init__(self, nest: SharedNest) -> None:
        self.nest = nest
        self._numbers: dict[object, int] = {}
        self._extents: dict[frozenset[tuple[Expr, int]], dict[int, int]] = {}  # by the terms of their forms
        self._symbolic: list[tuple[frozenset[tuple[Expr, int]], Expr, int]] = []
        self._of: dict[Operation, dict[IterVar, int]] = {}

    def of(self, leaf: Leaf) -> int:
        """Return the number of a leaf."""
        op, position = leaf
        if op not in self._of:
            self._of[op] = self._marked(self.nest.domains[op])
        return self._of[op][self.nest.domains[op].loop[position]]

    def agree(self, extended: ExtendedLoops, op: Operation, other: Operation) -> bool:
        """Return whether extended loops equal those of the other operation."""
        domain, model = self.nest.domains[op], self.nest.domains[other]
        theirs = self._marked(model)
        longer = transform_replay.TensorDomain(op, (*domain.root, *extended.added), extended.loop, extended.relations)
        own = self._marked(longer, {iv: theirs[axis] for iv, axis in extended.added.items()})
        return all(
            own[extended.loop[loop.positions[op]]] == theirs[model.loop[loop.positions[other]]]
            for loop in self.nest.chain[op]
        )

    def _marked(
        self, domain: transform_replay.TensorDomain, start: Mapping[IterVar, int] | None = None
    ) -> dict[IterVar, int]:
        numbers = dict(start or {})
        for iv in domain.root:
            if iv not in numbers:
                numbers[iv] = self._number(("axis", self._extent(iv)))
        for relation in domain.relations:
            self._mark(relation, domain, numbers)
        return numbers

    def _mark(
        self, relation: IterVarRelation, domain: transform_replay.TensorDomain, numbers: dict[IterVar, int]
    ) -> None:
        if isinstance(relation, Split):
            how = (numbers[relation.parent], relation.factor, relation.nparts, relation.tail)
            for child, part in zip(relation.children, ("outer", "inner"), strict=True):
                numbers[child] = self._number((part, *how))
            return
        real = [iv for iv in relation.parents if domain.kinds[iv] != transform_replay.BROADCAST] or relation.parents[:1]
        own = [numbers[iv] for iv in real]
        numbers[relation.children[0]] = own[0] if len(own) == 1 else self._number(("fuse", *own))

    def _extent(self, iv: IterVar) -> int:
        """Return the number of an extent. Linear forms with equal terms are compared by constants, others by proof."""
        assert iv.dom is not None and isinstance(iv.dom.extent, Expr)
        form = transform_replay.FORMS.form(iv.dom.extent)
        terms = frozenset(form.terms.items())
        same_terms = self._extents.setdefault(terms, {})
        if form.const not in same_terms:
            others = () if form.is_const else (end for end in self._symbolic if end[0] != terms)
            equal = next(
                (number for _, extent, number in others if transform_replay.equal_sizes(extent, iv.dom.extent)), None
            )
            same_terms[form.const] = self._number(("extent", terms, form.const)) if equal is None else equal
            if not form.is_const:
                self._symbolic.append((terms, iv.dom.extent, same_terms[form.const]))
        return same_terms[form.const]

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


_WHOLE_TILES: Final = (Tail.ROUND_UP, Tail.SHIFT_INWARDS)  # what they compute depends on where the axis ends


def extend_loops(nest: SharedNest, op: Operation, other: Operation) -> ExtendedLoops | None:
    """Rebuild the loops of `op` like those of `other`, with which it shares its first loops.

    Returns `None` if a transform cannot be repeated, or recomputation changes the result.
    """
    chain = nest.chain[op]
    if not isinstance(op, ComputeOp) or op in nest.fixed:
        return None
    if any(other not in loop.positions for loop in chain) or _accumulates(nest, op):
        return None
    roots = _roots(nest, (other, chain[0].positions[other]), (op, chain[0].positions[op]))
    model, own = nest.domains[other], nest.domains[op]
    same = {iv: axis for iv, axis in roots.items() if transform_replay.same_extent(iv, axis)}
    shared = {model.loop[loop.positions[other]]: own.loop[loop.positions[op]] for loop in chain}
    return _LoopExtension(own, model, same).result(shared)


def _accumulates(nest: SharedNest, op: ComputeOp) -> bool:
    """Return whether recomputing an element would add to it twice: a data loop stands inside of a reduction."""
    domain = nest.domains[op]
    reduces = [domain.kinds[iv] == REDUCTION_AXIS for iv in domain.loop]
    return reduces != sorted(reduces) or any(reduces[loop.positions[op]] for loop in nest.chain[op])


def _roots(nest: SharedNest, start: Leaf, end: Leaf) -> dict[IterVar, IterVar]:
    """Map roots of one operation to roots of another, along the path of paired leaves between them."""
    mapping = {iv: iv for iv in nest.domains[start[0]].root}
    way = nest.between(start, end)
    for (here, _), (there, _) in pairwise(way):
        up = nest.match.get((there, here))
        step = up.axes.to_producer if up is not None else nest.match[here, there].axes.to_reader
        mapping = {iv: step[axis] for iv, axis in mapping.items() if axis in step}
    return mapping


@dataclass(eq=False)
class _LoopExtension:
    """Applies the relations of `model` to `own`, as far as shared loops need them.

    Attributes
    ----------
    roots: maps roots of the model to equal roots of `own`.
    at: maps axes of the model to equal axes of `own`, before `own` fused them with axes of extent 1.
    new: maps axes of the model to the axes that replace them.
    added: new axes, each mapped to the axis of the model that it copies.
    """

    own: transform_replay.TensorDomain
    model: transform_replay.TensorDomain
    roots: Mapping[IterVar, IterVar]
    at: dict[IterVar, IterVar] = field(default_factory=dict)
    new: dict[IterVar, IterVar] = field(default_factory=dict)
    added: dict[IterVar, IterVar] = field(default_factory=dict)

    def result(self, shared: Mapping[IterVar, IterVar]) -> ExtendedLoops | None:
        """Return the extended loops; `shared` maps loops of the model to the equal loops of `own`."""
        needed = with_ancestors(self.model.relations, shared)
        mapped = set(self.roots.values())
        only_here = (
            iv for iv in self.own.root if self.own.kinds[iv] == transform_replay.BROADCAST and iv not in mapped
        )
        steps = transform_replay.TransformHistory(self.own.relations, only_here)
        self.at = {iv: axis for iv, axis in self.roots.items() if iv in needed}
        self.new = dict(self.at)
        relations: list[IterVarRelation] = []
        for relation in self.model.relations:
            if any(iv in needed for iv in relation.children) and any(iv in self.at for iv in relation.parents):
                repeated = self._done(relation, steps)
                if repeated is None:
                    return None
                relations.append(repeated)
        instead: dict[IterVar, IterVar] = {}
        for iv, leaf in shared.items():
            if iv not in self.at or steps.forwarded(self.at[iv])[0] is not leaf:
                return None
            instead[leaf] = self.new[iv]
        gone = with_ancestors(self.own.relations, shared.values())
        kept = [r for r in self.own.relations if not any(iv in gone for iv in r.children)]
        return self._complete([*relations, *kept], instead, steps)

    def _done(self, relation: IterVarRelation, steps: transform_replay.TransformHistory) -> IterVarRelation | None:
        """Repeat one relation of the model; `None` if that is impossible."""
        if isinstance(relation, (Rebase, Singleton)):
            return None
        inside = [iv for iv in relation.parents if iv in self.at]
        if isinstance(relation, Fuse) and len(inside) == 1:
            self.at[relation.fused] = self.at[inside[0]]
            fused = self.new[relation.fused] = relation.fused.part(f"{self.new[inside[0]].name}.fused")
            ends = [self.new[iv] if iv in self.new else self._axis(iv) for iv in (relation.outer, relation.inner)]
            return Fuse(ends[0], ends[1], fused)
        starts = [steps.forwarded(self.at[iv])[0] for iv in inside]
        same = steps.step(starts[0])
        if same is None or not transform_replay.is_same_transform(relation, same, starts):
            return None
        for iv, own in zip(relation.children, same.children, strict=True):
            self.at[iv] = self.new[iv] = own
        return None if isinstance(relation, Split) and relation.tail in _WHOLE_TILES else relation.renamed(self.new)

    def _axis(self, iv: IterVar) -> IterVar:
        """Add an axis with the extent of an axis of the model."""
        roots = {root: root.dom for root in self.model.root if root.dom is not None}
        extent = pass_down_domain(self.model.relations, roots)[iv].extent
        copy = IterVar(Range(0, extent), iv.name, iv.iter_type, "", iv.sizes, iv.ends_with_data)
        self.added[copy] = iv
        return copy

    def _complete(
        self,
        relations: Sequence[IterVarRelation],
        instead: Mapping[IterVar, IterVar],
        steps: transform_replay.TransformHistory,
    ) -> ExtendedLoops | None:
        """Return the extended loops if the relations lead from all axes to the loops."""
        alive = dict.fromkeys((*self.own.root, *self.added))
        for relation in relations:
            if any(iv not in alive for iv in relation.parents):
                return None
            transform_replay.apply_relation(relation, alive)
        loop = [instead.get(iv, iv) for iv in self.own.loop]
        left = [iv for iv in alive if iv not in set(loop)]
        if any(iv not in alive for iv in loop) or any(iv not in steps.alone or iv not in self.own.root for iv in left):
            return None
        return ExtendedLoops(tuple(relations), self.added, (*loop, *left))
