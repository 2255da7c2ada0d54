"""Domains of tensors, the chains of dependences between them, and replayPasC, replayCasP.

A `TensorDomain` is the loops of one tensor as a value, an `AxisMap` the root axes that a producer shares with a
consumer. A stage `T` over axes `(i, j)` with `i` split by 4 has

    root       (i, j)
    relations  split(i, factor=4)
    loop       (i.outer, i.inner, j)

Terms follow nvFuser: *root* axes are the dimensions and reduction axes of the operation, *loop* axes are what the
schedule made of them. The root map of a producer read as `T[i, 0]` by a consumer over `(i, k)` maps `i` to `i`, and the
broadcast axis to `k`.

Chains connect tensors: with `T2 = f(T1)`, `T3 = g(T1)`, `T4 = T2 + T3`, the dependency chains from `T1` to `T4` are
`T1, T2, T4` and `T1, T3, T4`; the use chains of `T1` are the same, and `T4` is its common consumer.

`replayPasC` and `replayCasP` repeat the transforms of one domain on a neighbour. Example: the consumer `C[i, j]` has
loops `(i.outer, i.inner, j)` after `split(i, 4)`, the producer `P[i, j]` is not scheduled.
`replay_producer_as_consumer(P, C, 1)` gives `P` the loops `(i.outer, i.inner, j)` and position 1.

A replay has two halves. `detect` (nvFuser's BestEffortReplay) finds the relations of the model that the other domain
has undergone as well; `create` applies those it has not. *Forwarding*: an axis fused with broadcast axes that only one
domain has counts as the axis before the fusion.

Source: nvFuser, *computeAt*.

Invariant: a replay keeps the root axes, and every relation of the domain that does not conflict with the target loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final

from bound.errors import InputError, ScheduleError
from bound.itervar import IterVar
from bound.schedule import Fuse, IterVarRelation, Rebase, Schedule, Singleton, Split
from bound.schedule.relations import with_ancestors, with_descendants
from bound.schedule.simple import extent, low, number
from bound.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, extent_of
from bound.tir import walk
from intset.context import Context
from intset.errors import BudgetError
from intset.expr import Expr, dag, shown
from intset.linear.canonical import form_of

ITERATION: Final = "i"
REDUCTION: Final = "r"
BROADCAST: Final = "b"


@dataclass(frozen=True)
class TensorDomain:
    """Axes of an operation from root to loop. All outputs of an operation share one domain.

    Invariant: for operations made by `te.compute`, applying `relations` to `root` leaves exactly the axes in `loop`.

    Attributes
    ----------
    op: the operation.
    root: its axes, dimensions before reduction axes.
    loop: the loops, outermost first. A placeholder has one axis per dimension and no real loop.
    relations: splits, fusions and rebases, oldest first.
    """

    op: Operation
    root: tuple[IterVar, ...]
    loop: tuple[IterVar, ...]
    relations: tuple[IterVarRelation, ...] = ()

    @cached_property
    def kinds(self) -> Mapping[IterVar, str]:
        """Kind of each axis: iteration ("i"), reduction ("r") or broadcast ("b").

        A data axis of constant extent 1 is broadcast, and so are its parts and fusions of broadcast axes. A fusion with
        a reduction is a reduction.
        """
        kinds = {iv: REDUCTION if iv.is_reduce else BROADCAST if has_one(iv) else ITERATION for iv in self.root}
        for relation in self.relations:
            kind = fused_kind(kinds[iv] for iv in relation.parents)
            kinds.update(dict.fromkeys(relation.children, kind))
        return MappingProxyType(kinds)

    def __reduce__(self) -> tuple[type[TensorDomain], tuple[object, ...]]:
        """Pickle without cached properties."""
        return TensorDomain, (self.op, self.root, self.loop, self.relations)

    @property
    def depth(self) -> int:
        """Number of loops."""
        return len(self.loop)

    def __str__(self) -> str:
        kinds = self.kinds
        loops = ", ".join(f"{iv.name}:{kinds[iv]}" for iv in self.loop)
        roots = ", ".join(iv.name for iv in self.root)
        relations = "".join(f"; {relation}" for relation in self.relations)
        return f"{self.op.name}[{loops}] of ({roots}){relations}"

    def __repr__(self) -> str:
        return f"<TensorDomain {self}>"


def has_one(iv: IterVar) -> bool:
    """Return whether the extent of a root axis is the constant 1."""
    return iv.dom is not None and number(extent(iv.dom)) == 1


def fused_kind(kinds: Iterable[str]) -> str:
    """Kind of an axis fused from axes of the given kinds; broadcast if there are none."""
    present = set(kinds)
    if REDUCTION in present:
        return REDUCTION
    return ITERATION if ITERATION in present else BROADCAST


def domain(schedule: Schedule, tensor: Tensor) -> TensorDomain:
    """Return the current domain of a tensor in a schedule.

    Raises
    ------
    InputError: not a schedule, or not a tensor.
    ScheduleError: the schedule does not compute the tensor.
    """
    op = current(schedule, tensor).op
    if isinstance(op, PlaceholderOp):
        return TensorDomain(op, op.dims, op.dims)
    stage = schedule[op]
    return TensorDomain(op, op.root_iter_vars, tuple(stage.leaf_iter_vars), tuple(stage.relations))


def current(schedule: Schedule, tensor: Tensor) -> Tensor:
    """Return the tensor that replaces `tensor` after rewrites of the schedule.

    Raises
    ------
    InputError: not a schedule, or not a tensor.
    ScheduleError: the schedule does not compute the tensor.
    """
    if not isinstance(schedule, Schedule):
        raise InputError(f"a schedule made by te.create_schedule is needed, not {shown(schedule)}")
    if isinstance(tensor, Tensor) and tensor not in schedule:
        raise ScheduleError(f"{tensor.name} has no stage in this schedule: no output needs it")
    return schedule.current(tensor)


def position_of(position: object, depth: int, name: str) -> int:
    """Normalize a position among `depth` loops; -1 means behind the last loop.

    Raises
    ------
    InputError: `position` is not an integer, or is outside -depth-1..depth.
    """
    if isinstance(position, bool) or not isinstance(position, int):
        raise InputError(f"a position is an integer, not {shown(position)}")
    if not -depth - 1 <= position <= depth:
        loops = "1 loop" if depth == 1 else f"{depth} loops"
        raise InputError(f"position {shown(position)} of {name} is outside {-depth - 1}..{depth}: it has {loops}")
    return position if position >= 0 else depth + 1 + position


def made_alone(relations: Sequence[IterVarRelation], axes: Iterable[IterVar]) -> set[IterVar]:
    """Return the axes and everything derived from them alone, singletons included."""
    derived = set(axes)
    for relation in relations:
        if isinstance(relation, Singleton) or all(parent in derived for parent in relation.parents):
            derived.update(relation.children)
    return derived


@dataclass(frozen=True, eq=False)
class AxisMap:
    """Root axes that a producer and one of its consumers share.

    Attributes
    ----------
    to_reader: maps axes of the producer to axes of the consumer, one to one.
    added: broadcast axes of the consumer without a counterpart in the producer.
    squeezed: broadcast axes of the producer without a counterpart in the consumer.
    """

    to_reader: Mapping[IterVar, IterVar]
    added: frozenset[IterVar]
    squeezed: frozenset[IterVar]

    @property
    def to_producer(self) -> dict[IterVar, IterVar]:
        """The inverse of `to_reader`."""
        return {reader: producer for producer, reader in self.to_reader.items()}


def axis_map(producer: TensorDomain, reader: TensorDomain) -> AxisMap:
    """Map root axes of a producer to those of a consumer.

    An index that is an axis of the consumer maps the producer's axis to it if that axis starts at 0 and the extents are
    provably equal. Constant indices 0 on broadcast axes map, in order, to the data axes of the consumer that the read
    does not use, if there are equally many; otherwise they are squeezed. Other indices map nothing, and neither do axes
    on which two reads differ.
    """
    to_reader = _joint_map(producer.op, reader.op)
    used = set(to_reader.values())
    added = frozenset(iv for iv in reader.root if reader.kinds[iv] == BROADCAST and iv not in used)
    squeezed = frozenset(iv for iv in producer.root if producer.kinds[iv] == BROADCAST and iv not in to_reader)
    return AxisMap(to_reader, added, squeezed)


def _joint_map(producer: Operation, reader: Operation) -> dict[IterVar, IterVar]:
    """Intersect the maps of all reads; a consumer axis is mapped by the first producer axis only."""
    if not isinstance(reader, ComputeOp) or not isinstance(producer, (ComputeOp, PlaceholderOp)):
        return {}
    axes = producer.axis if isinstance(producer, ComputeOp) else producer.dims
    maps = [_one_read(axes, reader, indices) for indices in reads(producer, reader)]
    joint: dict[IterVar, IterVar] = {}
    for iv in axes:
        targets = [m.get(iv) for m in maps]
        first = targets[0] if targets else None
        if first is not None and all(target is first for target in targets) and first not in joint.values():
            joint[iv] = first
    return joint


def reads(producer: Operation, reader: ComputeOp) -> list[tuple[Expr, ...]]:
    """Return the index tuples with which a consumer reads any output of a producer."""
    return [indices for tensor in producer.outputs for indices in reader.reads.get(tensor, ())]


def _one_read(axes: tuple[IterVar, ...], reader: ComputeOp, indices: tuple[Expr, ...]) -> dict[IterVar, IterVar]:
    own = set(reader.root_iter_vars)
    mapping: dict[IterVar, IterVar] = {}
    zeros: list[IterVar] = []
    for iv, index in zip(axes, indices, strict=True):
        if isinstance(index, IterVar) and index in own:
            if index.dom is not None and number(low(index.dom)) == 0 and same_extent(iv, index):
                mapping[iv] = index
        elif number(index) == 0 and has_one(iv):
            zeros.append(iv)
    used = {v for index in indices for v in index.free_vars()}
    free = [iv for iv in reader.axis if iv not in used]
    if len(zeros) == len(free):
        mapping.update(zip(zeros, free, strict=True))
    return mapping


def same_extent(a: IterVar, b: IterVar) -> bool:
    """Return whether two axes provably have equal extents for all sizes."""
    return equal_sizes(extent_of(a), extent_of(b))


def equal_sizes(one: Expr, other: Expr) -> bool:
    """Return whether two extents are provably equal."""
    if one is other or form_of(one).same(form_of(other)):
        return True
    if one.is_const and other.is_const:
        return False
    return bool(Context().prove(one.eq(other)))


MAX_CHAINS: Final = 100_000  # tensors in all chains together

Chain = tuple[Tensor, ...]


class DependencyGraph:
    """Producers and consumers of each tensor of a schedule.

    Attributes
    ----------
    tensors: in stage order, so producers first; outputs of one operation are adjacent.
    number: the index of each tensor in `tensors`.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.tensors = tuple(t for stage in schedule.stages for t in stage.op.outputs)
        self.number = {t: k for k, t in enumerate(self.tensors)}
        self._read = {t: tuple(r for r in _read_by(t) if r in self.number) for t in self.tensors}
        self._readers: dict[Tensor, list[Tensor]] = {t: [] for t in self.tensors}
        for reader, read in self._read.items():
            for t in read:
                self._readers[t].append(reader)

    @cached_property
    def rank(self) -> dict[Operation, int]:
        """Order operations by the length of the longest chain that leads to them, then by name, then by stage.

        Guarantee: the order does not depend on how outputs are listed, unless operations share a name.
        """
        depth: dict[Operation, int] = {}
        for t in self.tensors:
            depth[t.op] = max((depth[r.op] + 1 for r in t.op.input_tensors if r.op in depth), default=0)
        order = sorted(depth, key=lambda op: (depth[op], op.name, self.number[op.outputs[0]]))
        return {op: k for k, op in enumerate(order)}

    def producers(self, tensor: Tensor) -> Chain:
        """Tensors that the formula of a tensor reads."""
        return self._read[tensor]

    def consumers(self, tensor: Tensor) -> Chain:
        """Tensors whose formulas read a tensor."""
        return tuple(self._readers[tensor])

    def dependents(self, tensors: Iterable[Tensor]) -> set[Tensor]:
        """Return all tensors that depend on one of `tensors`."""
        return set(dag.reachable((c for t in tensors for c in self.consumers(t)), self.consumers))

    def needed(self, tensors: Iterable[Tensor]) -> set[Tensor]:
        """Return all tensors on which one of `tensors` depends."""
        return set(dag.reachable((p for t in tensors for p in self.producers(t)), self.producers))

    def common_consumers(self, tensor: Tensor) -> Chain:
        """Return the tensors on every use chain of a tensor, in stage order."""
        common: list[Tensor] = []
        behind = sorted(self.dependents((tensor,)), key=self.number.__getitem__)
        farthest = max((self.number[t] for t in self._readers[tensor]), default=-1)
        for t in behind:
            if farthest <= self.number[t]:
                common.append(t)
            if not self._readers[t]:
                break
            farthest = max(farthest, *(self.number[r] for r in self._readers[t]))
        return tuple(common)

    def common_consumer(self, producer: Tensor, consumer: Tensor) -> Tensor | None:
        """Return the first common consumer of `producer` that is `consumer` or depends on it."""
        behind = {consumer, *self.dependents((consumer,))}
        return next((t for t in self.common_consumers(producer) if t in behind), None)


def _read_by(tensor: Tensor) -> Chain:
    op = tensor.op
    if isinstance(op, ComputeOp) and op.num_outputs > 1:
        return walk.input_tensors((op.body[tensor.value_index],))
    return op.input_tensors


def producers(schedule: Schedule, tensor: Tensor) -> Chain:
    """Return the tensors that the formula of a tensor reads."""
    now = current(schedule, tensor)
    return DependencyGraph(schedule).producers(now)


def consumers(schedule: Schedule, tensor: Tensor) -> Chain:
    """Return the tensors whose formulas read a tensor, in stage order."""
    now = current(schedule, tensor)
    return DependencyGraph(schedule).consumers(now)


def dependency_chains(schedule: Schedule, producer: Tensor, consumer: Tensor) -> tuple[Chain, ...]:
    """Return all paths from `producer` to `consumer`, both ends included; n consecutive diamonds have 2^n paths.

    Raises
    ------
    BudgetError: the chains contain more than `MAX_CHAINS` tensors in total.
    """
    start, end = current(schedule, producer), current(schedule, consumer)
    graph = DependencyGraph(schedule)
    inside = {end, *graph.needed((end,))}
    return _chains(start, lambda t: () if t is end else tuple(r for r in graph.consumers(t) if r in inside), {end})


def use_chains(schedule: Schedule, tensor: Tensor) -> tuple[Chain, ...]:
    """Return all paths from a tensor to tensors without consumers, both ends included.

    Raises
    ------
    BudgetError: the chains contain more than `MAX_CHAINS` tensors in total.
    """
    start = current(schedule, tensor)
    graph = DependencyGraph(schedule)
    return _chains(start, graph.consumers, {t for t in graph.tensors if not graph.consumers(t)})


def _chains(start: Tensor, step: Callable[[Tensor], Chain], ends: set[Tensor]) -> tuple[Chain, ...]:
    chains: list[Chain] = []
    size = 0
    stack: list[Chain] = [(start,)]
    while stack:
        chain = stack.pop()
        if chain[-1] in ends and len(chain) > 1:
            chains.append(chain)
            size += len(chain)
        else:
            more = [(*chain, t) for t in reversed(step(chain[-1]))]
            size += len(more)
            stack += more
        if size > MAX_CHAINS:
            raise BudgetError(f"the chains from {start.name} have more than {MAX_CHAINS} tensors together")
    return tuple(chains)


def common_consumers(schedule: Schedule, tensor: Tensor) -> Chain:
    """Return the tensors on every use chain of a tensor, in stage order; the tensor itself is excluded."""
    now = current(schedule, tensor)
    return DependencyGraph(schedule).common_consumers(now)


def common_consumer(schedule: Schedule, producer: Tensor, consumer: Tensor) -> Tensor | None:
    """Return the first common consumer of `producer` that is `consumer` or depends on it; `None` if there is none.

    Raises
    ------
    ScheduleError: `consumer` does not depend on `producer`.
    """
    first, second = current(schedule, producer), current(schedule, consumer)
    graph = DependencyGraph(schedule)
    check_depends(graph, first, second)
    return graph.common_consumer(first, second)


def check_depends(graph: DependencyGraph, producer: Tensor, consumer: Tensor) -> None:
    """Raise `ScheduleError` unless `consumer` depends on `producer`, directly or indirectly."""
    if consumer is producer:
        raise ScheduleError(f"{producer.name} is given as what it is read by, but it does not read itself")
    if consumer not in graph.dependents((producer,)):
        raise ScheduleError(f"{consumer.name} does not depend on {producer.name}, not even through other tensors")


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


class TransformHistory:
    """Relations of a domain, indexed by the axes they consume.

    Parameters
    ----------
    only_here: broadcast roots without a counterpart in the neighbour.

    Attributes
    ----------
    relations: in the order in which they were made.
    alone: broadcast axes that only this domain has, and all axes derived from them alone.
    """

    def __init__(self, relations: Sequence[IterVarRelation], only_here: Iterable[IterVar]) -> None:
        self.relations = relations
        self.alone = made_alone(relations, only_here)
        self._next = {iv: relation for relation in relations for iv in relation.parents}

    def step(self, iv: IterVar) -> IterVarRelation | None:
        """Return the relation that consumes an axis, if any."""
        return self._next.get(iv)

    def forwarded(self, iv: IterVar) -> tuple[IterVar, list[IterVarRelation]]:
        """Forward `iv` through fusions with axes in `alone`: the final axis and the relations passed."""
        passed: list[IterVarRelation] = []
        relation = self.step(iv)
        while isinstance(relation, (Fuse, Rebase)) and all(p is iv or p in self.alone for p in relation.parents):
            passed.append(relation)
            (iv,) = relation.children
            relation = self.step(iv)
        return iv, passed


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
        starts = [iv for iv in relation.parents if iv not in model.alone]
        if isinstance(relation, Rebase) or (isinstance(relation, Fuse) and len(starts) < 2):  # the same axis
            image.update((relation.children[0], image[iv]) for iv in starts if iv in image)
            continue
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
            outer, inner = own.parts(relation.factor)
            relations.append(replace(relation, parent=own, outer=outer, inner=inner))
            image[relation.outer], image[relation.inner] = outer, inner
        elif isinstance(relation, Fuse):
            has = [iv in image for iv in (relation.outer, relation.inner)]
            if all(has):
                outer, inner = image.pop(relation.outer), image.pop(relation.inner)
                image[relation.fused] = outer.fused(inner)
                relations.append(Fuse(outer, inner, image[relation.fused]))
            elif any(has):
                kept, other = (relation.outer, relation.inner) if has[0] else (relation.inner, relation.outer)
                if other in model.alone:
                    image[relation.fused] = image.pop(kept)
    return image, relations


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
    shown = TransformHistory([r for r in model.relations if any(iv in needed for iv in r.children)], only[0])
    done = TransformHistory(own.relations, only[1])
    match = detect(shown, done, {iv: to for iv, to in roots.items() if iv in needed})
    alive = dict.fromkeys(own.root)
    before = with_ancestors(own.relations, [iv for r in match.used for iv in r.parents])
    applied = [r for r in own.relations if r in match.used or any(iv in before for iv in r.children)]
    for relation in applied:
        apply_relation(relation, alive)
    image, created = create(shown, {iv: to for iv, to in match.image.items() if to in alive})
    for relation in created:
        apply_relation(relation, alive)
    head = list(dict.fromkeys(image[iv] for iv in target if iv in image))
    for relation in own.relations:  # keep other transforms whose axes still exist
        if relation not in applied and all(iv in alive and iv not in head for iv in relation.parents):
            apply_relation(relation, alive)
            applied.append(relation)
    order = [*head, *(image[iv] for iv in model.loop if iv in image), *own.loop, *alive]
    kept = [r for r in own.relations if r in applied]
    loop = tuple(iv for iv in dict.fromkeys(order) if iv in alive)
    return Replayed(TensorDomain(own.op, own.root, loop, (*kept, *created)), len(head))


def apply_relation(relation: IterVarRelation, alive: dict[IterVar, None]) -> None:
    """Replace the parents of a relation by its children among the axes that no relation has consumed yet."""
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
    model = TransformHistory(reader.relations, axes.added)
    own = TransformHistory(producer.relations, axes.squeezed)
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
