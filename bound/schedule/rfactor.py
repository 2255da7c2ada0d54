"""`rfactor`: partial results for each value of one reduction loop, then a reduction over that loop alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bound.errors import ScheduleError
from bound.itervar import IterType, IterVar
from bound.operation import ComputeOp
from bound.schedule.cache import refuse_attached, restart
from bound.schedule.dataflow import insert_before, redirect, replace_op
from bound.schedule.message import extent, low, pass_down_domain, pass_up_index, split_guards
from bound.schedule.relations import Relation, children, parents
from bound.schedule.simple import add, number
from bound.schedule.stage import Stage
from bound.tensor import Tensor, element
from bound.tir import build
from bound.tir.reduce import CommReducer, Reduction, condition, sources
from bound.tir.value import Operand, Value, ValueOp, make
from bound.tir.walk import substitute
from intset.expr.node import Expr, as_int, truth
from intset.expr.range import Range

if TYPE_CHECKING:
    from bound.schedule.schedule import Schedule


def rfactor(schedule: Schedule, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> tuple[Tensor, ...]:
    """Factor the reduction of `tensor` by the leaf `axis`; see `Schedule.rfactor`."""
    stage = schedule[tensor]
    op = stage.op
    if not isinstance(op, ComputeOp) or op.reduction is None:
        raise ScheduleError(f"stage {op.name}: rfactor is for reductions")
    stage.position_of(axis, "rfactor")
    if axis.iter_type is not IterType.COMM_REDUCE:
        raise ScheduleError(f"stage {op.name}: rfactor needs a reduction axis, {axis.name} is none")
    refuse_attached(schedule, stage, "rfactor")
    stage.whole_own("rfactor")
    place = as_int(factor_axis, "factor_axis")
    place = place if place >= 0 else len(op.axis) + 1 + place
    if not 0 <= place <= len(op.axis):
        raise ScheduleError(f"stage {op.name}: factor_axis of {axis.name} must be within 0..{len(op.axis)}")

    touched = _family(stage.relations, axis)
    mixed = next((iv for iv in op.axis if iv in touched), None)
    if mixed is not None:
        raise ScheduleError(f"stage {op.name}: rfactor by {axis.name}, which was fused with the data axis {mixed.name}")
    partial, axes = _partial(op, stage, axis, place, touched)
    final = _final(op, partial, axes[axis], place)
    made = insert_before(schedule, stage, partial)
    _keep_untouched(stage, made, touched, axes)
    new = replace_op(schedule, stage, final)
    restart(stage)
    redirect(schedule, schedule.stages, new)
    return partial.outputs


def _family(relations: list[Relation], axis: IterVar) -> set[IterVar]:
    """Every axis that is connected with `axis`: made from one of the same roots, or fused with one that is."""
    touched = {axis}
    groups = [{*parents(relation), *children(relation)} for relation in relations]
    while any(touched & group and not group <= touched for group in groups):
        touched = touched.union(*(group for group in groups if touched & group))
    return touched


def _partial(
    op: ComputeOp, stage: Stage, axis: IterVar, place: int, touched: set[IterVar]
) -> tuple[ComputeOp, dict[IterVar, IterVar]]:
    """The operation of partial results, and the new axis for each leaf that was touched."""
    roots = {iv: iv.dom for iv in op.reduce_axis if iv in touched and iv.dom is not None}
    ranges = pass_down_domain(stage.relations, roots)
    leaves = [iv for iv in stage.leaf_iter_vars if iv in touched]
    kinds = {iv: IterType.DATA_PAR if iv is axis else IterType.COMM_REDUCE for iv in leaves}
    # A dimension counts from 0, and so does the loop that reads it, wherever the reduction began.
    axes = {iv: IterVar(Range(0, extent(ranges[iv])), iv.name, kinds[iv]) for iv in leaves}
    values: dict[IterVar, Expr] = {
        iv: low(ranges[iv]) if number(extent(ranges[iv])) == 1 else add(new, low(ranges[iv]))
        for iv, new in axes.items()
    }
    values = pass_up_index(stage.relations, ranges, values)
    guards = split_guards(stage.relations, ranges, values)
    mapping = {iv: values[iv] for iv in roots}
    untouched = [iv for iv in op.reduce_axis if iv not in touched]
    reduced = (*(new for iv, new in axes.items() if iv is not axis), *untouched)
    first = op.body[0]
    assert isinstance(first, Value) and op.reduction is not None
    where = build.together(substitute(condition(first), mapping), *guards)
    terms = tuple(substitute(source, mapping) for source in sources(first))
    body = _reductions(op.reduction.combiner, terms, where, reduced, op)
    new_axis = (*op.axis[:place], axes[axis], *op.axis[place:])
    return ComputeOp(f"{op.name}.rf", new_axis, body, op.tag, op.attrs), axes


def _reductions(
    combiner: CommReducer, terms: tuple[Operand, ...], where: Operand, axis: tuple[IterVar, ...], op: ComputeOp
) -> tuple[Operand, ...]:
    """The reduction of `terms` over `axis`; over no axis at all, the terms themselves."""
    if not axis:
        always = where is truth(True)
        pairs = zip(terms, combiner.identity, strict=True)
        return tuple(term if always else build.select(where, term, identity) for term, identity in pairs)
    types = [t.dtype for t in op.outputs]
    return tuple(
        make(ValueOp.REDUCE, (*terms, where), dtype, Reduction(combiner, axis, k)) for k, dtype in enumerate(types)
    )


def _final(op: ComputeOp, partial: ComputeOp, axis: IterVar, place: int) -> ComputeOp:
    assert op.reduction is not None and axis.dom is not None
    inner = IterVar(axis.dom, f"{axis.name}.v", IterType.COMM_REDUCE)
    outer = tuple(IterVar(iv.dom, f"ax{k}") for k, iv in enumerate(op.axis))
    index = (*outer[:place], inner, *outer[place:])
    terms = tuple(element(t, index) for t in partial.outputs)
    body = list(_reductions(op.reduction.combiner, terms, truth(True), (inner,), op))
    first = op.body[0]
    assert isinstance(first, Value)
    renamed = dict(zip(op.axis, outer, strict=True))
    starts = first.args[op.reduction.arity + 1 :]
    if starts:
        moved = tuple(substitute(s, renamed) for s in starts)
        body = [make(ValueOp.REDUCE, (*b.args, *moved), b.dtype, b.data) for b in body if isinstance(b, Value)]
    if not op.reduction.combiner.is_closed:
        body = [substitute(b, renamed) for b in body]
    return ComputeOp(f"{op.name}.repl", outer, tuple(body), op.tag, op.attrs)


def _keep_untouched(stage: Stage, made: Stage, touched: set[IterVar], axes: dict[IterVar, IterVar]) -> None:
    """Give the stage of partial results the loops of the old stage that were not touched."""
    kept = [r for r in stage.relations if not any(iv in touched for iv in (*parents(r), *children(r)))]
    if not kept:
        return
    order = [axes.get(iv, iv) for iv in stage.leaf_iter_vars]
    made.relations = kept
    made.all_iter_vars += [child for r in kept for child in children(r)]
    made.leaf_iter_vars = order
    made.iter_var_attrs = {iv: replace(a) for iv, a in stage.iter_var_attrs.items() if iv not in touched}
