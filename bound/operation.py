"""Kinds of operations: what the stages of a schedule compute, and fields of their formulas under TVM's names.

A tensor intrinsic is code that computes a whole tile.

Invariant: operations are immutable. Inlining, caching and `rfactor` replace an operation of the schedule by a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Final, NoReturn

from bound.itervar import IterType, IterVar
from bound.tensor import GLOBAL, ScriptTuple, Tensor, TensorSlice, as_index, element
from bound.tensor import Operation as Operation
from bound.tir import build, walk
from bound.tir.build import Buffer, dtype_of
from bound.tir.reduce import Parameter, Reduction, computed_range, initial, reduction_of, sources
from bound.tir.value import OPERATORS, PARAM, REDUCE, Operand, Value
from intset.errors import InputError
from intset.expr import Cond, Expr, Range, Var, arguments, as_expr, dag, ops, shown
from intset.expr.node import PlainVar


class PlaceholderOp(Operation):
    """An input tensor.

    Attributes
    ----------
    dims: one axis per dimension, for replays; none of them is a loop.
    buffer: the buffer for which the tensor stands in a nest, or `None`.
    """

    buffer: Buffer | None = None

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
    dtypes: the element types, by default those of the formulas.
    foreign_axis: an axis of another operation that the formulas read, or `None`; only intrinsics have one.
    """

    def __init__(
        self,
        name: str,
        axis: tuple[IterVar, ...],
        body: tuple[Operand, ...],
        tag: str = "",
        attrs: Mapping[str, object] | None = None,
        dtypes: Sequence[str] = (),
    ) -> None:
        super().__init__(name, tag, attrs)
        self.axis = ScriptTuple(axis)
        self.body = body
        self.reduction: Reduction | None = _checked_reduction(name, body)
        self.reduce_axis = ScriptTuple(() if self.reduction is None else self.reduction.axis)
        self.foreign_axis = _foreign_axis(name, (*axis, *self.reduce_axis), body)
        shape = tuple(extent_of(iv) for iv in axis)
        types = dtypes or tuple(map(dtype_of, body))
        self.outputs = tuple(Tensor(self, k, shape, dtype) for k, dtype in enumerate(types))
        self._tell_sizes()

    def _tell_sizes(self) -> None:
        """Tell the axes which plain variables in shapes are sizes."""
        read = (extent for tensor in self.input_tensors for extent in tensor.extents)
        sizes = plain_sizes([*self.outputs[0].extents, *read])
        for iv in self.axis:
            iv.learn_sizes(sizes)

    @cached_property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return walk.input_tensors(self.body)

    @cached_property
    def reads(self) -> Mapping[Tensor, Sequence[tuple[Expr, ...]]]:
        """The index tuples of all reads of each tensor."""
        reads: dict[Tensor, list[tuple[Expr, ...]]] = {}
        for node in walk.nodes(*self.body):
            tensor = walk.loaded_tensor(node)
            if tensor is not None:
                reads.setdefault(tensor, []).append(walk.read_indices(node))
        return reads

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return (*self.axis, *self.reduce_axis)

    def range_of(self, index: int, is_finished: bool = True) -> tuple[int, int] | None:
        return computed_range(self.body[index], self.root_iter_vars, self.outputs[index].dtype, is_finished)

    def _with_inputs(self, new: Mapping[Tensor, Tensor]) -> ComputeOp:
        return self.with_body(tuple(redirected(value, new) for value in self.body))

    def with_body(self, body: tuple[Operand, ...], axis: tuple[IterVar, ...] = (), name: str = "") -> ComputeOp:
        """Return an operation with other formulas of the same types; axes and name stay unless they are given."""
        types = [t.dtype for t in self.outputs]
        return ComputeOp(name or self.name, axis or self.axis, body, self.tag, self.attrs, types)


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

    def __getattr__(self, name: str) -> NoReturn:
        why = ": it runs a nest of its own, whose loops are not scheduled" if name in ("axis", "reduce_axis") else ""
        raise AttributeError(f"{type(self).__name__} {self.__dict__.get('name', '')} has no {name}{why}")

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys(self.inputs))

    def _with_inputs(self, new: Mapping[Tensor, Tensor]) -> ExternOp:
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
    def axes_of_states(self) -> tuple[tuple[IterVar, ...], ...]:
        """The spatial axes of each state."""
        ends = [0, *accumulate(state.ndim - 1 for state in self.state_placeholder)]
        return tuple(self.spatial_axis[low:high] for low, high in pairwise(ends))

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys((*self.init, *self.update)))

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return (self.scan_axis, *self.spatial_axis)

    @property
    def spatial_axis_(self) -> tuple[IterVar, ...]:
        """TVM's name for `spatial_axis`."""
        return self.spatial_axis

    def _with_inputs(self, new: Mapping[Tensor, Tensor]) -> ScanOp:
        init, update = (tuple(new.get(t, t) for t in tensors) for tensors in (self.init, self.update))
        states, inputs, axes = self.state_placeholder, self.inputs, self.spatial_axis
        return ScanOp(self.name, self.scan_axis, init, update, states, inputs, self.tag, self.attrs, axes)


def has_row(op: ScanOp, init: Tensor, row: Expr) -> tuple[Cond, ...]:
    """The conditions for a scan to have a row of an initial state; none if the output has all rows whatever its length.

    A scan may be shorter than its initial states: of length 0 it has no rows at all.
    """
    length, first = op.outputs[0].extents[0], init.extents[0]
    if length is first or (length.is_const and first.is_const and first.data <= length.data):
        return ()
    return (row < length,)


def redirected(value: Operand, new: Mapping[Tensor, Tensor]) -> Operand:
    """Read elements of the values of `new` instead of its keys."""

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
        target = new.get(tensor)
        return None if target is None else element(target, indices)

    return walk.rewrite(value, on_load=on_load)


def plain_sizes(extents: Iterable[Expr]) -> tuple[Var, ...]:
    """Return the plain variables in extents: those not declared as sizes."""
    return tuple(var for var in dag.free_vars(*extents) if type(var) is PlainVar)


def extent_of(iv: IterVar) -> Expr:
    """Return the declared extent of an axis."""
    assert iv.dom is not None and isinstance(iv.dom.extent, Expr)
    return iv.dom.extent


def _checked_reduction(name: str, body: tuple[Operand, ...]) -> Reduction | None:
    tops = [v for v in body if isinstance(v, Value) and v.op is REDUCE]
    inner = {node for node in walk.nodes(*body) if node.op is REDUCE} - set(tops)
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


def _foreign_axis(name: str, axes: tuple[IterVar, ...], body: tuple[Operand, ...]) -> IterVar | None:
    """An axis of another operation in the formulas."""
    found = None
    for var in walk.variables(*body):
        if not isinstance(var, IterVar) or var in axes or var.iter_type is IterType.THREAD_INDEX:
            continue
        if var.is_reduce:
            raise InputError(f"the formula of {name} uses {var.name} without reducing over it")
        found = var
    return found


def buffer_tensor(buffer: Buffer) -> Tensor:
    """Return the tensor that stands for a buffer in formulas and nests; always the same."""
    found: Tensor | None = buffer.__dict__.get("tensor")
    if found is None:
        op = PlaceholderOp(buffer.name, buffer.shape, buffer.dtype)
        found = buffer.__dict__["tensor"] = op.output(0)
        op.buffer = buffer
    return found


def buffer_of(tensor: Tensor) -> Buffer | None:
    """Return the buffer for which a tensor stands; `None` for other tensors."""
    return tensor.op.buffer if isinstance(tensor.op, PlaceholderOp) else None


OPERATORS.buffer_tensor = buffer_tensor


class TensorIntrin:
    """A tile computation: `op` is its meaning in tensor expressions, `lower` makes its code and is never called here.

    A call in `te.compute` with slices such as `B[i:i+3, 0:20]` declares that it reads these regions.
    """

    def __init__(
        self,
        name: str,
        op: ComputeOp,
        lower: Callable[..., object],
        scalar_params: tuple[Parameter, ...],
        buffers: tuple[Buffer, ...],
    ) -> None:
        self.name = name
        self.op = op
        self.lower = lower
        self.scalar_params = scalar_params
        self.inputs = op.input_tensors
        self.reduce_init = self.reduce_update = None
        self.buffers = buffers

    def __call__(self, *args: object, **kwargs: object) -> TensorIntrinCall:
        slices = [TensorSlice(a, ()) if isinstance(a, Tensor) else a for a in args]
        read = tuple(s for s in slices if isinstance(s, TensorSlice))
        scalars = tuple(build.operand(s, f"a scalar of {self.name}") for s in slices if not isinstance(s, TensorSlice))
        if len(read) != len(self.inputs) or len(scalars) != len(self.scalar_params):
            signature = f"{len(self.inputs)} tensors and {len(self.scalar_params)} scalars"
            raise InputError(f"{self.name} takes {signature}, not {len(read)} and {len(scalars)}")
        axis: Any = kwargs.pop("reduce_axis", ())
        if kwargs:
            raise InputError(f"{self.name} has no parameter {', '.join(kwargs)}")
        reduce_axis = (axis,) if isinstance(axis, IterVar) else tuple(axis)
        return TensorIntrinCall(
            self, tuple(s.tensor for s in read), tuple(_region(s) for s in read), reduce_axis, scalars
        )


@dataclass(frozen=True, eq=False)
class TensorIntrinCall:
    """An intrinsic applied to regions; one tuple of ranges per tensor."""

    intrin: TensorIntrin
    tensors: tuple[Tensor, ...]
    regions: tuple[tuple[Range, ...], ...]
    reduce_axis: tuple[IterVar, ...] = ()
    scalars: tuple[Operand, ...] = ()


def _region(part: TensorSlice) -> tuple[Range, ...]:
    tensor = part.tensor
    ranges = []
    for k, extent in enumerate(tensor.extents):
        index = part.indices[k] if k < len(part.indices) else slice(None)
        if not isinstance(index, slice):
            ranges.append(Range(as_index(tensor, k, index), 1))
            continue
        if index.step is not None and index.step != 1:
            raise InputError(f"a region of {tensor.name} must be contiguous: index {k} has a step")
        start = as_index(tensor, k, 0 if index.start is None else index.start)
        stop = as_index(tensor, k, extent if index.stop is None else index.stop)
        ranges.append(Range(start, _difference(start, stop)))
    return tuple(ranges)


def _difference(start: Expr, stop: Expr) -> Expr:
    """Return `stop - start`; a constant for ends such as `i` and `i + 3`."""
    if start.is_const and stop.is_const:
        return as_expr(stop.data - start.data)
    if start.is_const and start.data == 0:
        return stop
    if stop.op is ops.ADD:
        left, right = map(as_expr, stop.args)
        if left is start:
            return right
        if right is start:
            return left
    return stop - start


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[..., object],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
    scalar_params: Sequence[Parameter] = (),
    **options: object,
) -> TensorIntrin:
    """Declare an intrinsic for the computation that `op` describes.

    Parameters
    ----------
    op: its meaning, on tensors of the tile's size.
    fcompute: makes its code; stored, never called.
    scalar_params: variables in the formula of `op` for the scalars of a call.
    binds: buffers for its tensors, which `buffers` of the answer lists; code here is row-major whatever they say.
    options: accepted and ignored.
    """
    if not isinstance(op, ComputeOp):
        raise InputError(f"a tensor intrinsic describes a compute operation, not {shown(op)}")
    params = arguments.listed(() if scalar_params is None else scalar_params, "scalar_params", "a list of variables")
    for param in params:
        if not isinstance(param, (Var, Value)):
            raise InputError(f"a part of scalar_params must be a variable, not {shown(param)}")
    given = arguments.mapped({} if binds is None else binds, "binds")
    tensors = (*op.input_tensors, *op.outputs)
    buffers = tuple(given[t] if t in given else Buffer(t.name, t.extents, t.dtype, GLOBAL) for t in tensors)
    return TensorIntrin(
        arguments.a_name(name, "the name of a tensor intrinsic"),
        op,
        arguments.a_function(fcompute, "fcompute"),
        params,
        buffers,
    )


class TensorComputeOp(Operation):
    """An operation that computes each tile by an intrinsic.

    Attributes
    ----------
    axis: the axes over tiles, then the axes inside a tile (the last `len(axis) - schedulable` ones).
    schedulable: the number of axes over tiles.
    call: the intrinsic and the regions it reads, in terms of `axis` and `reduce_axis`.
    """

    def __init__(
        self,
        name: str,
        axis: tuple[IterVar, ...],
        schedulable: int,
        call: TensorIntrinCall,
        tag: str = "",
        attrs: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(name, tag, attrs)
        self.axis = axis
        self.schedulable = schedulable
        self.call = call
        self.reduce_axis = call.reduce_axis
        shape = tuple(extent_of(iv) for iv in axis)
        self.outputs = tuple(Tensor(self, k, shape, t.dtype) for k, t in enumerate(call.intrin.op.outputs))

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        ends = [end for region in self.call.regions for r in region for end in (r.min, r.extent)]
        indexed = walk.input_tensors([end for end in ends if isinstance(end, Expr)] + list(self.call.scalars))
        return tuple(dict.fromkeys((*indexed, *self.call.tensors)))

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return (*self.axis, *self.reduce_axis)

    def _with_inputs(self, new: Mapping[Tensor, Tensor]) -> TensorComputeOp:
        call = replace(
            self.call,
            regions=tuple(tuple(_redirected_range(r, new) for r in region) for region in self.call.regions),
            tensors=tuple(new.get(t, t) for t in self.call.tensors),
            scalars=tuple(redirected(s, new) for s in self.call.scalars),
        )
        return TensorComputeOp(self.name, self.axis, self.schedulable, call, self.tag, self.attrs)


def _redirected_range(r: Range, new: Mapping[Tensor, Tensor]) -> Range:
    low, width = r.min, r.extent
    assert isinstance(low, Expr) and isinstance(width, Expr)
    redirect = [redirected(end, new) for end in (low, width)]
    assert isinstance(redirect[0], Expr) and isinstance(redirect[1], Expr)
    return Range(redirect[0], redirect[1])


# -- TVM's fields of elements and reductions, which expressions and values have alike ----------------------------------


def storage(tensor: Tensor) -> Tensor | Buffer:
    """The buffer for which a tensor stands, else the tensor."""
    return buffer_of(tensor) or tensor


def _place(tensor: Tensor, node: Any) -> object:
    """The number of an element in its storage, which a single index is."""
    buffer = storage(tensor)
    if isinstance(buffer, Buffer):
        return buffer.offset_of(node.args)[0]
    return node.args[0] if len(node.args) == 1 else None


_OF_ELEMENTS: Final[dict[str, Callable[[Tensor, Any], object]]] = {
    "producer": lambda tensor, node: tensor,
    "buffer": lambda tensor, node: storage(tensor),
    "indices": lambda tensor, node: node.args,
    "index": _place,
}
_OF_REDUCTIONS: Final[dict[str, Callable[[Any], object]]] = {
    "axis": lambda node: reduction_of(node).axis,
    "combiner": lambda node: reduction_of(node).combiner,
    "value_index": lambda node: reduction_of(node).index,
    "source": sources,
    "init": initial,
}


def _of_element(field: Callable[[Tensor, Any], object]) -> Callable[[Any], object]:
    def value(node: Any) -> object:
        tensor = walk.loaded_tensor(node)
        return None if tensor is None else field(tensor, node)

    return value


def _of_reduction(field: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda node: field(node) if node.op is REDUCE else None


dag.FieldAbove.known.update({name: _of_element(field) for name, field in _OF_ELEMENTS.items()})
dag.FieldAbove.known["type_annotation"] = lambda node: node.data[2] if node.op is PARAM else None
dag.FieldAbove.known.update({name: _of_reduction(field) for name, field in _OF_REDUCTIONS.items()})
