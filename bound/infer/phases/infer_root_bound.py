"""InferRootBound: phases 1 to 4 for one stage, from its consumers' footprints to the ranges of its root axes.

Stages that share a loop are inferred in any order: the range of the loop comes from whole axes, before all stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bound.errors import ScheduleError
from bound.infer.accesses import ReadGraph, TensorAccess, accesses
from bound.infer.footprints.box import Box, hull, whole_tensor
from bound.infer.footprints.environment import LoopEnvironment
from bound.infer.footprints.footprint import Footprint, Outline, box_around
from bound.infer.normalized import ScheduleSizes, Sharing
from bound.infer.phases.gather import box_within, enclosing_guards, gather, gather_bound, within_tensor
from bound.infer.phases.pass_down import loop_range, pass_down, rounded_up
from bound.infer.phases.propagate import LoopState, Propagation, initialise_leaves, pass_up, storage_rank_of
from bound.infer.phases.stage_bounds import StageBounds, data_axes
from bound.itervar import IterVar
from bound.operation import Operation, PlaceholderOp
from bound.schedule import AttachType, Rebase, Schedule, Stage
from bound.schedule.attach import AttachPath, needs_relax, slid_loops
from bound.schedule.relations import pass_down_domain
from bound.tensor import Tensor
from intset.context import Context
from intset.expr import Cond, Expr, Range
from intset.trace import traced


@dataclass(eq=False)
class Request:
    """An access of a consumer and its footprint.

    Attributes
    ----------
    consumer: the bounds of the consumer.
    loops: the loops around its formula, innermost first, each fixed or relaxed.
    access: the access.
    footprint: its elements in one instance of the producer.
    """

    consumer: StageBounds
    loops: tuple[LoopState, ...]
    access: TensorAccess
    footprint: Footprint


@dataclass(eq=False)
class InferenceState:
    """The state of InferBound.

    Invariant: consumers precede producers, so the bounds of all consumers of a stage exist before its own.

    Attributes
    ----------
    schedule: the normalized schedule.
    paths: the attach path of each stage, innermost loop first.
    graph: the stages that read each tensor.
    sizes: the fixed and symbolic sizes of the schedule.
    env: ranges of loops and sizes.
    domain: the name of the answering domain.
    boxed: the stages that compute outer boxes.
    compacted: the stages with compact storage.
    sharing: the loops that several stages share.
    bounds: the bounds of each stage visited so far.
    requests: the accesses to each tensor, with their footprints.
    threads: thread axes with more threads than work, with their numbers of threads.
    tiles: the symbolic sizes of splits, each at least 1.
    equations: asserted equations of them (`thread_equations`).
    given, compute: the arguments of `infer_bound`.
    whole: the tensors required whole besides the outputs.
    """

    schedule: Schedule
    paths: dict[Stage, AttachPath]
    graph: ReadGraph
    sizes: ScheduleSizes
    env: LoopEnvironment
    domain: str
    boxed: frozenset[Stage]
    compacted: frozenset[Stage] = frozenset()
    sharing: Sharing = field(default_factory=Sharing)
    bounds: dict[Stage, StageBounds] = field(default_factory=dict)
    requests: dict[Tensor, list[Request]] = field(default_factory=dict)
    threads: dict[IterVar, int] = field(default_factory=dict)
    tiles: tuple[Expr, ...] = ()
    equations: tuple[Cond, ...] = ()
    given: Context | None = None
    compute: str | Mapping[Any, str] = "exact"
    whole: frozenset[Tensor] = frozenset()
    _accesses: dict[Operation, dict[Tensor, list[TensorAccess]]] = field(default_factory=dict)
    _propagations: dict[object, Propagation] = field(default_factory=dict)

    def is_root(self, bounds: StageBounds, tensor: Tensor) -> bool:
        """Whether a tensor is a root of demand: all of it is required, whatever its consumers read.

        Inside other loops than those that run over its own axes a stage computes what is read there.
        """
        return bounds.stage.is_output or (tensor in self.whole and (not bounds.path or bool(bounds.outer)))

    def accesses(self, op: Operation, tensor: Tensor) -> list[TensorAccess]:
        """The accesses of an operation to a tensor, at the fixed sizes."""
        by_tensor = self._accesses.get(op)
        if by_tensor is None:
            by_tensor = self._accesses[op] = {}
            for access in accesses(op):
                by_tensor.setdefault(access.tensor, []).append(self.sizes.access(access))
        return by_tensor.get(tensor, [])


@traced("stage", lambda state, bounds: bounds.stage.name)
def infer_root_bound(state: InferenceState, bounds: StageBounds) -> None:
    """InferRootBound: phases 1 to 4 for one stage."""
    stage, op = bounds.stage, bounds.op
    bounds.fixed = fixed_in(state, stage, bounds.path)
    for iv in (*op.root_iter_vars, *state.sharing.added.get(stage, ())):
        if iv.dom is not None:
            bounds.ranges[iv] = state.sizes.range(iv.dom)
    footprints = prop_bound_to_inputs(state, bounds)
    if not stage.is_output:
        gather(state.env, bounds, footprints, state.sizes.shape)
    for tensor in op.outputs:
        if state.is_root(bounds, tensor):
            bounds.required[tensor] = whole_footprint(state, bounds, tensor)
    if not isinstance(op, PlaceholderOp):
        running = enclosing_guards(state.bounds, bounds) if bounds.slid else ()
        unconditional = unconditional_footprint(state, bounds) if bounds.slid and stage in state.boxed else None
        gather_bound(state.env, bounds, stage in state.boxed, state.sizes.shape, state.threads, running, unconditional)


def whole_footprint(state: InferenceState, bounds: StageBounds, tensor: Tensor) -> Footprint:
    """All elements of a root of demand; inside shared loops, those of one iteration."""
    if bounds.outer:
        return shared_iteration_footprint(state, bounds, tensor)
    shape = state.sizes.shape(tensor)
    return Footprint(len(shape), whole_tensor(state.env, shape))


def fixed_in(state: InferenceState, placed: Stage, path: AttachPath) -> tuple[IterVar, ...]:
    """The loops of a path that distinguish instances of a stage, or of its storage, outermost first.

    Thread loops whose threads share its storage do not; shared loops always do.
    """
    rank = storage_rank_of(placed, path)
    shared = state.sharing.loops
    kept = [iv for stage, iv in path if iv in shared or not needs_relax(stage.tag_of(iv), rank)]
    return tuple(reversed(kept))


def prop_bound_to_inputs(state: InferenceState, bounds: StageBounds) -> dict[Tensor, list[Footprint]]:
    """Phases 1 to 3: the footprint of each access of each consumer, by output."""
    for tensor in bounds.op.outputs:
        state.requests[tensor] = requests_of(state, bounds, tensor, bounds.path)
    return {tensor: [request.footprint for request in state.requests[tensor]] for tensor in bounds.op.outputs}


def unconditional_footprint(state: InferenceState, bounds: StageBounds) -> Footprint | None:
    """The outer box of the consumers' footprints without their conditions.

    `None` without conditions, or if a footprint has no box.

    Conditions fail at borders, where footprints shrink: a window over them would advance in uneven steps. This box
    advances evenly.
    """
    tensor = bounds.op.outputs[0]
    requests = state.requests[tensor]
    if len(bounds.op.outputs) > 1 or not any(request.access.conditions for request in requests):
        return None
    shape = state.sizes.shape(tensor)
    boxes = []
    for request in requests:
        propagation, _ = iterations_of(state, bounds, request.consumer, bounds.path)
        box = propagation.image(replace(request.access, conditions=()), shape).box
        if box is None:
            return None
        boxes.append(box)
    return within_tensor(state.env, Footprint(len(shape), hull(state.env, boxes)[0]), shape)


def requests_of(state: InferenceState, bounds: StageBounds, tensor: Tensor, path: AttachPath) -> list[Request]:
    """The accesses of all consumers to a tensor, with footprints for a stage attached at `path` (innermost first)."""
    requests = []
    shape = state.sizes.shape(tensor)
    for consumer in dict.fromkeys(state.graph.get(tensor, ())):
        if consumer.attach_type is AttachType.INLINED_ALREADY:
            continue
        reader = state.bounds[consumer]
        propagation, loops = iterations_of(state, bounds, reader, path)
        is_shape = reader.computed is not None and reader.computed.box is None
        for access in state.accesses(consumer.op, tensor):
            footprint = propagation.image(access, shape)
            outline = Outline(_image_of_box, state, bounds, reader, path, access)
            if footprint.box is None:
                footprint.outline = outline
            elif not footprint.exact and (state.env.account.is_spent or is_shape):
                footprint = footprint.with_box(box_within(state.env, footprint.box, outline.box))
            requests.append(Request(reader, loops, access, footprint))
    return requests


def _image_of_box(
    state: InferenceState, bounds: StageBounds, reader: StageBounds, path: AttachPath, access: TensorAccess
) -> Box:
    """The box around the image of an access over the box that its reader computes, as `compute="box"` finds it."""
    shape = state.sizes.shape(access.tensor)
    whole = whole_tensor(state.env, shape)
    with state.env.outlining():
        boxed = reader if reader.computed is None else replace(reader, computed=box_around(state.env, reader.computed))
        leaves = initialise_leaves(bounds.stage, path, reader.stage, reader.path, state.sharing.loops)
        around = Propagation(state.env, pass_up(state.env, boxed, leaves)).image(access, shape)
        around.outline = Outline(whole_tensor, state.env, shape)
        return box_within(state.env, around.hull(state.env), whole)


def own_propagation(state: InferenceState, bounds: StageBounds) -> Propagation:
    """The propagation for what a stage computes itself in one instance; not memoised."""
    leaves = initialise_leaves(bounds.stage, bounds.path, bounds.stage, bounds.path, state.sharing.loops)
    return Propagation(state.env, pass_up(state.env, bounds, leaves))


def iterations_of(
    state: InferenceState, bounds: StageBounds, reader: StageBounds, path: AttachPath
) -> tuple[Propagation, tuple[LoopState, ...]]:
    """Phases 1 and 2 for a reader, with the stage attached at `path`; memoised by reader and fixed loops."""
    shared = state.sharing.loops
    leaves = initialise_leaves(bounds.stage, path, reader.stage, reader.path, shared)
    key = (reader.stage, tuple(leaf.is_fixed for leaf in leaves))
    propagation = state._propagations.get(key)
    if propagation is None:
        it = pass_up(state.env, reader, leaves)
        propagation = state._propagations[key] = Propagation(state.env, it)
    return propagation, leaves


def initial_bounds(state: InferenceState, stage: Stage) -> StageBounds:
    """Empty bounds of a stage, registered in the state.

    Raises
    ------
    ScheduleError: the stage keeps elements over a loop that several stages share.
    """
    bounds = StageBounds(stage, state.paths[stage], state.sizes.relations(stage))
    slid = slid_loops(stage, bounds.path)
    bounds.slid = tuple(iv for _, iv in reversed(slid))
    shared = next(((at, iv) for at, iv in slid if iv in state.sharing.loops), None)
    if shared is not None:
        raise ScheduleError(
            f"stage {stage.name}: it is stored outside of {shared[1].name} of {shared[0].name} to keep what iterations "
            "compute, but that is a loop of several stages (bound.replay)"
        )
    bounds.outer = state.sharing.outer.get(stage, ())
    bounds.aligned = state.sharing.aligned.get(stage, frozenset())
    bounds.foreign = state.sharing.foreign.get(stage, frozenset())
    state.bounds[stage] = bounds
    return bounds


def enter_shared(state: InferenceState) -> None:
    """Enter the ranges of shared loops, from whole axes, before any stage.

    Invariant: no stage changes the range of a shared loop.
    """
    for stage in state.sharing.aligned:
        shared = [k for k, leaf in enumerate(stage.leaf_iter_vars) if leaf in state.sharing.loops]
        if not shared or stage in state.sharing.added:
            continue
        bounds = StageBounds(stage, state.paths[stage], state.sizes.relations(stage))
        bounds.outer = state.sharing.outer.get(stage, ())
        axes = data_axes(stage.op)
        shape = state.sizes.shape(stage.op.outputs[0])
        roots = {iv: Range(0, rounded_up(bounds.relations, iv, e)) for iv, e in zip(axes, shape, strict=True)}
        reduced = (axis for axis in stage.op.root_iter_vars if axis not in roots)
        roots |= {axis: state.sizes.range(axis.dom) for axis in reduced if axis.dom is not None}
        threads = [leaf for leaf in (*bounds.outer, *stage.leaf_iter_vars) if stage.thread_of(leaf) is not None]
        bounds.ranges = pass_down_domain(bounds.relations, roots, threads)
        for leaf in stage.leaf_iter_vars[: shared[-1] + 1]:
            state.env.add(leaf, loop_range(state.env, bounds, leaf))


def shared_iteration_footprint(state: InferenceState, bounds: StageBounds, tensor: Tensor) -> Footprint:
    """The elements of an output in one iteration of its shared loops, over the stage's whole iteration domain."""
    env: LoopEnvironment = state.env
    shape, axes = state.sizes.shape(tensor), data_axes(bounds.op)
    all_of_it = Footprint(len(shape), whole_tensor(env, shape))
    alone = StageBounds(bounds.stage, bounds.path, bounds.relations, bounds.outer, bounds.aligned, fixed=bounds.fixed)
    alone.ranges = dict(bounds.ranges)
    alone.required = dict.fromkeys(bounds.op.outputs, all_of_it)
    gather_bound(env, alone, True, state.sizes.shape, {})
    pass_down(env, alone)
    own = [LoopState(bounds.stage, iv, False) for iv in reversed(bounds.stage.leaf_iter_vars)]
    around = [LoopState(stage, iv, iv in bounds.fixed) for stage, iv in bounds.path]
    iterations = pass_up(env, alone, (*own, *around))
    used = {v for cond in iterations.conditions for v in cond.free_vars()}
    for iv in bounds.op.root_iter_vars:  # an empty reduction still stores its initial value
        if iv.is_reduce and iv not in used:
            iterations.values.pop(iv, None)
            iterations.relaxed.pop(iv, None)
    footprint = Propagation(env, iterations).image(TensorAccess(tensor, tuple(axes)), shape)
    if footprint.box is None:
        footprint.outline = Outline(whole_tensor, env, shape)
    return footprint


def axis_ranges(state: InferenceState, stages: Iterable[StageBounds], written: Schedule) -> dict[IterVar, Range]:
    """The range of every axis, rewritten ones included.

    Parameters
    ----------
    written: the schedule before it was normalized.
    """
    ranges: dict[IterVar, Range] = {}
    for bounds in stages:
        ranges.update(bounds.ranges)
        ranges.update({iv: bounds.sides[iv].range() for iv in bounds.op.root_iter_vars if iv in bounds.aligned})
        ranges.update(bounds.loops)
        for iv, attr in bounds.stage.iter_var_attrs.items():
            if attr.bind_thread is not None and iv in bounds.loops:
                ranges.setdefault(attr.bind_thread, bounds.loops[iv])
    for leaf, (stage, loop) in state.sharing.replacements.items():
        is_outer = loop in state.sharing.outer[stage]
        ranges[leaf] = Range(loop, 1) if is_outer else ranges[loop]
    for stage, outer in state.sharing.outer.items():  # roots rebased to shared loops
        for relation in stage.relations:
            if isinstance(relation, Rebase) and relation.rebased in outer:
                ranges[relation.parent] = Range(relation.rebased, 1)
    for stage in written.stages:  # rewritten axes keep their declared domain
        for iv in stage.op.root_iter_vars:
            if iv.dom is not None:
                ranges.setdefault(iv, state.sizes.range(iv.dom))
        if state.schedule[stage.op] in state.sharing.added:  # axes outside of the longer loops
            for iv, r in pass_down_domain(state.sizes.relations(stage), ranges).items():
                ranges.setdefault(iv, r)
    return ranges
