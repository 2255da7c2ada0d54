"""`infer_bound`: the pass over the stages of a schedule, and its answer."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from bound.errors import InputError, ScheduleError
from bound.infer.answers.explain import explain
from bound.infer.answers.outside import Outside, find_outside
from bound.infer.answers.pieces import StagePieces, pieces_of
from bound.infer.answers.region import StageRegion
from bound.infer.footprints.environment import LoopEnvironment, create_account
from bound.infer.footprints.footprint import Footprint
from bound.infer.phases.infer_root_bound import InferenceState, enter_shared, infer_root_bound, initial_bounds
from bound.infer.phases.pass_down import nest_of, pass_down
from bound.infer.phases.stage_bounds import StageBounds, StageLoop, StageNest
from bound.infer.phases.start import create_reduction_init
from bound.infer.phases.threads import check_threads, idle_threads
from bound.infer.program import sharing as shared
from bound.infer.program.accesses import create_read_graph
from bound.infer.program.sizes import ScheduleSizes
from bound.infer.storage.compact import storage_of
from bound.infer.storage.storage import Storage
from bound.itervar import IterVar
from bound.operation import Operation, PlaceholderOp
from bound.schedule import AttachType, Rebase, Schedule, Stage
from bound.schedule.attach import AttachPath, attachment, create_attach_path
from bound.schedule.message import pass_down_domain
from bound.tensor import Tensor
from intset import config
from intset.config import Configured, as_configured
from intset.context import Context
from intset.expr.arguments import as_int, listed, of_kind
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from intset.expr.text import shown

_COMPUTE = ("exact", "box", "auto")
_CHOICE = "lowering.forms.choose"  # the layer above knows what nests cost; it is found by name


def infer_bound(
    schedule: Schedule,
    ctx: Context | None = None,
    at: Mapping[Any, Any] | None = None,
    domain: str | None = None,
    compute: str | Mapping[Any, str] = "exact",
    compact: bool = False,
) -> BoundsMap:
    """InferBound: the range of every axis, and what is required, computed and stored of every tensor.

    Parameters
    ----------
    schedule: as the script wrote it; it is not changed.
    ctx: facts and ranges of sizes. A variable in a shape is at least 0 in any case.
    at: values of sizes, by variable or by name; the answer is then as exact as with constants.
    domain: name of the domain that answers, instead of that of `ctx` or the configured one.
    compute: "exact": a nest is guarded where its box exceeds what is needed, so what is computed is what is required.
        "box": there are no such guards, what is computed is the box in each instance, and so is what that reads.
        "auto": of each stage what is cheaper, as `lower` chooses. A mapping from tensors or stages to "exact" or "box"
        says it of each; the others are "exact".
    compact: whether strides and equations of what is computed are folded out of the storage (`storage.compact`).

    Raises
    ------
    ScheduleError: the schedule breaks a rule; the sentence names stage and axis.
    InputError: a bad argument.
    """
    if not isinstance(schedule, Schedule):
        raise InputError(f"infer_bound takes a schedule made by te.create_schedule, not {shown(schedule)}")
    words = compute.values() if isinstance(compute, Mapping) else (compute,)
    wrong = [word for word in words if word not in _COMPUTE or (word == "auto" and isinstance(compute, Mapping))]
    if wrong:
        raise InputError(f"compute must be one of {', '.join(_COMPUTE)}, not {shown(wrong[0])}")
    if ctx is not None and not isinstance(ctx, Context):
        raise InputError(f"ctx must be a Context, not {shown(ctx)}")
    if compute == "auto":
        chosen: BoundsMap = importlib.import_module(_CHOICE).bounds_of(schedule, ctx, at, domain, compact)
        return chosen
    given = Context() if ctx is None else ctx.extended()  # of its own: the map answers after the caller's blocks end
    name = config.current(domain or given.domain).domain
    normalized, sharing = shared.normalized(schedule)
    sizes = ScheduleSizes(normalized, at)
    state = InferenceState(
        normalized,
        create_attach_path(normalized),
        create_read_graph(normalized),
        sizes,
        LoopEnvironment(given, sizes.free, name, create_account(len(normalized.stages))),
        name,
        _boxed(normalized, compute),
        frozenset(normalized.stages if compact else ()),
        sharing,
    )
    enter_shared(state)
    for stage in reversed(normalized.stages):
        if stage.attach_type is AttachType.INLINED_ALREADY or isinstance(stage.op, PlaceholderOp):
            continue
        bounds = initial_bounds(state, stage)
        infer_root_bound(state, bounds)
        pass_down(state.env, bounds)
        bounds.start = create_reduction_init(state.env, bounds)
        state.threads.update(idle_threads(bounds))
    check_threads(state.bounds.values(), state.env, sizes)
    state.env.account.close()
    return BoundsMap(schedule, state)


def _boxed(schedule: Schedule, compute: str | Mapping[Any, str]) -> frozenset[Stage]:
    """The stages of the normalized schedule that compute boxes."""
    if isinstance(compute, str):
        return frozenset(schedule.stages if compute == "box" else ())
    return frozenset(_stage_of(schedule, key) for key, word in compute.items() if word == "box")


def _stage_of(schedule: Schedule, key: Any) -> Stage:
    if not isinstance(key, (Tensor, Operation, Stage)):
        raise InputError(f"compute is by tensor or stage, not {shown(key)}")
    return schedule[key.op if isinstance(key, Stage) else key]


class BoundsMap(Configured):
    """What `infer_bound` found out. `bound.infer` says what each answer means.

    `b[axis]` is the range of an axis; tensors, operations and stages may be those of the schedule as written.

    Attributes
    ----------
    written: the schedule that was asked about.
    schedule: the normalized copy of it that all answers speak of.
    domain, compute, compact: how they were found; where stages differ, `compute` is "auto".
    boxed, compacted: the stages that compute boxes, and those whose storage is compact.
    forms: of `compute="auto"`: what was considered for each stage, by the name of its tensor.
    size_variables: the variables in the shapes of all tensors, each taken to be at least 0.
    sizes: the values that `at` fixed; formulas of operations still hold the variables.
    """

    def __init__(self, written: Schedule, state: InferenceState) -> None:
        self.written, self._state = written, state
        self.schedule = state.schedule
        self.domain, self.compact, self.boxed = state.domain, bool(state.compacted), state.boxed
        self.compacted = state.compacted
        self.compute = _word(state)
        self.forms: Mapping[str, tuple[Any, ...]] = {}
        self.size_variables: tuple[Var, ...] = state.sizes.all
        self.sizes: dict[Var, int] = {v: n for v, n in state.sizes.fixed.items() if isinstance(v, Var)}
        self._stages = {bounds.stage: bounds for bounds in state.bounds.values()}
        self._ranges: dict[IterVar, Range] | None = None
        self._attached: dict[IterVar | None, list[Stage]] | None = None
        self._stored: dict[IterVar | None, list[Stage]] | None = None
        self._storages: dict[Tensor, Storage] = {}
        self._aliases: dict[Var, tuple[Var, Expr]] | None = None
        self._outside: tuple[Outside, ...] | None = None

    @as_configured
    def with_compact(self, stages: Iterable[Stage]) -> BoundsMap:
        """The same regions, with the storage of these stages compact, and that of all others plain."""
        chosen = frozenset(of_kind(Stage, stage, "a part of stages") for stage in listed(stages, "stages"))
        return BoundsMap(self.written, replace(self._state, compacted=chosen))

    # -- ranges -------------------------------------------------------------------------------------------------

    def __getitem__(self, axis: IterVar) -> Range:
        """The range of a root, intermediate or leaf axis."""
        found = self._all_ranges().get(axis)
        if found is None:
            name = axis.name if isinstance(axis, Var) else shown(axis)
            raise InputError(f"{name} is no axis of a stage of this schedule that is computed")
        return found

    def __contains__(self, axis: object) -> bool:
        return axis in self._all_ranges()

    def items(self) -> list[tuple[IterVar, Range]]:
        """All axes with their ranges."""
        return list(self._all_ranges().items())

    def _all_ranges(self) -> dict[IterVar, Range]:
        if self._ranges is None:
            self._ranges = {}
            for bounds in self._stages.values():
                self._ranges.update(bounds.ranges)
                self._ranges.update({iv: bounds.sides[iv].range() for iv in bounds.aligned})
                self._ranges.update(bounds.loops)
                for iv, attr in bounds.stage.iter_var_attrs.items():
                    if attr.bind_thread is not None and iv in bounds.loops:
                        self._ranges.setdefault(attr.bind_thread, bounds.loops[iv])
            for leaf, (stage, loop) in self._state.sharing.replacements.items():
                is_outer = loop in self._state.sharing.outer[stage]
                self._ranges[leaf] = Range(loop, 1) if is_outer else self._ranges[loop]
            for stage, outer in self._state.sharing.outer.items():  # of a root that is such a loop itself, too
                for relation in stage.relations:
                    if isinstance(relation, Rebase) and relation.rebased in outer:
                        self._ranges[relation.parent] = Range(relation.rebased, 1)
            for stage in self.written.stages:  # axes that a rewrite left behind keep the domain they declare
                for iv in stage.op.root_iter_vars:
                    if iv.dom is not None:
                        self._ranges.setdefault(iv, self._state.sizes.range(iv.dom))
                if self.stage(stage) in self._state.sharing.added:  # what longer loops are not made of
                    for iv, r in pass_down_domain(self._state.sizes.relations(stage), self._ranges).items():
                        self._ranges.setdefault(iv, r)
        return self._ranges

    # -- regions ------------------------------------------------------------------------------------------------

    @as_configured
    def required(self, tensor: Tensor) -> StageRegion:
        """The elements that some consumer reads, in one instance of the stage."""
        now = self._current(tensor)
        return self._region(self._bounds(now).required[now], now)

    @as_configured
    def computed(self, tensor: Tensor) -> StageRegion:
        """The elements that the nest computes, in one instance of the stage; of a placeholder: those required."""
        now = self._current(tensor)
        return self._region(self._bounds(now).computed_of(now), now)

    @as_configured
    def allocated(self, tensor: Tensor) -> tuple[Range, ...]:
        """Where the elements of one instance are kept: mins over loop variables, extents the same in every instance.

        Of a stage that keeps what it computed (`store_at`) that is the window, over the loops around its storage; along
        a circular axis what is beyond the range is kept where as many places below or above are.
        With compact storage neighbours may be further apart than 1: `storage` says how far.
        """
        return self.storage(tensor).allocated

    @as_configured
    def storage(self, tensor: Tensor) -> Storage:
        """Which place of the array each element of one instance is kept at, and the affine map back.

        Without `compact=True` that is the distance from the mins of `allocated`. With it, what the lattice of the
        computed elements leaves out takes no place. What others lay out keeps its box: placeholders and outputs,
        tensors with `storage_align`, those that a tensor intrinsic, an extern or a scan reads or makes (they see the
        storage as an array). Memory scopes, threads and `double_buffer` make no difference: storage that threads share
        holds what all of them compute, and a copy is as large as the first.
        """
        now = self._current(tensor)
        found = self._storages.get(now)
        if found is None:
            found = self._storages[now] = storage_of(self._state, self._bounds(now), now)
        return found

    def _region(self, footprint: Footprint, tensor: Tensor) -> StageRegion:
        return StageRegion(self._state.env, footprint, self._bounds(tensor).fixed, self._root_names())

    def _root_names(self) -> dict[Var, tuple[Var, Expr]]:
        """Each root axis that is a loop: the loop that counts from 0 in its place, and where it starts."""
        if self._aliases is None:
            self._aliases = {}
            for bounds in self._stages.values():
                for relation in bounds.relations:
                    if isinstance(relation, Rebase):
                        start = bounds.ranges[relation.parent].min
                        assert isinstance(start, Expr)
                        self._aliases[relation.parent] = (relation.rebased, start)
        return self._aliases

    # -- nests --------------------------------------------------------------------------------------------------

    def stage(self, key: Tensor | Operation | Stage) -> Stage:
        """The stage of the normalized schedule for a tensor, operation or stage of the schedule as written."""
        if isinstance(key, Stage):
            key = key.op
        return self.schedule[key]

    @as_configured
    def nest(self, key: Tensor | Operation | Stage) -> StageNest:
        """The loops, indices and guards of a stage."""
        stage = self.stage(key)
        bounds = self._stages.get(stage)
        if bounds is None:
            raise InputError(f"stage {stage.name} has no loops: it is given, or inlined")
        return nest_of(bounds)

    @as_configured
    def pieces(self, key: Tensor | Operation | Stage, most: int) -> StagePieces | None:
        """A stage as at most `most` nests over disjoint pieces of its region, none with a guard for the region.

        `None` where its region is a box, so that its nest has no such guard, and where there are no nests that mean
        the same (`bound.infer.answers.pieces`).
        """
        stage, most = self.stage(key), as_int(most, "most")
        bounds = self._stages.get(stage)
        if bounds is None or bounds.computed is None:
            return None
        if stage in self._state.sharing.path:
            return None
        if any(self.is_slid(iv) for iv in stage.leaf_iter_vars):  # they run in their order
            return None
        has_attached = any(self.attached(stage, iv) for iv in stage.leaf_iter_vars)
        shape = self._state.sizes.shape(stage.op.outputs[0])
        return pieces_of(self._state.env, bounds, shape, most, has_attached)

    @as_configured
    def guard(self, key: Tensor | Operation | Stage) -> tuple[Cond, ...]:
        """The conditions under which the body of a stage runs."""
        return self.nest(key).guards

    def is_computed(self, key: Tensor | Operation | Stage) -> bool:
        """Whether a stage has loops of its own: it is not given, nor inlined."""
        stage = self.stage(key)
        return stage in self._stages and not isinstance(stage.op, PlaceholderOp)

    def attach_path(self, key: Tensor | Operation | Stage) -> AttachPath:
        """The loops around a stage with the stages they belong to, innermost first."""
        return self._state.paths[self.stage(key)]

    def attached(self, key: Tensor | Operation | Stage, leaf: IterVar) -> tuple[Stage, ...]:
        """The stages computed directly inside a loop of a stage, in the order in which they run."""
        stage = self.stage(key)
        return tuple(s for s in self._places().get(leaf, ()) if attachment(s)[0] is stage)

    def loop_name(self, stage: Stage, leaf: IterVar) -> str:
        """A loop of a stage by name, with that of the stage, or of all that share it: `T1+T2.i`."""
        return self._state.sharing.name(self.stage(stage), of_kind(IterVar, leaf, "leaf", "an axis"))

    def inside(self, leaf: IterVar) -> tuple[Stage, ...]:
        """The stages computed directly inside a loop, whichever stages share it, in the order of the schedule."""
        return tuple(self._places().get(leaf, ()))

    def shared_path(self, key: Tensor | Operation | Stage) -> tuple[IterVar, ...]:
        """The loops around the formula of a stage that others share, from where it is attached inwards.

        A loop that is no leaf of the stage is one of another stage, in which this one is computed anew.
        """
        stage = self.stage(key)
        path, place = self._state.sharing.path.get(stage, ()), attachment(stage)[1]
        start = next((k + 1 for k, iv in enumerate(path) if iv is place), 0)
        return path[start:]

    def shared_loop(self, leaf: IterVar) -> StageLoop:
        """A loop that several stages share, as the stage has it that its range comes from."""
        stage = self._state.sharing.loops.get(leaf)
        if stage is None:
            raise InputError(f"{shown(leaf)} is no loop that several stages share")
        return next(loop for loop in self.nest(stage).loops if loop.iv is leaf)

    def slid(self, key: Tensor | Operation | Stage) -> tuple[IterVar, ...]:
        """The loops between the storage of a stage and the stage, outermost first: what their iterations computed is
        kept (`store_at`). Empty for a stage that is stored where it is computed."""
        bounds = self._stages.get(self.stage(key))
        return () if bounds is None else bounds.slid

    def is_slid(self, leaf: IterVar) -> bool:
        """Whether a stage keeps what the iterations of a loop computed."""
        return any(leaf is iv for bounds in self._stages.values() for iv in bounds.slid)

    def stored(self, leaf: IterVar | None) -> tuple[Stage, ...]:
        """The stages that have their storage directly inside a loop (`None`: outside of all) and are computed further
        in."""
        if self._stored is None:
            self._stored = {}
            for stage, bounds in self._stages.items():
                if bounds.slid:
                    path = bounds.path[len(bounds.slid) :]
                    self._stored.setdefault(path[0][1] if path else None, []).append(stage)
        return tuple(self._stored.get(leaf, ()))

    def roots(self) -> tuple[Stage, ...]:
        """The stages computed at the root, in the order in which they run."""
        return tuple(self._places().get(None, ()))

    def _places(self) -> dict[IterVar | None, list[Stage]]:
        if self._attached is None:
            self._attached = {}
            for stage in self.schedule.stages:
                if stage in self._stages and not isinstance(stage.op, PlaceholderOp):
                    self._attached.setdefault(attachment(stage)[1], []).append(stage)
        return self._attached

    # -- errors -------------------------------------------------------------------------------------------------

    @property
    @as_configured
    def outside(self) -> tuple[Outside, ...]:
        """The accesses that leave their tensor, or may for some sizes or data; found when they are first asked for.

        Empty says that every access of the nest is proved to be inside (`bound.infer.answers.outside`).
        """
        if self._outside is None:
            self._outside = find_outside(self._state)
        return self._outside

    # -- why ----------------------------------------------------------------------------------------------------

    @as_configured
    def explain(self, tensor: Tensor) -> str:
        """Who asked for which elements of a tensor, at which place, and where precision was given up."""
        now = self._current(tensor)
        bounds = self._bounds(now)
        text = explain(self._state, bounds, now, self.storage(now), lambda footprint: self._region(footprint, now))
        forms = self.forms.get(now.name, ())
        return "\n".join([text, *(f"  {'considered' if k else 'chosen'}: {form}" for k, form in enumerate(forms))])

    # -- inside -------------------------------------------------------------------------------------------------

    def _current(self, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, Tensor):
            raise InputError(f"a tensor is needed, not {shown(tensor)}")
        return self.schedule.current(tensor)

    def _bounds(self, tensor: Tensor) -> StageBounds:
        """The bounds of the stage of a tensor; those of placeholders are found when they are asked for."""
        stage = self.stage(tensor)
        found = self._stages.get(stage)
        if found is None:
            if stage.attach_type is AttachType.INLINED_ALREADY:
                raise ScheduleError(f"stage {stage.name} is inlined: nothing of {tensor.name} is stored")
            found = self._stages[stage] = initial_bounds(self._state, stage)
            infer_root_bound(self._state, found)
        return found

    def __repr__(self) -> str:
        return f"<BoundsMap of {len(self._stages)} stages by {self.domain}, compute {self.compute}>"


def _word(state: InferenceState) -> str:
    if not state.boxed:
        return "exact"
    return "box" if state.boxed >= set(state.schedule.stages) else "auto"


__all__ = ["BoundsMap", "infer_bound"]
