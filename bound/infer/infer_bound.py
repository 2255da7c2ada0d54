"""`infer_bound`, the pass over the stages of a schedule, consumers first, and its answer `BoundsMap`.

All loops bound to one thread axis must have equal extents. Where sizes of tiles make extents equal, the schedule
asserts the equation: answers assume it, and a nest checks it. At numbers that contradict it, the schedule is illegal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NoReturn, SupportsIndex, TypeVar

from bound.errors import InputError, ScheduleError
from bound.infer import normalized as shared
from bound.infer.accesses import create_read_graph
from bound.infer.answers.explanation import explain
from bound.infer.answers.live_storage import LiveStorage, bytes_of, computes_whole, live_storage, traffic_of
from bound.infer.answers.outside import Outside, find_outside
from bound.infer.answers.piecewise import StagePiece, pieces_of
from bound.infer.answers.region import StageRegion
from bound.infer.answers.storage import Storage, storage_of
from bound.infer.environment import LoopEnvironment, constant_extent, create_account, space_of
from bound.infer.footprint import Footprint
from bound.infer.normalized import ScheduleSizes, with_positive
from bound.infer.phases import infer_root_bound, pass_down
from bound.itervar import IterVar
from bound.schedule import Rebase, Schedule, Stage
from bound.schedule.attach import AttachPath, attachment, slid_loops
from bound.schedule.simple import extent, low
from bound.tensor import Operation, PlaceholderOp, Tensor
from intset import config
from intset.config import Configured, all_as_configured
from intset.context import Context
from intset.expr import Cond, Expr, Range, Var, dag, shown
from intset.expr.arguments import a_flag, as_int, listed, mapped, of_kind, one_of
from intset.facts import ASSERTED
from intset.spaces.space import Space, SpaceValue, VarKey
from intset.trace import traced


class NestFunctions:
    """What the layer of loop nests provides when it is imported.

    Guarantee: before that, asking for either raises an `InputError` that names the missing import.

    Attributes
    ----------
    auto_bounds: the answer of `infer_bound` for `compute="auto"`, by the arguments schedule, ctx, at, domain, compact,
        whole.
    schedule_ops: `te.schedule.ScheduleOps`.
    """

    __slots__ = ("auto_bounds", "schedule_ops")
    auto_bounds: Callable[..., BoundsMap]
    schedule_ops: Callable[..., Any]

    def __getattr__(self, name: str) -> NoReturn:  # of a slot that is empty
        asked = {
            "auto_bounds": 'compute="auto" is chosen by the cost model of loop nests',
            "schedule_ops": "ScheduleOps builds a loop nest",
        }
        if name not in asked:
            raise AttributeError(name)
        raise InputError(f"{asked[name]}: import lowering first")


NEST_FUNCTIONS = NestFunctions()


Computed = TypeVar("Computed", bound=Tensor | Operation | Stage)
_OF_A_STAGE = ("exact", "box")
_COMPUTE = (*_OF_A_STAGE, "auto")


@traced("infer_bound", lambda schedule, *_, **__: schedule)
def infer_bound(
    schedule: Schedule,
    ctx: Context | None = None,
    at: Mapping[VarKey, SupportsIndex] | None = None,
    domain: str | None = None,
    compute: str | Mapping[Computed, str] = "exact",
    compact: bool = False,
    whole: Iterable[Tensor] = (),
) -> BoundsMap:
    """InferBound: the range of every axis; the required, computed and allocated elements of every tensor.

    Guarantee: required regions contain every element read, and equal that set if `is_exact`. Computed regions contain
    the required ones. Sizes in shapes are nonnegative.

    Parameters
    ----------
    schedule: the schedule; unchanged.
    ctx: facts and ranges of sizes.
    at: values of sizes, by variable or name; answers are as exact as for constant shapes.
    domain: the answering domain; by default the domain of `ctx`, else the configured one.
    compute: "exact": guards restrict each nest to its required region. "box": no such guards; each instance computes
        the outer box, and reads accordingly. "auto": the cheaper word for each stage, once `lowering` is imported. A
        mapping from tensors or stages to "exact" or "box" chooses for each; the default is "exact".
    compact: whether storage omits strides and equations of the computed region (`answers.compact`).
    whole: tensors required in full, like outputs, with or without a reader: intermediates
        that a caller receives. A stage inside loops of its consumers computes what they read there
        (`BoundsMap.computes_whole`).

    Raises
    ------
    ScheduleError: an illegal schedule; the message names stage and axis.
    InputError: an invalid argument.
    """
    if not isinstance(schedule, Schedule):
        raise InputError(f"infer_bound takes a schedule made by te.create_schedule, not {shown(schedule)}")
    if isinstance(compute, Mapping):
        for word in compute.values():
            one_of(_OF_A_STAGE, word, "compute of a stage")
    else:
        one_of(_COMPUTE, compute, "compute")
    if ctx is not None and not isinstance(ctx, Context):
        raise InputError(f"ctx must be a Context, not {shown(ctx)}")
    if compute == "auto":
        return NEST_FUNCTIONS.auto_bounds(schedule, ctx, at, domain, compact, whole)
    context = Context() if ctx is None else ctx.extended()  # independent of the caller's blocks
    name = config.current(context.domain if domain is None else domain).domain
    normalized, paths, sharing = shared.normalized(schedule)
    sizes = ScheduleSizes(normalized, at)
    tiles = sizes.tiles(normalized)
    context = with_positive(context, tiles)
    state = infer_root_bound.InferenceState(
        normalized,
        paths,
        create_read_graph(normalized),
        sizes,
        LoopEnvironment(context, sizes.free, name, create_account(len(normalized.stages))),
        name,
        _boxed(normalized, compute),
        frozenset(normalized.stages if a_flag(compact, "compact") else ()),
        sharing,
        ctx=ctx,
        compute=compute,
        tiles=tiles,
        whole=frozenset(
            normalized.current(of_kind(Tensor, t, "a part of whole", "a tensor")) for t in listed(whole, "whole")
        ),
    )
    state = infer_stages(state)
    state.env.account.close()
    state.env.for_outlines.close()
    return BoundsMap(schedule, state)


def _boxed(schedule: Schedule, compute: str | Mapping[Any, str]) -> frozenset[Stage]:
    """The stages of the normalized schedule that compute boxes."""
    if isinstance(compute, str):
        return frozenset(schedule.stages if compute == "box" else ())
    boxed = [key for key, word in compute.items() if word == "box"]
    for key in boxed:
        if not isinstance(key, (Tensor, Operation, Stage)):
            raise InputError(f"compute is by tensor or stage, not {shown(key)}")
    return frozenset(schedule[key.op if isinstance(key, Stage) else key] for key in boxed)


@all_as_configured
class BoundsMap(Configured):
    """The answer of `infer_bound`. `bound.infer` documents each method for code generators.

    `b[axis]` is the range of an axis. Arguments may belong to the written or to the normalized schedule.

    Invariant: answers are pure functions of the schedule, context and configuration at the call of `infer_bound`.

    Attributes
    ----------
    written: the argument of `infer_bound`.
    schedule: its normalized copy; all answers refer to it.
    domain: the answering domain.
    compute: "exact", "box", or "auto" for stages with different values.
    compact: whether some storage is compact.
    boxed: the stages that compute outer boxes.
    compacted: the stages with compact storage.
    whole: the tensors required whole besides the outputs.
    forms: for `compute="auto"`, the forms considered for each stage, by tensor name.
    size_variables: the variables in shapes, each at least 0.
    sizes: the values fixed by `at`; formulas of operations keep the variables.
    """

    def __init__(self, written: Schedule, state: infer_root_bound.InferenceState) -> None:
        self.written, self._state = written, state
        self.schedule = state.schedule
        self.domain, self.compact, self.boxed = state.domain, bool(state.compacted), state.boxed
        self.compacted, self.whole = state.compacted, state.whole
        is_all_boxed = state.boxed >= set(state.schedule.stages)
        self.compute = "exact" if not state.boxed else "box" if is_all_boxed else "auto"
        self.forms: Mapping[str, tuple[object, ...]] = {}
        self.size_variables: tuple[Var, ...] = state.sizes.all
        self.sizes: dict[Var, int] = {v: n for v, n in state.sizes.fixed.items() if isinstance(v, Var)}
        self._stages = {bounds.stage: bounds for bounds in state.bounds.values()}
        self._storages: dict[Tensor, Storage] = {}
        self._at: dict[object, BoundsMap] = {}  # the last answer of `at`
        self._pieces: dict[tuple[Stage, int], tuple[StagePiece, ...] | None] = {}

    def with_compact(self, stages: Iterable[Stage]) -> BoundsMap:
        """The same regions, with compact storage for these stages and plain storage for all others."""
        chosen = frozenset(self._stage(of_kind(Stage, stage, "a part of stages")) for stage in listed(stages, "stages"))
        other = BoundsMap(self.written, replace(self._state, compacted=chosen))
        other._pieces = self._pieces
        vars(other).update({k: known for k, known in vars(self).items() if k in ("outside", "has_outside")})
        return other

    # -- ranges -------------------------------------------------------------------------------------------------

    def __getitem__(self, axis: IterVar) -> Range:
        """The range of a root, intermediate or leaf axis."""
        limits = self._ranges.get(axis)
        if limits is None:
            name = axis.name if isinstance(axis, Var) else shown(axis)
            raise InputError(f"{name} is no axis of a stage of this schedule that is computed")
        return limits

    def __contains__(self, axis: object) -> bool:
        return axis in self._ranges

    def items(self) -> list[tuple[IterVar, Range]]:
        """All axes with their ranges."""
        return list(self._ranges.items())

    @cached_property
    def _ranges(self) -> dict[IterVar, Range]:
        return infer_root_bound.axis_ranges(self._state, self._stages.values(), self.written)

    # -- regions ------------------------------------------------------------------------------------------------

    def required(self, tensor: Tensor) -> StageRegion:
        """The elements that consumers read, in one instance of the stage."""
        now = self.schedule.current(tensor)
        return self._region(self._bounds(now).required[now], now)

    def computed(self, tensor: Tensor) -> StageRegion:
        """The elements that the nest computes, in one instance of the stage; the required ones of a placeholder."""
        now = self.schedule.current(tensor)
        return self._region(self._bounds(now).computed_of(now), now)

    def computes_whole(self, tensor: Tensor) -> bool:
        """Whether the nest provably computes every element of a tensor, over all instances and sizes.

        An output is computed whole, and so is a tensor of `whole` outside of its consumers' loops; the nest
        computes any other tensor whole if its consumers read all of it.
        """
        now = self.schedule.current(tensor)
        return computes_whole(self._state, self._bounds(now), now)

    def allocated(self, tensor: Tensor) -> tuple[Range, ...]:
        """The allocated box of one instance: mins over loop variables, extents equal in all instances, at least 0.

        For `store_at`, the window over the loops around the storage, modulo the extent along circular axes. For compact
        and flat storage, the coordinates of place 0 and the numbers of places (`storage` has the map): the first flat
        axis holds all places of the group, counted along the flattened tensor, and the others hold one.
        """
        return self.storage(tensor).allocated

    def storage(self, tensor: Tensor) -> Storage:
        """The map from the elements of one instance to places of the array, and its inverse.

        Plain storage: the distance from the mins of `allocated`. Compact storage omits elements outside the lattice of
        the computed region. Flat storage (`Storage.flat`) counts axes that fused loops run over as one; where such
        loops are shared or compute required elements alone it needs no `compact`. Tensors with externally visible
        layout stay plain: placeholders, outputs, `storage_align`, operands and results of intrinsics, externs and
        scans. Scopes, threads and `double_buffer` have no influence: storage shared by threads holds the elements of
        all of them, and buffer copies have equal size.
        """
        now = self.schedule.current(tensor)
        storage = self._storages.get(now)
        if storage is None:
            storage = self._storages[now] = storage_of(self._state, self._bounds(now), now)
        return storage

    def bytes(self, scope: str | None = None, inside: IterVar | None = None) -> Expr:
        """The bytes of storage that lives at once, over sizes, without inputs and outputs.

        Guarantee: the largest sum, at any time, of the allocations of the nest that `lower` builds from these bounds,
        each live from its first to its last use. Threads run one after another there: storage inside thread loops
        counts once. Where `lower` then drops a loop of one iteration, lifetimes may end earlier.

        Parameters
        ----------
        scope: storage of this scope alone, such as "shared"; "global" includes storage without a stated scope.
        inside: storage allocated inside this loop, in one iteration of it; a double buffer is outside of its loop.
        """
        live = self._live.live if inside is None else self._live.iteration(inside, self._state.sharing)
        return bytes_of(self._state.env, self.storage, live, scope)

    def traffic(self, tensor: Tensor, only: str | None = None) -> Expr:
        """The elements moved between a tensor's storage and its stages over all instances, over sizes.

        Stores: the computed elements, summed over the instances of its stage; 0 for a placeholder. Loads: for each
        consumer the elements that one instance reads, each counted once, summed over the instances: of the tensor's
        stage if it is computed inside the consumer's loops, else of the consumer. `only` is "stores" or "loads"; by
        default the answer is their sum.

        Guarantee: at least what the nest that `lower` builds from these bounds moves, also at values of symbolic sizes,
        where an inference at the values may find smaller regions; equal where the regions are exact.

        Raises
        ------
        CountError: counting is out of budget.
        """
        now = self.schedule.current(tensor)
        return traffic_of(self._state, self._bounds(now), now, only, self.required, self.computed)

    def space(
        self, values: Mapping[VarKey, Iterable[SpaceValue]], where: Cond | str | Iterable[Cond | str] = ()
    ) -> Space:
        """The space of these values of sizes, by variable or name, under `where`, declarations and facts (`t >= 1`).

        InputError: a key is no symbolic size of the schedule; what `Space` refuses.
        """
        sizes = self._state.sizes
        free = tuple(dict.fromkeys((*sizes.free, *dag.free_vars(*self._state.tiles))))
        return space_of(self._state.env, free, sizes.fixed, values, where)

    @cached_property
    def _live(self) -> LiveStorage:
        return live_storage(self)

    def _region(self, footprint: Footprint, tensor: Tensor) -> StageRegion:
        return StageRegion(self._state.env, footprint, self._bounds(tensor).fixed, self._root_names)

    @property
    def tiles(self) -> tuple[Expr, ...]:
        """The symbolic sizes of splits; a nest asserts that each is at least 1."""
        return self._state.tiles

    @property
    def equations(self) -> tuple[Cond, ...]:
        """The equations of sizes of tiles that run on one thread axis; answers assume them, and a nest asserts them."""
        return self._state.equations

    def at(self, values: Mapping[VarKey, SupportsIndex]) -> BoundsMap:
        """The answers at values of sizes, by variable or name: those of `infer_bound` with these values.

        Raises
        ------
        ScheduleError: a split has a size below 1, or these values make the schedule illegal.
        InputError: as for the argument `at` of `infer_bound`.
        """
        given = mapped(values, "values", "a mapping {size: integer}")
        key = tuple(given.items())
        if key not in self._at:
            state, compute = self._state, "auto" if self.forms else self._state.compute
            sizes: dict[Any, Any] = {**state.sizes.fixed, **given}
            arguments = (state.ctx, sizes, self.domain, compute, self.compact, tuple(state.whole))
            self._at = {key: infer_bound(self.written, *arguments)}
        return self._at[key]

    @cached_property
    def _root_names(self) -> dict[Var, tuple[Var, Expr]]:
        """Rebased root axes, each with its loop from 0 and its start."""
        rebases = ((b, r) for b in self._stages.values() for r in b.relations if isinstance(r, Rebase))
        return {r.parent: (r.rebased, low(b.ranges[r.parent])) for b, r in rebases}

    # -- nests --------------------------------------------------------------------------------------------------

    def stage(self, key: Tensor | Operation | Stage) -> Stage:
        """The stage of the normalized schedule for a tensor, operation or stage of the schedule as written."""
        return self._stage(key)

    def _stage(self, key: Tensor | Operation | Stage) -> Stage:
        """The same; hot, and no question about bounds."""
        if not isinstance(key, Stage):
            return self.schedule[key]
        return key if key in self._stages else self.schedule[key.op]

    def nest(self, key: Tensor | Operation | Stage) -> pass_down.StageNest:
        """The loops, indices and guards of a stage."""
        stage = self._stage(key)
        bounds = self._stages.get(stage)
        if bounds is None:
            raise InputError(f"stage {stage.name} has no loops: it is given, or inlined")
        return pass_down.nest_of(bounds)

    def pieces(self, key: Tensor | Operation | Stage, most: int) -> tuple[StagePiece, ...] | None:
        """A stage as at most `most` nests over disjoint pieces of its region, without membership guards.

        `None` for a box, which needs no such guard, and for stages without equivalent nests
        (`bound.infer.answers.piecewise`).
        """
        stage, most = self._stage(key), as_int(most, "most")
        bounds = self._stages.get(stage)
        is_ordered = any(self.is_slid(iv) for iv in stage.leaf_iter_vars)  # in the order of its iterations
        if bounds is None or bounds.computed is None or stage in self._state.sharing.path or is_ordered:
            return None
        if (stage, most) not in self._pieces:
            has_attached = any(self.attached(stage, iv) for iv in stage.leaf_iter_vars)
            self._pieces[stage, most] = pieces_of(self._state.env, bounds, most, has_attached)
        return self._pieces[stage, most]

    def guard(self, key: Tensor | Operation | Stage) -> tuple[Cond, ...]:
        """The guards of the body of a stage."""
        return self.nest(key).guards

    def is_computed(self, key: Tensor | Operation | Stage) -> bool:
        """Whether a stage has a nest: it is neither placeholder nor inlined."""
        stage = self._stage(key)
        return stage in self._stages and not isinstance(stage.op, PlaceholderOp)

    def attach_path(self, key: Tensor | Operation | Stage) -> AttachPath:
        """The loops around a stage with their owners, innermost first."""
        return self._state.paths[self._stage(key)]

    def attached(self, key: Tensor | Operation | Stage, leaf: IterVar) -> tuple[Stage, ...]:
        """The stages computed directly inside a loop of a stage, in execution order."""
        stage = self._stage(key)
        return tuple(s for s in self._attached.get(leaf, ()) if attachment(s)[0] is stage)

    def loop_name(self, stage: Stage, leaf: IterVar) -> str:
        """The name of a loop, qualified by its stage or all sharing stages: `T1+T2.i`."""
        return self._state.sharing.name(self._stage(stage), of_kind(IterVar, leaf, "leaf", "an axis"))

    def inside(self, leaf: IterVar) -> tuple[Stage, ...]:
        """The stages computed directly inside a loop, for all stages that share it, in schedule order."""
        return tuple(self._attached.get(leaf, ()))

    def shared_path(self, key: Tensor | Operation | Stage) -> tuple[IterVar, ...]:
        """The shared loops around the formula of a stage, from its attach point inwards.

        A loop that is not its leaf belongs to another stage; this one is recomputed in each iteration.
        """
        stage = self._stage(key)
        path, attach_point = self._state.sharing.path.get(stage, ()), attachment(stage)[1]
        start = next((k + 1 for k, iv in enumerate(path) if iv is attach_point), 0)
        return path[start:]

    def shared_loop(self, leaf: IterVar) -> pass_down.StageLoop:
        """A shared loop, as a loop of its owner.

        Raises
        ------
        InputError: not a shared loop.
        """
        stage = self._state.sharing.loops.get(leaf)
        if stage is None:
            raise InputError(f"{shown(leaf)} is no loop that several stages share")
        return next(loop for loop in self.nest(stage).loops if loop.iv is leaf)

    def slid(self, key: Tensor | Operation | Stage) -> tuple[IterVar, ...]:
        """The loops between storage and stage (`store_at`), outermost first; elements of earlier iterations are kept.

        Empty for a stage stored where it is computed.
        """
        bounds = self._stages.get(self._stage(key))
        return () if bounds is None else bounds.slid

    def is_slid(self, leaf: IterVar) -> bool:
        """Whether some stage keeps elements over the iterations of a loop."""
        return any(leaf is iv for bounds in self._stages.values() for iv in bounds.slid)

    def stored(self, leaf: IterVar | None) -> tuple[Stage, ...]:
        """The stages with storage directly inside a loop (`None`: at the root) that are computed further in."""
        return tuple(self._stored.get(leaf, ()))

    @cached_property
    def _stored(self) -> dict[IterVar | None, list[Stage]]:
        """The stages with kept elements, by the loop around their storage."""
        stored: dict[IterVar | None, list[Stage]] = {}
        for stage, bounds in self._stages.items():
            if bounds.slid:
                path = bounds.path[len(bounds.slid) :]
                stored.setdefault(path[0][1] if path else None, []).append(stage)
        return stored

    def roots(self) -> tuple[Stage, ...]:
        """The stages computed at the root, in execution order."""
        return tuple(self._attached.get(None, ()))

    @cached_property
    def _attached(self) -> dict[IterVar | None, list[Stage]]:
        """The computed stages by the loop directly around them."""
        attached: dict[IterVar | None, list[Stage]] = {}
        for stage in self.schedule.stages:
            if self.is_computed(stage):
                attached.setdefault(attachment(stage)[1], []).append(stage)
        return attached

    @cached_property
    def outside(self) -> tuple[Outside, ...]:
        """The accesses that may leave their tensor for some sizes or data, computed on first use.

        Empty: every access is proved to be inside (`bound.infer.answers.outside`).
        """
        return () if vars(self).get("has_outside") is False else tuple(find_outside(self._state))

    @cached_property
    def has_outside(self) -> bool:
        """Whether `outside` has an element; the first one found is enough."""
        return bool(self.outside) if "outside" in vars(self) else next(find_outside(self._state), None) is not None

    # -- why ----------------------------------------------------------------------------------------------------

    def explain(self, tensor: Tensor) -> str:
        """An explanation: consumers, footprints, attach point, storage, lost precision."""
        now = self.schedule.current(tensor)
        bounds = self._bounds(now)

        def region(footprint: Footprint) -> StageRegion:
            return self._region(footprint, now)

        text = explain(self._state, bounds, now, self.storage(now), region)
        forms = self.forms.get(now.name, ())
        return "\n".join([text, *(f"  {'considered' if k else 'chosen'}: {form}" for k, form in enumerate(forms))])

    # -- inside -------------------------------------------------------------------------------------------------

    def _bounds(self, tensor: Tensor) -> pass_down.StageBounds:
        """The bounds of the stage of a tensor; those of placeholders are computed on first use."""
        stage = self._stage(tensor)
        bounds = self._stages.get(stage)
        if bounds is None:
            if stage.is_inlined:
                raise ScheduleError(f"stage {stage.name} is inlined: nothing of {tensor.name} is stored")
            bounds = self._stages[stage] = infer_root_bound.initial_bounds(self._state, stage)
            infer_root_bound.infer_root_bound(self._state, bounds)
        return bounds

    def __repr__(self) -> str:
        return f"<BoundsMap of {len(self._stages)} stages by {self.domain}, compute {self.compute}>"


# -- the pass over the stages -----------------------------------------------------------------------------------------


def thread_equations(
    stages: Iterable[pass_down.StageBounds], env: LoopEnvironment, sizes: ScheduleSizes, tiles: Iterable[Expr]
) -> tuple[Cond, ...]:
    """The equations of tile sizes under which all loops on one thread axis have equal extents.

    Empty where the extents are proved to be equal. Example: `t == 16` where a loop of `t` iterations shares its thread
    axis with one of 16.

    Raises
    ------
    ScheduleError: extents differ at all sizes, or an equation has no size of a tile. It names both stages, their loops
        and extents.
    """
    unknown = set(dag.free_vars(*tiles))
    equations: list[Cond] = []
    context = env.context
    first: dict[IterVar, tuple[str, Expr]] = {}  # what said the extent of a thread axis first, and that extent
    for bounds in stages:
        stage = bounds.stage
        for iv, thread in bounds.threads.items():
            threads = extent(bounds.loops[iv])
            if thread.dom is not None and thread not in first:
                first[thread] = "it was declared", extent(sizes.range(thread.dom))
            before, other = first.setdefault(thread, (f"it has for {iv.name} of stage {stage.name}", threads))
            equation = other.eq(threads) if threads.is_const else threads.eq(other)
            if threads is other or env.form(threads).same(env.form(other)) or context.prove(equation):
                continue
            what = f"stage {stage.name}: {iv.name} runs on {thread.name} with extent {threads}, which is"
            around = set(equation.free_vars())
            if not unknown & around or any(v in env.ranges for v in around):
                raise ScheduleError(f"{what} not known to be the extent {other} that {before}")
            if context.prove(~equation):
                raise ScheduleError(f"{what} never the extent {other} that {before}: no sizes satisfy {equation}")
            equations.append(equation)
            context = context.extended(facts=[equation], provenance=ASSERTED)
    return tuple(equations)


def infer_stages(state: infer_root_bound.InferenceState) -> infer_root_bound.InferenceState:
    """Infer the bounds of all stages, for sizes at which loops on one thread axis have equal extents.

    Raises
    ------
    ScheduleError: as for `thread_equations`.
    """
    env, stages = state.env, state.schedule.stages
    is_draft = (  # kept elements are found under shortened guards
        bool(dag.free_vars(*state.tiles))
        and any(stage.thread_of(leaf) is not None for stage in stages for leaf in stage.leaf_iter_vars)
        and not any(slid_loops(stage, path) for stage, path in state.paths.items())
    )
    _infer(state, is_draft)
    equations = thread_equations(state.bounds.values(), env, state.sizes, state.tiles)
    if equations:
        context = env.context.extended(facts=equations, provenance=ASSERTED)
        env = LoopEnvironment(context, state.sizes.free, state.domain, env.account)
        state = replace(state, env=env, bounds={}, requests={}, threads={}, _propagations={}, equations=equations)
        _infer(state)
    elif is_draft:
        for bounds in state.bounds.values():
            pass_down.finish_nest(env, bounds)
    return state


def declared_threads(bounds: pass_down.StageBounds, sizes: ScheduleSizes) -> dict[IterVar, int]:
    """The thread axes of a stage that were declared with a number of threads."""
    declared = {axis: axis.dom for axis in bounds.threads.values() if axis.dom is not None}
    numbers = {axis: constant_extent(sizes.range(dom)) for axis, dom in declared.items()}
    return {axis: count for axis, count in numbers.items() if count is not None}


def _infer(state: infer_root_bound.InferenceState, is_draft: bool = False) -> None:
    """Infer stage by stage, consumers first; a draft, of which thread axes alone are read, keeps all guards."""
    infer_root_bound.enter_shared(state)
    for stage in reversed(state.schedule.stages):
        if stage.is_inlined or isinstance(stage.op, PlaceholderOp):
            continue
        bounds = infer_root_bound.initial_bounds(state, stage)
        state.threads.update(declared_threads(bounds, state.sizes))
        infer_root_bound.infer_root_bound(state, bounds)
        pass_down.pass_down(state.env, bounds, partial(infer_root_bound.region_of_loops, state, bounds))
        if not is_draft:
            pass_down.finish_nest(state.env, bounds)
        state.threads.update(pass_down.idle_threads(bounds))
