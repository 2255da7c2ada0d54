"""Initialisation of a reduction: a nest over data axes alone, before the first reduction loop.

Data loops inside the first reduction loop run again. A loop fused from data and reduction axes is replaced by the data
axis, so the initialisation is independent of the length of the reduction, even 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bound.infer.footprints.environment import LoopEnvironment, constant_extent
from bound.infer.phases.guards import without_implied
from bound.infer.phases.pass_down import all_guards, loop_of
from bound.infer.phases.stage_bounds import ReductionInit, StageBounds, StageLoop
from bound.intrin import TensorComputeOp
from bound.itervar import IterType, IterVar
from bound.operation import ComputeOp
from bound.schedule.relations import pass_up_index
from bound.schedule.simple import low
from intset.expr.node import Expr, as_expr
from intset.expr.range import Range


def create_reduction_init(env: LoopEnvironment, bounds: StageBounds) -> ReductionInit | None:
    """The initialisation for a stage with known loops; `None` without a reduction."""
    op, leaves = bounds.op, bounds.stage.leaf_iter_vars
    if not isinstance(op, (ComputeOp, TensorComputeOp)) or not op.reduce_axis:
        return None
    kinds = _constituents(bounds)
    reducing = {iv for iv, (reduces, _) in kinds.items() if reduces}
    position = next((k for k, iv in enumerate(leaves) if iv in reducing and not _is_one(bounds, iv)), len(leaves))
    relations = tuple(r for r in bounds.relations if not reducing.intersection(r.children))
    loops = [_loop(env, bounds, iv) for iv in _inside(bounds, kinds, position)]
    points: dict[IterVar, Expr] = {
        iv: low(env.ranges[iv]) if constant_extent(env.ranges[iv]) == 1 else iv
        for iv in (*bounds.outer, *leaves[:position])
        if iv not in reducing
    }
    for iv, loop in loops:
        env.add(loop.iv, loop.range)
        own = low(loop.range) if constant_extent(loop.range) == 1 else loop.iv
        points[iv] = own if loop.iv is iv else as_expr(own + low(bounds.ranges[iv]))
    values = pass_up_index(relations, bounds.ranges, points)
    values = {iv: as_expr(values[iv]) for iv in op.root_iter_vars if iv in values and iv not in reducing}
    apart = replace(bounds, relations=relations, values=values)
    around = [*(iv for _, iv in bounds.path), *leaves[:position], *(loop.iv for _, loop in loops)]
    guards = without_implied(env, around, all_guards(env, apart, pass_up_index(relations, bounds.ranges, points)))
    return ReductionInit(position, tuple(loop for _, loop in loops), values, guards)


def _constituents(bounds: StageBounds) -> dict[IterVar, tuple[bool, bool]]:
    """For each axis, whether it contains reduction axes, and whether it contains data axes.

    Reduction axes of extent 1 do not count: no loop runs over them.
    """
    reduced = {iv for iv in bounds.op.root_iter_vars if iv.is_reduce and constant_extent(bounds.ranges[iv]) != 1}
    leaves = (*bounds.outer, *bounds.stage.leaf_iter_vars)
    kinds = {iv: (iv in reduced, iv not in reduced) for iv in (*leaves, *bounds.op.root_iter_vars)}
    for relation in bounds.relations:
        starts = [kinds.setdefault(iv, (False, True)) for iv in relation.parents]
        both = any(reduces for reduces, _ in starts), any(data for _, data in starts) or not starts
        kinds.update(dict.fromkeys(relation.children, both))
    return kinds


def _inside(bounds: StageBounds, kinds: Mapping[IterVar, tuple[bool, bool]], position: int) -> list[IterVar]:
    """The data axes with loops from `position` inwards, ordered by their first loops."""
    leaves = bounds.stage.leaf_iter_vars
    first = {iv: k for k, iv in enumerate(leaves)}
    for relation in reversed(bounds.relations):
        below = [first[iv] for iv in relation.children if iv in first]
        for iv in relation.parents if below else ():
            first[iv] = min(below)
    fused = [
        iv
        for relation in bounds.relations
        if kinds[relation.children[0]][0]
        for iv in relation.parents
        if not kinds[iv][0]
    ]
    return sorted((*(iv for iv in leaves[position:] if not kinds[iv][0]), *fused), key=first.__getitem__)


def _loop(env: LoopEnvironment, bounds: StageBounds, iv: IterVar) -> tuple[IterVar, StageLoop]:
    """The loop of an axis; a new one from 0 without one."""
    if iv in bounds.loops:
        return iv, loop_of(bounds, iv)
    return iv, StageLoop(iv.part(iv.name), Range(0, bounds.ranges[iv].extent), None, IterType.DATA_PAR)


def _is_one(bounds: StageBounds, iv: IterVar) -> bool:
    return constant_extent(bounds.loops[iv]) == 1
