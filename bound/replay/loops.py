"""The nest that stages form when they share leading loops: a value, built and checked; why loops cannot be shared.

A *leaf* is the k-th loop of an operation, `(op, k)`. A stage with compute-at position p shares its first p loops with
all of its consumers, loop by loop. Leaves connected by such pairs form one `SharedLoop`. Example: `T1` at position 1
under its consumers `T2` and `T3`, all over `(i, j)`:

    for i:                 # leaves (T1, 0), (T2, 0), (T3, 0)
      for j: T1[i, j] = ..
      for j: T2[i, j] = T1[i, j] ..
      for j: T3[i, j] = T1[i, j] ..

*Extension* puts a stage into a loop longer than its own. Example: `T4[i]` and `T7[i, j]` share the loop `i.j.fused` in
which a common producer is computed. `T7` defines the loop; `T4` gets the added axis `j`, unused by its formula, and
recomputes its element for each `j`.

The nest that compute-at positions imply exists if

- no stage has two leaves in one loop (`_self_mapped`), and each loop has one parent (`_nested`);
- annotations of the leaves of one loop agree (`_one_kind`);
- every loop body can be ordered so that values are complete before they are read (`check_order`);
- reductions count every element once (`check_once`);
- extents of a loop are equal for all of its stages, extended stages included (`check_lengths`);
- iterations of a parallel loop store to different elements (`check_parallel`).

`build_and_check` checks in this order and stops at the first that finds conflicts.

Example of an order conflict (*persistent*, in nvFuser's word): with `m[i] = max_r(x[i, r])` and `y[i, r] = x[i, r] -
m[i]`, `m` and `y` cannot share the loop `r`, since `m[i]` is complete only behind it.

A `ScheduleSnapshot` holds the domains and positions that a replay reads and changes before it writes them back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise, takewhile
from typing import Final

from bound.errors import ScheduleError
from bound.itervar import IterType, IterVar
from bound.replay.transform_replay import (
    BROADCAST,
    AxisMap,
    DependencyGraph,
    Matching,
    TensorDomain,
    TransformHistory,
    apply_relation,
    axis_map,
    domain,
    equal_sizes,
    has_one,
    is_same_transform,
    matching,
    same_extent,
)
from bound.replay.transform_replay import REDUCTION as REDUCTION_AXIS
from bound.schedule import (
    AttachType,
    Fuse,
    IterVarAttr,
    IterVarRelation,
    Rebase,
    Schedule,
    Singleton,
    Split,
    Stage,
    Tail,
)
from bound.schedule.relations import pass_down_domain, with_ancestors
from bound.tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, ScanOp, Tensor
from intset.expr import Expr, Range, dag
from intset.linear.canonical import form_of

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

    domains: Mapping[Operation, TensorDomain]
    shared: Mapping[Operation, int]
    readers: Mapping[Operation, Sequence[Operation]]
    match: Mapping[tuple[Operation, Operation], Matching]
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
        return sum(iv in ancestors and not has_one(iv) for iv in domain.root)

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
        real = [leaf for leaf in owners if nest.kind(leaf) != BROADCAST]
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
    if nest.kind(leaf) == BROADCAST:
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
        longer = TensorDomain(op, (*domain.root, *extended.added), extended.loop, extended.relations)
        own = self._marked(longer, {iv: theirs[axis] for iv, axis in extended.added.items()})
        return all(
            own[extended.loop[loop.positions[op]]] == theirs[model.loop[loop.positions[other]]]
            for loop in self.nest.chain[op]
        )

    def _marked(self, domain: TensorDomain, start: Mapping[IterVar, int] | None = None) -> dict[IterVar, int]:
        numbers = dict(start or {})
        for iv in domain.root:
            if iv not in numbers:
                numbers[iv] = self._number(("axis", self._extent(iv)))
        for relation in domain.relations:
            self._mark(relation, domain, numbers)
        return numbers

    def _mark(self, relation: IterVarRelation, domain: TensorDomain, numbers: dict[IterVar, int]) -> None:
        if isinstance(relation, Split):
            how = (numbers[relation.parent], relation.factor, relation.nparts, relation.tail)
            for child, part in zip(relation.children, ("outer", "inner"), strict=True):
                numbers[child] = self._number((part, *how))
            return
        real = [iv for iv in relation.parents if domain.kinds[iv] != BROADCAST] or relation.parents[:1]
        own = [numbers[iv] for iv in real]
        numbers[relation.children[0]] = own[0] if len(own) == 1 else self._number(("fuse", *own))

    def _extent(self, iv: IterVar) -> int:
        """Return the number of an extent. Linear forms with equal terms are compared by constants, others by proof."""
        assert iv.dom is not None and isinstance(iv.dom.extent, Expr)
        form = form_of(iv.dom.extent)
        terms = frozenset(form.terms.items())
        same_terms = self._extents.setdefault(terms, {})
        if form.const not in same_terms:
            others = () if form.is_const else (end for end in self._symbolic if end[0] != terms)
            equal = next((number for _, extent, number in others if equal_sizes(extent, iv.dom.extent)), None)
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
    same = {iv: axis for iv, axis in roots.items() if same_extent(iv, axis)}
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

    own: TensorDomain
    model: TensorDomain
    roots: Mapping[IterVar, IterVar]
    at: dict[IterVar, IterVar] = field(default_factory=dict)
    new: dict[IterVar, IterVar] = field(default_factory=dict)
    added: dict[IterVar, IterVar] = field(default_factory=dict)

    def result(self, shared: Mapping[IterVar, IterVar]) -> ExtendedLoops | None:
        """Return the extended loops; `shared` maps loops of the model to the equal loops of `own`."""
        needed = with_ancestors(self.model.relations, shared)
        mapped = set(self.roots.values())
        only_here = (iv for iv in self.own.root if self.own.kinds[iv] == BROADCAST and iv not in mapped)
        steps = TransformHistory(self.own.relations, only_here)
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

    def _done(self, relation: IterVarRelation, steps: TransformHistory) -> IterVarRelation | None:
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
        if same is None or not is_same_transform(relation, same, starts):
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
        self, relations: Sequence[IterVarRelation], instead: Mapping[IterVar, IterVar], steps: TransformHistory
    ) -> ExtendedLoops | None:
        """Return the extended loops if the relations lead from all axes to the loops."""
        alive = dict.fromkeys((*self.own.root, *self.added))
        for relation in relations:
            if any(iv not in alive for iv in relation.parents):
                return None
            apply_relation(relation, alive)
        loop = [instead.get(iv, iv) for iv in self.own.loop]
        left = [iv for iv in alive if iv not in set(loop)]
        if any(iv not in alive for iv in loop) or any(iv not in steps.alone or iv not in self.own.root for iv in left):
            return None
        return ExtendedLoops(tuple(relations), self.added, (*loop, *left))


_WHOLE: Final = (IterType.VECTORIZED, IterType.TENSORIZED)  # of these nothing can be inside


def build_and_check(nest: SharedNest) -> None:
    """Match the leaves of operations and their consumers, build the shared loops, and check them."""
    reach = dict(nest.shared)
    for op, count in nest.shared.items():
        for reader in nest.readers[op] if count else ():
            for here, there in nest.match[op, reader].pairs:
                if here < count:
                    nest.up.add((op, here))
                    nest.links.setdefault((op, here), []).append((reader, there))
                    nest.links.setdefault((reader, there), []).append((op, here))
                    reach[reader] = max(reach.get(reader, 0), there + 1)
    _nodes(nest, reach)
    for step in (_self_mapped, _nested, _one_kind, check_order, check_once, check_lengths, check_parallel):
        if not nest.conflicts:
            nest.conflicts = tuple(step(nest))


def _nodes(nest: SharedNest, reach: Mapping[Operation, int]) -> None:
    """Build the shared loops and the chain of each operation.

    Loops of extent 1 in every stage stay separate.
    """
    number = {op: k for k, op in enumerate(nest.domains)}
    for op in sorted((op for op, count in reach.items() if count), key=number.__getitem__):
        chain: list[SharedLoop] = []
        own = [(op, position) for position in range(reach[op])]
        for leaf in own:
            if leaf not in nest.loop_of:
                connected = dag.reachable([leaf], lambda other: nest.links.get(other, ()))
                loop = SharedLoop(sorted(connected, key=lambda other: (number[other[0]], other[1])))
                if all(nest.kind(other) == BROADCAST for other in loop.leaves):
                    continue  # a loop of one element: each stage has its own
                nest.loop_of.update(dict.fromkeys(loop.leaves, loop))
            chain.append(nest.loop_of[leaf])
        nest.chain[op] = tuple(chain)
        mine = [nest.loop_of[leaf] for leaf in own if leaf in nest.up and leaf in nest.loop_of]
        nest.home[op] = mine[-1] if mine else None


def _self_mapped(nest: SharedNest) -> Iterator[Conflict]:
    """Yield a conflict for every operation with two leaves in one loop."""
    for loop in nest.loops:
        for first, second in pairwise(loop.leaves):
            if first[0] is second[0]:
                yield Conflict(SELF_MAPPED, (first, second))


def _nested(nest: SharedNest) -> Iterator[Conflict]:
    """Set the parent of each loop, its innermost outer loop. All other outer loops must contain the parent."""
    outer: dict[SharedLoop, dict[SharedLoop, Leaf]] = {loop: {} for loop in nest.loop_of.values()}
    for op, chain in nest.chain.items():
        for around, loop in pairwise(chain):
            outer[loop].setdefault(around, (op, loop.positions[op]))
    sorter = TopologicalSorter(outer)
    with suppress(CycleError):  # some loops are never ready then
        sorter.prepare()
    stuck = dict.fromkeys(outer)
    while sorter.is_active():
        for loop in sorter.get_ready():
            sorter.done(loop)
            del stuck[loop]
            if outer[loop]:
                loop.parent = max(outer[loop], key=lambda around: around.depth)
                loop.depth = loop.parent.depth + 1
                path = set(loop.parent.path())
                astray = next((around for around in outer[loop] if around not in path), None)
                if astray is not None:
                    yield Conflict(MISMATCH, (outer[loop][loop.parent], outer[loop][astray]))
    for loop in list(stuck)[:1]:
        yield Conflict(MISMATCH, (loop.leaves[0], loop.leaves[-1]))


def _one_kind(nest: SharedNest) -> Iterator[Conflict]:
    """Yield conflicts of annotations between the leaves of one loop."""
    for loop in nest.loops:
        said = [(leaf, nest.attrs[leaf]) for leaf in loop.leaves if leaf in nest.attrs]
        for leaf, attr in said:
            other = next((x for x in loop.leaves if x is not leaf), None)
            if other is None:
                continue
            if attr.iter_type in _WHOLE:
                yield Conflict(KIND, (leaf, other))
            if attr.iter_type is IterType.PARALLELIZED:
                reduced = next((x for x in loop.leaves if nest.kind(x) == REDUCTION_AXIS), None)
                if reduced is not None:
                    yield Conflict(KIND, (leaf, reduced))
        for (first, one), (second, two) in pairwise(said):
            if one != two and contrary(one, two):
                yield Conflict(KIND, (first, second))


def contrary(one: IterVarAttr, two: IterVarAttr) -> bool:
    """Return whether two annotations cannot hold for one loop."""
    kinds = one.iter_type is not None and two.iter_type is not None and one.iter_type is not two.iter_type
    threads = one.bind_thread is not None and two.bind_thread is not None and one.bind_thread is not two.bind_thread
    mixed = (one.bind_thread is not None and two.iter_type is not None) or (
        two.bind_thread is not None and one.iter_type is not None
    )
    return kinds or threads or mixed


def check_order(nest: SharedNest) -> Sequence[Conflict]:
    """Check that each loop body has an order in which values are complete before they are read.

    Guarantee: all reads of incomplete values are reported; otherwise at least one cycle per illegal loop body.
    """
    after: dict[SharedLoop | None, dict[object, dict[object, tuple[Operation, Operation]]]] = {}
    unfinished: list[Conflict] = []
    for op, readers in nest.readers.items():
        for reader in readers:
            at = _common(nest.body(op), nest.body(reader))
            conflict = _unfinished(nest, at, op, reader)
            if conflict is not None:
                unfinished.append(conflict)
            first, second = _item(nest, op, at), _item(nest, reader, at)
            if first is not second:
                after.setdefault(at, {}).setdefault(first, {}).setdefault(second, (op, reader))
    if unfinished:
        return unfinished
    circles = [circle for inside in after.values() if (circle := _circle(inside))]
    loops = dict.fromkeys(item for circle in circles for item, _ in circle if isinstance(item, SharedLoop))
    apart = _entered_again(nest, loops) if loops else []
    return apart or [_circular(nest, circle) for circle in circles[:1]]


def _common(one: SharedLoop | None, other: SharedLoop | None) -> SharedLoop | None:
    """Return the innermost loop that contains both."""
    if one is None or other is None:
        return None
    around = other.path()
    return next((loop for loop in one.path() if loop in around), None)


def _item(nest: SharedNest, op: Operation, at: SharedLoop | None) -> object:
    """Return the item of the body of loop `at` that contains an operation: a loop directly inside, or the operation."""
    loop = nest.body(op)
    if loop is None or loop is at:
        return op
    return next(inner for inner in loop.path() if inner.parent is at)


def _circle(
    after: Mapping[object, Mapping[object, tuple[Operation, Operation]]],
) -> list[tuple[object, tuple[Operation, Operation]]]:
    """A cycle of items, or an empty list. Each item has the read that orders the next item behind it."""
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        return [(item, after[item][following]) for following, item in pairwise(error.args[1])][::-1]
    return []


def _entered_again(nest: SharedNest, loops: Collection[SharedLoop]) -> list[Conflict]:
    """Report loops that dependences force to be left and entered again.

    An operation inside such a loop depends on another one inside through operations outside, all in the same enclosing
    body.
    """
    order = list(nest.domains)
    number = {op: k for k, op in enumerate(order)}
    around = {op: () if (body := nest.body(op)) is None else body.path() for op in order}
    inside: dict[SharedLoop, list[int]] = {loop: [] for loop in loops}
    for op in order:
        for loop in around[op]:
            if loop in inside:
                inside[loop].append(number[op])
    conflicts: list[Conflict] = []
    for loop, positions in inside.items():
        left: dict[Operation, Operation] = {}
        for op in order[positions[0] : positions[-1] + 1]:
            is_in = loop in around[op]
            source = op if is_in else left.get(op)
            if source is None:
                continue
            for reader in nest.readers[op]:
                if loop in around[reader]:
                    conflicts += [] if is_in else _in_one_loop(nest, loop, source, reader)
                elif loop.parent is None or loop.parent in around[reader]:
                    left[reader] = max(source, left.get(reader, source), key=number.__getitem__)
    return conflicts


def check_parallel(nest: SharedNest) -> Iterator[Conflict]:
    """Check that a parallel loop distinguishes the elements that its iterations store for use outside of it."""
    said = [leaf for leaf, attr in nest.attrs.items() if attr.iter_type is IterType.PARALLELIZED]
    kinds = {nest.loop_of[leaf] for leaf in said if leaf in nest.loop_of}
    for op, loop in stored_anew(nest) if kinds else ():
        own = loop.leaf_of(op)
        if loop in kinds and own is not None:
            yield Conflict(KIND, (own, nest.owner(loop)))
        elif loop in kinds:
            yield from (replace(one, rule=KIND) for one in _in_one_loop(nest, loop, op, nest.owner(loop)[0]))


def stored_anew(nest: SharedNest) -> Iterator[tuple[Operation, SharedLoop]]:
    """Yield operations that store an element in several iterations of a loop, into storage outside of that loop."""
    for op, chain in nest.chain.items():
        home = nest.home[op]
        kept = () if home is None or op in nest.outputs else home.path()
        for loop in chain[-1].path() if chain else ():
            own = loop.leaf_of(op)
            if loop not in kept and (own is None or op in nest.extended or _repeats_element(nest, loop, own)):
                yield op, loop


def _in_one_loop(nest: SharedNest, loop: SharedLoop, *both: Operation) -> list[Conflict]:
    """Explain why one loop contains two operations: leaves of both stages, or a shared loop inside."""
    for op in both:
        if op in loop.positions:
            continue
        inner = next((n for n in nest.chain[op] if loop in n.path()), None)
        if inner is None:
            return []
        its = next(
            (leaf for leaf in inner.leaves if inner.parent is not None and leaf[0] in inner.parent.positions), None
        )
        return [] if its is None else [Conflict(ORDER, ((op, inner.positions[op]), its))]
    own, its = ((op, loop.positions[op]) for op in both)
    return [Conflict(PERSISTENT if nest.kind(own) == REDUCTION_AXIS else ORDER, (own, its))]


def _unfinished(nest: SharedNest, at: SharedLoop | None, op: Operation, reader: Operation) -> Conflict | None:
    """Return a conflict if `reader` is inside a loop that `op` runs but does not share with it."""
    for loop in () if at is None else at.path():
        own = loop.leaf_of(op)
        if own is not None and nest.owns(own) and nest.kind(own) != BROADCAST:
            why = next(iter(_in_one_loop(nest, loop, op, reader)), None)
            return why or Conflict(ORDER, (own, next((leaf for leaf in reversed(loop.leaves) if leaf != own), own)))
    return None


def _circular(nest: SharedNest, circle: Sequence[tuple[object, tuple[Operation, Operation]]]) -> Conflict:
    """Turn a cycle into a conflict. No read may leave a shared loop that a later read enters again."""
    for k, (item, (leaves, _)) in enumerate(circle):
        enters = circle[k - 1][1][1]
        if isinstance(item, SharedLoop) and leaves is not enters:
            own = item.leaf_of(leaves)
            its = item.leaf_of(enters)
            if own is not None and its is not None:
                rule = PERSISTENT if nest.kind(own) == REDUCTION_AXIS else ORDER
                return Conflict(rule, (own, its))
    item = next(item for item, _ in circle if isinstance(item, SharedLoop))
    return Conflict(ORDER, (item.leaves[0], item.leaves[-1]))


def check_once(nest: SharedNest) -> Iterator[Conflict]:
    """Check that reductions count each element once: no loop inside of a reduction repeats iterations."""
    for op, chain in nest.chain.items():
        begin = next((loop for loop in chain if nest.kind((op, loop.positions[op])) == REDUCTION_AXIS), None)
        if begin is None:
            continue
        for loop in reversed(chain[-1].path()):
            own = loop.leaf_of(op)
            if loop.depth > begin.depth and (own is None or _repeats_element(nest, loop, own)):
                inner = chain[-1]
                its = inner.leaf_of(nest.owner(loop)[0]) or nest.owner(inner)
                yield Conflict(MISMATCH, ((op, inner.positions[op]), its))
                break


def _repeats_element(nest: SharedNest, loop: SharedLoop, leaf: Leaf) -> bool:
    """Whether a loop repeats one element of a stage, whose own leaf is shorter than the loop of its owner."""
    return nest.kind(leaf) == BROADCAST and nest.kind(nest.owner(loop)) != BROADCAST


class ScheduleSnapshot:
    """Loops and positions of all stages during a call.

    Guarantee: the schedule changes only in `write`, so a refused call leaves it unchanged.

    Attributes
    ----------
    graph: producers and consumers of each tensor.
    domains: the domain of each operation; replays replace it.
    ops: operations in stage order.
    rank: order of the operations, independent of how outputs are listed (`DependencyGraph.rank`).
    readers: the consumers of each operation.
    position: the number of leading loops that each operation shares with its consumers.
    before: `position` at the start of the call; a call never lowers it.
    slid: loops across whose iterations a stage keeps elements (`store_at`); they stay sequential and unshared.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.graph = DependencyGraph(schedule)
        self.ops: tuple[Operation, ...] = tuple(stage.op for stage in schedule.stages)
        self.domains = {op: domain(schedule, op.outputs[0]) for op in self.ops if op.outputs}
        self._axes: dict[tuple[Operation, Operation], AxisMap] = {}
        self.rank = self.graph.rank
        self.readers: dict[Operation, tuple[Operation, ...]] = {op: self._readers(op) for op in self.rank}
        self.before = {op: schedule[op].compute_at_position for op in self.ops}
        self.position = dict(self.before)
        placed = (*schedule.stages, *schedule.groups)
        self._targets: set[tuple[Stage | None, IterVar | None]] = {(s.attach_stage, s.attach_ivar) for s in placed}
        self._targets |= {(s.store_stage, s.store_ivar) for s in placed}
        self.slid: set[IterVar] = {iv for stage in schedule.stages for iv in stage.kept_over()}
        self._matches: dict[tuple[Operation, Operation], tuple[TensorDomain, TensorDomain, Matching]] = {}

    def _readers(self, op: Operation) -> tuple[Operation, ...]:
        consumers = dict.fromkeys(r.op for t in op.outputs for r in self.graph.consumers(t))
        return tuple(sorted(consumers, key=self.rank.__getitem__))

    def stage(self, op: Operation) -> Stage:
        return self.schedule[op]

    def domain(self, tensor: Tensor) -> TensorDomain:
        """Return the domain of a tensor now; replays replace it."""
        return self.domains[tensor.op]

    def axes(self, producer: Operation, reader: Operation) -> AxisMap:
        """Return the root map of an operation and a direct consumer. Replays add no root axis, so it stays valid."""
        root_map = self._axes.get((producer, reader))
        if root_map is None:
            root_map = self._axes[producer, reader] = axis_map(self.domains[producer], self.domains[reader])
        return root_map

    def match(self, producer: Operation, reader: Operation) -> Matching:
        """Return the loops that an operation and a direct consumer have in common now."""
        here, there = self.domains[producer], self.domains[reader]
        cached = self._matches.get((producer, reader))
        if cached is None or cached[0] is not here or cached[1] is not there:
            cached = self._matches[producer, reader] = (here, there, matching(here, there, self.axes(producer, reader)))
        return cached[2]

    def frozen(self, op: Operation) -> int:
        """Return the number of leading loops that were shared before the call."""
        stage = self.stage(op)
        return max(stage.compute_at_position if self.readers[op] else 0, stage.max_producer_position)

    def obstacle(self, op: Operation) -> str | None:
        """Explain why replay cannot move a stage; `None` if it can."""
        stage = self.stage(op)
        group = stage.group
        if isinstance(op, PlaceholderOp):
            return None
        if stage.is_inlined:
            return "is inlined"
        if group is not None:
            scan = group.attach_stage if group.attach_type is AttachType.SCAN_UPDATE else None
            return "belongs to a group" if scan is None else f"is a part of the scan {scan.name}"
        if isinstance(op, ScanOp):
            return "is a scan"
        if not isinstance(op, ComputeOp):
            return "is extern" if isinstance(op, ExternOp) else "is no operation made by te.compute"
        if stage.is_tensorized:
            return "is tensorized"
        if stage.attach_type is AttachType.SCOPE and stage.attach_stage is not None:
            return f"is placed in a loop of {stage.attach_stage.name} by compute_at"
        return None

    def attrs(self, op: Operation) -> dict[int, IterVarAttr]:
        """Return the annotations of an operation's loops by position."""
        said = self.stage(op).iter_var_attrs
        return {k: said[iv] for k, iv in enumerate(self.domains[op].loop) if iv in said} if said else {}

    def held(self, op: Operation, new: TensorDomain) -> str | None:
        """Return the rule that forbids the loops of `new`; `None` if the stage may have them.

        Shared loops, annotated loops, and loops at which stages are computed or stored must stay.
        """
        if isinstance(op, PlaceholderOp):
            return None
        old, count = self.domains[op], self.frozen(op)
        if new.loop[:count] != old.loop[:count]:
            return FROZEN
        if self.obstacle(op) is not None or (new.loop != old.loop and _repeats(new)):
            return MISMATCH
        gone = set(old.loop) - set(new.loop)
        stage = self.stage(op)
        if any((stage, iv) in self._targets for iv in gone):
            return FROZEN
        return KIND if any(iv in stage.iter_var_attrs for iv in gone) else None

    def nest(self) -> SharedNest:
        """Build the nest that the positions imply."""
        shared = {op: count for op, count in self.position.items() if count and self.readers[op]}
        match = {(op, reader): self.match(op, reader) for op in shared for reader in self.readers[op]}
        attrs: dict[Leaf, IterVarAttr] = {
            (op, k): attr for op in self.ops if self.stage(op).iter_var_attrs for k, attr in self.attrs(op).items()
        }
        domains = {op: self.domains[op] for op in self.readers}
        outputs = [op for op in self.readers if self.stage(op).is_output]
        fixed = {op for op in self.ops if self.stage(op).get_attach_spec().attach_type is not AttachType.GROUP_ROOT}
        nest = SharedNest(domains, shared, self.readers, match, attrs, fixed, outputs)
        build_and_check(nest)
        return nest

    def write(self) -> None:
        """Write domains, positions and shared loops to the schedule."""
        deep = dict.fromkeys(self.ops, 0)
        for op, count in self.position.items():
            for reader in self.readers[op] if count else ():
                deep[reader] = max(deep[reader], self.match(op, reader).of_reader(count) or 0)
        for op in self.ops:
            if isinstance(op, PlaceholderOp):
                continue
            stage, domain = self.stage(op), self.domains[op]
            if tuple(stage.leaf_iter_vars) != domain.loop or tuple(stage.relations) != domain.relations:
                if not self.readers[op] and self.position[op] == self.before[op]:  # it counts loops that stay
                    kept = (a is b for a, b in zip(stage.leaf_iter_vars, domain.loop, strict=False))
                    self.position[op] = min(self.position[op], sum(takewhile(bool, kept)))
                derived = [iv for relation in domain.relations for iv in relation.children]
                stage.relations = list(domain.relations)
                stage.all_iter_vars = [*domain.root, *derived]
                stage.leaf_iter_vars = list(domain.loop)
                stage.iter_var_attrs = {
                    iv: attr for iv, attr in stage.iter_var_attrs.items() if iv in {*domain.root, *derived}
                }
            stage.compute_at_position = self.position[op]
            stage.max_producer_position = deep[op]
        nest = self.nest()
        loops = [loop for loop in nest.loops if len(loop.leaves) > 1]
        same = [tuple(map(nest.axis, loop.leaves)) for loop in loops]
        self.schedule.same_loop = {iv: leaves for leaves in same for iv in leaves}
        self.schedule.stored_anew = {nest.axis(leaf): op.name for op, loop in stored_anew(nest) for leaf in loop.leaves}


def _repeats(domain: TensorDomain) -> bool:
    """Return whether shifted tiles might make a reduction count elements twice."""
    is_reduction = isinstance(domain.op, ComputeOp) and domain.op.reduction is not None
    return is_reduction and any(isinstance(r, Split) and r.tail is Tail.SHIFT_INWARDS for r in domain.relations)
