"""Shared loops in the pass: their ranges, and what a stage computes in its part of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bound.infer.needs.box import whole
from bound.infer.needs.known import Known
from bound.infer.needs.need import Need
from bound.infer.phases.gather import gather_bound
from bound.infer.phases.pass_down import loop_range, pass_down, rounded_up
from bound.infer.phases.pass_up import pass_up
from bound.infer.phases.propagate import Propagation
from bound.infer.phases.relax import LoopState
from bound.infer.phases.stage_bounds import StageBounds, data_axes
from bound.infer.program.accesses import Access
from bound.infer.program.graph import thread_of
from bound.schedule.message import pass_down_domain
from bound.tensor import Tensor
from intset.expr.range import Range

if TYPE_CHECKING:
    from bound.infer.phases.infer_root_bound import Pass


def enter_shared(state: Pass) -> None:
    """Enter the ranges of shared loops, from the whole axes they are made of, before stages are looked at.

    The stages of one loop come in any order; what each of them is to compute does not change the loop.
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
        threads = [leaf for leaf in (*bounds.outer, *stage.leaf_iter_vars) if thread_of(stage, leaf) is not None]
        bounds.ranges = pass_down_domain(bounds.relations, roots, threads)
        for leaf in stage.leaf_iter_vars[: shared[-1] + 1]:
            state.known.add(leaf, loop_range(state.known, bounds, leaf))


def own_share(state: Pass, bounds: StageBounds, tensor: Tensor) -> Need:
    """What a stage computes of an output in one iteration of the loops it shares, if it computes all it can there."""
    known: Known = state.known
    shape, axes = state.sizes.shape(tensor), data_axes(bounds.op)
    all_of_it = Need(len(shape), whole(known, shape))
    alone = StageBounds(bounds.stage, bounds.path, bounds.relations, bounds.outer, bounds.aligned, fixed=bounds.fixed)
    alone.ranges = dict(bounds.ranges)
    alone.required = dict.fromkeys(bounds.op.outputs, all_of_it)
    gather_bound(known, alone, True, state.sizes.shape, {})
    pass_down(known, alone)
    own = [LoopState(bounds.stage, iv, False) for iv in reversed(bounds.stage.leaf_iter_vars)]
    around = [LoopState(stage, iv, iv in bounds.fixed) for stage, iv in bounds.path]
    iterations = pass_up(known, alone, (*own, *around))
    used = {v for cond in iterations.conditions for v in cond.free_vars()}
    for iv in bounds.op.root_iter_vars:  # where nothing is reduced the result is what a reduction starts from
        if iv.is_reduce and iv not in used:
            iterations.values.pop(iv, None)
            iterations.relaxed.pop(iv, None)
    need = Propagation(known, iterations).image(Access(tensor, tuple(axes)), shape)
    if need.box is None:
        need.limits = whole(known, shape)
    return need
