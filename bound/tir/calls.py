"""Function calls on values, mathematical and external, and the buffers that external code works on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from bound import dtypes
from bound.tir import build
from bound.tir.opaque import integer
from bound.tir.value import CALL, OPERATORS, UNDEF, Number, Operand, Value, ValueLike, make
from bound.tir.vectors import Vector, lanes_of
from intset.errors import InputError
from intset.expr import build as ints
from intset.expr import ops
from intset.expr.arguments import a_name, of_kind
from intset.expr.node import Cond, Expr, IntLike, as_expr, truth
from intset.expr.printer import shown


@dataclass(frozen=True, eq=False)
class Buffer:
    """A named storage with shape and element type, used in bodies of extern operations and intrinsics.

    Attributes
    ----------
    strides, elem_offset: the layout that the script declared; code here has the row-major one.
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: str
    scope: str = "global"
    strides: tuple[object, ...] = ()
    elem_offset: object = None
    READ: ClassVar[int] = 1
    WRITE: ClassVar[int] = 2

    @property
    def data(self) -> BufferPointer:
        """The address of its first element."""
        return BufferPointer(self)

    def access_ptr(
        self,
        access_mask: str | int,
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: IntLike = 0,
        **more: object,
    ) -> BufferPointer:
        """The address of the element number `offset`, for a call that reads ("r") or writes ("w") from there."""
        letters = access_mask if isinstance(access_mask, str) else ""
        mask = sum({"r": self.READ, "w": self.WRITE}.get(letter, 0) for letter in dict.fromkeys(letters))
        chosen = mask if isinstance(access_mask, str) else access_mask
        return BufferPointer(self, as_expr(offset, f"offset of access_ptr of {self.name}"), as_expr(chosen))

    def vload(self, begin: object, dtype: str | None = None) -> Operand | Vector:
        """The element at these indices; for a type such as "float32x4" the elements from there on.

        Raises
        ------
        InputError: `dtype` has another type of elements.
        """
        element_type, count = (self.dtype, 1) if dtype is None else lanes_of(dtype)
        if element_type != self.dtype:
            raise InputError(f"vload of {self.name} gives {self.dtype}, not {shown(dtype)}")
        first = self._place(begin)
        lanes = tuple(self[(*first[:-1], first[-1] + k) if k else first] for k in range(count))
        return Vector(lanes, self.dtype) if count > 1 else lanes[0]

    def vstore(self, begin: object, value: Vector | ValueLike) -> BufferStores:
        """Stores of a value, or of the lanes of a vector along the last dimension, which a builder emits."""
        first = self._place(begin)
        lanes = value.lanes if isinstance(value, Vector) else (build.operand(value),)
        places = ((*first[:-1], first[-1] + k) if k else first for k in range(len(lanes)))
        return BufferStores(self, tuple(zip(places, lanes, strict=True)))

    def _place(self, begin: object) -> tuple[Expr, ...]:
        indices = tuple(begin) if isinstance(begin, (list, tuple)) else (begin,)
        return tuple(as_expr(index, f"an index of {self.name}") for index in indices)

    def __getitem__(self, indices: object) -> Operand:
        element: Operand = OPERATORS.buffer_tensor(self)[indices]
        return element


@dataclass(frozen=True, eq=False)
class BufferPointer:
    """The address of an element of a buffer, among the arguments of a call.

    Attributes
    ----------
    offset: the number of the element.
    mask: what the call does there, `Buffer.READ`, `Buffer.WRITE` or both.
    args: as of TVM's `tvm_access_ptr`: a value of the type, the buffer, the offset, the extent from there on, the mask.
    """

    buffer: Buffer
    offset: Expr = field(default_factory=lambda: as_expr(0))
    mask: Expr = field(default_factory=lambda: as_expr(Buffer.READ | Buffer.WRITE))

    @property
    def args(self) -> tuple[Any, ...]:
        buffer, zero = self.buffer, as_expr(0)
        whole = as_expr(1)
        for k, extent in enumerate(buffer.shape):
            whole = extent if k == 0 else whole * extent
        if buffer.strides and buffer.shape:
            whole = as_expr(buffer.strides[0]) * buffer.shape[0]
        start = self.offset if buffer.elem_offset is None else as_expr(buffer.elem_offset) + self.offset
        rest = whole if self.offset is zero else whole - self.offset
        return make(UNDEF, (), buffer.dtype, ("type", buffer.dtype)), buffer, start, rest, self.mask


@dataclass(frozen=True, eq=False)
class BufferStores:
    """Stores of values at indices, one after another."""

    buffer: Buffer
    stores: tuple[tuple[tuple[Expr, ...], Operand], ...]


def decl_buffer(
    shape: object,
    dtype: str | None = dtypes.DEFAULT,
    name: str = "buffer",
    data: object = None,
    strides: object = None,
    elem_offset: object = None,
    scope: str = "global",
    **layout: object,
) -> Buffer:
    """Declare a buffer; alignment and the like are accepted and ignored."""
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    a_name(name, "the name of a buffer")
    return Buffer(
        name,
        tuple(as_expr(e, f"the shape of {name}") for e in extents),
        dtypes.check(dtypes.DEFAULT if dtype is None else dtype),
        of_kind(str, scope or "global", f"scope of {name}", "a text"),
        tuple(strides) if isinstance(strides, (tuple, list)) else (),
        elem_offset,
    )


Function = Callable[..., Operand]

# Functions of floats whose result is a float of the same type; an integer argument is cast to float32.
FLOAT_FUNCTIONS: Final = (
    *("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sigmoid", "erf"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh"),
)
# Functions that leave integers as they are.
ROUNDINGS: Final = ("floor", "ceil", "trunc", "round", "nearbyint")
# Functions of two floats.
FLOAT_PAIRS: Final = ("fmod", "atan2", "hypot", "copysign", "nextafter", "ldexp")
PREDICATES: Final = ("isnan", "isfinite", "isinf")


def _function(name: str, doc: str, of_integer: Callable[[Expr], Operand] | None = None, dtype: str = "") -> Function:
    """Make a function of a float; `of_integer` gives its value of an integer, by default that of the cast integer.

    Parameters
    ----------
    dtype: the result type; by default that of the argument.
    """

    def function(x: object) -> Operand:
        if build.is_integer(x):
            if of_integer is not None:
                return of_integer(as_expr(x))
            x = build.cast(dtypes.DEFAULT, as_expr(x))
        (value,) = build.matched(x)
        return make(CALL, (value,), dtype or value.dtype, name)

    return _named(function, name, doc)


def _predicate(name: str, of_integer: Cond) -> Function:
    def constant(_: Expr) -> Operand:
        return of_integer

    return _function(name, f"Whether `{name}` holds of a float.", constant, "bool")


def _float_pair(name: str) -> Function:
    def function(x: object, y: object) -> Operand:
        a, b = build.matched(*(build.cast(dtypes.DEFAULT, as_expr(v)) if build.is_integer(v) else v for v in (x, y)))
        return make(CALL, (a, b), a.dtype, name)

    return _named(function, name, f"`{name}` of two floats.")


def _named(function: Function, name: str, doc: str) -> Function:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


FUNCTIONS: Final[dict[str, Function]] = {
    **{name: _function(name, f"`{name}` of a float; an integer is cast to float32.") for name in FLOAT_FUNCTIONS},
    **{name: _function(name, f"`{name}` of a float; an integer is itself.", as_expr) for name in ROUNDINGS},
    **{name: _float_pair(name) for name in FLOAT_PAIRS},
    **{name: _predicate(name, truth(name == "isfinite")) for name in PREDICATES},
}


def absolute(x: ValueLike, y: object = None) -> Number:
    """Return the absolute value."""
    return build.unary(ops.ABS, x)


def power(x: ValueLike, y: ValueLike) -> Number:
    """Return `x` to the power `y`.

    Raises
    ------
    InputError: the exponent of an integer power is negative or not constant.
    """
    if build.is_integer(x) and build.is_integer(y):
        base, exponent = as_expr(x), as_expr(y)
        if not exponent.is_const or exponent.data < 0:
            raise InputError(f"a power of integers needs a constant exponent that is not negative, not {shown(y)}")
        result = as_expr(1)
        for k in range(exponent.data):
            result = base if k == 0 else result * base
        return result
    a, b = build.matched(x, y)
    return make(CALL, (a, b), a.dtype, "pow")


def popcount(x: IntLike) -> Expr:
    """Return the number of 1 bits in the machine representation of an integer, between 0 and its width."""
    e = as_expr(x)
    dtype = build.dtype_of(e)
    call = integer(make(CALL, (e,), dtype, "popcount"))
    return ints.bounded(call, 0, dtypes.bits(dtype))


def clz(x: IntLike) -> Expr:
    """Return the number of leading 0 bits in the machine representation of an integer."""
    e = as_expr(x)
    width = dtypes.bits(build.dtype_of(e))
    step = 1
    while step < width:  # copy the leading 1 to all lower bits
        e = e | (e >> step)
        step *= 2
    return width - popcount(e)


def reinterpret(dtype: str, value: ValueLike) -> Operand:
    """Return the bits of a number as another type of the same width.

    Raises
    ------
    InputError: the widths differ, or a type is neither an integer nor float32 or float64.
    """
    x = build.operand(value, "the value of reinterpret")
    source = build.dtype_of(x)
    if source == dtypes.check(dtype):
        return x
    known = all(dtypes.is_int(t) or t in ("float32", "float64") for t in (source, dtype))
    if not known or dtypes.bits(source) != dtypes.bits(dtype):
        raise InputError(f"reinterpret takes numbers of one width, not {source} as {dtype}")
    call = make(CALL, (x,), dtype, "reinterpret")
    return integer(call) if dtypes.is_int(dtype) else call


@dataclass(frozen=True)
class ExternCall:
    """A call in the body of an extern operation: `kind` is `packed`, `extern` or `intrin`."""

    kind: str
    name: str
    args: tuple[object, ...]


def call_packed(name: str, *args: object) -> ExternCall:
    """Call a registered function, as the body of an extern operation."""
    return ExternCall("packed", a_name(name, "the name of a function"), args)


def call_extern(dtype: str, name: str, *args: object) -> Operand | ExternCall:
    """Call an external function; returns a value of the given type if all arguments are values."""
    return _opaque_call("extern", dtype, name, args)


def call_intrin(dtype: str, name: str, *args: object) -> Operand | ExternCall:
    """Call an intrinsic; returns a value of the given type if all arguments are values."""
    plain = a_name(name, "the name of an intrinsic").removeprefix("tir.")
    if plain == "reinterpret" and len(args) == 1:
        return reinterpret(dtype, args[0])  # type: ignore[arg-type]  # what is no value is refused
    known = FUNCTIONS.get(plain)
    if known is not None:
        return build.cast(dtype, known(*args))
    return _opaque_call("intrin", dtype, name, args)


def _opaque_call(kind: str, dtype: str, name: str, args: tuple[object, ...]) -> Operand | ExternCall:
    a_name(name, "the name of a function")
    if not all(isinstance(a, Value) or build.is_truth(a) or isinstance(a, (int, float, Expr)) for a in args):
        return ExternCall(kind, name, args)
    call = make(CALL, tuple(build.operand(a) for a in args), dtypes.check(dtype), name)
    return integer(call) if dtypes.is_int(dtype) else call
