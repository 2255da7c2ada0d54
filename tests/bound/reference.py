"""`evaluate`: compute tensors with numpy from their definitions, independent of schedules.

The oracle of the tests: slow, obvious, and strict about undefined values.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from benchmarks.arrays import ArrayEvaluator, Cells, wrap
from bound import dtypes
from bound.schedule.rewrites import post_order
from bound.tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, ScanOp, Tensor, TensorComputeOp
from bound.tir.build import Buffer, ExternCall
from bound.tir.reduce import CommReducer, condition, initial, sources
from bound.tir.value import PARAM, Operand, Value
from bound.tir.walk import nodes
from intset.errors import InputError, UndefinedError
from intset.expr import ops
from intset.expr.evaluate import evaluate as evaluate_expr
from intset.expr.node import Expr, Var
from intset.expr.printer import shown
from lowering.codegen.python_runtime import Functions


def evaluate(
    outputs: Tensor | Sequence[Tensor],
    inputs: Mapping[Any, Any],
    sizes: Mapping[Any, Any] | None = None,
    functions: Functions | None = None,
) -> Any:
    """Return the contents of `outputs` as numpy arrays: one, or a tuple for a sequence.

    Parameters
    ----------
    outputs: the tensors to compute.
    inputs: an array for each placeholder, by tensor or by name.
    sizes: values of variables and scalar parameters, by themselves or by name. Extents of placeholders follow from
        their arrays.
    functions: implementations of extern calls by name; they take input arrays and fill the output arrays.

    Raises
    ------
    InputError: an input is missing or has the wrong shape, or a variable has no value.
    UndefinedError: an element of an output reads outside of a tensor, or divides integers by 0.
    """
    tensors = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    ops = post_order([tensor.op for tensor in tensors])
    for tensor in dict.fromkeys(tensor for op in ops for tensor in op.outputs):
        dtypes.check_executed(tensor.dtype, tensor.name)
    run = _Run(_scalars(ops, inputs, sizes or {}), functions or {})
    run.states = frozenset(state for op in ops if isinstance(op, ScanOp) for state in op.state_placeholder)
    for op in ops:
        run.compute(op, inputs)
    for tensor in tensors:
        bad = run.cells[tensor].bad
        if bad is not None and bad.any():
            point = tuple(int(k) for k in next(zip(*bad.nonzero(), strict=True), ()))
            raise UndefinedError(f"{tensor.name}{list(point)} is undefined: it reads outside a tensor or divides by 0")
    arrays = tuple(run.cells[tensor].value for tensor in tensors)
    return arrays[0] if isinstance(outputs, Tensor) else arrays


def _scalars(ops: Sequence[Operation], inputs: Mapping[Any, Any], sizes: Mapping[Any, Any]) -> dict[Any, Any]:
    """Collect values of variables: given ones, and extents of given arrays."""
    by_name = {key: value for key, value in sizes.items() if isinstance(key, str)}
    values = {key: value for key, value in sizes.items() if not isinstance(key, str)}
    for op in ops:
        for tensor in op.outputs:
            array = _given(tensor, inputs) if isinstance(op, PlaceholderOp) else None
            for k, extent in enumerate(tensor.extents):
                for var in extent.free_vars():
                    if var.name in by_name:
                        values.setdefault(var, by_name[var.name])
                if array is not None and isinstance(extent, Var) and len(array.shape) == tensor.ndim:
                    values.setdefault(extent, array.shape[k])
    return _Named(values, by_name)


class _Named(dict[Any, Any]):
    """Values by variable or parameter, with a fallback to names."""

    def __init__(self, values: Mapping[Any, Any], by_name: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.by_name = by_name

    def __missing__(self, key: Any) -> Any:
        return self.by_name[key.name if isinstance(key, Var) else key.data[0]]


def _given(tensor: Tensor, inputs: Mapping[Any, Any]) -> Any:
    array = inputs.get(tensor, inputs.get(tensor.name))
    return None if array is None else np.asarray(array)


class _Run:
    """Evaluation in progress: the contents of the tensors computed so far."""

    def __init__(self, scalars: dict[Any, Any], functions: Functions) -> None:
        self.scalars = scalars
        self.functions = functions
        self.cells: dict[Tensor, Cells] = {}
        self.states: frozenset[Tensor] = frozenset()

    def compute(self, op: Operation, inputs: Mapping[Any, Any]) -> None:
        """Evaluate an operation whose inputs are computed."""
        if isinstance(op, PlaceholderOp):
            if op.output(0) not in self.cells:
                self._placeholder(op.output(0), inputs)
        elif isinstance(op, ComputeOp):
            self.cells.update(zip(op.outputs, self._compute(op), strict=True))
        elif isinstance(op, ExternOp):
            self._extern(op)
        elif isinstance(op, ScanOp):
            self._scan(op)
        elif isinstance(op, TensorComputeOp):
            self._tensor_compute(op)
        else:
            raise InputError(f"{shown(op)} cannot be evaluated")

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        return tuple(self.number(extent) for extent in tensor.extents)

    def number(self, e: Any) -> int:
        """Return the value of an expression in sizes."""
        if not isinstance(e, Expr):
            raise InputError(f"{shown(e)} is not a size")
        return max(0, int(evaluate_expr(e, {var: int(self.scalars[var]) for var in e.free_vars()})))

    def _placeholder(self, tensor: Tensor, inputs: Mapping[Any, Any]) -> None:
        array = _given(tensor, inputs)
        if array is None:
            if tensor in self.states:  # known row by row, once its scan runs
                shape = self.shape(tensor)
                self.cells[tensor] = Cells(np.zeros(shape, tensor.dtype), np.ones(shape, bool))
            return
        if array.shape != self.shape(tensor):
            raise InputError(f"the array for {tensor.name} has shape {array.shape}, not {self.shape(tensor)}")
        self.cells[tensor] = Cells(array.astype(tensor.dtype))

    def _evaluator(self, env: Mapping[Any, Any], operands: Sequence[Operand]) -> ArrayEvaluator:
        outer = {}
        for var in nodes(*operands):
            if (var.op is ops.VAR or var.op is PARAM) and var not in env:
                with suppress(KeyError):
                    outer[var] = np.asarray(self.scalars[var], var.dtype if isinstance(var, Value) else None)
        return ArrayEvaluator({**outer, **env}, self.cells, self.functions)

    def _compute(self, op: ComputeOp) -> tuple[Cells, ...]:
        shape = self.shape(op.output(0))
        grid = {
            iv: np.arange(extent).reshape([-1 if k == d else 1 for k in range(len(shape))] or ())
            for d, (iv, extent) in enumerate(zip(op.axis, shape, strict=True))
        }
        if op.reduction is not None:
            return self._reduce(op, shape, grid)
        evaluate_at = self._evaluator(grid, op.body)
        return tuple(
            _filled(evaluate_at(body), shape, tensor.dtype) for body, tensor in zip(op.body, op.outputs, strict=True)
        )

    def _reduce(self, op: ComputeOp, shape: tuple[int, ...], grid: Mapping[Any, Any]) -> tuple[Cells, ...]:
        assert op.reduction is not None
        top, combiner = op.body[0], op.reduction.combiner
        assert isinstance(top, Value)
        starts = initial(top) or combiner.identity
        at_start = self._evaluator(grid, starts)
        totals = [_filled(at_start(e), shape, t.dtype) for e, t in zip(starts, op.outputs, strict=True)]
        for place in itertools.product(*map(self._reduce_range, op.reduce_axis)):
            env = {**grid, **dict(zip(op.reduce_axis, map(np.asarray, place), strict=True))}
            totals = self._combine(combiner, totals, self._terms(op, top, env, shape))
        return tuple(Cells(stored(c.value, t.dtype), c.bad) for c, t in zip(totals, op.outputs, strict=True))

    def _reduce_range(self, iv: Any) -> range:
        low, extent = iv.dom.min, iv.dom.extent
        start = int(evaluate_expr(low, {var: int(self.scalars[var]) for var in low.free_vars()}))
        return range(start, start + self.number(extent))

    def _terms(self, op: ComputeOp, top: Value, env: Mapping[Any, Any], shape: tuple[int, ...]) -> list[Cells]:
        """Return the contribution of each point; the identity if the condition is false."""
        combiner = top.data.combiner
        evaluate_at = self._evaluator(env, (*sources(top), condition(top), *combiner.identity))
        cond = evaluate_at(condition(top))
        terms = []
        for source, identity, tensor in zip(sources(top), combiner.identity, op.outputs, strict=True):
            term = evaluate_at(source)
            bad = None if term.bad is None else term.bad & cond.value
            if cond.bad is not None:
                bad = cond.bad if bad is None else bad | cond.bad
            value = np.where(cond.value, term.value, evaluate_at(identity).value)
            terms.append(_filled(Cells(value, bad), shape, tensor.dtype))
        return terms

    def _combine(self, combiner: CommReducer, left: list[Cells], right: list[Cells]) -> list[Cells]:
        wide = (c.value.astype(np.int64) if c.value.dtype.kind in "iu" else c.value for c in (*left, *right))
        env = dict(zip((*combiner.lhs, *combiner.rhs), wide, strict=True))
        evaluate_at = self._evaluator(env, combiner.results)
        bad = None
        for c in (*left, *right):
            bad = c.bad if bad is None else bad if c.bad is None else bad | c.bad
        return [Cells(evaluate_at(result).value, bad) for result in combiner.results]

    def _extern(self, op: ExternOp) -> None:
        ins, outs = op.buffers
        arrays: dict[Buffer, Any] = {b: self.cells[t].value for b, t in zip(ins, op.inputs, strict=True)}
        arrays |= {b: np.zeros(self.shape(t), t.dtype) for b, t in zip(outs, op.outputs, strict=True)}
        for call in op.body if isinstance(op.body, (tuple, list)) else (op.body,):
            if not isinstance(call, ExternCall) or call.name not in self.functions:
                name = call.name if isinstance(call, ExternCall) else repr(call)
                raise InputError(f"{op.name} calls {name}, which is not known: pass it in functions")
            args = [arrays[a] if isinstance(a, Buffer) else a for a in call.args]
            self.functions[call.name](*args)
        for buffer, tensor in zip(outs, op.outputs, strict=True):
            self.cells[tensor] = Cells(arrays[buffer])

    def _scan(self, op: ScanOp) -> None:
        states = []
        for tensor, init in zip(op.outputs, op.init, strict=True):
            content, mask = np.zeros(self.shape(tensor), tensor.dtype), np.ones(self.shape(tensor), bool)
            rows = min(self.cells[init].value.shape[0], len(content))
            content[:rows], mask[:rows] = self.cells[init].value[:rows], _mask(self.cells[init])[:rows]
            states.append(Cells(content, mask))
        self.cells.update(zip(op.state_placeholder, states, strict=True))
        body = []  # what depends on the state
        for o in post_order([t.op for t in op.update]):
            if any(t in op.state_placeholder or t.op in body for t in o.input_tensors):
                body.append(o)
        for t in self._reduce_range(op.scan_axis):
            for inner in body:
                self.compute(inner, {})
            for state, update in zip(states, op.update, strict=True):
                row = self.cells[update]
                state.value[t], state.bad[t] = row.value[t], _mask(row)[t]
        self.cells.update(zip(op.outputs, states, strict=True))

    def _tensor_compute(self, op: TensorComputeOp) -> None:
        call, inner = op.call, op.call.intrin.op
        totals: list[Any] = [np.zeros(self.shape(t), t.dtype) for t in op.outputs]
        outer, started = op.axis[: op.schedulable], set()
        loops = [self._reduce_range(iv) for iv in (*outer, *op.reduce_axis)]
        for point in itertools.product(*loops):
            env = dict(zip((*outer, *op.reduce_axis), point, strict=True))
            tile_index = point[: op.schedulable]
            tile = self._tile(op, env)
            for k, cells in enumerate(tile._compute(inner)):
                value = cells.value
                if tile_index in started and inner.reduction is not None:
                    before = [Cells(totals[k][tile_index])]
                    value = self._combine(inner.reduction.combiner, before, [cells])[0].value
                totals[k][tile_index] = stored(value, op.outputs[k].dtype)
            started.add(tile_index)
        self.cells.update((t, Cells(total)) for t, total in zip(op.outputs, totals, strict=True))
        assert len(call.tensors) == len(call.intrin.inputs)

    def _tile(self, op: TensorComputeOp, env: Mapping[Any, int]) -> _Run:
        """Evaluate an intrinsic on the regions that it reads at one point of the outer axes."""
        call = op.call
        numbers = (int(scalar) if isinstance(scalar, Expr) else scalar.data for scalar in call.scalars)
        scalars = {**self.scalars, **dict(zip(call.intrin.scalar_params, numbers, strict=True))}
        tile = _Run(_Named(scalars, {}), self.functions)
        for formal, tensor, region in zip(call.intrin.inputs, call.tensors, call.regions, strict=True):
            cut = []
            for r in region:
                point = {var: env[var] if var in env else int(self.scalars[var]) for var in r.free_vars()}
                assert isinstance(r.min, Expr) and isinstance(r.extent, Expr)
                low = int(evaluate_expr(r.min, point))
                cut.append(slice(low, low + int(evaluate_expr(r.extent, point))))
            part = self.cells[tensor].value[tuple(cut)]
            tile.cells[formal] = Cells(part.reshape(tile.shape(formal)))
        return tile


def _filled(cells: Cells, shape: tuple[int, ...], dtype: str) -> Cells:
    """Broadcast cells to the whole shape, converted to the element type."""
    value = np.broadcast_to(stored(cells.value, dtype), shape)
    return Cells(value, None if cells.bad is None else np.broadcast_to(cells.bad, shape))


def stored(value: Any, dtype: str) -> Any:
    """Convert values as a tensor of the given type stores them."""
    if dtypes.is_int(dtype):
        return wrap(value, dtypes.bits(dtype), dtypes.signed(dtype)).astype(dtype)
    return np.asarray(value).astype(dtype)


def _mask(cells: Cells) -> Any:
    return np.zeros(cells.value.shape, bool) if cells.bad is None else cells.bad
