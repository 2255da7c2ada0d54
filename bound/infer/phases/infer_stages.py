"""The pass over the stages of a schedule, consumers first."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bound.infer.footprints.environment import LoopEnvironment
from bound.infer.normalized import ScheduleSizes
from bound.infer.phases.fused_axes import region_of_loops
from bound.infer.phases.infer_root_bound import InferenceState, enter_shared, infer_root_bound, initial_bounds
from bound.infer.phases.pass_down import create_reduction_init, pass_down
from bound.infer.phases.stage_bounds import idle_threads
from bound.infer.phases.thread_axes import thread_equations
from bound.itervar import IterVar
from bound.operation import PlaceholderOp
from bound.schedule import AttachType, Stage
from bound.schedule.simple import extent, number
from intset.facts import ASSERTED


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
