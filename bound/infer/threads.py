"""Loops that run on one thread axis must have one extent."""

from __future__ import annotations

from bound.errors import ScheduleError
from bound.infer.graph import thread_of
from bound.infer.infer_root_bound import Pass
from bound.itervar import IterVar
from bound.schedule import Stage
from intset.expr.node import Expr


def check_threads(state: Pass) -> None:
    """Refuse loops on the same thread axis whose extents are not known to be the same.

    Raises
    ------
    ScheduleError: it names the two stages, their loops and both extents.
    """
    seen: dict[IterVar, tuple[Stage | None, IterVar, Expr]] = {}
    for bounds in state.bounds.values():
        for iv, limits in bounds.loops.items():
            thread = thread_of(bounds.stage, iv)
            if thread is None:
                continue
            assert isinstance(limits.extent, Expr)
            if thread.dom is not None and thread not in seen:
                declared = state.sizes.range(thread.dom).extent
                assert isinstance(declared, Expr)
                seen[thread] = (None, thread, declared)
            other = seen.setdefault(thread, (bounds.stage, iv, limits.extent))
            if not _is_equal(state, other[2], limits.extent):
                before = (
                    "it was declared" if other[0] is None else f"it has for {other[1].name} of stage {other[0].name}"
                )
                raise ScheduleError(
                    f"stage {bounds.stage.name}: {iv.name} runs on {thread.name} with extent {limits.extent}, "
                    f"which is not known to be the extent {other[2]} that {before}"
                )


def _is_equal(state: Pass, a: Expr, b: Expr) -> bool:
    if a is b or state.known.form(a).same(state.known.form(b)):
        return True
    return bool(state.known.context.prove(a.eq(b)))
