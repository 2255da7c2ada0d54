"""Tensor intrinsics: code that computes a whole tile and declares the regions that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bound.itervar import IterVar
from bound.operation import ComputeOp, Operation, extent_of, redirected
from bound.tensor import Tensor, TensorSlice, as_index
from bound.tir import build, walk
from bound.tir.reduce import Parameter
from bound.tir.value import Operand, Value
from intset.errors import InputError
from intset.expr import ops
from intset.expr.arguments import a_function, a_name, listed
from intset.expr.node import Expr, Var, as_expr
from intset.expr.range import Range
from intset.expr.text import shown


class TensorIntrin:
    """A tile computation: `op` is its meaning in tensor expressions, `lower` makes its code and is never called here.

    A call in `te.compute` with slices such as `B[i:i+3, 0:20]` declares that it reads these regions.
    """

    def __init__(
        self, name: str, op: ComputeOp, lower: Callable[..., object], scalar_params: tuple[Parameter, ...]
    ) -> None:
        self.name = name
        self.op = op
        self.lower = lower
        self.scalar_params = scalar_params
        self.inputs = op.input_tensors
        self.reduce_init = self.reduce_update = None

    def __call__(self, *args: Any, **kwargs: Any) -> TensorIntrinCall:
        slices = [TensorSlice(a, ()) if isinstance(a, Tensor) else a for a in args]
        read = tuple(s for s in slices if isinstance(s, TensorSlice))
        scalars = tuple(build.operand(s, f"a scalar of {self.name}") for s in slices if not isinstance(s, TensorSlice))
        if len(read) != len(self.inputs) or len(scalars) != len(self.scalar_params):
            signature = f"{len(self.inputs)} tensors and {len(self.scalar_params)} scalars"
            raise InputError(f"{self.name} takes {signature}, not {len(read)} and {len(scalars)}")
        axis = kwargs.pop("reduce_axis", ())
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
    binds: object = None,
    scalar_params: Sequence[Parameter] = (),
    **options: object,
) -> TensorIntrin:
    """Declare an intrinsic for the computation that `op` describes.

    Parameters
    ----------
    op: its meaning, on tensors of the tile's size.
    fcompute: makes its code; stored, never called.
    scalar_params: variables in the formula of `op` for the scalars of a call.
    binds, options: layout of the buffers; accepted and ignored.
    """
    if not isinstance(op, ComputeOp):
        raise InputError(f"a tensor intrinsic describes a compute operation, not {shown(op)}")
    params = listed(() if scalar_params is None else scalar_params, "scalar_params", "a list of variables")
    for param in params:
        if not isinstance(param, (Var, Value)):
            raise InputError(f"a part of scalar_params must be a variable, not {shown(param)}")
    return TensorIntrin(a_name(name, "the name of a tensor intrinsic"), op, a_function(fcompute, "fcompute"), params)


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

    def replace_inputs(self, new: Mapping[Tensor, Tensor]) -> TensorComputeOp:
        if not any(tensor in new for tensor in self.input_tensors):
            return self
        old = self.call
        regions = tuple(tuple(_redirected_range(r, new) for r in region) for region in old.regions)
        tensors = tuple(new.get(t, t) for t in old.tensors)
        scalars = tuple(redirected(s, new) for s in old.scalars)
        call = TensorIntrinCall(old.intrin, tensors, regions, old.reduce_axis, scalars)
        return TensorComputeOp(self.name, self.axis, self.schedulable, call, self.tag, self.attrs)


def _redirected_range(r: Range, new: Mapping[Tensor, Tensor]) -> Range:
    low, width = r.min, r.extent
    assert isinstance(low, Expr) and isinstance(width, Expr)
    redirect = [redirected(end, new) for end in (low, width)]
    assert isinstance(redirect[0], Expr) and isinstance(redirect[1], Expr)
    return Range(redirect[0], redirect[1])
