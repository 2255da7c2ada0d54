"""Rewrites of a schedule that insert stages: `cache_read`, `cache_write`, `rfactor`.

Each one inserts a stage, replaces operations, and redirects consumers (`dataflow.redirect`). Example: `cache_write` of
`C` in "local" makes a stage `C.local` with the loops of `C`; `C` becomes a copy of it with fresh axes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bound.errors import InputError, ScheduleError
from bound.itervar import IterType, IterVar
from bound.operation import ComputeOp, Operation, TensorComputeOp
from bound.schedule.attach import AttachType, check_scope
from bound.schedule.dataflow import insert_after, insert_before, redirect, replace_op
from bound.schedule.relations import (
    IterVarRelation,
    Ranges,
    Split,
    pass_down_domain,
    pass_down_index,
    pass_up_index,
    split_guards,
)
from bound.schedule.simple import add, extent, low, number
from bound.schedule.stage import Stage
from bound.tensor import Tensor, element
from bound.tir import build
from bound.tir.reduce import CommReducer, Reduction, condition, sources, with_condition
from bound.tir.value import REDUCE, Operand, Value, make
from bound.tir.walk import substitute
from intset.expr.node import Cond, Expr, as_expr, as_int, truth
from intset.expr.printer import shown
from intset.expr.range import Range

if TYPE_CHECKING:
    from bound.schedule.schedule import Schedule


def cache_read(schedule: Schedule, tensor: Tensor, scope: str, readers: tuple[Operation, ...]) -> Tensor:
    """Insert a copy of `tensor` in `scope` and make `readers` read it; see `Schedule.cache_read`."""
    check_scope(scope)
    source = schedule.current(_checked_tensor(tensor))
    stage = schedule[source]
    stage.whole_own("cache_read")
    reading = [schedule[reader] for reader in readers]
    for reader in reading:
        if source not in reader.op.input_tensors:
            raise ScheduleError(f"cache_read of {source.name}: {reader.name} does not read it")
    if not reading:
        raise ScheduleError(f"cache_read of {source.name} needs at least one reader")
    axis = tuple(IterVar(Range(0, e), f"ax{k}") for k, e in enumerate(source.extents))
    copy = ComputeOp(f"{source.name}.{scope}", axis, (element(source, axis),))
    cached = copy.output(0)
    cached.value_range = source.value_range
    new = insert_after(schedule, stage, copy)
    new.set_scope(scope)
    redirect(schedule, schedule.stages, {}, {reader: {source: cached} for reader in reading})
    return cached


def cache_write(schedule: Schedule, tensors: tuple[object, ...], scope: str) -> tuple[Tensor, ...]:
    """Compute the outputs of one operation in `scope`, over its present loops, then copy them.

    The copy replaces the operation, with fresh axes; the new stage has one axis per data loop of the old one.

    Raises
    ------
    ScheduleError: the loops cannot become dimensions, or stages are attached to them.
    """
    check_scope(scope)
    tensors_now = tuple(schedule.current(_checked_tensor(t)) for t in tensors)
    if not tensors_now:
        raise InputError("cache_write takes a tensor, or all outputs of one operation, not none")
    op, stage = tensors_now[0].op, schedule[tensors_now[0]]
    if not isinstance(op, (ComputeOp, TensorComputeOp)):
        raise ScheduleError(f"stage {op.name}: cache_write is for operations made by te.compute")
    if any(t.op is not op for t in tensors_now) or (len(tensors_now) > 1 and set(tensors_now) != set(op.outputs)):
        raise ScheduleError(f"stage {op.name}: cache_write takes all outputs of one operation")
    refuse_attached(schedule, stage, "cache_write")
    stage.whole_own("cache_write")
    data_leaves = [iv for iv in stage.leaf_iter_vars if not iv.is_reduce]
    for iv in data_leaves:
        if iv.iter_type is not IterType.DATA_PAR:
            raise ScheduleError(f"stage {op.name}: cache_write keeps data axes, but {iv.name} is {iv.iter_type.name}")

    roots = op.axis if isinstance(op, ComputeOp) else op.axis[: op.schedulable]
    ranges = pass_down_domain(stage.relations, {iv: iv.dom for iv in roots if iv.dom is not None})
    missing = next((iv for iv in data_leaves if iv not in ranges), None)
    if missing is not None:
        raise ScheduleError(f"stage {op.name}: cache_write cannot keep {missing.name}, which mixes data and reduction")
    whole = pass_up_index(stage.relations, ranges, {iv: iv for iv in data_leaves})
    mixed = next((iv for iv in roots if iv not in whole), None)
    if mixed is not None:
        raise ScheduleError(f"stage {op.name}: cache_write needs {mixed.name} in loops apart from the reduction")
    leaf_of_root = pass_down_index(stage.relations, ranges, {iv: iv for iv in roots})
    indices = tuple(leaf_of_root[iv] for iv in data_leaves)
    cached_op: ComputeOp | TensorComputeOp
    if isinstance(op, ComputeOp):
        cached_op = _computing(op, stage, ranges, data_leaves, f"{op.name}.{scope}")
        copy = op.with_body(tuple(element(t, indices) for t in cached_op.outputs))
    else:
        cached_op = _computing_tiles(op, stage, ranges, data_leaves, f"{op.name}.{scope}")
        inner = tuple(IterVar(iv.dom, iv.name) for iv in op.axis[op.schedulable :])
        body = tuple(element(t, (*indices, *inner)) for t in cached_op.outputs)
        copy = ComputeOp(op.name, (*roots, *inner), body, op.tag, op.attrs)
    for old, cached, written in zip(op.outputs, cached_op.outputs, copy.outputs, strict=True):
        cached.value_range = written.value_range = old.value_range
    new_stage = insert_before(schedule, stage, cached_op)
    new_stage.set_scope(scope)
    new = replace_op(schedule, stage, copy)
    restart(stage)
    redirect(schedule, schedule.stages, new)
    return cached_op.outputs


def _computing(op: ComputeOp, stage: Stage, ranges: Ranges, leaves: list[IterVar], name: str) -> ComputeOp:
    """Return the computation of `op` over its data leaves; points beyond the end of an axis are 0."""
    axis = tuple(IterVar(ranges[iv], f"{iv.name}.c") for iv in leaves)
    values: dict[IterVar, Expr] = dict(zip(leaves, axis, strict=True))
    root_values = pass_up_index(stage.relations, ranges, values)
    guards = split_guards(stage.relations, ranges, root_values)
    mapping = {iv: root_values[iv] for iv in op.axis}
    bodies = tuple(guarded(substitute(value, mapping), guards) for value in op.body)
    return ComputeOp(name, axis, bodies, op.tag, op.attrs)


def _computing_tiles(
    op: TensorComputeOp, stage: Stage, ranges: Ranges, leaves: list[IterVar], name: str
) -> TensorComputeOp:
    """Return the tile computation of `op` over its data leaves.

    Raises
    ------
    ScheduleError: a factor does not divide; an intrinsic cannot be guarded.
    """
    axis = tuple(IterVar(ranges[iv], f"{iv.name}.c") for iv in leaves)
    values = pass_up_index(stage.relations, ranges, dict(zip(leaves, axis, strict=True)))
    if split_guards(stage.relations, ranges, values):
        split = next(r for r in stage.relations if isinstance(r, Split) and r.overruns(ranges))
        raise ScheduleError(
            f"stage {op.name}: cache_write of tiles needs factors that divide, {split.parent.name} has none"
        )
    mapping = {iv: values[iv] for iv in op.axis[: op.schedulable]}
    inner = tuple(IterVar(iv.dom, iv.name, iv.iter_type) for iv in op.axis[op.schedulable :])
    regions = tuple(
        tuple(Range(substitute(as_expr(r.min), mapping), substitute(as_expr(r.extent), mapping)) for r in region)
        for region in op.call.regions
    )
    scalars = tuple(substitute(scalar, mapping) for scalar in op.call.scalars)
    call = replace(op.call, regions=regions, scalars=scalars)
    return TensorComputeOp(name, (*axis, *inner), len(axis), call, op.tag, op.attrs)


def guarded(value: Operand, guards: list[Cond]) -> Operand:
    """Guard a value: outside of the guards a reduction skips elements, any other value is 0."""
    if not guards:
        return value
    if isinstance(value, Value) and value.op is REDUCE:
        return with_condition(value, build.together(condition(value), *guards))
    return build.select(build.all_of(*guards), value, build.const(0, build.dtype_of(value)))


def restart(stage: Stage) -> None:
    """Reset the loops of a stage to the root axes of its new operation."""
    stage.all_iter_vars = list(stage.op.root_iter_vars)
    stage.leaf_iter_vars = list(stage.op.root_iter_vars)
    stage.relations = []
    stage.iter_var_attrs = {}


def refuse_attached(schedule: Schedule, stage: Stage, call: str) -> None:
    """Raise `ScheduleError` if a stage is computed or stored in a loop of `stage`."""
    for other in (*schedule.stages, *schedule.groups):
        if other.attach_type is AttachType.SCOPE and other.attach_stage is stage:
            axis = "" if other.attach_ivar is None else other.attach_ivar.name
            raise ScheduleError(f"stage {stage.name}: {call} would remove {axis}, at which {other.name} is computed")
        if other.store_stage is stage:
            axis = "" if other.store_ivar is None else other.store_ivar.name
            raise ScheduleError(f"stage {stage.name}: {call} would remove {axis}, at which {other.name} is stored")


def _checked_tensor(tensor: object) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise InputError(f"a tensor is needed, not {shown(tensor)}")
    return tensor


def rfactor(schedule: Schedule, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> tuple[Tensor, ...]:
    """Factor the reduction of `tensor` by the leaf `axis`; see `Schedule.rfactor`.

    Raises
    ------
    ScheduleError: not a reduction, not a reduction axis, or fused with a data axis.
    """
    stage = schedule[tensor]
    op = stage.op
    if not isinstance(op, ComputeOp) or op.reduction is None:
        raise ScheduleError(f"stage {op.name}: rfactor is for reductions")
    stage.position_of(axis, "rfactor")
    if axis.iter_type is not IterType.COMM_REDUCE:
        raise ScheduleError(f"stage {op.name}: rfactor needs a reduction axis, {axis.name} is none")
    refuse_attached(schedule, stage, "rfactor")
    stage.whole_own("rfactor")
    dimension = as_int(factor_axis, "factor_axis")
    dimension = dimension if dimension >= 0 else len(op.axis) + 1 + dimension
    if not 0 <= dimension <= len(op.axis):
        raise ScheduleError(f"stage {op.name}: factor_axis of {axis.name} must be within 0..{len(op.axis)}")

    touched = _family(stage.relations, axis)
    mixed = next((iv for iv in op.axis if iv in touched), None)
    if mixed is not None:
        raise ScheduleError(f"stage {op.name}: rfactor by {axis.name}, which was fused with the data axis {mixed.name}")
    partial, axes = _partial(op, stage, axis, dimension, touched)
    final = _final(op, partial, axes[axis], dimension)
    new_stage = insert_before(schedule, stage, partial)
    _keep_untouched(stage, new_stage, touched, axes)
    new = replace_op(schedule, stage, final)
    restart(stage)
    redirect(schedule, schedule.stages, new)
    return partial.outputs


def _family(relations: list[IterVarRelation], axis: IterVar) -> set[IterVar]:
    """Return the axes connected with `axis` by relations."""
    touched = {axis}
    groups = [{*relation.parents, *relation.children} for relation in relations]
    while any(touched & group and not group <= touched for group in groups):
        touched = touched.union(*(group for group in groups if touched & group))
    return touched


def _partial(
    op: ComputeOp, stage: Stage, axis: IterVar, dimension: int, touched: set[IterVar]
) -> tuple[ComputeOp, dict[IterVar, IterVar]]:
    """Return the operation of partial results, and the new axis of each leaf connected with `axis`."""
    roots = {iv: iv.dom for iv in op.reduce_axis if iv in touched and iv.dom is not None}
    ranges = pass_down_domain(stage.relations, roots, (axis,))  # its extent is a dimension, as it was written
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
    reduced = (*untouched, *(new for iv, new in axes.items() if iv is not axis))
    first = op.body[0]
    assert isinstance(first, Value) and op.reduction is not None
    where = build.together(substitute(condition(first), mapping), *guards)
    terms = tuple(substitute(source, mapping) for source in sources(first))
    body = _reductions(op.reduction.combiner, terms, where, reduced, op)
    new_axis = (*op.axis[:dimension], axes[axis], *op.axis[dimension:])
    return ComputeOp(f"{op.name}.rf", new_axis, body, op.tag, op.attrs), axes


def _reductions(
    combiner: CommReducer, terms: tuple[Operand, ...], where: Operand, axis: tuple[IterVar, ...], op: ComputeOp
) -> tuple[Operand, ...]:
    """Reduce `terms` over `axis`; without axes, the terms themselves."""
    if not axis:
        always = where is truth(True)
        pairs = zip(terms, combiner.identity, strict=True)
        return tuple(term if always else build.select(where, term, identity) for term, identity in pairs)
    types = [t.dtype for t in op.outputs]
    return tuple(make(REDUCE, (*terms, where), dtype, Reduction(combiner, axis, k)) for k, dtype in enumerate(types))


def _final(op: ComputeOp, partial: ComputeOp, axis: IterVar, dimension: int) -> ComputeOp:
    """Return the operation that reduces the partial results."""
    assert op.reduction is not None and axis.dom is not None
    inner = IterVar(axis.dom, f"{axis.name}.v", IterType.COMM_REDUCE)
    outer = tuple(IterVar(iv.dom, f"ax{k}") for k, iv in enumerate(op.axis))
    index = (*outer[:dimension], inner, *outer[dimension:])
    terms = tuple(element(t, index) for t in partial.outputs)
    body = list(_reductions(op.reduction.combiner, terms, truth(True), (inner,), op))
    first = op.body[0]
    assert isinstance(first, Value)
    renamed = dict(zip(op.axis, outer, strict=True))
    starts = first.args[op.reduction.arity + 1 :]
    if starts:
        moved = tuple(substitute(s, renamed) for s in starts)
        body = [make(REDUCE, (*b.args, *moved), b.dtype, b.data) for b in body if isinstance(b, Value)]
    if not op.reduction.combiner.is_closed:
        body = [substitute(b, renamed) for b in body]
    return ComputeOp(f"{op.name}.repl", outer, tuple(body), op.tag, op.attrs)


def _keep_untouched(stage: Stage, new: Stage, touched: set[IterVar], axes: dict[IterVar, IterVar]) -> None:
    """Give the stage of partial results the loops that are not connected with `axis`."""
    kept = [r for r in stage.relations if not any(iv in touched for iv in (*r.parents, *r.children))]
    if not kept:
        return
    order = [axes.get(iv, iv) for iv in stage.leaf_iter_vars]
    new.relations = kept
    new.all_iter_vars += [child for r in kept for child in r.children]
    new.leaf_iter_vars = order
    new.iter_var_attrs = {iv: replace(a) for iv, a in stage.iter_var_attrs.items() if iv not in touched}
