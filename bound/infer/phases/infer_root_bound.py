"""InferRootBound: what the consumers of a stage need of it, and so the ranges of its root axes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bound.errors import ScheduleError
from bound.infer.needs.box import hull, whole
from bound.infer.needs.known import Known
from bound.infer.needs.need import Need
from bound.infer.phases.gather import gather, gather_bound, within
from bound.infer.phases.pass_up import pass_up
from bound.infer.phases.propagate import Propagation
from bound.infer.phases.relax import LoopState, initialise_leaves, storage_rank_of
from bound.infer.phases.shared import own_share
from bound.infer.phases.slide import conditions_around
from bound.infer.phases.stage_bounds import StageBounds
from bound.infer.program.accesses import Access, accesses
from bound.infer.program.graph import ReadGraph, tag_of
from bound.infer.program.sharing import Sharing
from bound.infer.program.sizes import Sizes
from bound.itervar import IterVar
from bound.operation import Operation, PlaceholderOp, ScanOp
from bound.schedule import AttachType, Schedule, Stage
from bound.schedule.attach import AttachPath
from bound.schedule.placing import slid_loops
from bound.schedule.scopes import needs_relax
from bound.tensor import Tensor


@dataclass(eq=False)
class Request:
    """What one consumer needs of a tensor.

    Attributes
    ----------
    consumer: who asks.
    loops: the loops around its formula, innermost first, each fixed or relaxed.
    access: what it reads.
    need: which elements that makes.
    """

    consumer: StageBounds
    loops: tuple[LoopState, ...]
    access: Access
    need: Need


@dataclass(eq=False)
class Pass:
    """What the pass works on.

    Attributes
    ----------
    schedule: the normalized schedule; paths: the loops around each stage; graph: who reads what.
    sizes, known: the sizes, and what is known of variables so far.
    domain: the domain that answers; boxed: the stages that compute boxes; compacted: whose storage leaves out strides.
    bounds: what was found out about each stage.
    requests: who asks for what of each tensor.
    sharing: the loops that several stages share.
    threads: those of which a stage starts more than it has work for, with their number.
    """

    schedule: Schedule
    paths: dict[Stage, AttachPath]
    graph: ReadGraph
    sizes: Sizes
    known: Known
    domain: str
    boxed: frozenset[Stage]
    compacted: frozenset[Stage] = frozenset()
    sharing: Sharing = field(default_factory=Sharing)
    bounds: dict[Stage, StageBounds] = field(default_factory=dict)
    requests: dict[Tensor, list[Request]] = field(default_factory=dict)
    threads: dict[IterVar, int] = field(default_factory=dict)
    _accesses: dict[Operation, dict[Tensor, list[Access]]] = field(default_factory=dict)
    _propagations: dict[object, Propagation] = field(default_factory=dict)

    def accesses(self, op: Operation, tensor: Tensor) -> list[Access]:
        """How an operation reads a tensor, at the sizes that are fixed."""
        found = self._accesses.get(op)
        if found is None:
            found = self._accesses[op] = {}
            for access in accesses(op):
                found.setdefault(access.tensor, []).append(self.sizes.access(access))
        return found.get(tensor, [])


def infer_root_bound(state: Pass, bounds: StageBounds) -> None:
    """InferRootBound: phases 1 to 4 for one stage."""
    stage, op = bounds.stage, bounds.op
    bounds.fixed = fixed_loops(state, bounds)
    for iv in (*op.root_iter_vars, *state.sharing.added.get(stage, ())):
        if iv.dom is not None:
            bounds.ranges[iv] = state.sizes.range(iv.dom)
    needs = prop_bound_to_inputs(state, bounds)
    if stage.is_output and bounds.outer:
        for tensor in op.outputs:
            bounds.required[tensor] = own_share(state, bounds, tensor)
    elif stage.is_output:
        for tensor in op.outputs:
            shape = state.sizes.shape(tensor)
            bounds.required[tensor] = Need(len(shape), whole(state.known, shape))
    else:
        gather(state.known, bounds, needs, state.sizes.shape, state.known.has_regions)
    if not isinstance(op, PlaceholderOp):
        running = conditions_around(state.bounds, bounds) if bounds.slid else ()
        steady = steady_need(state, bounds) if bounds.slid and stage in state.boxed else None
        gather_bound(state.known, bounds, stage in state.boxed, state.sizes.shape, state.threads, running, steady)


def fixed_loops(state: Pass, bounds: StageBounds) -> tuple[IterVar, ...]:
    """The loops of the attach path, outermost first, that tell one instance of the stage from another.

    In a loop that is shared each stage has its own part, whatever threads run it.
    """
    return _fixed_in(state, bounds.stage, bounds.path)


def kept_loops(state: Pass, bounds: StageBounds) -> tuple[IterVar, ...]:
    """The loops around the storage of a stage that tell one instance of it from another, outermost first."""
    return _fixed_in(state, bounds.stage, bounds.path[len(bounds.slid) :])


def _fixed_in(state: Pass, placed: Stage, path: AttachPath) -> tuple[IterVar, ...]:
    rank = storage_rank_of(placed, path)
    shared = state.sharing.loops
    kept = [iv for stage, iv in path if iv in shared or not needs_relax(tag_of(stage, iv), rank, True)]
    return tuple(reversed(kept))


def prop_bound_to_inputs(state: Pass, bounds: StageBounds) -> dict[Tensor, list[Need]]:
    """Phases 1 to 3: for each output of a stage the need of each access of each consumer."""
    for tensor in bounds.op.outputs:
        state.requests[tensor] = requests_of(state, bounds, tensor, bounds.path)
    return {tensor: [request.need for request in state.requests[tensor]] for tensor in bounds.op.outputs}


def steady_need(state: Pass, bounds: StageBounds) -> Need | None:
    """A box around what the consumers of a stage need that moves evenly with the loops: what they would read without
    their conditions, within the tensor; `None` where it is not to be had, or no more than what they read.

    At a border, where conditions fail, less may be needed than in the next iteration but one; what is new would then
    come in steps of its own there.
    """
    tensor = bounds.op.outputs[0]
    requests = state.requests[tensor]
    if len(bounds.op.outputs) > 1 or not any(request.access.conditions for request in requests):
        return None
    shape = state.sizes.shape(tensor)
    boxes = []
    for request in requests:
        propagation, _ = _iterations(state, bounds, request.consumer, bounds.path)
        box = propagation.image(replace(request.access, conditions=()), shape).box
        if box is None:
            return None
        boxes.append(box)
    return within(state.known, Need(len(shape), hull(state.known, boxes)[0]), shape)


def requests_of(state: Pass, bounds: StageBounds, tensor: Tensor, path: AttachPath) -> list[Request]:
    """What each consumer of a tensor needs of it where `path` are the loops around its stage, innermost first."""
    requests = []
    shape = state.sizes.shape(tensor)
    for consumer in dict.fromkeys(state.graph.get(tensor, ())):
        if consumer.attach_type is AttachType.INLINED_ALREADY:
            continue
        reader = state.bounds[consumer]
        propagation, loops = _iterations(state, bounds, reader, path)
        for access in state.accesses(consumer.op, tensor):
            need = propagation.image(access, shape)
            if need.box is None:
                need.limits = whole(state.known, shape)
            requests.append(Request(reader, loops, access, need))
    return requests


def _iterations(
    state: Pass, bounds: StageBounds, reader: StageBounds, path: AttachPath
) -> tuple[Propagation, tuple[LoopState, ...]]:
    """Phases 1 and 2; the same for all producers that are computed in the same place and kept alike."""
    shared = state.sharing.loops
    leaves = initialise_leaves(bounds.stage, path, reader.stage, reader.path, shared)
    key = (reader.stage, tuple(leaf.is_fixed for leaf in leaves))
    found = state._propagations.get(key)
    if found is None:
        it = pass_up(state.known, reader, leaves)
        found = state._propagations[key] = Propagation(state.known, it)
    return found, leaves


def prepare(state: Pass, stage: Stage) -> StageBounds:
    """The empty bounds of a stage."""
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
    bounds.led = state.sharing.led.get(stage, frozenset())
    state.bounds[stage] = bounds
    return bounds


__all__ = ["Pass", "Request", "ScanOp", "infer_root_bound", "prepare"]
