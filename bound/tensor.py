"""`Operation`, a node of the dataflow graph, and its kinds; `Tensor`, one of its outputs, and indexing; texts.

A stage of a schedule computes an operation: by a formula for each element, by code that the analysis does not see, by a
recurrence, or tile by tile by an intrinsic. Fields of formulas have TVM's names.

Invariant: operations are immutable. Inlining, caching and `rfactor` replace an operation of the schedule by a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, SupportsIndex, TypeAlias, TypeVar, cast, overload

from bound import dtypes
from bound.itervar import IterType, IterVar, plain_index
from bound.tir import build, walk
from bound.tir import value as values
from bound.tir.build import Buffer, dtype_of
from bound.tir.reduce import Parameter, Reduction, computed_range, initial, reduction_of, sources
from bound.tir.value import Operand, ValueLike
from intset.errors import InputError
from intset.expr import Cond, Expr, Infinity, Range, Var, arguments, as_expr, dag, ops, shown
from intset.expr.definedness import carrying_sizes
from intset.expr.node import Guest, PlainVar


class ScopeText(str):
    """The name of a memory; a call gives it as well, as `buffer.scope()` in scripts."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


GLOBAL: Final = ScopeText("global")


class ScriptText(str):
    """A text in a program: TVM's `StringImm`.

    Attributes
    ----------
    value: the text itself.
    """

    __slots__ = ()
    dtype = "handle"

    @property
    def value(self) -> str:
        return str(self)

    def astype(self, dtype: str) -> NoReturn:
        """Refuse: a text has no other type."""
        raise InputError(f"the text {self!r} cannot be cast to {dtype}")


class Whole(int):
    """A number among the attributes of an operation.

    Attributes
    ----------
    value: the number itself.
    """

    __slots__ = ()

    @property
    def value(self) -> int:
        return int(self)


def scripted(x: object) -> object:
    """Plain texts and numbers with the field `value`, in lists and dictionaries too; anything else as it is."""
    if isinstance(x, Mapping):
        return {key: scripted(part) for key, part in x.items()}
    if isinstance(x, list):
        return [scripted(part) for part in x]
    if type(x) is tuple:
        return tuple(scripted(part) for part in x)
    return ScriptText(x) if type(x) is str else Whole(x) if type(x) is int else x


class Operation:
    """A node of the dataflow graph. Equality is identity.

    Attributes
    ----------
    name: the label in print and of its tensors.
    tag, attrs: attached by the script; not interpreted.
    outputs: the tensors it computes.
    axis, reduce_axis: its axes; `ComputeOp` and `TensorComputeOp` alone have them.
    """

    axis: tuple[IterVar, ...]
    reduce_axis: tuple[IterVar, ...]

    def __init__(self, name: str, tag: str = "", attrs: Mapping[str, object] | None = None) -> None:
        self.name = arguments.a_name(name, "the name of an operation")
        self.tag = arguments.of_kind(str, tag, f"tag of {name}", "a text")
        given = {} if attrs is None else arguments.mapped(attrs, f"attrs of {name}")
        self.attrs = {key: scripted(value) for key, value in given.items()}
        self.outputs: tuple[Tensor, ...] = ()

    @property
    def num_outputs(self) -> int:
        return len(self.outputs)

    def output(self, index: int) -> Tensor:
        """Return output number `index`."""
        if not 0 <= arguments.as_int(index, f"the number of an output of {self.name}") < len(self.outputs):
            raise InputError(f"{self.name} has {len(self.outputs)} outputs, no output {shown(index)}")
        return self.outputs[index]

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors it reads, each once."""
        return ()

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        """The axes on which a schedule starts."""
        return ()

    def range_of(self, index: int, is_finished: bool = True) -> tuple[int, int] | None:
        """Return the smallest and the largest element of an integer output, as far as its formula tells.

        Parameters
        ----------
        is_finished: exclude values that elements hold during the computation.
        """
        return None

    def replace_inputs(self, new: Mapping[Tensor, Tensor]) -> Operation:
        """Return an operation that reads the values of `new` instead of its keys; itself if it reads none."""
        return self._with_inputs(new) if any(tensor in new for tensor in self.input_tensors) else self

    def _with_inputs(self, new: Mapping[Tensor, Tensor]) -> Operation:
        return self

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self  # its formula, a value, is copied as itself, and leads to the tensors of this operation

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


T = TypeVar("T")


class ScriptTuple(tuple[T, ...]):
    """Extents or axes; lists are added on either side: `[1] + T.shape[1:]`, as with TVM's arrays."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        part = tuple.__getitem__(self, index)
        return ScriptTuple(part) if isinstance(index, slice) else part

    def __add__(self, other: Any) -> Any:
        return [*self, *other] if isinstance(other, list) else tuple.__add__(self, other)

    def __radd__(self, other: Any) -> Any:
        return [*other, *self] if isinstance(other, list) else NotImplemented


class Tensor(values.Elementwise, Guest):
    """An output of an operation. Equality is identity.

    `T[i, j]` is an element: an `Expr` for integers, else a `Value`. Fewer indices, or slices, give a `TensorSlice`.

    Attributes
    ----------
    op: the operation that computes it.
    value_index: the number of the output.
    extents: one `Expr` per dimension.
    shape: the extents for scripts: plain variables in them carry the fact that they are sizes, so `i % T.shape[0]`
        knows it in any context. `T.shape[0]` prints like the extent.
    dtype: the element type.
    value_range: the declared smallest and largest element, or `None`.
    """

    __slots__ = (
        "__weakref__",
        "_element",
        "_shape",
        "_unfinished",
        "dtype",
        "extents",
        "op",
        "value_index",
        "value_range",
    )

    def __init__(
        self,
        op: Operation,
        value_index: int,
        extents: tuple[Expr, ...],
        dtype: str,
        value_range: tuple[int, int] | None = None,
    ) -> None:
        self.op = op
        self.value_index = value_index
        self.extents = extents
        self.dtype = dtype
        self.value_range = value_range
        self._element: values.TensorElement | None = None
        self._unfinished: values.TensorElement | None = None
        self._shape: tuple[Expr, ...] | None = None

    @property
    def shape(self) -> tuple[Expr, ...]:
        if self._shape is None:
            self._shape = ScriptTuple(carrying_sizes(extent) for extent in self.extents)
        return self._shape

    @property
    def ndim(self) -> int:
        return len(self.extents)

    @property
    def name(self) -> str:
        """The operation's name, plus the number of the output if there are several."""
        return self.op.name if self.op.num_outputs == 1 else f"{self.op.name}.v{self.value_index}"

    @property
    def element(self) -> values.TensorElement:
        """The symbol of its elements in integer expressions.

        Raises
        ------
        InputError: the tensor does not hold integers.
        """
        if not dtypes.is_int(self.dtype):
            raise InputError(f"{self.name} holds {self.dtype}, not integers")
        if self._element is None:
            self._element = values.TensorElement(self)
        return self._element

    @property
    def unfinished(self) -> values.TensorElement:
        """The symbol of its elements during a reduction; usually the same as `element`."""
        if self._unfinished is None:
            self._unfinished = values.unfinished_element(self, self.element)
        return self._unfinished

    @overload
    def __getitem__(self, indices: Index | tuple[Index, ...]) -> Loaded: ...
    @overload
    def __getitem__(self, indices: slice | tuple[Index | slice, ...]) -> TensorSlice: ...

    def __getitem__(self, indices: object) -> TensorSlice | Loaded:
        return self.at(indices if isinstance(indices, tuple) else (indices,))

    def __call__(self, *indices: Index) -> Loaded:
        return cast("Loaded", self.at(indices))

    def as_operand(self) -> Operand | None:
        """The element of a tensor without dimensions, as an operand; `None` of other tensors."""
        return None if self.ndim else element(self, ())

    def at(self, indices: tuple[object, ...]) -> TensorSlice | Loaded:
        """The element at these indices; a slice if indices are missing or include slices."""
        if len(indices) > self.ndim:
            raise InputError(f"{self.name} has {self.ndim} dimensions, not {len(indices)}")
        if len(indices) < self.ndim or any(isinstance(index, slice) for index in indices):
            return TensorSlice(self, indices)
        return cast("Loaded", element(self, tuple(as_index(self, k, index) for k, index in enumerate(indices))))

    def _combined(self, function: Callable[[Any, Any], Any], left: object, right: object) -> Self:
        tensor: Self = values.OPERATORS.combined(function, left, right)
        return tensor

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The axes of the operation."""
        return self.op.axis

    def equal(self, other: ValueLike) -> values.Truth:
        """The condition that the element of a tensor without dimensions equals a value.

        Raises
        ------
        InputError: the tensor has dimensions.
        """
        if self.ndim:
            raise InputError(f"{self.name} has {self.ndim} dimensions: compare its elements, not the tensor")
        return cast("Loaded", element(self, ())).equal(other)

    def astype(self, dtype: str) -> Tensor:
        """A tensor of the elements in another type, as `tir.cast` converts them; itself if it has that type."""
        return self if dtype == self.dtype else values.OPERATORS.converted(self, dtype)

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        """Pickle without element symbols: they refer to the tensor, and unpickling rebuilds them."""
        symbols = dict.fromkeys(("_element", "_unfinished"))
        kept = {name: getattr(self, name) for name in self.__slots__ if name != "__weakref__" and name not in symbols}
        return None, {**kept, **symbols}

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __len__(self) -> NoReturn:
        raise TypeError(f"the tensor {self.name} has no len(): its shape is {self.extents}")

    def __iter__(self) -> Iterator[NoReturn]:
        raise TypeError(f"the tensor {self.name} is not iterable")

    def __repr__(self) -> str:
        return f"Tensor(name={self.name}, shape=({', '.join(map(str, self.extents))}), dtype={self.dtype})"


class TensorSlice(Guest):
    """A tensor with leading indices (`T[i]` of a matrix), or a region such as `T[i:i+3, 0:20]`."""

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[object, ...]) -> None:
        self.tensor = tensor
        self.indices = indices

    @overload
    def __getitem__(self, indices: Index | tuple[Index, ...]) -> Loaded: ...
    @overload
    def __getitem__(self, indices: slice | tuple[Index | slice, ...]) -> TensorSlice: ...

    def __getitem__(self, indices: object) -> TensorSlice | Loaded:
        return self.tensor.at((*self.indices, *(indices if isinstance(indices, tuple) else (indices,))))

    def __iter__(self) -> Iterator[NoReturn]:
        raise TypeError(f"a slice of {self.tensor.name} is not iterable")

    def __repr__(self) -> str:
        return f"{self.tensor.name}[{', '.join(map(shown, self.indices))}]"


Index: TypeAlias = "values.Number | SupportsIndex"

if TYPE_CHECKING:

    class Loaded(values.Value, Expr, TensorSlice):  # type: ignore[misc]  # the fields of nodes differ
        """What `T[i, j]` is to a type checker: an `Expr`, a `Value`, or for too few indices a `TensorSlice`.

        Element type and rank decide, and the static type of a tensor has neither.
        """

        def __add__(self, other: ValueLike) -> Loaded: ...
        def __radd__(self, other: ValueLike) -> Loaded: ...
        def __sub__(self, other: ValueLike) -> Loaded: ...
        def __rsub__(self, other: ValueLike) -> Loaded: ...
        def __mul__(self, other: ValueLike) -> Loaded: ...
        def __rmul__(self, other: ValueLike) -> Loaded: ...
        def __floordiv__(self, other: ValueLike) -> Loaded: ...
        def __rfloordiv__(self, other: ValueLike) -> Loaded: ...
        def __mod__(self, other: ValueLike) -> Loaded: ...
        def __rmod__(self, other: ValueLike) -> Loaded: ...
        def __and__(self, other: Operand | SupportsIndex) -> Loaded: ...
        def __rand__(self, other: Operand | SupportsIndex) -> Loaded: ...
        def __or__(self, other: Operand | SupportsIndex) -> Loaded: ...
        def __ror__(self, other: Operand | SupportsIndex) -> Loaded: ...
        def __neg__(self) -> Loaded: ...
        def __abs__(self) -> Loaded: ...
        def __invert__(self) -> Loaded: ...
        def __lt__(self, other: ValueLike | Infinity) -> Comparison: ...
        def __le__(self, other: ValueLike | Infinity) -> Comparison: ...
        def __gt__(self, other: ValueLike | Infinity) -> Comparison: ...
        def __ge__(self, other: ValueLike | Infinity) -> Comparison: ...
        def astype(self, dtype: str) -> Loaded: ...

    class Comparison(values.Value, Cond):  # type: ignore[misc]  # as above
        """What `T[i] < x` is to a type checker: a `Cond` or a `Value`."""

        def __and__(self, other: Operand) -> Comparison: ...
        def __rand__(self, other: Operand) -> Comparison: ...
        def __or__(self, other: Operand) -> Comparison: ...
        def __ror__(self, other: Operand) -> Comparison: ...
        def __invert__(self) -> Comparison: ...

else:
    Loaded, Comparison = values.Number, values.Truth


def load(tensor: Tensor, indices: tuple[Expr, ...]) -> values.Value:
    """Return an element of a tensor of non-integers."""
    return values.make(values.READ, indices, tensor.dtype, tensor)


def element(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand:
    """Return the element of `tensor` at these indices."""
    return tensor.element(*indices) if dtypes.is_int(tensor.dtype) else load(tensor, indices)


def unfinished(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand:
    """Return the element of `tensor` at these indices as it is during its computation."""
    return tensor.unfinished(*indices) if dtypes.is_int(tensor.dtype) else load(tensor, indices)


def unflattened(number: Expr, extents: Sequence[Expr]) -> tuple[Expr, ...]:
    """The indices of an element by its number in a storage without gaps."""
    found: list[Expr] = []
    for extent in reversed(extents[1:]):
        found.append(number % extent)
        number = number // extent
    return (number, *reversed(found)) if extents else ()


def as_index(tensor: Tensor, k: int, index: object) -> Expr:
    """Convert `index` to the `k`-th index of `tensor`; a computed float is rounded towards 0, as TVM's code does.

    Raises
    ------
    InputError: no number.
    """
    index = index.as_operand() if hasattr(index, "as_operand") else index
    if isinstance(index, values.Value) and dtypes.is_float(index.dtype):
        return cast("Expr", values.OPERATORS.cast("int32", index))
    return plain_index(as_expr(index, f"index {k} of {tensor.name}"))


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
    tops = [v for v in body if isinstance(v, values.Value) and v.op is values.REDUCE]
    inner = {node for node in walk.nodes(*body) if node.op is values.REDUCE} - set(tops)
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


values.OPERATORS.buffer_tensor = buffer_tensor


@dataclass(eq=False, repr=False)
class TensorIntrin:
    """A tile computation: `op` is its meaning in tensor expressions, `lower` makes its code and is never called here.

    A call in `te.compute` with slices such as `B[i:i+3, 0:20]` declares that it reads these regions.
    """

    name: str
    op: ComputeOp
    lower: Callable[..., object]
    scalar_params: tuple[Parameter, ...]
    buffers: tuple[Buffer, ...]
    reduce_init: None = None
    reduce_update: None = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.op.input_tensors

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

    def rewritten(self, change: Callable[[Any], Any]) -> TensorIntrinCall:
        """Apply `change` to the ends of the regions and to the scalars."""
        regions = (
            tuple(Range(change(as_expr(r.min)), change(as_expr(r.extent))) for r in region) for region in self.regions
        )
        return replace(self, regions=tuple(regions), scalars=tuple(map(change, self.scalars)))


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
        if not isinstance(param, (Var, values.Value)):
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
        call = self.call.rewritten(lambda value: redirected(value, new))
        call = replace(call, tensors=tuple(new.get(t, t) for t in call.tensors))
        return TensorComputeOp(self.name, self.axis, self.schedulable, call, self.tag, self.attrs)


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
    return lambda node: field(node) if node.op is values.REDUCE else None


dag.FieldAbove.known.update({name: _of_element(field) for name, field in _OF_ELEMENTS.items()})
dag.FieldAbove.known["type_annotation"] = lambda node: node.data[2] if node.op is values.PARAM else None
dag.FieldAbove.known.update({name: _of_reduction(field) for name, field in _OF_REDUCTIONS.items()})
