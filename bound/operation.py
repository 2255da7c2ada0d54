"""Kinds of operations: what the stages of a schedule compute.

Invariant: operations are immutable. Inlining, caching and `rfactor` replace an operation of the schedule by a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bound.itervar import IterType, IterVar
from bound.shapes import plain_sizes
from bound.tensor import Operation, Tensor, element
from bound.tir import walk
from bound.tir.build import dtype_of
from bound.tir.calls import Buffer
from bound.tir.elements import computed_range
from bound.tir.reduce import Reduction
from bound.tir.value import Operand, Value, ValueOp
from intset.errors import InputError
from intset.expr.node import Expr
from intset.expr.range import Range


class PlaceholderOp(Operation):
    """An input tensor.

    Attributes
    ----------
    dims: one axis per dimension, for replays; none of them is a loop.
    """

    def __init__(
        self, name: str, shape: tuple[Expr, ...], dtype: str, value_range: tuple[int, int] | None = None, tag: str = ""
    ) -> None:
        super().__init__(name, tag)
        self.outputs = (Tensor(self, 0, shape, dtype, value_range),)
        self.dims = tuple(IterVar(Range(0, extent), f"{name}.{k}") for k, extent in enumerate(shape))


class ComputeOp(Operation):
    """An operation that computes each element by a formula.

    Attributes
    ----------
    axis: one axis per dimension.
    body: the formula of each output, in terms of `axis`; either none or all of them are reductions.
    reduce_axis: the axes of the reduction, or empty.
    """

    def __init__(
        self,
        name: str,
        axis: tuple[IterVar, ...],
        body: tuple[Operand, ...],
        tag: str = "",
        attrs: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(name, tag, attrs)
        self.axis = axis
        self.body = body
        self.reduction: Reduction | None = _checked_reduction(name, body)
        self.reduce_axis: tuple[IterVar, ...] = () if self.reduction is None else self.reduction.axis
        _check_axes(name, (*axis, *self.reduce_axis), body)
        shape = tuple(extent_of(iv) for iv in axis)
        self.outputs = tuple(Tensor(self, k, shape, dtype_of(value)) for k, value in enumerate(body))
        self._inputs: tuple[Tensor, ...] | None = None
        self._reads: dict[Tensor, list[tuple[Expr, ...]]] | None = None
        self._tell_sizes()

    def _tell_sizes(self) -> None:
        """Tell the axes which plain variables in shapes are sizes."""
        read = (extent for tensor in self.input_tensors for extent in tensor.extents)
        sizes = plain_sizes([*self.outputs[0].extents, *read])
        for iv in self.axis:
            iv.learn_sizes(sizes)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        if self._inputs is None:
            self._inputs = walk.input_tensors(self.body)
        return self._inputs

    @property
    def reads(self) -> Mapping[Tensor, Sequence[tuple[Expr, ...]]]:
        """The index tuples of all reads of each tensor."""
        if self._reads is None:
            self._reads = {}
            for node in walk.nodes(*self.body):
                tensor = walk.loaded_tensor(node)
                if tensor is not None:
                    self._reads.setdefault(tensor, []).append(walk.read_indices(node))
        return self._reads

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return (*self.axis, *self.reduce_axis)

    def range_of(self, index: int, is_finished: bool = True) -> tuple[int, int] | None:
        return computed_range(self.body[index], self.root_iter_vars, self.outputs[index].dtype, is_finished)

    def replace_inputs(self, new: Mapping[Tensor, Tensor]) -> ComputeOp:
        if not any(tensor in new for tensor in self.input_tensors):
            return self
        return self.with_body(tuple(redirected(value, new) for value in self.body))

    def with_body(self, body: tuple[Operand, ...]) -> ComputeOp:
        """Return an operation with the same name and axes, and other formulas."""
        return ComputeOp(self.name, self.axis, body, self.tag, self.attrs)


class ExternOp(Operation):
    """An opaque computation, which needs its inputs completely.

    Attributes
    ----------
    inputs: the tensors it reads.
    body: the calls that compute it, or whatever the script's function returned.
    buffers: the buffers of the inputs and of the outputs in the body.
    """

    def __init__(
        self,
        name: str,
        inputs: tuple[Tensor, ...],
        shapes: tuple[tuple[Expr, ...], ...],
        types: tuple[str, ...],
        body: object,
        buffers: tuple[tuple[Buffer, ...], tuple[Buffer, ...]],
        tag: str = "",
        attrs: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(name, tag, attrs)
        self.inputs = inputs
        self.body = body
        self.buffers = buffers
        self.outputs = tuple(Tensor(self, k, s, t) for k, (s, t) in enumerate(zip(shapes, types, strict=True)))

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys(self.inputs))

    def replace_inputs(self, new: Mapping[Tensor, Tensor]) -> ExternOp:
        if not any(tensor in new for tensor in self.inputs):
            return self
        inputs = tuple(new.get(tensor, tensor) for tensor in self.inputs)
        shapes, types = tuple(t.extents for t in self.outputs), tuple(t.dtype for t in self.outputs)
        return ExternOp(self.name, inputs, shapes, types, self.body, self.buffers, self.tag, self.attrs)


class ScanOp(Operation):
    """A recurrence along the first dimension.

    Rows before `scan_axis` come from `init`, row `t` of `scan_axis` from `update[t]`, which reads earlier rows through
    `state_placeholder`. All are tuples with one entry per output.
    """

    def __init__(
        self,
        name: str,
        scan_axis: IterVar,
        init: tuple[Tensor, ...],
        update: tuple[Tensor, ...],
        state_placeholder: tuple[Tensor, ...],
        inputs: tuple[Tensor, ...],
        tag: str = "",
        attrs: Mapping[str, object] | None = None,
        spatial_axis: tuple[IterVar, ...] | None = None,
    ) -> None:
        super().__init__(name, tag, attrs)
        self.scan_axis = scan_axis
        self.init, self.update = init, update
        self.state_placeholder, self.inputs = state_placeholder, inputs
        self.spatial_axis: tuple[IterVar, ...] = spatial_axis or tuple(
            IterVar(Range(0, extent), f"{name}.out{i}.i{k}", IterType.OPAQUE)
            for i, tensor in enumerate(update)
            for k, extent in enumerate(tensor.extents)
            if k > 0
        )
        self.outputs = tuple(Tensor(self, k, t.extents, t.dtype) for k, t in enumerate(state_placeholder))

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys((*self.init, *self.update)))

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return (self.scan_axis, *self.spatial_axis)

    def replace_inputs(self, new: Mapping[Tensor, Tensor]) -> ScanOp:
        if not any(tensor in new for tensor in self.input_tensors):
            return self
        init, update = (tuple(new.get(t, t) for t in tensors) for tensors in (self.init, self.update))
        states, inputs, axes = self.state_placeholder, self.inputs, self.spatial_axis
        return ScanOp(self.name, self.scan_axis, init, update, states, inputs, self.tag, self.attrs, axes)


def redirected(value: Operand, new: Mapping[Tensor, Tensor]) -> Operand:
    """Read elements of the values of `new` instead of its keys."""

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
        target = new.get(tensor)
        return None if target is None else element(target, indices)

    answer: Operand = walk.rewrite(value, on_load=on_load)
    return answer


def extent_of(iv: IterVar) -> Expr:
    """Return the declared extent of an axis."""
    assert iv.dom is not None and isinstance(iv.dom.extent, Expr)
    return iv.dom.extent


def _checked_reduction(name: str, body: tuple[Operand, ...]) -> Reduction | None:
    tops = [v for v in body if isinstance(v, Value) and v.op is ValueOp.REDUCE]
    inner = {node for node in walk.nodes(*body) if node.op is ValueOp.REDUCE} - set(tops)
    if inner:
        raise InputError(f"in {name} a reduction stands inside a larger formula: make it a tensor of its own")
    if not tops:
        return None
    if len(tops) != len(body):
        raise InputError(f"some outputs of {name} are reductions and some are not: make them tensors of their own")
    first: Reduction = tops[0].data
    for k, top in enumerate(tops):
        if not top.data.combiner.same(first.combiner) or top.data.axis != first.axis or top.args != tops[0].args:
            raise InputError(f"output {k} of {name} is another reduction than output 0: make it a tensor of its own")
    return first


def _check_axes(name: str, axes: tuple[IterVar, ...], body: tuple[Operand, ...]) -> None:
    for var in walk.variables(*body):
        if not isinstance(var, IterVar) or var in axes or var.iter_type is IterType.THREAD_INDEX:
            continue
        if var.is_reduce:
            raise InputError(f"the formula of {name} uses {var.name} without reducing over it")
        raise InputError(f"the formula of {name} uses {var.name}, an axis of another operation")


__all__ = [
    "ComputeOp",
    "ExternOp",
    "Operation",
    "PlaceholderOp",
    "ScanOp",
    "extent_of",
    "redirected",
]
