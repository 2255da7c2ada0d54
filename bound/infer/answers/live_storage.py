"""Order of execution inside a loop body, storage that lives at once there, and its bytes as an expression of the sizes.

A loop body is a list of parts: nests of attached stages, the initialisation of a reduction, the rest of the stage. A
tensor stored in the body lives from the first to the last part that uses it, with all that runs inside them. While one
part runs, the storage of the body that lives then and the storage inside of the part exist together:

    for i:                            parts of the body: (nest of B), (nest of C), (rest of D)
        B[...] = A[...]               live:              {B}
        C[...] = B[...] + B[...]                         {B, C}
        D[...] = C[...]                                  {C}

so the body keeps `maximum(B + C, C)` bytes. Bodies are visited from the innermost one outwards.
Lowering builds nests by the same decisions: the order of parts, what fills double buffers, which outputs have storage.
A double buffer is stored around its loop, twice.

Also here: the traffic of a tensor, the elements that its stage stores and its consumers load, over all instances. An
element that one instance needs several times is loaded once: it stays in registers or in a cache meanwhile. Example: a
tile of `t` outputs of a stencil of width 3 loads `t + 2` elements, and `n // t` of such tiles load them anew each.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, TypeVar

from bound import dtypes
from bound.errors import ScheduleError
from bound.infer.answers.region import StageRegion
from bound.infer.answers.storage import Storage
from bound.infer.environment import LoopEnvironment
from bound.infer.footprint import FOOTPRINT, Footprint, contains, shape_of, undominated, whole_tensor
from bound.infer.normalized import Sharing
from bound.infer.phases.gather import union_footprints, within_tensor
from bound.infer.phases.infer_root_bound import InferenceState, own_propagation, requests_of
from bound.infer.phases.pass_down import StageBounds, StageNest
from bound.itervar import IterVar
from bound.schedule import Stage
from bound.schedule.attach import check_scope
from bound.schedule.simple import extent
from bound.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor, TensorComputeOp
from bound.tir import walk
from bound.tir.reduce import CommReducer, condition, initial, sources
from bound.tir.value import Operand, Value
from intset.errors import BudgetError, InputError
from intset.expr import Expr, Var, arguments, as_expr, const, constant_value, dag, shown
from intset.expr.build import maximum, sum_of

if TYPE_CHECKING:
    from bound.infer.infer_bound import BoundsMap


@dataclass(eq=False)
class ExecutedItem:
    """One part of a loop body.

    Attributes
    ----------
    reads, writes: the tensors of the stages inside.
    stages: the stages inside, with schedule positions.
    starts: it initialises a reduction that a later item continues.
    """

    reads: Collection[Tensor]
    writes: Collection[Tensor]
    stages: Mapping[Stage, int]
    starts: bool = False


ItemT = TypeVar("ItemT", bound=ExecutedItem)


def by_shared_loop(run: Mapping[Stage, Sequence[IterVar]]) -> dict[IterVar | Stage, dict[Stage, Sequence[IterVar]]]:
    """The stages of a body by the outermost of their remaining shared loops, or alone, with the loops inside of it."""
    groups: dict[IterVar | Stage, dict[Stage, Sequence[IterVar]]] = {}
    for stage, path in run.items():
        if not isinstance(stage.op, PlaceholderOp):
            groups.setdefault(path[0] if path else stage, {})[stage] = path[1:]
    return groups


def ordered(items: Sequence[ItemT]) -> list[ItemT]:
    """Sort items topologically, by producers; ties follow the schedule.

    Raises
    ------
    ScheduleError: items depend on one another in a cycle.
    """
    numbers = [min(item.stages.values()) for item in items]
    producer = {t: k for k, item in enumerate(items) if not item.starts for t in item.writes}
    before: list[set[int]] = [{producer[t] for t in item.reads if t in producer} - {k} for k, item in enumerate(items)]
    for k, item in enumerate(items):
        if item.starts:
            for later, other in enumerate(items):
                if not other.starts and any(stage in other.stages for stage in item.stages):
                    before[later].add(k)
                    before[k].discard(later)
    order: list[int] = []
    waiting = sorted(range(len(items)), key=numbers.__getitem__)
    while waiting:
        ready = next((k for k in waiting if before[k].isdisjoint(waiting)), None)
        if ready is None:
            names = ", ".join(stage.name for stage in items[min(waiting)].stages)
            raise ScheduleError(f"no order of {names} in one loop has everything complete before it is read")
        waiting.remove(ready)
        order.append(ready)
    return [items[k] for k in order]


def filled_ahead(
    accesses: Sequence[tuple[Iterable[Tensor], Iterable[Tensor]]], buffers: Collection[Tensor]
) -> set[int]:
    """The parts of a loop body that fill double buffers, and the producers that serve these parts alone.

    Parameters
    ----------
    accesses: for each part, the tensors it only reads and the tensors it writes.
    buffers: the double buffers.
    """
    wanted = set(buffers)
    parts = [(set(reads), set(writes)) for reads, writes in accesses]
    ahead = {k for k, (_, writes) in enumerate(parts) if wanted & writes}
    while True:
        read = set().union(*(parts[k][0] for k in ahead))
        others = set().union(*(reads for k, (reads, _) in enumerate(parts) if k not in ahead))
        more = {k for k, (_, writes) in enumerate(parts) if writes and writes <= read and not writes & others}
        if more <= ahead:
            return ahead
        ahead |= more


def stored_outputs(op: Operation, wanted: Container[Tensor]) -> tuple[Tensor, ...]:
    """Outputs of an operation that need storage: wanted outputs, and operands of their combiners.

    Extern operations and scans write all of their outputs; so do those of which nothing is wanted.
    """
    asked = [k for k, t in enumerate(op.outputs) if t in wanted]
    if not isinstance(op, (ComputeOp, TensorComputeOp)):
        return () if isinstance(op, PlaceholderOp) and not asked else op.outputs
    top = _reduction(op)
    if top is not None:
        asked = _combined(top.data.combiner, asked)
    return tuple(op.outputs[k] for k in asked)


def _combined(combiner: CommReducer, asked: Sequence[int]) -> list[int]:
    """The transitive closure of some results under the combiner's dependences."""
    place: dict[Operand, int] = {parameter: k for k, parameter in enumerate(combiner.lhs)}
    return sorted(
        dag.reachable(asked, lambda k: [place[node] for node in walk.nodes(combiner.results[k]) if node in place])
    )


def computes_whole(state: InferenceState, bounds: StageBounds, tensor: Tensor) -> bool:
    """Whether a stage's instances provably compute every element of one of its outputs.

    The union over all instances of what consumers read is what they read from a stage outside of all loops.
    """
    if isinstance(bounds.op, PlaceholderOp) or bounds.outer or state.is_root(bounds, tensor):
        return state.is_root(bounds, tensor)
    shape = state.sizes.shape(tensor)
    footprints = [request.footprint for request in requests_of(state, bounds, tensor, ())]
    whole = Footprint(len(shape), whole_tensor(state.env, shape))
    if any(footprint.exact and _includes(state.env, footprint, whole) for footprint in footprints):
        return True
    footprint = union_footprints(state.env, len(shape), footprints, state.env.has_regions)
    return footprint.exact and _includes(state.env, footprint, whole)


def _includes(env: LoopEnvironment, outer: Footprint, whole: Footprint) -> bool:
    assert whole.box is not None
    if outer.box is not None and contains(env, outer.box, whole.box):
        return True
    with suppress(BudgetError), env.budget(FOOTPRINT):
        return env.has_regions and outer.shape(env).includes(shape_of(env, whole.box))
    return False


@dataclass(frozen=True)
class Allocation:
    """The storage of a tensor, `copies` times: 2 for a double buffer."""

    tensor: Tensor
    scope: str
    copies: int = 1


Together = frozenset[Allocation]  # allocations that live at once


@dataclass(eq=False)
class NestPart(ExecutedItem):
    """A part with the sets of allocations inside that live at once."""

    live: tuple[Together, ...] = (frozenset(),)


@dataclass(frozen=True, eq=False)
class LiveStorage:
    """The storage of a schedule.

    Attributes
    ----------
    live: the sets of allocations that live at once, in the whole nest.
    inside: the requirement of one loop iteration, for storage allocated inside the loop.
    threads: the loops of each thread axis.
    """

    live: tuple[Together, ...]
    inside: Mapping[IterVar, tuple[Together, ...]]
    threads: Mapping[IterVar, tuple[IterVar, ...]]

    def iteration(self, axis: IterVar, sharing: Sharing) -> tuple[Together, ...]:
        """The sets of allocations that live at once in one iteration of a leaf or thread axis.

        Raises
        ------
        InputError: it is no loop of the schedule.
        """
        leaf = sharing.replacements.get(axis, (None, axis))[1]
        loops = self.threads.get(leaf, (leaf,))
        if not all(loop in self.inside for loop in loops):
            raise InputError(f"{axis.name if isinstance(axis, Var) else shown(axis)} is no loop of this schedule")
        return _largest(dict.fromkeys(together for loop in loops for together in self.inside[loop]))


def live_storage(nests: BoundsMap) -> LiveStorage:
    """Find the storage of a schedule, its inputs and outputs excluded."""
    finder = _Finder(nests)
    live = finder.root()
    threads: dict[IterVar, tuple[IterVar, ...]] = {}
    for stage in nests.schedule.stages:
        for leaf in stage.leaf_iter_vars:
            thread = stage.thread_of(leaf)
            if thread is not None and thread is not leaf and leaf in finder.inside:
                threads[thread] = (*threads.get(thread, ()), leaf)
    return LiveStorage(live, finder.inside, threads)


class _Finder:
    def __init__(self, nests: BoundsMap) -> None:
        self.nests = nests
        self.inside: dict[IterVar, tuple[Together, ...]] = {}
        self.numbers = {stage: k for k, stage in enumerate(nests.schedule.stages)}
        live = [stage.op for stage in nests.schedule.stages if not stage.is_inlined]
        self.given = {t for op in nests.schedule.outputs for t in op.outputs}.union(nests.whole)
        self.wanted = self.given.union(*(op.input_tensors for op in live))
        self.states = {
            state: output
            for op in live
            if isinstance(op, ScanOp)
            for state, output in zip(op.state_placeholder, op.outputs, strict=True)
        }
        self.parts: dict[Stage, list[NestPart]] = {}

    def root(self) -> tuple[Together, ...]:
        for stage in self.nests.schedule.stages:  # producers first, so before the stages they are attached to
            if self.nests.is_computed(stage):
                self.parts[stage] = self._nest(stage)
        return self._live(*self._body(None, self.nests.roots(), []))

    # -- bodies -------------------------------------------------------------------------------------------------

    def _body(
        self, leaf: IterVar | None, run: Sequence[Stage], rest: Sequence[NestPart]
    ) -> tuple[list[Stage], list[NestPart]]:
        """The stages with storage in a body, and its parts: the stages `run`, then the rest."""
        paths = {stage: self.nests.shared_path(stage) for stage in run}
        parts = self._shared(paths) if any(paths.values()) else [p for stage in run for p in self.parts[stage]]
        return [*(s for s in run if not self.nests.slid(s)), *self.nests.stored(leaf)], [*parts, *rest]

    def _shared(self, run: Mapping[Stage, Sequence[IterVar]]) -> list[NestPart]:
        """The parts of a body whose stages share loops, each stage with its remaining shared loops."""
        parts: list[NestPart] = []
        for key, members in by_shared_loop(run).items():
            if isinstance(key, Stage):
                parts.append(_joined(self.parts[key], self._live([], self.parts[key])))
                continue
            parts += [part for stage in members if (part := self._start(stage, key)) is not None]
            placed = self.nests.inside(key)
            body = self._shared({**members, **{stage: self.nests.shared_path(stage) for stage in placed}})
            stored = [*(s for s in placed if not self.nests.slid(s)), *self.nests.stored(key)]
            parts.append(self._loop(key, stored, body))
        return ordered(parts)

    def _loop(self, leaf: IterVar, stored: Sequence[Stage], body: Sequence[NestPart]) -> NestPart:
        """A loop with storage in its body; the double buffers among it live outside of the loop."""
        twice = [stage for stage in stored if stage.double_buffered and stage.op.outputs[0].ndim]
        buffers = {t for stage in twice for t in self._allocated(stage)}
        if buffers:
            ahead = filled_ahead([({*part.reads}.difference(part.writes), part.writes) for part in body], buffers)
            body = [*(body[k] for k in sorted(ahead)), *(part for k, part in enumerate(body) if k not in ahead)]
        live = self.inside[leaf] = self._live([stage for stage in stored if stage not in twice], body)
        outside = frozenset(Allocation(t, stage.scope, 2) for stage in twice for t in self._allocated(stage))
        return _joined(body, [outside | together for together in live])

    def _live(self, stored: Sequence[Stage], parts: Sequence[NestPart]) -> tuple[Together, ...]:
        """The sets of allocations that live at once in a body."""
        uses = [{self.states.get(t, t) for t in (*part.reads, *part.writes)} for part in parts]
        spans: list[tuple[int, int, Allocation]] = []
        for stage in stored:
            for t in self._allocated(stage):
                places = [k for k, used in enumerate(uses) if t in used]
                if places:
                    spans.append((places[0], places[-1], Allocation(t, stage.scope)))
        sets = dict.fromkeys(
            together.union(allocation for first, last, allocation in spans if first <= k <= last)
            for k, part in enumerate(parts)
            for together in part.live
        )
        return _largest(sets)

    def _allocated(self, stage: Stage) -> list[Tensor]:
        return [t for t in stored_outputs(stage.op, self.wanted) if t not in self.given]

    # -- one stage ----------------------------------------------------------------------------------------------

    def _nest(self, stage: Stage) -> list[NestPart]:
        """The parts of a stage, inside the loops around it."""
        op, number = stage.op, {stage: self.numbers[stage]}
        if not isinstance(op, (ComputeOp, TensorComputeOp, ScanOp)):
            return [NestPart(op.input_tensors, op.outputs, number)]
        nest, shared = self.nests.nest(stage), self.nests.shared_path(stage)
        own = [loop.iv for loop in nest.loops if loop.iv not in shared]
        begin = self._begin(stage, nest)
        begin = None if begin is None else begin - (len(nest.loops) - len(own))
        start, update = _accesses(op)
        parts = [NestPart(update, op.outputs, number)]
        for k in range(len(own), -1, -1):
            if k < len(own):
                parts = [self._loop(own[k], *self._body(own[k], self.nests.attached(stage, own[k]), parts))]
            if k == begin:
                parts = [NestPart(start, op.outputs, number), *parts]
        return parts

    def _begin(self, stage: Stage, nest: StageNest) -> int | None:
        """The number of loops around the initialisation of a reduction or scan; `None` without one."""
        if nest.start is not None:
            return nest.start.place
        if isinstance(stage.op, ScanOp):  # the first rows stand in front of the scanned loop
            scanned = nest.values[stage.op.scan_axis].free_vars()
            return next((k for k, loop in enumerate(nest.loops) if loop.iv in scanned), 0)
        return len(nest.loops) if _reduction(stage.op) is not None else None

    def _start(self, stage: Stage, loop: IterVar) -> NestPart | None:
        """The initialisation of a reduction whose outermost reduction loop is this shared loop, else `None`."""
        nest = self.nests.nest(stage)
        begin = self._begin(stage, nest)
        if begin is None or begin == len(nest.loops) or nest.loops[begin].iv is not loop:
            return None
        start, _ = _accesses(stage.op)
        return NestPart(start, stage.op.outputs, {stage: self.numbers[stage]}, starts=True)


def _joined(parts: Sequence[NestPart], live: Iterable[Together]) -> NestPart:
    """One part made of several. `live`: the sets of allocations that live at once."""
    stages = {stage: number for part in parts for stage, number in part.stages.items()}
    reads = frozenset[Tensor]().union(*(part.reads for part in parts))
    writes = frozenset[Tensor]().union(*(part.writes for part in parts))
    return NestPart(reads, writes, stages, live=tuple(live))


def _reduction(op: object) -> Value | None:
    """The reduction of an operation with its axes in the schedule, else `None`."""
    computed = op.call.intrin.op if isinstance(op, TensorComputeOp) else op
    if not isinstance(computed, ComputeOp) or computed.reduction is None:
        return None
    top = computed.body[0]
    assert isinstance(top, Value)
    return top


def _accesses(op: ComputeOp | TensorComputeOp | ScanOp | object) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The tensors that the first stores of an operation read, and those that the others read."""
    if isinstance(op, ScanOp):
        return op.init, op.update
    top = _reduction(op)
    assert isinstance(op, (ComputeOp, TensorComputeOp))
    if top is None or isinstance(op, TensorComputeOp):
        return (), op.input_tensors
    return walk.input_tensors(initial(top)), walk.input_tensors((*sources(top), condition(top)))


def _largest(sets: Iterable[Together]) -> tuple[Together, ...]:
    """The maximal sets under inclusion, in a fixed order."""
    return tuple(undominated(sorted(sets, key=len, reverse=True), operator.ge))


def bytes_of(
    env: LoopEnvironment, storage: Callable[[Tensor], Storage], live: Iterable[Together], scope: str | None
) -> Expr:
    """The byte count of the largest set of allocations, per scope or in total.

    Raises
    ------
    InputError: `scope` names no storage scope.
    """
    if scope is not None and not isinstance(scope, str):
        raise arguments.refusal("a scope", "a text", scope)
    scopes = {scope} if scope != "global" else {"global", ""}
    if scope:
        try:
            check_scope(scope)
        except ScheduleError as error:
            raise InputError(str(error)) from None
    sums: list[dict[Expr, int]] = []
    for together in live:
        total: dict[Expr, int] = {}
        for allocation in (one for one in together if scope is None or one.scope in scopes):
            number, places = _places(env, storage(allocation.tensor))
            number *= allocation.copies * dtypes.storage_bytes(allocation.tensor.dtype)
            if number:
                total[places] = total.get(places, 0) + number
        sums.append(total)
    largest = [a for k, a in enumerate(sums) if not any(_exceeds(b, a, j < k) for j, b in enumerate(sums) if j != k)]
    values = [_sum(total) for total in largest]
    return maximum(*values) if len(values) > 1 else values[0]


def _exceeds(one: Mapping[Expr, int], other: Mapping[Expr, int], is_earlier: bool) -> bool:
    """Whether a sum of nonnegative products is at least another one, term by term."""
    holds = all(one.get(e, 0) >= n for e, n in other.items())
    return holds and (is_earlier or one != other)


def _sum(total: Mapping[Expr, int]) -> Expr:
    terms = [const(n) if constant_value(e) == 1 else e * n for e, n in total.items()]
    return sum_of(sorted(terms, key=str))


def _places(env: LoopEnvironment, storage: Storage) -> tuple[int, Expr]:
    """The number of places of an array: a constant factor, and the product of the other extents."""
    forms = [env.form(extent(r)) for r in storage.ranges]
    numbers = [form.const for form in forms if form.is_const]
    varying = sorted((form.expr() for form in forms if not form.is_const), key=str)
    return prod(numbers), reduce(operator.mul, varying) if varying else const(1)


# -- traffic ----------------------------------------------------------------------------------------------------------

LOADS, STORES = "loads", "stores"


def traffic_of(
    state: InferenceState,
    bounds: StageBounds,
    tensor: Tensor,
    only: str | None,
    required: Callable[[Tensor], StageRegion],
    computed: Callable[[Tensor], StageRegion],
) -> Expr:
    """The stores of a tensor, its loads, or with `None` both.

    Parameters
    ----------
    bounds: those of its stage.
    required, computed: these regions of a tensor.

    Raises
    ------
    InputError: `only` is none of these.
    """
    if only is not None and (not isinstance(only, str) or only not in (LOADS, STORES)):
        raise InputError(f"traffic counts 'loads', 'stores' or, with None, both, not {shown(only)}")
    is_stored = only != LOADS and not isinstance(bounds.op, PlaceholderOp)
    stored = as_expr(computed(tensor).count_total() if is_stored else 0)
    if only == STORES:
        return stored
    loaded = _loads(state, bounds, tensor, required(tensor))
    return loaded if only == LOADS or stored.is_const and not stored.data else stored + loaded


def _loads(state: InferenceState, bounds: StageBounds, tensor: Tensor, required: StageRegion) -> Expr:
    """The elements of a tensor that its consumers load.

    Parameters
    ----------
    bounds: those of its stage.
    required: its required region.
    """
    readers = dict.fromkeys(state.graph.get(tensor, ()))
    consumers = [stage for stage in readers if not stage.is_inlined]
    if len(consumers) == 1 and _serves(state, bounds, consumers[0]):
        return as_expr(required.count_total())
    return sum_of([as_expr(_loaded(state, bounds, tensor, consumer).count_total()) for consumer in consumers])


def _serves(state: InferenceState, bounds: StageBounds, consumer: Stage) -> bool:
    """Whether a stage is computed inside the loops of its consumer."""
    return len(bounds.path) > len(state.bounds[consumer].path)


def _loaded(state: InferenceState, bounds: StageBounds, tensor: Tensor, consumer: Stage) -> StageRegion:
    """The elements that a consumer loads in one instance: of the tensor's stage if inside of it, else of its own."""
    env, reader, shape = state.env, state.bounds[consumer], state.sizes.shape(tensor)
    if _serves(state, bounds, consumer):
        fixed = bounds.fixed
        footprints = [one.footprint for one in state.requests[tensor] if one.consumer is reader]
    else:
        fixed, propagation = reader.fixed, own_propagation(state, reader)
        footprints = [propagation.image(access, shape) for access in state.accesses(consumer.op, tensor)]
    return StageRegion(env, within_tensor(env, union_footprints(env, len(shape), footprints), shape), fixed)
