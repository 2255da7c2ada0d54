"""Loops bound to thread axes: equal extents for all loops of one axis.

A tile that a small tensor leaves incomplete keeps its number of threads; threads past the end are idle. Later stages on
the same threads may then be short of work as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bound.errors import ScheduleError
from bound.infer.footprints.environment import LoopEnvironment, constant_extent
from bound.infer.phases.stage_bounds import StageBounds
from bound.infer.program.sizes import ScheduleSizes
from bound.itervar import IterVar
from bound.schedule import Rebase, Split, Stage, simple
from bound.schedule.relations import with_ancestors
from bound.schedule.simple import extent
from intset.expr.node import Expr


def check_threads(stages: Iterable[StageBounds], env: LoopEnvironment, sizes: ScheduleSizes) -> None:
    """Refuse loops on one thread axis without provably equal extents.

    Raises
    ------
    ScheduleError: names both stages, their loops and both extents.
    """
    seen: dict[IterVar, tuple[Stage | None, IterVar, Expr]] = {}
    for bounds in stages:
        for iv, limits in bounds.loops.items():
            thread = bounds.stage.thread_of(iv)
            if thread is None:
                continue
            if thread.dom is not None and thread not in seen:
                seen[thread] = (None, thread, extent(sizes.range(thread.dom)))
            other = seen.setdefault(thread, (bounds.stage, iv, extent(limits)))
            if not _is_equal(env, other[2], extent(limits)):
                before = (
                    "it was declared" if other[0] is None else f"it has for {other[1].name} of stage {other[0].name}"
                )
                raise ScheduleError(
                    f"stage {bounds.stage.name}: {iv.name} runs on {thread.name} with extent {limits.extent}, "
                    f"which is not known to be the extent {other[2]} that {before}"
                )


def idle_threads(bounds: StageBounds) -> dict[IterVar, int]:
    """Thread axes of a stage that overrun a root axis, with their numbers of threads."""
    idle: dict[IterVar, int] = {}
    for iv, limits in bounds.loops.items():
        thread, number = bounds.stage.thread_of(iv), constant_extent(limits)
        if thread is None or number is None:
            continue
        above = with_ancestors(bounds.relations, (iv,))
        if any(isinstance(r, Split) and r.parent in above and r.overruns(bounds.ranges) for r in bounds.relations):
            idle[thread] = number
    return idle


def started(bounds: StageBounds, root: IterVar, threads: Mapping[IterVar, int]) -> int | None:
    """The extent of a root axis that gives its thread loop one iteration a thread; `None` if the schedule fixes it."""
    axis, times = root, 1
    for relation in bounds.relations:
        if isinstance(relation, Rebase) and relation.parent is axis:
            axis = relation.rebased
        elif isinstance(relation, Split) and relation.parent is axis:
            size = relation.nparts if relation.factor is None else relation.factor
            number = simple.number(size) if size is not None else None
            if number is None:
                return None
            axis, times = (relation.inner if relation.factor is None else relation.outer), times * number
    thread = bounds.stage.thread_of(axis) if axis in bounds.stage.leaf_iter_vars else None
    return None if thread is None or thread not in threads else threads[thread] * times


def _is_equal(env: LoopEnvironment, a: Expr, b: Expr) -> bool:
    if a is b or env.form(a).same(env.form(b)):
        return True
    return bool(env.context.prove(a.eq(b)))
