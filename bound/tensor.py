"""`Operation`, a node of the dataflow graph; `Tensor`, one of its outputs, and indexing; texts of scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, SupportsIndex, TypeAlias, TypeVar, cast, overload

from bound import dtypes
from bound.itervar import IterVar, plain_index
from bound.tir.value import (
    OPERATORS,
    READ,
    Elementwise,
    Number,
    Operand,
    TensorElement,
    Truth,
    Value,
    ValueLike,
    make,
    unfinished_element,
)
from intset.errors import InputError
from intset.expr import Cond, Expr, arguments, as_expr, shown
from intset.expr.definedness import carrying_sizes
from intset.expr.node import Guest
from intset.infinity import Infinity


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


class Tensor(Elementwise, Guest):
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
        self._element: TensorElement | None = None
        self._unfinished: TensorElement | None = None
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
    def element(self) -> TensorElement:
        """The symbol of its elements in integer expressions.

        Raises
        ------
        InputError: the tensor does not hold integers.
        """
        if not dtypes.is_int(self.dtype):
            raise InputError(f"{self.name} holds {self.dtype}, not integers")
        if self._element is None:
            self._element = TensorElement(self)
        return self._element

    @property
    def unfinished(self) -> TensorElement:
        """The symbol of its elements during a reduction; usually the same as `element`."""
        if self._unfinished is None:
            self._unfinished = unfinished_element(self, self.element)
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
        tensor: Self = OPERATORS.combined(function, left, right)
        return tensor

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The axes of the operation."""
        return self.op.axis

    def equal(self, other: ValueLike) -> Truth:
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
        return self if dtype == self.dtype else OPERATORS.converted(self, dtype)

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        """Pickle without element symbols: they refer to the tensor and are created again."""
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


Index: TypeAlias = "Number | SupportsIndex"

if TYPE_CHECKING:

    class Loaded(Value, Expr, TensorSlice):  # type: ignore[misc]  # the fields of nodes differ
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

    class Comparison(Value, Cond):  # type: ignore[misc]  # as above
        """What `T[i] < x` is to a type checker: a `Cond` or a `Value`."""

        def __and__(self, other: Operand) -> Comparison: ...
        def __rand__(self, other: Operand) -> Comparison: ...
        def __or__(self, other: Operand) -> Comparison: ...
        def __ror__(self, other: Operand) -> Comparison: ...
        def __invert__(self) -> Comparison: ...

else:
    Loaded, Comparison = Number, Truth


def load(tensor: Tensor, indices: tuple[Expr, ...]) -> Value:
    """Return an element of a tensor of non-integers."""
    return make(READ, indices, tensor.dtype, tensor)


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
    if isinstance(index, Value) and dtypes.is_float(index.dtype):
        return cast("Expr", OPERATORS.cast("int32", index))
    return plain_index(as_expr(index, f"index {k} of {tensor.name}"))
