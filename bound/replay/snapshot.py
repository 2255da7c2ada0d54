"""Schedule snapshot: domains and compute-at positions that a replay reads and changes before it writes them back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import takewhile

from bound.itervar import IterVar
from bound.operation import ComputeOp, ExternOp, Operation, PlaceholderOp, ScanOp
from bound.replay.dependencies import DependencyGraph
from bound.replay.domain import AxisMap, TensorDomain, axis_map, domain
from bound.replay.legality import shared_loops, stored_anew
from bound.replay.loops import FROZEN, KIND, MISMATCH, Leaf, SharedNest
from bound.replay.transform_replay import Matching, matching
from bound.schedule import AttachType, IterVarAttr, Schedule, Split, Stage, Tail
from bound.tensor import Tensor


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
        self._targets: dict[Stage, set[object]] = {}
        for placed in (*schedule.stages, *schedule.groups):
            if placed.attach_stage is not None:
                self._targets.setdefault(placed.attach_stage, set()).add(placed.attach_ivar)
            if placed.store_stage is not None:
                self._targets.setdefault(placed.store_stage, set()).add(placed.store_ivar)
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
        return obstacle(self.stage(op))

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
        if any(iv in self._targets.get(stage, ()) for iv in gone):
            return FROZEN
        return KIND if any(iv in stage.iter_var_attrs for iv in gone) else None

    def nest(self, position: Mapping[Operation, int] | None = None) -> SharedNest:
        """Build the nest that the positions imply."""
        positions = self.position if position is None else position
        shared = {op: count for op, count in positions.items() if count and self.readers[op]}
        match = {(op, reader): self.match(op, reader) for op in shared for reader in self.readers[op]}
        attrs: dict[Leaf, IterVarAttr] = {
            (op, k): attr for op in self.ops if self.stage(op).iter_var_attrs for k, attr in self.attrs(op).items()
        }
        domains = {op: self.domains[op] for op in self.readers}
        outputs = [op for op in self.readers if self.stage(op).is_output]
        return shared_loops(domains, shared, self.readers, match, attrs, self.fixed(), outputs)

    def fixed(self) -> Collection[Operation]:
        """Return the operations that `Stage.compute_at`, or a group, attaches to a loop of another stage."""
        return {op for op in self.ops if self.stage(op).get_attach_spec().attach_type is not AttachType.GROUP_ROOT}

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
        loops = [loop for loop in dict.fromkeys(nest.loop_of.values()) if len(loop.leaves) > 1]
        same = [tuple(map(nest.axis, loop.leaves)) for loop in loops]
        self.schedule.same_loop = {iv: leaves for leaves in same for iv in leaves}
        self.schedule.stored_anew = {nest.axis(leaf): op.name for op, loop in stored_anew(nest) for leaf in loop.leaves}


def _repeats(domain: TensorDomain) -> bool:
    """Return whether shifted tiles might make a reduction count elements twice."""
    is_reduction = isinstance(domain.op, ComputeOp) and domain.op.reduction is not None
    return is_reduction and any(isinstance(r, Split) and r.tail is Tail.SHIFT_INWARDS for r in domain.relations)


def obstacle(stage: Stage) -> str | None:
    """Explain why replay cannot move a stage; `None` if it can."""
    group = stage.group
    if isinstance(stage.op, PlaceholderOp):
        return None
    if is_inlined(stage):
        return "is inlined"
    if group is not None:
        scan = group.attach_stage if group.attach_type is AttachType.SCAN_UPDATE else None
        return "belongs to a group" if scan is None else f"is a part of the scan {scan.name}"
    if isinstance(stage.op, ScanOp):
        return "is a scan"
    if not isinstance(stage.op, ComputeOp):
        return "is extern" if isinstance(stage.op, ExternOp) else "is no operation made by te.compute"
    if stage.is_tensorized:
        return "is tensorized"
    if stage.attach_type is AttachType.SCOPE and stage.attach_stage is not None:
        return f"is placed in a loop of {stage.attach_stage.name} by compute_at"
    return None


def is_inlined(stage: Stage) -> bool:
    """Return whether a stage is inlined into its consumers: it has no loops."""
    return stage.attach_type in (AttachType.INLINE, AttachType.INLINED_ALREADY)
