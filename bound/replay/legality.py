"""Legality of shared loops: build the nest that compute-at positions imply, and check it.

The nest exists if

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

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise, takewhile
from typing import Final

from bound.itervar import IterType, IterVar
from bound.replay import loops as nests
from bound.replay.loops import Conflict, SharedLoop, SharedNest
from bound.replay.transform_replay import (
    BROADCAST,
    AxisMap,
    DependencyGraph,
    Matching,
    TensorDomain,
    axis_map,
    domain,
    matching,
)
from bound.replay.transform_replay import REDUCTION as REDUCTION_AXIS
from bound.schedule import AttachType, IterVarAttr, Schedule, Split, Stage, Tail
from bound.tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, ScanOp, Tensor
from intset.expr import dag

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
    for step in (_self_mapped, _nested, _one_kind, check_order, check_once, nests.check_lengths, check_parallel):
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
                yield Conflict(nests.SELF_MAPPED, (first, second))


def _nested(nest: SharedNest) -> Iterator[Conflict]:
    """Set the parent of each loop: the innermost of its outer loops, which must contain all others."""
    outer: dict[SharedLoop, dict[SharedLoop, nests.Leaf]] = {loop: {} for loop in nest.loop_of.values()}
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
                    yield Conflict(nests.MISMATCH, (outer[loop][loop.parent], outer[loop][astray]))
    for loop in list(stuck)[:1]:
        yield Conflict(nests.MISMATCH, (loop.leaves[0], loop.leaves[-1]))


def _one_kind(nest: SharedNest) -> Iterator[Conflict]:
    """Yield conflicts of annotations between the leaves of one loop."""
    for loop in nest.loops:
        said = [(leaf, nest.attrs[leaf]) for leaf in loop.leaves if leaf in nest.attrs]
        for leaf, attr in said:
            other = next((x for x in loop.leaves if x is not leaf), None)
            if other is None:
                continue
            if attr.iter_type in _WHOLE:
                yield Conflict(nests.KIND, (leaf, other))
            if attr.iter_type is IterType.PARALLELIZED:
                reduced = next((x for x in loop.leaves if nest.kind(x) == REDUCTION_AXIS), None)
                if reduced is not None:
                    yield Conflict(nests.KIND, (leaf, reduced))
        for (first, one), (second, two) in pairwise(said):
            if one != two and contrary(one, two):
                yield Conflict(nests.KIND, (first, second))


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
    """A cycle of items, each item with the read that orders the next one behind it; empty if there is none."""
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
            yield Conflict(nests.KIND, (own, nest.owner(loop)))
        elif loop in kinds:
            yield from (replace(one, rule=nests.KIND) for one in _in_one_loop(nest, loop, op, nest.owner(loop)[0]))


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
    """Explain why two operations are in one loop: as leaves of both stages or parent of a shared loop."""
    for op in both:
        if op in loop.positions:
            continue
        inner = next((n for n in nest.chain[op] if loop in n.path()), None)
        if inner is None:
            return []
        its = next(
            (leaf for leaf in inner.leaves if inner.parent is not None and leaf[0] in inner.parent.positions), None
        )
        return [] if its is None else [Conflict(nests.ORDER, ((op, inner.positions[op]), its))]
    own, its = ((op, loop.positions[op]) for op in both)
    return [Conflict(nests.PERSISTENT if nest.kind(own) == REDUCTION_AXIS else nests.ORDER, (own, its))]


def _unfinished(nest: SharedNest, at: SharedLoop | None, op: Operation, reader: Operation) -> Conflict | None:
    """Return a conflict if `reader` is inside a loop that `op` runs but does not share with it."""
    for loop in () if at is None else at.path():
        own = loop.leaf_of(op)
        if own is not None and nest.owns(own) and nest.kind(own) != BROADCAST:
            why = next(iter(_in_one_loop(nest, loop, op, reader)), None)
            return why or Conflict(
                nests.ORDER, (own, next((leaf for leaf in reversed(loop.leaves) if leaf != own), own))
            )
    return None


def _circular(nest: SharedNest, circle: Sequence[tuple[object, tuple[Operation, Operation]]]) -> Conflict:
    """Turn a cycle into a conflict: a loop that one read leaves and a later read enters again must not be shared."""
    for k, (item, (leaves, _)) in enumerate(circle):
        enters = circle[k - 1][1][1]
        if isinstance(item, SharedLoop) and leaves is not enters:
            own = item.leaf_of(leaves)
            its = item.leaf_of(enters)
            if own is not None and its is not None:
                rule = nests.PERSISTENT if nest.kind(own) == REDUCTION_AXIS else nests.ORDER
                return Conflict(rule, (own, its))
    item = next(item for item, _ in circle if isinstance(item, SharedLoop))
    return Conflict(nests.ORDER, (item.leaves[0], item.leaves[-1]))


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
                yield Conflict(nests.MISMATCH, ((op, inner.positions[op]), its))
                break


def _repeats_element(nest: SharedNest, loop: SharedLoop, leaf: nests.Leaf) -> bool:
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
        if is_inlined(stage):
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
            return nests.FROZEN
        if self.obstacle(op) is not None or (new.loop != old.loop and _repeats(new)):
            return nests.MISMATCH
        gone = set(old.loop) - set(new.loop)
        stage = self.stage(op)
        if any((stage, iv) in self._targets for iv in gone):
            return nests.FROZEN
        return nests.KIND if any(iv in stage.iter_var_attrs for iv in gone) else None

    def nest(self) -> SharedNest:
        """Build the nest that the positions imply."""
        shared = {op: count for op, count in self.position.items() if count and self.readers[op]}
        match = {(op, reader): self.match(op, reader) for op in shared for reader in self.readers[op]}
        attrs: dict[nests.Leaf, IterVarAttr] = {
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


def is_inlined(stage: Stage) -> bool:
    """Return whether a stage is inlined into its consumers: it has no loops."""
    return stage.attach_type in (AttachType.INLINE, AttachType.INLINED_ALREADY)
