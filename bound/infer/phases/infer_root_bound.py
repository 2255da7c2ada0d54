"""InferRootBound: phases 1 to 4 for one stage, from its consumers' footprints to the ranges of its root axes.

Stages that share a loop are inferred in any order: the range of the loop comes from whole axes, before all stages.

Loops that were fused and split again run over the flattened tensor. One iteration of the outer ones computes a run of
it: an interval in the flat coordinate `x0*n1*n2 + x1*n2 + x2` (`FlatAxes`), where the delinearization that the loops
write cancels, and in the coordinates of the tensor a set that crosses rows and planes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from bound.errors import ScheduleError
from bound.infer.accesses import ReadGraph, TensorAccess, accesses
from bound.infer.environment import LoopEnvironment
from bound.infer.footprint import Box, Footprint, Outline, box_around, contains, hull, whole_tensor
from bound.infer.normalized import ScheduleSizes, Sharing
from bound.infer.phases.gather import box_within, enclosing_guards, gather, gather_bound, within_tensor
from bound.infer.phases.pass_down import StageBounds, data_axes, loop_range, overruns_unguarded, pass_down, rounded_up
from bound.infer.phases.propagate import LoopState, Propagation, initialise_leaves, pass_up, storage_rank_of
from bound.itervar import IterVar
from bound.schedule import Fuse, Rebase, Schedule, Split, Stage, simple
from bound.schedule.attach import AttachPath, needs_relax, slid_loops
from bound.schedule.relations import pass_down_domain
from bound.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from intset.context import Context
from intset.expr import Cond, Expr, Range, Var, as_expr, const
from intset.linear.canonical import form_of
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
    ctx, compute: the arguments of `infer_bound`.
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
    ctx: Context | None = None
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
    for tensor in op.outputs:
        requests = state.requests[tensor] = requests_of(state, bounds, tensor, bounds.path)
        shape = state.sizes.shape(tensor)
        if not state.is_root(bounds, tensor):
            footprints = [request.footprint for request in requests]
            bounds.required[tensor] = gather(state.env, bounds.fixed, footprints, shape)
        elif bounds.outer:
            bounds.required[tensor] = shared_iteration_footprint(state, bounds, tensor)
        else:
            bounds.required[tensor] = Footprint(len(shape), whole_tensor(state.env, shape))
    if not isinstance(op, PlaceholderOp):
        running = enclosing_guards(state.bounds, bounds) if bounds.slid else ()
        unconditional = unconditional_footprint(state, bounds) if bounds.slid and stage in state.boxed else None
        gather_bound(state.env, bounds, stage in state.boxed, state.sizes.shape, state.threads, running, unconditional)


def fixed_in(state: InferenceState, placed: Stage, path: AttachPath) -> tuple[IterVar, ...]:
    """The loops of a path that distinguish instances of a stage, or of its storage, outermost first.

    Thread loops whose threads share its storage do not; shared loops always do.
    """
    if not path:
        return ()
    rank = storage_rank_of(placed, path)
    shared = state.sharing.loops
    kept = [iv for stage, iv in path if iv in shared or not needs_relax(stage.tag_of(iv), rank)]
    return tuple(reversed(kept))


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
    """Phases 1 to 3: the accesses of all consumers to a tensor, with their footprints.

    Parameters
    ----------
    path: the loops around the stage of the tensor, innermost first.
    """
    requests = []
    shape = state.sizes.shape(tensor)
    for consumer in dict.fromkeys(state.graph.get(tensor, ())):
        if consumer.is_inlined:
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
    slid = slid_loops(stage, state.paths[stage])
    shared = next(((at, iv) for at, iv in slid if iv in state.sharing.loops), None)
    if shared is not None:
        raise ScheduleError(
            f"stage {stage.name}: it is stored outside of {shared[1].name} of {shared[0].name} to keep what iterations "
            "compute, but that is a loop of several stages (bound.replay)"
        )
    bounds = state.bounds[stage] = StageBounds(
        stage,
        state.paths[stage],
        state.sizes.relations(stage),
        outer=state.sharing.outer.get(stage, ()),
        aligned=state.sharing.aligned.get(stage, frozenset()),
        foreign=state.sharing.foreign.get(stage, frozenset()),
        slid=tuple(iv for _, iv in reversed(slid)),
    )
    return bounds


def enter_shared(state: InferenceState) -> None:
    """Enter the ranges of shared loops, from whole axes, before any stage.

    Invariant: no stage changes the range of a shared loop.
    """
    for stage in state.sharing.aligned:
        shared = [k for k, leaf in enumerate(stage.leaf_iter_vars) if leaf in state.sharing.loops]
        if not shared or stage in state.sharing.added:
            continue
        outer = state.sharing.outer.get(stage, ())
        bounds = StageBounds(stage, state.paths[stage], state.sizes.relations(stage), outer)
        axes = data_axes(stage.op)
        shape = state.sizes.shape(stage.op.outputs[0])
        roots = {iv: Range(0, rounded_up(bounds.relations, iv, e)) for iv, e in zip(axes, shape, strict=True)}
        reduced = (axis for axis in stage.op.root_iter_vars if axis not in roots)
        roots |= {axis: state.sizes.range(axis.dom) for axis in reduced if axis.dom is not None}
        threads = [leaf for leaf in bounds.outer if stage.thread_of(leaf) is not None]
        bounds.ranges = pass_down_domain(bounds.relations, roots, (*threads, *bounds.threads))
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


# -- elements counted along fused loops -------------------------------------------------------------------------------


@dataclass(frozen=True)
class FlatAxes:
    """Axes of a tensor as one axis, counted in row-major order.

    Invariant: `numbers` is injective on the tensor.

    Attributes
    ----------
    dims: the axes, outermost first; the flat coordinate takes the place of the first, and the others become 0.
    extents: the extents of these axes in the tensor.
    """

    dims: tuple[int, ...]
    extents: tuple[Expr, ...]

    def numbers(self, point: Sequence[Expr]) -> tuple[Expr, ...]:
        """The coordinates of an element: the flat index, zeros for the group's other axes, the rest unchanged."""
        flat = as_expr(0)
        for k, extent in zip(self.dims, self.extents, strict=True):
            flat = flat * extent + point[k]
        flat = form_of(flat).expr()
        return tuple(flat if k == self.dims[0] else const(0) if k in self.dims else x for k, x in enumerate(point))

    def point(self, numbers: Sequence[Expr]) -> tuple[Expr, ...]:
        """The element with these coordinates: the inverse of `numbers`."""
        left = numbers[self.dims[0]]
        own: dict[int, Expr] = {}
        for k, extent in list(zip(self.dims, self.extents, strict=True))[:0:-1]:
            own[k], left = form_of(left % extent).expr(), form_of(left // extent).expr()
        own[self.dims[0]] = left
        return tuple(own.get(k, x) for k, x in enumerate(numbers))

    def shape(self, shape: Sequence[Expr]) -> tuple[Expr, ...]:
        """The extents of the tensor in these coordinates."""
        total = reduce(simple.mul, self.extents)
        return tuple(
            total if k == self.dims[0] else const(1) if k in self.dims else extent for k, extent in enumerate(shape)
        )


def fused_axes(state: InferenceState, bounds: StageBounds, tensor: Tensor) -> list[FlatAxes]:
    """The axes of a tensor over which fused loops of its stage or of a reader run as one.

    None for a reduction over nothing: its loops, whose image the flat questions ask for, never run, but the nest that
    initialises it does.
    """
    reduced = bounds.op.reduce_axis if isinstance(bounds.op, ComputeOp) else ()
    if any(simple.number(as_expr(bounds.ranges[iv].extent)) == 0 for iv in reduced):
        return []
    groups: dict[tuple[int, ...], None] = {}
    own = data_axes(bounds.op)
    for axes in _fusions(bounds):
        groups[tuple(own.index(iv) for iv in axes if iv in own)] = None
    for stage in state.graph.get(tensor, ()):
        reader = state.bounds.get(stage)
        for axes in () if reader is None else _fusions(reader):
            for access in state.accesses(stage.op, tensor):
                order = [k for iv in axes for k, e in enumerate(access.indices) if iv in e.free_vars()]
                groups[tuple(dict.fromkeys(order))] = None
    shape = state.sizes.shape(tensor)
    return [FlatAxes(dims, tuple(shape[k] for k in dims)) for dims in groups if len(dims) > 1]


def _fusions(bounds: StageBounds) -> Iterator[list[Var]]:
    """The root axes of each outermost fusion, in order."""
    fusions: dict[Var, Fuse] = {r.fused: r for r in bounds.relations if isinstance(r, Fuse)}
    inner = {iv for r in fusions.values() for iv in r.parents}

    def roots(iv: Var) -> list[Var]:
        fusion = fusions.get(iv)
        return [iv] if fusion is None else [*roots(fusion.outer), *roots(fusion.inner)]

    for fused in fusions:
        if fused not in inner:
            yield roots(fused)


def flat_image(state: InferenceState, bounds: StageBounds, tensor: Tensor, axes: FlatAxes) -> Footprint:
    """The elements that the loops of a stage compute in one instance, in flat coordinates."""
    point: Sequence[Expr] = data_axes(bounds.op)
    access = TensorAccess(tensor, axes.numbers(point))
    return own_propagation(state, bounds).image(access, axes.shape(state.sizes.shape(tensor)))


def region_of_loops(state: InferenceState, bounds: StageBounds) -> Footprint | None:
    """A region that the loops of a stage, without guards of its region, are proved to stay in; `None` if unproved.

    It is the computed region or the required one, whose elements the loops compute in any case. A flat question, asked
    where the region is no box or shared loops run over whole axes: an interval of required elements around that of the
    loops.
    """
    if not isinstance(bounds.op, ComputeOp) or len(bounds.op.outputs) > 1 or bounds.slid:
        return None
    if bounds.region.box is not None and not bounds.aligned:
        return None
    (tensor,) = bounds.op.outputs
    if bounds.region.box is not None and _is_whole(state, bounds, tensor):
        return bounds.region
    bounds.stays_inside = True  # for the image of the loops alone
    try:
        is_required = any(_is_required(state, bounds, tensor, axes) for axes in fused_axes(state, bounds, tensor))
    finally:
        bounds.stays_inside = False
    return bounds.required[tensor] if is_required else None


def _is_whole(state: InferenceState, bounds: StageBounds, tensor: Tensor) -> bool:
    """Whether the region is the whole tensor; only unguarded splits that round up let loops leave the region."""
    if any(isinstance(r, Split) and overruns_unguarded(bounds, r) for r in bounds.relations):
        return False
    box, whole = bounds.region.box, whole_tensor(state.env, state.sizes.shape(tensor))
    assert box is not None
    if box.is_conditional() or not bounds.aligned >= set(data_axes(bounds.op)):
        return False
    return all(a.same(b) for a, b in zip(box.sides, whole.sides, strict=True))


def _is_required(state: InferenceState, bounds: StageBounds, tensor: Tensor, axes: FlatAxes) -> bool:
    shape = axes.shape(state.sizes.shape(tensor))
    needed = []
    for request in state.requests[tensor]:
        access = request.access
        flat = TensorAccess(tensor, axes.numbers(access.indices), access.conditions, access.extra, access.before)
        propagation, _ = iterations_of(state, bounds, request.consumer, bounds.path)
        footprint = propagation.image(flat, shape)
        if footprint.exact and footprint.box is not None:
            needed.append(footprint.box)
    own = own_propagation(state, bounds)
    point = axes.numbers(data_axes(bounds.op))
    needed = [box for box in needed if not own.leaves(box, point)]
    if not needed:
        return False
    computed = own.image(TensorAccess(tensor, point), shape).box
    return computed is not None and any(contains(state.env, box, computed) for box in needed)
