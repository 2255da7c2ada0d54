"""Rewrites of the dataflow of a schedule: `cache_read`, `cache_write`, `rfactor`, `transform_layout`.

`cache_read`, `cache_write` and `rfactor` insert a stage, replace operations, and redirect consumers. Example:
`cache_write` of `C` in "local" makes a stage `C.local` with the loops of `C`; `C` becomes a copy with fresh axes.

`Stage.transform_layout` orders a tensor's elements anew, in its operation and wherever it is read. Example: with
`lambda i: [i // 4, i % 4]` the tensor `B[i]` becomes `B[i0, i1]`, computed in loops over `i0` and `i1`, and its readers
read `B[i // 4, i % 4]`. Bounds, caches and loop nests see an ordinary operation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from bound.errors import InputError, ScheduleError
from bound.itervar import IterType, IterVar
from bound.schedule import relations as relating
from bound.schedule.attach import AttachType, check_scope, is_inside
from bound.schedule.simple import add, extent, low, number
from bound.schedule.stage import Stage
from bound.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorComputeOp, element, extent_of
from bound.tir import build, walk
from bound.tir.reduce import CommReducer, Reduction, condition, sources, with_condition
from bound.tir.value import REDUCE, Operand, Value, make
from intset.context import Context
from intset.expr import Cond, Expr, Range, Var, arguments, as_expr, dag
from intset.expr.build import logical_not, select
from intset.expr.node import as_int, truth
from intset.itermap.itermap import IterMap, iter_map

if TYPE_CHECKING:
    from bound.schedule.schedule import Schedule


def post_order(outputs: Iterable[Operation], until: Container[Tensor] = ()) -> list[Operation]:
    """List the operations that `outputs` depend on, producers first, in the order in which inputs are read.

    Parameters
    ----------
    until: tensors whose producers are not visited.
    """

    def inputs(op: Operation) -> list[Operation]:
        return [] if any(tensor in until for tensor in op.outputs) else [tensor.op for tensor in op.input_tensors]

    return dag.postorder_by(outputs, inputs)


class Reach:
    """Reachability between operations, as one bit mask per operation. Built in linear time."""

    def __init__(self, ordered: Sequence[Operation]) -> None:
        self._number = {op: k for k, op in enumerate(ordered)}
        self._mask = dict.fromkeys(ordered, 0)
        for op in reversed(ordered):
            below = self._mask[op] | 1 << self._number[op]
            for tensor in op.input_tensors:
                if tensor.op in self._mask:
                    self._mask[tensor.op] |= below

    def reaches(self, producer: Operation, consumer: Operation) -> bool:
        """Return whether `consumer` depends on `producer`, directly or indirectly."""
        return bool(self._mask[producer] >> self._number[consumer] & 1)


def between(outputs: Sequence[Tensor], inputs: Sequence[Tensor], include_inputs: bool) -> list[Operation]:
    """List the operations on paths from `inputs` to `outputs`, producers first.

    The operations of `outputs` are always included, those of `inputs` only if `include_inputs`.
    """
    start = set(inputs)
    inside: dict[Operation, bool] = {}
    for op in post_order((tensor.op for tensor in outputs), start):
        uses = any(tensor in start or inside.get(tensor.op, False) for tensor in op.input_tensors)
        is_input = any(tensor in start for tensor in op.outputs)
        inside[op] = include_inputs if is_input else uses
    # The outputs themselves belong to the group even when they read none of the inputs.
    output_ops = {tensor.op for tensor in outputs}
    return [op for op, inner in inside.items() if inner or op in output_ops]


def replace_op(stage: Stage, op: Operation) -> dict[Tensor, Tensor]:
    """Replace the operation of a stage; returns the map from old to new tensors."""
    old = stage.op
    stage._op = op
    stage.schedule.stage_map[op] = stage
    return dict(zip(old.outputs, op.outputs, strict=True))


def redirect(
    schedule: Schedule, new: dict[Tensor, Tensor], own: Mapping[Stage, Mapping[Tensor, Tensor]] | None = None
) -> None:
    """Make all stages read the values of `new` instead of its keys.

    A changed stage becomes a new operation, whose tensors are added to `new`, so its consumers change as well.

    Invariant: each stage is replaced at most once; `new` never leads to a tensor that was replaced in turn.

    Parameters
    ----------
    own: further replacements for single stages.
    """
    for stage in schedule.stages:
        here = None if own is None else own.get(stage)
        op = stage.op.replace_inputs(new if here is None else {**new, **here})
        if op is not stage.op:
            new.update(replace_op(stage, op))
    schedule.dataflow_changed()


def broadcast(schedule: Schedule, tensors: Collection[Tensor]) -> Schedule:
    """Return a copy whose formulas read element 0 where a dimension of `tensors` has extent 1, whatever the index."""

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
        if tensor not in tensors:
            return None
        return element(tensor, tuple(map(_broadcast_index, tensor.extents, indices)))

    new = schedule.copy()
    for stage in new.stages:
        op = stage.op
        if isinstance(op, ComputeOp) and any(tensor in tensors for tensor in op.input_tensors):
            body = tuple(walk.rewrite(value, on_load=on_load) for value in op.body)
            redirect(new, replace_op(stage, op.with_body(body)))
    return new


def _broadcast_index(extent: Expr, index: Expr) -> Expr:
    if extent.is_const:
        return as_expr(0) if int(extent) == 1 else index
    return select(extent.eq(1), 0, index)


def insert_stage(stage: Stage, op: Operation, is_after: bool) -> Stage:
    """Insert a stage directly before or after `stage`, in the same group."""
    schedule = stage.schedule
    new = Stage(schedule, op)
    new.group = stage.group
    schedule.stages.insert(schedule.stages.index(stage) + is_after, new)
    schedule.stage_map[op] = new
    schedule.dataflow_changed()
    return new


def group_of(schedule: Schedule, outputs: Sequence[Tensor], inputs: Sequence[Tensor], include_inputs: bool) -> Stage:
    """Group the stages between `inputs` and `outputs`.

    Invariant: groups nest. Attachments that would leave the new group are dropped; their stages move to its root.

    Raises
    ------
    ScheduleError: the group is empty, or would overlap an earlier one.
    """
    members = [schedule.stage_map[op] for op in between(outputs, inputs, include_inputs)]
    if not members:
        raise ScheduleError("create_group: there is no stage between the inputs and the outputs")
    parent = _common_group(members)
    # the stage, or the group around it, directly inside the parent
    inner = (next(child for child in (stage, *stage.groups) if child.group is parent) for stage in members)
    children = list(dict.fromkeys(inner))
    for stage in members:
        stage.whole_own("create_group")
    inside = set(members)
    for child in children:
        for stage in schedule.stages if child.is_group else ():
            if is_inside(stage, child) and stage not in inside:
                raise ScheduleError(f"create_group: an earlier group also holds {stage.name}, the new one does not")
    group = Stage(schedule, None)
    group.group = parent
    for child in children:
        child.group = group
    for stage in members:
        if stage.attach_type is AttachType.SCOPE and not is_inside(stage.attach_stage, group):
            stage.compute_root()
        elif stage.store_type is AttachType.SCOPE and not is_inside(stage.store_stage, group):
            stage.store_type = stage.store_stage = stage.store_ivar = None
    schedule.groups.append(group)
    return group


def _common_group(stages: Sequence[Stage]) -> Stage | None:
    return next((group for group in stages[0].groups if all(group in stage.groups for stage in stages)), None)


def cache_read(schedule: Schedule, tensor: Tensor, scope: str, readers: tuple[Operation, ...]) -> Tensor:
    """Insert a copy of `tensor` in `scope` and make `readers` read it; see `Schedule.cache_read`."""
    check_scope(scope)
    source = schedule.current(tensor)
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
    new = insert_stage(stage, copy, is_after=True)
    if any(source in getattr(other.op, "state_placeholder", ()) for other in schedule.stages):
        new.group = _common_group(reading)  # a state is copied row by row, within its scan
    new.set_scope(scope)
    redirect(schedule, {}, {reader: {source: cached} for reader in reading})
    return cached


def cache_write(schedule: Schedule, tensors: tuple[Tensor, ...], scope: str) -> tuple[Tensor, ...]:
    """Compute the outputs of one operation in `scope`, over its present loops, then copy them.

    The copy replaces the operation, with fresh axes; the new stage has one axis per data loop of the old one.

    Raises
    ------
    ScheduleError: the loops cannot become dimensions, or stages are attached to them.
    """
    check_scope(scope)
    tensors_now = tuple(schedule.current(t) for t in tensors)
    if not tensors_now:
        raise InputError("cache_write takes a tensor, or all outputs of one operation, not none")
    op, stage = tensors_now[0].op, schedule[tensors_now[0]]
    if not isinstance(op, (ComputeOp, TensorComputeOp)):
        raise ScheduleError(f"stage {op.name}: cache_write is for operations made by te.compute")
    if any(t.op is not op for t in tensors_now) or (len(tensors_now) > 1 and set(tensors_now) != set(op.outputs)):
        raise ScheduleError(f"stage {op.name}: cache_write takes all outputs of one operation")
    refuse_attached(stage, "cache_write")
    stage.whole_own("cache_write")
    data_leaves = [iv for iv in stage.leaf_iter_vars if not iv.is_reduce]
    for iv in data_leaves:
        if iv.iter_type is not IterType.DATA_PAR:
            raise ScheduleError(f"stage {op.name}: cache_write keeps data axes, but {iv.name} is {iv.iter_type.name}")

    roots = op.axis if isinstance(op, ComputeOp) else op.axis[: op.schedulable]
    ranges = relating.pass_down_domain(stage.relations, {iv: iv.dom for iv in roots if iv.dom is not None})
    missing = next((iv for iv in data_leaves if iv not in ranges), None)
    if missing is not None:
        raise ScheduleError(f"stage {op.name}: cache_write cannot keep {missing.name}, which mixes data and reduction")
    whole = relating.pass_up_index(stage.relations, ranges, {iv: iv for iv in data_leaves})
    mixed = next((iv for iv in roots if iv not in whole), None)
    if mixed is not None:
        raise ScheduleError(f"stage {op.name}: cache_write needs {mixed.name} in loops apart from the reduction")
    leaf_of_root = relating.pass_down_index(stage.relations, ranges, {iv: iv for iv in roots})
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
    new_stage = insert_stage(stage, cached_op, is_after=False)
    new_stage.set_scope(scope)
    redirect(schedule, restart(stage, copy))
    return cached_op.outputs


def _computing(op: ComputeOp, stage: Stage, ranges: relating.Ranges, leaves: list[IterVar], name: str) -> ComputeOp:
    """Return the computation of `op` over its data leaves; points beyond the end of an axis are 0."""
    axis = tuple(IterVar(ranges[iv], f"{iv.name}.c") for iv in leaves)
    values: dict[IterVar, Expr] = dict(zip(leaves, axis, strict=True))
    root_values = relating.pass_up_index(stage.relations, ranges, values)
    guards = relating.split_guards(stage.relations, ranges, root_values)
    mapping = {iv: root_values[iv] for iv in op.axis}
    bodies = tuple(guarded(walk.substitute(value, mapping), guards) for value in op.body)
    return op.with_body(bodies, axis, name)


def _computing_tiles(
    op: TensorComputeOp, stage: Stage, ranges: relating.Ranges, leaves: list[IterVar], name: str
) -> TensorComputeOp:
    """Return the tile computation of `op` over its data leaves.

    Raises
    ------
    ScheduleError: a factor does not divide; an intrinsic cannot be guarded.
    """
    axis = tuple(IterVar(ranges[iv], f"{iv.name}.c") for iv in leaves)
    values = relating.pass_up_index(stage.relations, ranges, dict(zip(leaves, axis, strict=True)))
    if relating.split_guards(stage.relations, ranges, values):
        split = next(r for r in stage.relations if isinstance(r, relating.Split) and r.overruns(ranges))
        raise ScheduleError(
            f"stage {op.name}: cache_write of tiles needs factors that divide, {split.parent.name} has none"
        )
    mapping = {iv: values[iv] for iv in op.axis[: op.schedulable]}
    inner = tuple(IterVar(iv.dom, iv.name, iv.iter_type) for iv in op.axis[op.schedulable :])
    call = op.call.rewritten(lambda value: walk.substitute(value, mapping))
    return TensorComputeOp(name, (*axis, *inner), len(axis), call, op.tag, op.attrs)


def guarded(value: Operand, guards: list[Cond]) -> Operand:
    """Guard a value: outside of the guards a reduction skips elements, any other value is 0."""
    if not guards:
        return value
    if isinstance(value, Value) and value.op is REDUCE:
        return with_condition(value, build.together(*guards, condition(value)))
    return build.select(build.all_of(*guards), value, build.plain_constant(build.cast(build.dtype_of(value), 0)))


def restart(stage: Stage, op: Operation) -> dict[Tensor, Tensor]:
    """Replace the operation of a stage, with its root axes as loops; returns the map from old to new tensors."""
    stage.all_iter_vars, stage.leaf_iter_vars = list(op.root_iter_vars), list(op.root_iter_vars)
    stage.relations, stage.iter_var_attrs = [], {}
    return replace_op(stage, op)


def refuse_attached(stage: Stage, call: str) -> None:
    """Raise `ScheduleError` if a stage is computed or stored in a loop of `stage`."""
    for other in (*stage.schedule.stages, *stage.schedule.groups):
        if other.attach_type is AttachType.SCOPE and other.attach_stage is stage:
            axis = "" if other.attach_ivar is None else other.attach_ivar.name
            raise ScheduleError(f"stage {stage.name}: {call} would remove {axis}, at which {other.name} is computed")
        if other.store_stage is stage:
            axis = "" if other.store_ivar is None else other.store_ivar.name
            raise ScheduleError(f"stage {stage.name}: {call} would remove {axis}, at which {other.name} is stored")


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
    if axis.ends_with_data:
        raise ScheduleError(
            f"stage {op.name}: data decides the extent of {axis.name}, and partial results need a number of places: "
            "split the reduction by a factor and take the inner axis"
        )
    refuse_attached(stage, "rfactor")
    stage.whole_own("rfactor")
    dimension = as_int(factor_axis, "factor_axis")
    dimension = dimension if dimension >= 0 else len(op.axis) + 1 + dimension
    if not 0 <= dimension <= len(op.axis):
        raise ScheduleError(f"stage {op.name}: factor_axis of {axis.name} must be within 0..{len(op.axis)}")

    groups = [(*relation.parents, *relation.children) for relation in stage.relations]
    touched = set(dag.reachable([axis], lambda iv: [other for group in groups if iv in group for other in group]))
    mixed = next((iv for iv in op.axis if iv in touched), None)
    if mixed is not None:
        raise ScheduleError(f"stage {op.name}: rfactor by {axis.name}, which was fused with the data axis {mixed.name}")
    partial, axes = _partial(op, stage, axis, dimension, touched)
    final = _final(op, partial, axes[axis], dimension)
    new_stage = insert_stage(stage, partial, is_after=False)
    _keep_untouched(stage, new_stage, touched, axes)
    redirect(schedule, restart(stage, final))
    return partial.outputs


def _partial(
    op: ComputeOp, stage: Stage, axis: IterVar, dimension: int, touched: set[IterVar]
) -> tuple[ComputeOp, dict[IterVar, IterVar]]:
    """Return the operation of partial results, and the new axis of each leaf connected with `axis`."""
    roots = {iv: iv.dom for iv in op.reduce_axis if iv in touched and iv.dom is not None}
    ranges = relating.pass_down_domain(stage.relations, roots, (axis,))  # its extent is a written dimension
    leaves = [iv for iv in stage.leaf_iter_vars if iv in touched]
    kinds = {iv: IterType.DATA_PAR if iv is axis else IterType.COMM_REDUCE for iv in leaves}
    # A dimension counts from 0, and so does the loop that reads it, wherever the reduction began.
    axes = {
        iv: IterVar(Range(0, extent(ranges[iv])), iv.name, kinds[iv], ends_with_data=iv.ends_with_data) for iv in leaves
    }
    values: dict[IterVar, Expr] = {
        iv: low(ranges[iv]) if number(extent(ranges[iv])) == 1 else add(new, low(ranges[iv]))
        for iv, new in axes.items()
    }
    values = relating.pass_up_index(stage.relations, ranges, values)
    guards = relating.split_guards(stage.relations, ranges, values)
    mapping = {iv: values[iv] for iv in roots}
    untouched = [iv for iv in op.reduce_axis if iv not in touched]
    reduced = (*untouched, *(new for iv, new in axes.items() if iv is not axis))
    first = op.body[0]
    assert isinstance(first, Value) and op.reduction is not None
    where = build.together(*guards, walk.substitute(condition(first), mapping))
    terms = tuple(walk.substitute(source, mapping) for source in sources(first))
    body = _reductions(op.reduction.combiner, terms, where, reduced, op)
    new_axis = (*op.axis[:dimension], axes[axis], *op.axis[dimension:])
    return op.with_body(body, new_axis, f"{op.name}.rf"), axes


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
        moved = tuple(walk.substitute(s, renamed) for s in starts)
        body = [make(REDUCE, (*b.args, *moved), b.dtype, b.data) for b in body if isinstance(b, Value)]
    if not op.reduction.combiner.is_closed:
        body = [walk.substitute(b, renamed) for b in body]
    return op.with_body(tuple(body), outer, f"{op.name}.repl")


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


AXIS_SEPARATOR: Final = "axis_separator"  # between groups of indices that a device addresses apart


def transform_layout(stage: Stage, fn: Callable[..., Any], pad_value: object = None) -> list[IterVar]:
    """See `Stage.transform_layout`."""
    op = stage.op
    if not isinstance(op, (ComputeOp, PlaceholderOp)):
        raise ScheduleError(f"stage {op.name}: transform_layout is for placeholders and operations made by te.compute")
    refuse_attached(stage, "transform_layout")
    stage.whole_own("transform_layout")
    if stage.relations:
        raise ScheduleError(f"stage {op.name}: transform_layout makes new loops, so it precedes split, fuse and tile")
    old = tuple(op.axis if isinstance(op, ComputeOp) else op.dims)
    exprs = _called(op, arguments.a_function(fn, "the layout"), old)
    about = Context({iv: iv.dom for iv in old if iv.dom is not None})
    moved = iter_map(about, old, exprs, None)
    if not moved.injective:
        raise ScheduleError(
            f"stage {op.name}: transform_layout needs a place for every element: {moved.why_no_inverse()}"
        )
    lows = [r.min for r in moved.ranges]
    if any(not isinstance(low, Expr) or not low.is_const for low in lows):
        raise ScheduleError(
            f"stage {op.name}: transform_layout to {', '.join(map(str, exprs))}: an index has no known end"
        )
    places = tuple(e if int(low) == 0 else e - int(low) for e, low in zip(exprs, lows, strict=True))
    axes = tuple(
        IterVar(Range(0, r.extent), e.name if isinstance(e, Var) else f"axis{k}")
        for k, (e, r) in enumerate(zip(exprs, moved.ranges, strict=True))
    )
    new: Operation
    if isinstance(op, PlaceholderOp):
        new = PlaceholderOp(op.name, tuple(map(extent_of, axes)), op.output(0).dtype, None, op.tag)
    else:
        new = _computed(op, axes, moved, lows, pad_value)
    for before, after in zip(op.outputs, new.outputs, strict=True):
        after.value_range = before.value_range
    _read_anew(stage, op, new, old, places)
    return list(axes)


def _called(op: Operation, fn: Callable[..., Any], old: Sequence[IterVar]) -> tuple[Expr, ...]:
    """The new indices; names after `*indices` are the last of the old ones."""
    last = [p.name for p in inspect.signature(fn).parameters.values() if p.kind is p.KEYWORD_ONLY]
    count = len(old) - len(last)
    try:
        answer = fn(*old[:count], **dict(zip(last, old[count:], strict=True)))
    except TypeError as error:
        raise InputError(f"the layout of {op.name} takes its {len(old)} indices: {error}") from error
    indices = answer if isinstance(answer, (list, tuple)) else [answer]
    found = tuple(as_expr(e, f"an index of the layout of {op.name}") for e in indices if not isinstance(e, str))
    if not found:
        raise InputError(f"the layout of {op.name} gives no index")
    return found


def _computed(
    op: ComputeOp, axes: tuple[IterVar, ...], moved: IterMap, lows: Sequence[Any], pad_value: object
) -> ComputeOp:
    """The operation over the new indices; places without an element hold the value of the padding."""
    places = [iv + int(low) if int(low) else iv for iv, low in zip(axes, lows, strict=True)]
    values = moved.inverse(places)
    padding = moved.padding_at(places)
    body = tuple(walk.substitute(value, values) for value in op.body)
    if padding is not truth(False):
        body = tuple(_padded(op, k, value, logical_not(padding), axes, pad_value) for k, value in enumerate(body))
    return op.with_body(body, axes)


def _padded(
    op: ComputeOp, k: int, value: Operand, is_element: Cond, axes: Sequence[IterVar], pad_value: object
) -> Operand:
    if pad_value is None:
        return guarded(value, [is_element])
    if isinstance(value, Value) and value.op is REDUCE:
        raise ScheduleError(f"stage {op.name}: the padding of a reduction has the value of an empty one, not pad_value")
    given: Any = pad_value(*axes) if callable(pad_value) else pad_value
    padding = build.plain_constant(build.cast(op.outputs[k].dtype, build.operand(given)))
    return build.select(is_element, value, padding)


def _read_anew(stage: Stage, op: Operation, new: Operation, old: Sequence[IterVar], places: Sequence[Expr]) -> None:
    """Replace the operation of a stage, and the indices wherever its tensors are read."""
    schedule = stage.schedule
    readers = [s for s in schedule.stages if any(t.op is op for t in s.op.input_tensors)]
    for reader in readers:
        if not isinstance(reader.op, ComputeOp):
            raise ScheduleError(f"stage {op.name}: transform_layout of a tensor that {reader.name} reads as a whole")

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
        if tensor not in after:
            return None
        values = dict(zip(old, indices, strict=True))
        return element(after[tensor], tuple(walk.substitute(e, values) for e in places))

    after = restart(stage, new)
    replaced: dict[Tensor, Tensor] = {}
    for other in schedule.stages:
        current = other.op.replace_inputs(replaced)
        if other in readers and isinstance(current, ComputeOp):
            current = current.with_body(tuple(walk.rewrite(value, on_load=on_load) for value in current.body))
        if current is not other.op:
            replaced.update(replace_op(other, current))
    schedule.dataflow_changed()
