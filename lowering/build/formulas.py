"""Formulas: the stores of an operation over its root axes."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from bound.itervar import IterVar
from bound.operation import ComputeOp, TensorComputeOp
from bound.tensor import Tensor, element, unfinished
from bound.tir import build, walk
from bound.tir.reduce import Parameter, Reduction, condition, initial, sources
from bound.tir.value import REDUCE, Operand, Value, make, parameter
from intset.errors import InputError
from intset.expr import ops
from intset.expr.node import Expr, Var, as_expr
from intset.expr.range import Range
from lowering.nest.ir import If, Let, Stmt, Store, seq
from lowering.nest.walk import Old, replaced, substitute


@dataclass(frozen=True, eq=False)
class Formula:
    """Stores of one operation, at a point of its axes.

    Attributes
    ----------
    axis: root axes of the outputs, one per dimension.
    extra: axes inside a tensor intrinsic, which have no loop in the schedule, with their ranges.
    reduce_extra: the reduction axes among `extra`.
    init: initial stores of a reduction, else `None`.
    update: stores at every point.
    """

    axis: tuple[IterVar, ...]
    extra: tuple[tuple[IterVar, Range], ...]
    reduce_extra: tuple[IterVar, ...]
    init: Stmt | None
    update: Stmt


def formula_of(op: ComputeOp | TensorComputeOp, kept: Container[Tensor]) -> Formula:
    """The formula of an operation, restricted to the outputs `kept` (see `stored_outputs`)."""
    if isinstance(op, ComputeOp):
        return _formula(op.axis, op.outputs, op.body, kept, (), ())
    return _tile_formula(op, kept)


def _formula(
    axis: tuple[IterVar, ...],
    outputs: tuple[Tensor, ...],
    body: tuple[Operand, ...],
    kept: Container[Tensor],
    extra: tuple[tuple[IterVar, Range], ...],
    reduce_extra: tuple[IterVar, ...],
) -> Formula:
    top = body[0]
    place = tuple(axis)
    if not isinstance(top, Value) or top.op is not REDUCE:
        stores = [Store(t, place, value) for t, value in zip(outputs, body, strict=True) if t in kept]
        return Formula(axis, extra, reduce_extra, None, seq(*stores))
    reduction: Reduction = top.data
    starts = initial(top) or reduction.combiner.identity
    init = [Store(t, place, start) for t, start in zip(outputs, starts, strict=True) if t in kept]
    return Formula(axis, extra, reduce_extra, seq(*init), _update(top, outputs, kept, place))


def _update(top: Value, outputs: tuple[Tensor, ...], kept: Container[Tensor], place: tuple[Expr, ...]) -> Stmt:
    """Combine one more element into the outputs."""
    combiner = top.data.combiner
    old = [unfinished(t, place) for t in outputs]
    mapping: dict[Parameter, Operand] = dict(zip((*combiner.lhs, *combiner.rhs), (*old, *sources(top)), strict=True))
    results = {t: result for t, result in zip(outputs, combiner.results, strict=True) if t in kept}
    values = {t: replaced(result, mapping) for t, result in results.items()}
    if len(values) == 1:
        update: Stmt = seq(*(Store(t, place, value) for t, value in values.items()))
    else:  # every result is computed from the old values
        names = {t: _temporary(t, value) for t, value in values.items()}
        lets = [Let(name, values[t]) for t, name in names.items()]
        update = seq(*lets, *(Store(t, place, name) for t, name in names.items()))
    cond = condition(top)
    assert not isinstance(cond, Expr)
    return update if cond.op is ops.BOOL and cond.data else If(cond, update)


def _temporary(tensor: Tensor, value: Operand) -> Parameter:
    name = tensor.name.replace(".", "_") + "_new"
    return Var(name) if isinstance(value, Expr) else parameter(name, build.dtype_of(value))


# --- tensor intrinsics ----------------------------------------------------------------------------------------------


def _tile_formula(op: TensorComputeOp, kept: Container[Tensor]) -> Formula:
    """The formula of a tensor intrinsic: its operation, substituted at its regions."""
    call, inner = op.call, op.call.intrin.op
    tile_axes = op.axis[op.schedulable :]
    mapping: dict[Operand, Operand] = dict(zip(inner.axis, tile_axes, strict=True))
    mapping |= dict(zip(call.intrin.scalar_params, call.scalars, strict=True))
    regions = {
        formal: (tensor, region)
        for formal, tensor, region in zip(call.intrin.inputs, call.tensors, call.regions, strict=True)
    }

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
        if tensor not in regions:
            return None
        actual, region = regions[tensor]
        return element(actual, _in_region(tensor, indices, actual, region))

    bodies = tuple(walk.rewrite(replaced(body, mapping), on_load=on_load) for body in inner.body)
    extra = tuple((iv, _domain(iv)) for iv in (*tile_axes, *inner.reduce_axis))
    if inner.reduction is None or not op.reduce_axis:
        return _formula(op.axis, op.outputs, bodies, kept, extra, inner.reduce_axis)
    top = bodies[0]
    assert isinstance(top, Value)
    whole = Reduction(top.data.combiner, (*op.reduce_axis, *top.data.axis), 0)
    bodies = tuple(make(REDUCE, b.args, b.dtype, whole) for b in bodies if isinstance(b, Value))
    return _formula(op.axis, op.outputs, bodies, kept, extra, inner.reduce_axis)


def _domain(iv: IterVar) -> Range:
    assert isinstance(iv.dom, Range)
    return iv.dom


def _in_region(
    formal: Tensor, indices: tuple[Expr, ...], actual: Tensor, region: tuple[Range, ...]
) -> tuple[Expr, ...]:
    """Convert indices in a tile to indices in its tensor; dimensions of extent 1 may be missing on either side."""
    if formal.ndim == len(region):
        steps: list[Expr | None] = list(indices)
    else:
        moving = iter(i for i, e in zip(indices, formal.extents, strict=True) if not _is_one(e))
        steps = [None if _is_one(r.extent) else next(moving, None) for r in region]
        if next(moving, None) is not None:
            raise InputError(f"the region of {actual.name} has another shape than {formal.name} of the intrinsic")
    return tuple(_plus(r.min, step) for r, step in zip(region, steps, strict=True))


def _is_one(e: object) -> bool:
    return isinstance(e, Expr) and e.is_const and e.data == 1


def _plus(low: object, step: Expr | None) -> Expr:
    start = as_expr(low)
    if step is None:
        return start
    return step if start.is_const and start.data == 0 else start + step


def substituted(formula: Formula, values: Mapping[Old, Operand], start: Mapping[Old, Operand]) -> Formula:
    """Replace axes in a formula by their values in loop variables.

    Parameters
    ----------
    values: for the update.
    start: for the initial stores.
    """
    init = None if formula.init is None else substitute(formula.init, dict(start))
    update = substitute(formula.update, dict(values))
    return Formula(formula.axis, formula.extra, formula.reduce_extra, init, update)
