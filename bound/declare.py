"""Declaration of tensors: `var`, `placeholder`, `compute`, `extern`, `scan`; shapes; arithmetic of tensors.

A reduction range may depend on other axes: in `te.sum(A[k], axis=reduce_axis((0, i + 1)))` the row `i` sums `i + 1`
elements. `compute` widens such a range to the hull over all rows, and adds the original range to the condition of the
reduction, so schedules can split, cache and factor it.

Arithmetic of tensors, element by element with broadcasting: `A + B`, `T * 2.0`, `te.multiply(A, B)`.
"""

from __future__ import annotations

import inspect
import operator
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ContextDecorator
from itertools import zip_longest
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypedDict, TypeVar, Unpack, overload

from bound import dtypes
from bound.itervar import IterType, IterVar, plain_index, whole_number
from bound.tensor import (
    GLOBAL,
    ComputeOp,
    ExternOp,
    PlaceholderOp,
    ScanOp,
    Tensor,
    TensorComputeOp,
    TensorIntrinCall,
    plain_sizes,
)
from bound.tir import build, walk
from bound.tir.build import Buffer
from bound.tir.machine import in_types
from bound.tir.reduce import condition, reduction_of, with_condition
from bound.tir.value import OPERATORS, REDUCE, Operand, Truth, Value, ValueLike, make, parameter
from intset.context import Context
from intset.errors import InputError, ShapeWarning
from intset.expr import Cond, Expr, IntLike, Node, Range, ShapeVar, Var, arguments, as_expr, dag, ops, shown
from intset.expr.definedness import annotate_shapes as annotate_expression
from intset.expr.definedness import size_claims, without_sizes
from intset.expr.node import as_int
from intset.linear.canonical import form_of
from intset.linear.form import ADDITIVE

R = TypeVar("R")
Annotated = TypeVar("Annotated", Expr, Cond, Value)
ShapeLike: TypeAlias = "IntLike | Sequence[IntLike]"
Several: TypeAlias = "Sequence[ValueLike]"
Tensors: TypeAlias = tuple[Tensor, ...]
_Of0: TypeAlias = Callable[[], R]
_Of1: TypeAlias = Callable[[IterVar], R]
_Of2: TypeAlias = Callable[[IterVar, IterVar], R]
_Of3: TypeAlias = Callable[[IterVar, IterVar, IterVar], R]
_Of4: TypeAlias = Callable[[IterVar, IterVar, IterVar, IterVar], R]
_Of5: TypeAlias = Callable[[IterVar, IterVar, IterVar, IterVar, IterVar], R]
_Of6: TypeAlias = Callable[[IterVar, IterVar, IterVar, IterVar, IterVar, IterVar], R]


_IntegerName: TypeAlias = Literal["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
_OtherName: TypeAlias = Literal["bool", "float16", "bfloat16", "float32", "float64"]


@overload
def var(name: str = ..., dtype: _IntegerName = ...) -> Var: ...
@overload
def var(name: str, dtype: _OtherName) -> Value: ...
@overload
def var(name: str = ..., *, dtype: _OtherName) -> Value: ...
@overload
def var(
    name: str = ..., dtype: str = ..., *, nonneg: bool = ..., lower: int | None = ..., upper: int | None = ...
) -> Var | Value: ...
def var(
    name: str = "tindex",
    dtype: str = dtypes.INDEX,
    *,
    nonneg: bool = False,
    lower: int | None = None,
    upper: int | None = None,
) -> Var | Value:
    """Declare a scalar argument: an integer variable, or a `Value` for other types.

    A variable in a shape is a size: it is at least 0.

    Parameters
    ----------
    nonneg: whether it is declared to be at least 0.
    lower, upper: the smallest and the largest value of an integer.
    """
    dtype = dtypes.check(dtype)
    if nonneg or lower is not None or upper is not None:
        if not dtypes.is_int(dtype):
            raise InputError(f"{name} has the type {dtype}: nonneg, lower and upper are for integers")
        return ShapeVar(name, 0 if nonneg and lower is None else lower, upper)
    return argument(name) if dtypes.is_int(dtype) else parameter(name, dtype)


def size_var(name: str = "size", dtype: str = dtypes.INDEX) -> ShapeVar:
    """Declare a size: an integer variable of at least 0."""
    if not dtypes.is_int(dtypes.check(dtype)):
        raise InputError(f"the size {name} must have an integer type, not {dtype}")
    return ShapeVar(name)


def placeholder(
    shape: object, dtype: str | None = None, name: str = "placeholder", value_range: tuple[int, int] | None = None
) -> Tensor:
    """Declare an input tensor.

    Parameters
    ----------
    shape: the extents.
    dtype: the element type; `float32` by default.
    name: the label.
    value_range: smallest and largest element of an integer tensor, both included.
    """
    element_type = dtypes.DEFAULT if dtype is None else dtypes.check(dtype)
    extents = as_shape(shape, name)
    declared = None if value_range is None else _as_value_range(value_range, element_type, name)
    return PlaceholderOp(name, extents, element_type, declared).output(0)


def _as_value_range(value_range: object, dtype: str, name: str) -> tuple[int, int]:
    what = f"value_range of {name}"
    if not dtypes.is_int(dtype):
        raise InputError(f"{what} is for integers, but {name} holds {dtype}")
    if not isinstance(value_range, (tuple, list)) or len(value_range) != 2:
        raise InputError(f"{what} must be a pair (smallest, largest), not {shown(value_range)}")
    low, high = as_int(value_range[0], what), as_int(value_range[1], what)
    if low > high:
        raise InputError(f"{what} has no value: {shown(low)} > {shown(high)}")
    return (low, high)


class TagScope(ContextDecorator):
    """A block or decorated function whose untagged operations get this tag."""

    _tags: ClassVar[list[str]] = []

    def __init__(self, tag: str) -> None:
        self.tag = arguments.of_kind(str, tag, "the tag of tag_scope", "a text")

    def __enter__(self) -> TagScope:
        if self._tags:
            raise InputError(
                f"tag_scope({self.tag!r}) inside of tag_scope({self._tags[-1]!r}): an operation has one tag"
            )
        self._tags.append(self.tag)
        return self

    def __exit__(self, *_: object) -> None:
        self._tags.pop()

    @classmethod
    def of(cls, tag: str) -> str:
        """The tag of an operation: its own, else that of the block around."""
        own = arguments.of_kind(str, tag, "a tag", "a text")
        return own or (cls._tags[-1] if cls._tags else "")


def tag_scope(tag: str) -> TagScope:
    """Give operations declared in a `with` block, or in a decorated function, a tag."""
    return TagScope(tag)


class ExternOptions(TypedDict, total=False):
    """The arguments of `extern` and `scan` that TVM's passes read."""

    tag: str
    attrs: Mapping[str, object] | None


class ComputeOptions(TypedDict, total=False):
    """The arguments of `compute` besides shape, formula and name."""

    tag: str
    attrs: Mapping[str, object] | None
    varargs_names: Sequence[str] | None


@overload
def compute(shape: ShapeLike, fcompute: _Of0[ValueLike], name: str = ..., **more: Unpack[ComputeOptions]) -> Tensor: ...
@overload
def compute(shape: ShapeLike, fcompute: _Of1[ValueLike], name: str = ..., **more: Unpack[ComputeOptions]) -> Tensor: ...
@overload
def compute(shape: ShapeLike, fcompute: _Of2[ValueLike], name: str = ..., **more: Unpack[ComputeOptions]) -> Tensor: ...
@overload
def compute(shape: ShapeLike, fcompute: _Of3[ValueLike], name: str = ..., **more: Unpack[ComputeOptions]) -> Tensor: ...
@overload
def compute(shape: ShapeLike, fcompute: _Of4[ValueLike], name: str = ..., **more: Unpack[ComputeOptions]) -> Tensor: ...
@overload
def compute(shape: ShapeLike, fcompute: _Of5[ValueLike], name: str = ..., **more: Unpack[ComputeOptions]) -> Tensor: ...
@overload
def compute(shape: ShapeLike, fcompute: _Of6[ValueLike], name: str = ..., **more: Unpack[ComputeOptions]) -> Tensor: ...
@overload
def compute(shape: ShapeLike, fcompute: _Of0[Several], name: str = ..., **more: Unpack[ComputeOptions]) -> Tensors: ...
@overload
def compute(shape: ShapeLike, fcompute: _Of1[Several], name: str = ..., **more: Unpack[ComputeOptions]) -> Tensors: ...
@overload
def compute(shape: ShapeLike, fcompute: _Of2[Several], name: str = ..., **more: Unpack[ComputeOptions]) -> Tensors: ...
@overload
def compute(shape: ShapeLike, fcompute: _Of3[Several], name: str = ..., **more: Unpack[ComputeOptions]) -> Tensors: ...
@overload
def compute(shape: ShapeLike, fcompute: _Of4[Several], name: str = ..., **more: Unpack[ComputeOptions]) -> Tensors: ...
@overload
def compute(shape: ShapeLike, fcompute: _Of5[Several], name: str = ..., **more: Unpack[ComputeOptions]) -> Tensors: ...
@overload
def compute(shape: ShapeLike, fcompute: _Of6[Several], name: str = ..., **more: Unpack[ComputeOptions]) -> Tensors: ...
@overload
def compute(
    shape: ShapeLike, fcompute: Callable[..., TensorIntrinCall], name: str = ..., **more: Unpack[ComputeOptions]
) -> Tensor | Tensors: ...
def compute(
    shape: ShapeLike,
    fcompute: Callable[..., object],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, object] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Tensor | Tensors:
    """Declare a tensor by the formula of its elements; a tuple of tensors if `fcompute` returns several formulas.

    Parameters
    ----------
    shape: the extents.
    fcompute: maps indices to the formula; one `IterVar` per dimension, named like the parameters. If it returns a call
        of a tensor intrinsic, it takes the indices of the tile only.
    name: the label.
    varargs_names: names of the indices passed as `*args`.
    """
    extents = as_shape(shape, name)
    names = _index_names(fcompute, len(extents), name, varargs_names)
    axis = tuple(IterVar(Range(0, extent), label) for label, extent in zip(names, extents, strict=False))
    body = fcompute(*axis)
    if isinstance(body, TensorIntrinCall):
        inner = tuple(IterVar(Range(0, e), f"ax{k}", IterType.OPAQUE) for k, e in enumerate(extents[len(axis) :]))
        op = TensorComputeOp(name, (*axis, *inner), len(axis), body, TagScope.of(tag), attrs)
        return op.output(0) if op.num_outputs == 1 else op.outputs
    if len(axis) != len(extents):
        raise InputError(f"the formula of {name} takes {len(axis)} indices, but its shape has {len(extents)}")
    bodies = body if isinstance(body, (tuple, list)) else (body,)
    formulas = tuple(build.operand(b, f"the formula of {name}") for b in bodies)
    if not formulas:
        raise InputError(f"the formula of {name} gives no value")
    typed = tuple(in_types(formula) for formula in with_independent_ranges(name, axis, formulas))
    computed = ComputeOp(name, axis, typed, TagScope.of(tag), attrs, tuple(map(build.dtype_of, formulas)))
    return computed.output(0) if computed.num_outputs == 1 else computed.outputs


def _index_names(
    fcompute: Callable[..., object], ndim: int, name: str, varargs_names: Sequence[str] | None
) -> tuple[str, ...]:
    try:
        spec = inspect.getfullargspec(fcompute)
    except TypeError:
        raise InputError(f"the formula of {name} must be a function of the indices, not {shown(fcompute)}") from None
    own = [arg for arg in spec.args if arg != "self"] if inspect.ismethod(fcompute) else list(spec.args)
    own = own[: len(own) - len(spec.defaults or ())] if len(own) > ndim else own  # `lambda i, k=k:` has one index
    rest = ndim - len(own)
    if rest < 0:
        raise InputError(f"the formula of {name} takes {len(own)} indices, but its shape has {ndim}")
    if spec.varargs is None and own:
        return tuple(own)
    names = arguments.listed(
        () if varargs_names is None else varargs_names, f"varargs_names of {name}", "a list of names"
    )
    extra = names or tuple(f"i{k}" for k in range(len(own), ndim))
    if len(extra) != rest:
        raise InputError(f"varargs_names of {name} must have {rest} names, not {len(extra)}")
    return (*own, *extra)


@overload
def extern(
    shape: Sequence[IntLike],
    inputs: Tensor | Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], object],
    name: str = ...,
    dtype: str | None = None,
    in_buffers: Buffer | Sequence[Buffer] | None = None,
    out_buffers: Buffer | Sequence[Buffer] | None = None,
    **more: Unpack[ExternOptions],
) -> Tensor: ...
@overload
def extern(
    shape: Sequence[Sequence[IntLike]],
    inputs: Tensor | Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], object],
    name: str = ...,
    dtype: str | Sequence[str] | None = None,
    in_buffers: Buffer | Sequence[Buffer] | None = None,
    out_buffers: Buffer | Sequence[Buffer] | None = None,
    **more: Unpack[ExternOptions],
) -> Tensor | Tensors: ...
def extern(
    shape: Sequence[IntLike] | Sequence[Sequence[IntLike]],
    inputs: Tensor | Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], object],
    name: str = "extern",
    dtype: str | Sequence[str] | None = None,
    in_buffers: Buffer | Sequence[Buffer] | None = None,
    out_buffers: Buffer | Sequence[Buffer] | None = None,
    tag: str = "",
    attrs: Mapping[str, object] | None = None,
) -> Tensor | Tensors:
    """Declare one tensor, or a tuple of them, computed by code that the analysis does not see.

    Parameters
    ----------
    shape: the extents, or a list of tuples of extents for several outputs.
    inputs: the tensors it reads completely.
    fcompute: maps lists of input and output buffers to the body, for instance `tir.call_packed(...)`.
    dtype: the output type, or a list of types; by default those of `out_buffers`, else the type of all inputs.
    """
    several = isinstance(shape, (tuple, list)) and len(shape) > 0 and isinstance(shape[0], (tuple, list))
    shapes = tuple(as_shape(s, name) for s in (shape if several else (shape,)))
    read = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    arguments.a_function(fcompute, f"the body of {name}")
    for k, tensor in enumerate(read):
        if not isinstance(tensor, Tensor):
            raise InputError(f"input {k} of {name} must be a tensor, not {shown(tensor)}")
    outs = _buffers(out_buffers, "out_buffers")
    types = tuple(b.dtype for b in outs) or _extern_types(dtype, read, len(shapes), name)
    ins = _buffers(in_buffers, "in_buffers") or [Buffer(t.name, t.extents, t.dtype, GLOBAL) for t in read]
    outs = outs or [Buffer(name, s, t, GLOBAL) for s, t in zip(shapes, types, strict=True)]
    if len(ins) != len(read) or len(outs) != len(shapes):
        raise InputError(f"{name} needs a buffer for each of its inputs and outputs")
    body = fcompute(ins, outs)
    op = ExternOp(name, read, shapes, types, body, (tuple(ins), tuple(outs)), TagScope.of(tag), attrs)
    return op.output(0) if len(shapes) == 1 else op.outputs


def _buffers(buffers: Buffer | Sequence[Buffer] | None, what: str) -> list[Buffer]:
    if isinstance(buffers, Buffer):
        return [buffers]
    parts = () if buffers is None else arguments.listed(buffers, what, "a list of buffers")
    return [arguments.of_kind(Buffer, part, f"a part of {what}") for part in parts]


def _extern_types(dtype: object, inputs: Tensors, count: int, name: str) -> tuple[str, ...]:
    if dtype is None:
        types = {tensor.dtype for tensor in inputs}
        if len(types) != 1:
            raise InputError(f"the type of {name} is not clear from its inputs: give dtype")
        return tuple(types) * count
    requested = tuple(dtype) if isinstance(dtype, (tuple, list)) else (dtype,) * count
    if len(requested) != count:
        raise InputError(f"{name} has {count} outputs but {len(requested)} types")
    return tuple(dtypes.check(t, f"dtype of {name}") for t in requested)


@overload
def scan(
    init: Tensor,
    update: Tensor,
    state_placeholder: Tensor,
    inputs: Tensor | Sequence[Tensor] | None = None,
    name: str = ...,
    **more: Unpack[ExternOptions],
) -> Tensor: ...
@overload
def scan(
    init: Sequence[Tensor],
    update: Sequence[Tensor],
    state_placeholder: Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor] | None = None,
    name: str = ...,
    **more: Unpack[ExternOptions],
) -> Tensor | Tensors: ...
def scan(
    init: Tensor | Sequence[Tensor],
    update: Tensor | Sequence[Tensor],
    state_placeholder: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor] | None = None,
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, object] | None = None,
) -> Tensor | Tensors:
    """Declare a recurrence along the first dimension: one tensor, or a tuple of them.

    Parameters
    ----------
    init: the tensor, or tensors, of the first rows.
    update: the later rows, in terms of `state_placeholder`.
    state_placeholder: the result inside of `update`; has the shape of `update`.
    inputs: other tensors that `update` reads; they delimit the scan.

    All states have one length, and all initial states one number of rows: where the scan is shorter, it has its first
    rows alone. Other extents of a state and of its initial state are equal.
    """
    arguments.a_name(name, "the name of an operation")
    groups = [_tensors(x, what, name) for x, what in ((init, "init"), (update, "update"), (state_placeholder, "state"))]
    starts, updates, states = groups
    if not len(starts) == len(updates) == len(states):
        raise InputError(f"init, update and state_placeholder of {name} must be equally many")
    for k, (a, u, s) in enumerate(zip(starts, updates, states, strict=True)):
        if not a.dtype == u.dtype == s.dtype:
            types = f"{a.dtype}, {u.dtype} and {s.dtype}"
            raise InputError(f"init, update and state_placeholder {k} of {name} have the types {types}")
        if u.ndim != s.ndim or any(x is not y for x, y in zip(u.extents, s.extents, strict=True)):
            raise InputError(f"update {k} of {name} must have the shape of its state_placeholder")
        _check_rows(name, k, a, s, starts[0], states[0])
    begin, end = starts[0].extents[0], updates[0].extents[0]
    extent = as_expr(end.data - begin.data) if begin.is_const and end.is_const else end - begin
    axis = IterVar(Range(begin, extent), f"{name}.idx", IterType.ORDERED)
    op = ScanOp(
        name, axis, starts, updates, states, _tensors(() if inputs is None else inputs, "inputs", name), tag, attrs
    )
    return op.output(0) if op.num_outputs == 1 else op.outputs


def _check_rows(name: str, k: int, init: Tensor, state: Tensor, first_init: Tensor, first_state: Tensor) -> None:
    def equal(a: Expr, b: Expr) -> bool:
        return form_of(a).same(form_of(b))

    if not equal(state.extents[0], first_state.extents[0]):
        lengths = f"{first_state.extents[0]} and {state.extents[0]}"
        raise InputError(f"state_placeholder 0 and {k} of {name} must be equally long, not {lengths}")
    if not equal(init.extents[0], first_init.extents[0]):
        rows = f"{first_init.extents[0]} and {init.extents[0]}"
        raise InputError(f"init 0 and {k} of {name} must have equally many rows, not {rows}")
    if init.ndim != state.ndim or not all(map(equal, init.extents[1:], state.extents[1:])):
        shapes = " and ".join(f"({', '.join(map(str, t.extents))})" for t in (init, state))
        raise InputError(
            f"init {k} of {name} must have the shape of its state_placeholder but for the first dimension, not {shapes}"
        )


def _tensors(x: object, what: str, name: str) -> Tensors:
    tensors = tuple(x) if isinstance(x, (tuple, list)) else (x,)
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise InputError(f"{what} of {name} must be tensors, not {shown(tensor)}")
    return tensors


def with_independent_ranges(name: str, axis: Sequence[IterVar], body: Sequence[Operand]) -> tuple[Operand, ...]:
    """Make the ranges of reductions independent of other axes; a range that begins where data says begins at 0.

    Raises
    ------
    InputError: such a range is unbounded.
    """
    top = body[0]
    if not isinstance(top, Value) or top.op is not REDUCE:
        return tuple(body)
    around: list[IterVar] = list(axis)
    conditions: list[Truth] = []
    moved: dict[Expr, Expr] = {}
    for iv in reduction_of(top).axis:
        if iv.dom is not None and any(v in around for v in iv.dom.free_vars()):
            low, extent = (walk.substitute(as_expr(e), moved) for e in (iv.dom.min, iv.dom.extent))
            if dag.opaque_terms(low):
                moved[iv], low = iv + low, as_expr(0)
            iv.remember("dom", Range(low, extent))
            conditions += [iv >= low, iv < low + extent]
            iv.remember("dom", _over(name, iv, around))
        around.append(iv)
    return tuple(_under(value, moved, conditions) for value in body) if conditions else tuple(body)


def _over(name: str, iv: IterVar, around: Sequence[IterVar]) -> Range:
    """Return the hull of the range of a reduction axis over the axes around it, and over the values of data."""
    assert iv.dom is not None
    ranges: dict[Var, Range | None] = {v: v.dom for v in around if v.dom is not None}
    first, last = iv.dom.min, iv.dom.max
    assert isinstance(first, Expr) and isinstance(last, Expr)
    context = Context(ranges)
    lows, highs = context.value_set(first), context.value_set(last)
    if lows.is_empty:  # the axes around it have no values
        return Range(0, 0)
    low, high = lows.min, highs.max
    if not isinstance(high, Expr) and dag.opaque_terms(last):
        high = as_expr(dtypes.int_range(build.dtype_of(last))[1] - 1)
        iv.remember("ends_with_data", True)
    if not isinstance(low, Expr) or not isinstance(high, Expr):
        raise InputError(f"the range of {iv.name}, over which {name} reduces, has no end")
    return Range(low, form_of(high - low + 1).expr())


def _under(value: Operand, moved: Mapping[Expr, Expr], conditions: Sequence[Truth]) -> Operand:
    """Replace axes in the operands of a REDUCE value, then add conditions."""
    assert isinstance(value, Value) and value.op is REDUCE
    value = make(REDUCE, tuple(walk.substitute(arg, moved) for arg in value.args), value.dtype, value.data)
    return with_condition(value, build.together(condition(value), *conditions))


_ARGUMENTS: dag.WeakTable[tuple[int, int], Var] = (
    dag.WeakTable()
)  # made by te.var: in TVM these are the sizes of shapes
_TOLD: dag.WeakTable[tuple[int, int], Var] = dag.WeakTable()


def argument(name: str) -> Var:
    """Create a variable for `te.var`: TVM scripts use these as sizes, so no warning is given."""
    var = Var(name)
    _ARGUMENTS.put(var.uid, var)
    return var


def as_shape(shape: object, name: str) -> tuple[Expr, ...]:
    """Convert an extent, or a tuple of extents, to simplified expressions.

    A plain `Var` counts as a size, with one warning per variable; `nonneg(n)` and extents of other tensors' shapes give
    none.

    Raises
    ------
    InputError: an extent is not an integer, or a negative constant.
    """
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    arguments.a_name(name, "the name of an operation")
    whole = [whole_number(extent) for extent in extents]
    stated = [as_expr(extent, f"extent {k} of {name}") for k, extent in enumerate(whole)]
    given = [without_sizes(plain_index(_over_known(extent))) for extent in stated]
    checked = tuple(_simple(extent) for extent, _ in given)
    for extent, (_, sizes), simple in zip(stated, given, checked, strict=True):
        if _is_step(extent) and not sizes and dag.operations(simple) <= _OF_SUMS:
            _KNOWN[extent] = simple
    while len(_KNOWN) > KNOWN_EXTENTS:
        _KNOWN.popitem(last=False)
    said = {var for _, sizes in given for var in sizes}
    for k, extent in enumerate(checked):
        if extent.is_const and extent.data < 0:
            raise InputError(f"extent {k} of {name} must not be negative: {extent.data}")
    for size in plain_sizes(checked):
        if size not in said and size.uid not in _ARGUMENTS and size.uid not in _TOLD:
            _TOLD.put(size.uid, size)
            _tell(size, name)
    return checked


KNOWN_EXTENTS: Final = 64  # steps whose simple form is remembered, the last ones that were given
_KNOWN: Final[OrderedDict[Expr, Expr]] = OrderedDict()
_OF_SUMS: Final = frozenset((*ADDITIVE, ops.VAR, ops.CONST))


def _is_step(extent: Expr) -> bool:
    return extent.op in (ops.ADD, ops.SUB) and extent.args[1].op is ops.CONST


def _over_known(extent: Expr) -> Expr:
    """A size counted on from tensor to tensor, `n - 2 - 2`, over the simple form of `n - 2`: each step is read once."""
    known = _KNOWN.get(extent.args[0]) if _is_step(extent) else None
    return extent if known is None else extent.with_args((known, extent.args[1]))


def _simple(extent: Expr) -> Expr:
    """Simplify an extent without facts, unless it asserts something, which must not be lost."""
    is_bare = not any(node.op is ops.ASSERTING for node in dag.postorder((extent,)))
    return Context().simplify(extent) if extent.args and is_bare else extent


def _tell(size: Var, name: str) -> None:
    warnings.warn(
        f"the plain variable {size.name} is used in the shape of {name}: it is taken to be at least 0. "
        f"Say so with te.size_var({size.name!r}) or ShapeVar({size.name!r}); to silence this, "
        "warnings.simplefilter('ignore', intset.ShapeWarning)",
        ShapeWarning,
        stacklevel=4,
    )


@overload
def annotate_shapes(x: Tensor, shapes: object) -> Operand: ...
@overload
def annotate_shapes(x: Annotated, shapes: object) -> Annotated: ...
@overload
def annotate_shapes(x: list[Operand | Tensor], shapes: object) -> list[Operand]: ...
@overload
def annotate_shapes(x: tuple[Operand | Tensor, ...], shapes: object) -> tuple[Operand, ...]: ...
def annotate_shapes(x: object, shapes: object) -> object:
    """Extend `intset.annotate_shapes` to values and computed tensors.

    Parameters
    ----------
    x: an expression, a condition, a value, a computed tensor (meaning its formula), or a tuple or list of them.
    shapes: as for `intset.annotate_shapes`; a tensor means its shape.
    """
    if isinstance(x, (tuple, list)):
        return type(x)(annotate_shapes(part, shapes) for part in x)
    body = getattr(getattr(x, "op", None), "body", None)
    if hasattr(x, "value_index") and body is not None:
        return annotate_shapes(body[x.value_index], shapes)
    if isinstance(x, Node):
        return annotate_expression(x, shapes)
    if isinstance(x, Value):
        claims = size_claims(shapes)
        return walk.rewrite(x, {**{form: form for form in claims.values()}, **claims})
    raise InputError(f"annotate_shapes takes expressions, values and computed tensors, not {shown(x)}")


_NAMES: Final = {operator.add: "add", operator.sub: "subtract", operator.mul: "multiply", operator.truediv: "divide"}


def broadcast_shape(left: Sequence[Expr], right: Sequence[Expr], what: str) -> tuple[Expr, ...]:
    """Return the shape of two operands together: dimensions are aligned at the last, an extent 1 is repeated.

    Raises
    ------
    InputError: two extents are neither the same expression nor 1.
    """
    pairs = list(zip_longest(reversed(left), reversed(right)))
    return tuple(_together(a, b, what) for a, b in reversed(pairs))


def _is_one(extent: Expr | None) -> bool:
    return extent is None or (extent.is_const and extent.data == 1)


def _together(a: Expr | None, b: Expr | None, what: str) -> Expr:
    if _is_one(a) and b is not None:
        return b
    if a is not None and (_is_one(b) or a is b):
        return a
    raise InputError(f"{what} cannot be broadcast together: their extents {a} and {b} differ")


def _read(x: object, indices: Sequence[Any]) -> Any:
    """The element of an operand at indices of the result; a number is itself."""
    if not isinstance(x, Tensor):
        return x
    own = indices[len(indices) - x.ndim :]
    return x.at(tuple(0 if _is_one(extent) else i for extent, i in zip(x.extents, own, strict=True)))


def combined(function: Callable[[Any, Any], Any], left: object, right: object) -> Tensor | Operand:
    """Return `left op right`: a tensor if one operand is a tensor, else a value.

    Parameters
    ----------
    function: of the module `operator`: add, sub, mul, truediv.
    """
    first, second = (x.extents if isinstance(x, Tensor) else () for x in (left, right))
    if not isinstance(left, Tensor) and not isinstance(right, Tensor):
        value: Operand = function(build.operand(left), right)
        return value
    name = _NAMES[function]
    shape = broadcast_shape(first, second, f"the operands of {name}")
    tag = "broadcast" if isinstance(left, Tensor) and isinstance(right, Tensor) else "elemwise"
    made: Tensor = compute(shape, lambda *i: function(_read(left, i), _read(right, i)), name=f"T_{name}", tag=tag)
    return made


def add(lhs: Tensor | ValueLike, rhs: Tensor | ValueLike) -> Tensor | Operand:
    """`lhs + rhs`, of tensors or values."""
    return combined(operator.add, lhs, rhs)


def subtract(lhs: Tensor | ValueLike, rhs: Tensor | ValueLike) -> Tensor | Operand:
    """`lhs - rhs`, of tensors or values."""
    return combined(operator.sub, lhs, rhs)


def multiply(lhs: Tensor | ValueLike, rhs: Tensor | ValueLike) -> Tensor | Operand:
    """`lhs * rhs`, of tensors or values."""
    return combined(operator.mul, lhs, rhs)


def converted(tensor: Tensor, dtype: str) -> Tensor:
    """The elements of a tensor in another type, as `cast` converts them."""

    def element(*i: Any) -> Operand:
        value: Any = tensor.at(i)
        return build.cast(dtype, value)

    return compute(tensor.extents, element, name=f"{tensor.name}.{dtype}", tag="elemwise")


OPERATORS.combined = combined
OPERATORS.converted = converted
