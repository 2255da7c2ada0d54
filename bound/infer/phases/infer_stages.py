"""The pass over the stages of a schedule, consumers first.

The check of thread axes: all loops bound to one axis have equal extents.

Where sizes of tiles make extents equal, the schedule asserts the equation: answers assume it, and a nest checks it. At
numbers that contradict it, the schedule is illegal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from bound.errors import ScheduleError
from bound.infer.footprints.environment import LoopEnvironment
from bound.infer.normalized import ScheduleSizes
from bound.infer.phases.fused_axes import region_of_loops
from bound.infer.phases.infer_root_bound import InferenceState, enter_shared, infer_root_bound, initial_bounds
from bound.infer.phases.pass_down import create_reduction_init, pass_down
from bound.infer.phases.stage_bounds import StageBounds, idle_threads
from bound.itervar import IterVar
from bound.operation import PlaceholderOp
from bound.schedule import AttachType, Stage
from bound.schedule.simple import extent, number
from intset.expr.dag import free_vars
from intset.expr.node import Cond, Expr
from intset.facts import ASSERTED


def thread_equations(
    stages: Iterable[StageBounds], env: LoopEnvironment, sizes: ScheduleSizes, tiles: Iterable[Expr]
) -> tuple[Cond, ...]:
    """The equations of tile sizes under which all loops on one thread axis have equal extents.

    Empty where the extents are proved to be equal. Example: `t == 16` where a loop of `t` iterations shares its thread
    axis with one of 16.

    Raises
    ------
    ScheduleError: extents differ at all sizes, or an equation has no size of a tile. It names both stages, their loops
        and extents.
    """
    unknown = set(free_vars(*tiles))
    equations: list[Cond] = []
    context = env.context
    for stage, iv, threads, thread, other in _shared_threads(stages, sizes):
        equation = other[2].eq(threads) if threads.is_const else threads.eq(other[2])
        if threads is other[2] or env.form(threads).same(env.form(other[2])) or context.prove(equation):
            continue
        before = "it was declared" if other[0] is None else f"it has for {other[1].name} of stage {other[0].name}"
        what = f"stage {stage.name}: {iv.name} runs on {thread.name} with extent {threads}, which is"
        around = set(equation.free_vars())
        if not unknown & around or any(v in env.ranges for v in around):
            raise ScheduleError(f"{what} not known to be the extent {other[2]} that {before}")
        if context.prove(~equation):
            raise ScheduleError(f"{what} never the extent {other[2]} that {before}: no sizes satisfy {equation}")
        equations.append(equation)
        context = context.extended(facts=[equation], provenance=ASSERTED)
    return tuple(equations)


_Bound = tuple[Stage | None, IterVar, Expr]  # a loop on a thread axis with its stage and extent; the axis as declared


def _shared_threads(
    stages: Iterable[StageBounds], sizes: ScheduleSizes
) -> Iterator[tuple[Stage, IterVar, Expr, IterVar, _Bound]]:
    """Each loop on a thread axis (stage, loop, extent, axis) with the first one on that axis."""
    first: dict[IterVar, _Bound] = {}
    for bounds in stages:
        for iv, limits in bounds.loops.items():
            thread = bounds.stage.thread_of(iv)
            if thread is None:
                continue
            if thread.dom is not None and thread not in first:
                first[thread] = (None, thread, extent(sizes.range(thread.dom)))
            other = first.setdefault(thread, (bounds.stage, iv, extent(limits)))
            yield bounds.stage, iv, extent(limits), thread, other


def infer_stages(state: InferenceState) -> InferenceState:
    """Infer the bounds of all stages, for sizes at which loops on one thread axis have equal extents.

    Raises
    ------
    ScheduleError: as for `thread_equations`.
    """
    _infer(state)
    env = state.env
    equations = thread_equations(state.bounds.values(), env, state.sizes, state.tiles)
    if not equations:
        return state
    context = env.context.extended(facts=equations, provenance=ASSERTED)
    env = LoopEnvironment(context, state.sizes.free, state.domain, env.account)
    state = replace(state, env=env, bounds={}, requests={}, threads={}, _propagations={}, equations=equations)
    _infer(state)
    return state


def declared_threads(stage: Stage, sizes: ScheduleSizes) -> dict[IterVar, int]:
    """The thread axes of a stage that were declared with a number of threads."""
    axes = (stage.thread_of(leaf) for leaf in stage.leaf_iter_vars)
    declared = {axis: axis.dom for axis in axes if axis is not None and axis.dom is not None}
    numbers = {axis: number(extent(sizes.range(dom))) for axis, dom in declared.items()}
    return {axis: count for axis, count in numbers.items() if count is not None}


def _infer(state: InferenceState) -> None:
    enter_shared(state)
    for stage in reversed(state.schedule.stages):
        if stage.attach_type is AttachType.INLINED_ALREADY or isinstance(stage.op, PlaceholderOp):
            continue
        bounds = initial_bounds(state, stage)
        state.threads.update(declared_threads(stage, state.sizes))
        infer_root_bound(state, bounds)
        pass_down(state.env, bounds, partial(region_of_loops, state, bounds))
        bounds.start = create_reduction_init(state.env, bounds)
        state.threads.update(idle_threads(bounds))
