"""`Stage.transform_layout`: another order of a tensor's elements, in its operation and wherever it is read.

Example: with `lambda i: [i // 4, i % 4]` the tensor `B[i]` becomes `B[i0, i1]`, computed in loops over `i0` and `i1`,
and its readers read `B[i // 4, i % 4]`. Bounds, caches and loop nests see an ordinary operation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from bound.errors import InputError, ScheduleError
from bound.itervar import IterVar
from bound.operation import ComputeOp, Operation, PlaceholderOp
from bound.schedule.dataflow import replace_op
from bound.schedule.rewrites import guarded, refuse_attached, restart
from bound.tensor import Tensor, element
from bound.tir import build, walk
from bound.tir.value import REDUCE, Operand, Value
from intset.context import Context
from intset.expr.arguments import a_function
from intset.expr.build import logical_not
from intset.expr.dag import substitute
from intset.expr.node import Cond, Expr, Var, as_expr, truth
from intset.expr.range import Range
from intset.itermap.itermap import IterMap, iter_map

if TYPE_CHECKING:
    from bound.schedule.stage import Stage

AXIS_SEPARATOR: Final = "axis_separator"  # between groups of indices that a device addresses apart


def transform_layout(stage: Stage, fn: Callable[..., Any], pad_value: object = None) -> list[IterVar]:
    """See `Stage.transform_layout`."""
    op, schedule = stage.op, stage.schedule
    if not isinstance(op, (ComputeOp, PlaceholderOp)):
        raise ScheduleError(f"stage {op.name}: transform_layout is for placeholders and operations made by te.compute")
    refuse_attached(schedule, stage, "transform_layout")
    stage.whole_own("transform_layout")
    if stage.relations:
        raise ScheduleError(f"stage {op.name}: transform_layout makes new loops, so it precedes split, fuse and tile")
    old = tuple(op.axis if isinstance(op, ComputeOp) else op.dims)
    exprs = _called(op, a_function(fn, "the layout"), old)
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
    new = _placeholder(op, axes) if isinstance(op, PlaceholderOp) else _computed(op, axes, moved, lows, pad_value)
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


def _placeholder(op: PlaceholderOp, axes: Sequence[IterVar]) -> PlaceholderOp:
    shape = tuple(as_expr(iv.dom.extent) for iv in axes if iv.dom is not None)
    return PlaceholderOp(op.name, shape, op.output(0).dtype, None, op.tag)


def _computed(
    op: ComputeOp, axes: tuple[IterVar, ...], moved: IterMap, lows: Sequence[Any], pad_value: object
) -> ComputeOp:
    """The operation over the new indices; places without an element hold the value of the padding."""
    places = [iv + int(low) if int(low) else iv for iv, low in zip(axes, lows, strict=True)]
    values = moved.inverse(places)
    padding = moved.padding_at(places)
    body = tuple(walk.substitute(value, values) for value in op.body)
    if padding is not truth(False):
        body = tuple(_padded(op, value, logical_not(padding), axes, pad_value) for value in body)
    return ComputeOp(op.name, axes, body, op.tag, op.attrs)


def _padded(op: ComputeOp, value: Operand, is_element: Cond, axes: Sequence[IterVar], pad_value: object) -> Operand:
    if pad_value is None:
        return guarded(value, [is_element])
    if isinstance(value, Value) and value.op is REDUCE:
        raise ScheduleError(f"stage {op.name}: the padding of a reduction has the value of an empty one, not pad_value")
    given: Any = pad_value(*axes) if callable(pad_value) else pad_value
    return build.select(is_element, value, build.cast(build.dtype_of(value), build.operand(given)))


def _read_anew(stage: Stage, op: Operation, new: Operation, old: Sequence[IterVar], places: Sequence[Expr]) -> None:
    """Replace the operation of a stage, and the indices wherever its tensors are read."""
    schedule = stage.schedule
    after = dict(zip(op.outputs, new.outputs, strict=True))
    readers = [s for s in schedule.stages if any(t in after for t in s.op.input_tensors)]
    for reader in readers:
        if not isinstance(reader.op, ComputeOp):
            raise ScheduleError(f"stage {op.name}: transform_layout of a tensor that {reader.name} reads as a whole")

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
        if tensor not in after:
            return None
        values = dict(zip(old, indices, strict=True))
        return element(after[tensor], tuple(substitute(e, values) for e in places))

    replace_op(schedule, stage, new)
    restart(stage)
    replaced: dict[Tensor, Tensor] = {}
    for other in schedule.stages:
        current = other.op.replace_inputs(replaced)
        if other in readers and isinstance(current, ComputeOp):
            current = current.with_body(tuple(walk.rewrite(value, on_load=on_load) for value in current.body))
        if current is not other.op:
            replaced.update(replace_op(schedule, other, current))
    schedule.outputs = tuple(schedule.stage_map[done].op for done in schedule.outputs)
    schedule.dataflow_changed()


__all__ = ["AXIS_SEPARATOR", "transform_layout"]
