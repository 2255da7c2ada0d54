"""Construction of operands: arithmetic, selection, calls of functions, vectors; operators of values, and their text.

A vector, as `Buffer.vload([i], "float32x4")` gives it, is lane by lane the values of scalars. Calls are mathematical
or external; external code works on buffers.

Guarantee: every function accepts `Value`, `Expr`, `Cond` and Python numbers, and returns an `Expr` or `Cond` exactly if
the result is an integer or a condition on integers.

`intset` knows no tensors, so `i * A[j]` must call the reflected operator of `A[j]`: that is a `Guest`, to which
operators of `Expr` and `Cond` defer. Every operand of a tensor program has `dtype` and `astype`, integers included.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from math import ceil, copysign, floor, isfinite, trunc
from operator import add, ge, gt, le, lt, mul, sub, truediv
from typing import Any, ClassVar, Final, SupportsFloat, TypeGuard

from bound import dtypes
from bound.tir.value import (
    CALL,
    CONVERT,
    DIV,
    NUMBER,
    OPERATORS,
    UNDEF,
    Elementwise,
    Number,
    Operand,
    ScriptVar,
    Truth,
    Value,
    ValueLike,
    constant,
    integer,
    make,
)
from intset.errors import InputError, UndefinedError
from intset.expr import Cond, Expr, IntLike, Node, Var, arguments, as_expr, dag, ops, shown
from intset.expr import build as ints
from intset.expr.evaluate import settled
from intset.expr.node import ELEMENT_TYPES, FLOATS, divide, truth
from intset.expr.node import make as make_node
from intset.expr.ops import Op

_VECTOR: Final = re.compile(r"([a-z]+\d+)x(\d+)")


def lanes_of(dtype: object) -> tuple[str, int]:
    """Return the type of an element and the number of lanes: `("float32", 4)` for "float32x4"."""
    parts = _VECTOR.fullmatch(dtype) if isinstance(dtype, str) else None
    if parts is None:
        return dtypes.check(dtype), 1
    if int(parts[2]) < 2:
        raise InputError(f"a vector has at least two lanes, not {parts[2]}")
    return dtypes.check(parts[1]), int(parts[2])


@dataclass(frozen=True, eq=False)
class Vector(Elementwise):
    """Several values of one type. Arithmetic is lane by lane; a scalar counts for every lane."""

    lanes: tuple[Operand, ...]
    dtype: str

    def _combined(self, function: Callable[[Any, Any], Any], left: object, right: object) -> Vector:
        a, b = (x.lanes if isinstance(x, Vector) else (x,) * len(self.lanes) for x in (left, right))
        if len(a) != len(b):
            raise InputError(f"vectors of {len(a)} and {len(b)} lanes do not combine")
        return Vector(tuple(map(function, a, b)), self.dtype)


@dataclass(frozen=True, eq=False)
class Buffer:
    """A named storage with shape and element type, used in bodies of extern operations and intrinsics.

    Attributes
    ----------
    strides, elem_offset: the layout that the script declared; code here has the row-major one.
    pointer: the address that the script declared, or `None`.
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: str
    scope: str = "global"
    strides: tuple[object, ...] = ()
    elem_offset: object = None
    pointer: BufferPointer | Value | None = None
    READ: ClassVar[int] = 1
    WRITE: ClassVar[int] = 2

    @property
    def data(self) -> BufferPointer | Value:
        """The address of its first element."""
        return BufferPointer(self) if self.pointer is None else self.pointer

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
        lanes = value.lanes if isinstance(value, Vector) else (operand(value),)
        places = ((*first[:-1], first[-1] + k) if k else first for k in range(len(lanes)))
        return BufferStores(self, tuple(zip(places, lanes, strict=True)))

    def offset_of(self, indices: object) -> list[Expr]:
        """The number of the element at these indices, by the declared strides and offset."""
        places = self._place(indices)
        if len(places) != len(self.shape):
            raise InputError(f"{self.name} has {len(self.shape)} dimensions, not {len(places)}")
        zero, one = as_expr(0), as_expr(1)
        steps = [as_expr(step) for step in self.strides]
        if not steps:
            steps = [one]
            for extent in reversed(self.shape[1:]):
                steps.insert(0, extent if steps[0] is one else extent * steps[0])
        parts = [i if step is one else i * step for i, step in zip(places, steps, strict=False) if i is not zero]
        start = zero if self.elem_offset is None else as_expr(self.elem_offset)
        return [reduce(operator.add, parts if start is zero and parts else [start, *parts])]

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
    mask: its effect there, `Buffer.READ`, `Buffer.WRITE` or both.
    args: as of TVM's `tvm_access_ptr`: a value of the type, the buffer, the offset, the extent from there on, the mask.
    """

    buffer: Buffer
    offset: Expr = field(default_factory=lambda: as_expr(0))
    mask: Expr = field(default_factory=lambda: as_expr(Buffer.READ | Buffer.WRITE))

    @property
    def args(self) -> tuple[Any, ...]:
        buffer, zero = self.buffer, as_expr(0)
        whole = reduce(mul, buffer.shape) if buffer.shape else as_expr(1)
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
    arguments.a_name(name, "the name of a buffer")
    return Buffer(
        name,
        tuple(as_expr(e, f"the shape of {name}") for e in extents),
        dtypes.check(dtypes.DEFAULT if dtype is None else dtype),
        arguments.of_kind(str, scope or "global", f"scope of {name}", "a text"),
        tuple(strides) if isinstance(strides, (tuple, list)) else (),
        elem_offset,
        data if isinstance(data, (BufferPointer, Value)) else None,
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


def _away_from_0(x: float) -> float:
    whole = floor(abs(x))
    return copysign(whole + (abs(x) - whole >= 0.5), x)


_ROUNDED: Final[dict[str, Callable[[float], float]]] = {
    "floor": floor,
    "ceil": ceil,
    "trunc": trunc,
    "round": _away_from_0,
    "nearbyint": round,
}


def _function(name: str, doc: str, of_integer: Callable[[Expr], Operand] | None = None, dtype: str = "") -> Function:
    """Make a function of a float; `of_integer` gives its value of an integer, by default that of the cast integer.

    Parameters
    ----------
    dtype: the result type; by default that of the argument.
    """

    def function(x: object) -> Operand:
        if is_integer(x):
            if of_integer is not None:
                return of_integer(as_expr(x))
            x = cast(dtypes.DEFAULT, as_expr(x))
        (value,) = matched(x)
        if value.op is NUMBER and name in _ROUNDED and isfinite(value.data):
            return constant(copysign(_ROUNDED[name](value.data), value.data), value.dtype)
        return make(CALL, (value,), dtype or value.dtype, name)

    return _named(function, name, doc)


def _predicate(name: str, of_integer: Cond) -> Function:
    return _function(name, f"Whether `{name}` holds of a float.", lambda _: of_integer, "bool")


def _float_pair(name: str) -> Function:
    def function(x: object, y: object) -> Operand:
        first = cast(dtypes.DEFAULT, as_expr(x)) if is_integer(x) else operand(x)
        number = y if isinstance(y, float) else as_expr(y) if is_integer(y) else None
        a, b = matched(first, y if number is None else cast(dtype_of(first), number))
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
    return unary(ops.ABS, x)


def power(x: ValueLike, y: ValueLike) -> Number:
    """Return `x` to the power `y`.

    Raises
    ------
    InputError: the exponent of an integer power is negative or not constant.
    """
    if is_integer(x) and is_integer(y):
        base, exponent = as_expr(x), as_expr(y)
        if not exponent.is_const or exponent.data < 0:
            raise InputError(f"a power of integers needs a constant exponent that is not negative, not {shown(y)}")
        base = as_expr(cast(dtypes.promote(dtype_of(base), dtype_of(exponent)), base))
        return reduce(mul, [base] * exponent.data) if exponent.data else as_expr(1)
    a, b = matched(x, y)
    return make(CALL, (a, b), a.dtype, "pow")


def popcount(x: IntLike) -> Expr:
    """Return the number of 1 bits in the machine representation of an integer, between 0 and its width."""
    e = as_expr(x)
    dtype = dtype_of(e)
    call = integer(make(CALL, (e,), dtype, "popcount"))
    return ints.bounded(call, 0, dtypes.bits(dtype))


def clz(x: IntLike) -> Expr:
    """Return the number of leading 0 bits in the machine representation of an integer."""
    e = as_expr(x)
    dtype = dtype_of(e)
    width, step = dtypes.bits(dtype), 1
    while step < width:  # copy the leading 1 to all lower bits
        e = e | (e >> as_expr(const(step, dtype)))
        step *= 2
    return as_expr(cast(dtypes.INDEX, width - popcount(e)))


def reinterpret(dtype: str, value: ValueLike) -> Operand:
    """Return the bits of a number as another type of the same width.

    Raises
    ------
    InputError: the widths differ, or a type is neither an integer nor float32 or float64.
    """
    x = operand(value, "the value of reinterpret")
    is_constant = isinstance(x, Expr) and x.is_const  # it has the bits of any width
    source = dtypes.int_named(dtypes.bits(dtypes.check(dtype)), True) if is_constant else dtype_of(x)
    if source == dtype:
        return x
    known = all(dtypes.is_int(t) or t in ("float32", "float64") for t in (source, dtype))
    if not known or dtypes.bits(source) != dtypes.bits(dtype):
        raise InputError(f"reinterpret takes numbers of one width, not {source} as {dtype}")
    if dtypes.is_int(source) and dtypes.is_int(dtype):
        return cast(dtype, x)
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
    return ExternCall("packed", arguments.a_name(name, "the name of a function"), args)


def call_extern(dtype: str, name: str, *args: object) -> Operand | ExternCall:
    """Call an external function; returns a value of the given type if all arguments are values."""
    return _opaque_call("extern", dtype, name, args)


def call_intrin(dtype: str, name: str, *args: object) -> Operand | ExternCall:
    """Call an intrinsic; returns a value of the given type if all arguments are values."""
    plain = arguments.a_name(name, "the name of an intrinsic").removeprefix("tir.")
    if plain == "reinterpret" and len(args) == 1:
        return reinterpret(dtype, args[0])  # type: ignore[arg-type]  # what is no value is refused
    known = FUNCTIONS.get(plain)
    if known is not None:
        return cast(dtype, known(*args))
    return _opaque_call("intrin", dtype, name, args)


def _opaque_call(kind: str, dtype: str, name: str, args: tuple[object, ...]) -> Operand | ExternCall:
    arguments.a_name(name, "the name of a function")
    if not all(isinstance(a, Value) or is_truth(a) or isinstance(a, (int, float, Expr)) for a in args):
        return ExternCall(kind, name, args)
    call = make(CALL, tuple(operand(a) for a in args), dtypes.check(dtype), name)
    return integer(call) if dtypes.is_int(dtype) else call


def dtype_of(operand: Operand) -> str:
    """Return the element type of a tensor that stores the operand.

    Operands have the types of TVM: indices and Python integers are `int32`, an integer beyond that is `int64`.
    """
    if isinstance(operand, Value):
        return operand.dtype
    if isinstance(operand, Cond):
        return "bool"
    types: dict[Node, str] = {}
    for node in dag.postorder((operand,)):
        if isinstance(node, Expr):
            types[node] = integer_type(node, types)
    return types[operand]


def integer_type(node: Expr, known: Mapping[Node, str]) -> str:
    """Return the type of an integer whose operands have `known` types.

    In a bit operation, a Python integer has the type of the other operand if that type holds the integer.
    """
    if node.op is ops.LOAD:
        return getattr(node.data, "dtype", dtypes.INDEX)
    if node.op is ops.CAST:
        return dtypes.int_named(*node.data)
    if isinstance(node, Var):
        return node.type_name if isinstance(node, ScriptVar) else dtypes.INDEX
    if node.is_const:
        return dtypes.of_number(node.data)
    args = [arg for arg in node.args if isinstance(arg, Expr)]
    if node.op in _BIT_OPERATIONS:
        typed = [known[arg] for arg in args if not arg.is_const]
        args = [arg for arg in args if not arg.is_const or not any(dtypes.holds(t, arg.data) for t in typed)]
    return reduce(dtypes.promote, [known[arg] for arg in args]) if args else dtypes.INDEX


_BIT_OPERATIONS: Final = (ops.BITAND, ops.BITOR, ops.BITXOR, ops.SHL, ops.SHR)


def is_integer(x: object) -> bool:
    """Return whether `x` is an integer: an `Expr`, or a Python or numpy integer."""
    return isinstance(x, Expr) or (hasattr(x, "__index__") and not isinstance(x, (bool, Value, Cond)))


def is_truth(x: object) -> TypeGuard[Truth]:
    """Return whether `x` is a truth value: a `Cond`, or a Value of type `bool`."""
    return isinstance(x, Cond) or (isinstance(x, Value) and x.dtype == "bool")


def operand(x: object, what: str = "an operand") -> Operand:
    """Convert `x` to an operand; a Python float becomes a `float32` constant.

    An object with a method `as_operand` converts itself: a tensor without dimensions is its element.

    Raises
    ------
    InputError: `x` is no number and no operand; names `what`.
    """
    if isinstance(x, (Value, Expr, Cond)):
        return x
    own: Operand | None = x.as_operand() if hasattr(x, "as_operand") else None
    if own is not None:
        return own
    if isinstance(x, bool) or type(x).__name__ in ("bool", "bool_"):
        raise InputError(f"{what} must be a number, not the truth value {shown(x)}: use tir.const({shown(x)}, 'bool')")
    if is_integer(x):
        return as_expr(x, what)
    if isinstance(x, SupportsFloat):
        return constant(float(x), dtypes.DEFAULT)
    raise arguments.refusal(what, "a value of a tensor program or a number", x)


def const(value: float | bool, dtype: str | None = None) -> Operand:
    """Return a constant of the given type; by default `int32` for Python integers, `float32` for floats."""
    wanted = None if dtype is None else dtypes.check(dtype)
    if isinstance(value, bool) or wanted == "bool":
        return truth(bool(value))
    return operand(value, "a constant") if wanted is None else cast(wanted, value)


def plain_constant(e: Operand) -> Operand:
    """Return a typed integer constant as a number; other operands unchanged."""
    if isinstance(e, Expr) and e.op is ops.CAST and e.args[0].is_const:
        number: Expr = e.args[0]
        return number if dtypes.holds(dtypes.int_named(*e.data), number.data) else e
    return e


def cast(dtype: str, value: ValueLike) -> Operand:
    """Convert a value as storing it would: integers wrap, floats are truncated toward 0."""
    dtype = dtypes.check(dtype)
    x = constant(float(value), "float64") if isinstance(value, float) else operand(value)
    if is_truth(x):
        return x if dtype == "bool" else select(x, cast(dtype, 1), cast(dtype, 0))
    if dtype == "bool":
        return binary(ops.NE, x, 0)
    if isinstance(x, Expr):
        return _cast_integer(dtype, x)
    if not isinstance(x, Value) or x.dtype == dtype:
        return x
    if dtypes.is_int(dtype):
        if x.op is NUMBER:
            if not isfinite(x.data):
                raise InputError(f"{x.data} is no integer: it has no value as {dtype}")
            return _cast_integer(dtype, as_expr(int(x.data)))
        return integer(make(CONVERT, (x,), dtype))
    return constant(x.data, dtype) if x.op is NUMBER else make(CONVERT, (x,), dtype)


def as_float(number: float, dtype: str = "float64") -> float:
    """Round a number to a float type.

    Raises
    ------
    InputError: an integer above the range of floats.
    """
    nearest = dtypes.rounded(number, "float64")
    if isinstance(number, int) and not isfinite(nearest):
        raise InputError(f"{shown(number)} is above all floats")
    return dtypes.rounded(number, dtype)


def _settled(e: Expr) -> int | None:
    """The number of an expression of untyped constants; `None` for others, and where it divides by 0."""
    if ops.CAST in dag.operations(e):
        return None  # its steps wrap
    try:
        number: int | None = settled(e)
    except UndefinedError:
        return None
    return number


def _cast_integer(dtype: str, e: Expr) -> Operand:
    if dtypes.is_float(dtype):
        whole = _settled(as_expr(plain_constant(e)))
        return make(CONVERT, (e,), dtype) if whole is None else constant(as_float(whole, dtype), dtype)
    number = as_expr(plain_constant(e))
    if number.is_const:
        e = as_expr(ops.wrap(number.data, *dtypes.register(dtype)))
    return e if dtype_of(e) == dtype else ints.cast(e, dtypes.bits(dtype), dtypes.signed(dtype))


def matched(*values: object) -> tuple[Value, ...]:
    """Cast values, at least one of them a float, to their common float type."""
    for x in values:
        if is_truth(x):
            raise InputError(f"a truth value is not a number: {shown(x)} (use tir.Select or astype)")
    operands = [operand(x) for x in values]
    types = [x.dtype for x in operands if isinstance(x, Value)]
    dtype = reduce(dtypes.promote, types) if types else dtypes.DEFAULT
    if dtype in dtypes.OF_STORAGE:
        raise InputError(f"nothing is computed in {dtype}, a type of storage: convert by astype first")
    cast_values = [cast(dtype, x if isinstance(x, float) else y) for x, y in zip(values, operands, strict=True)]
    return tuple(x for x in cast_values if isinstance(x, Value))


def binary(op: Op, a: object, b: object) -> Operand:
    """Return `a op b`: an `Expr` or `Cond` for integers, a `Value` otherwise."""
    if is_integer(a) and is_integer(b):
        if op is DIV:
            raise InputError("'/' of two integers: use tir.floordiv (floor), tir.truncdiv (C), or cast one to a float")
        whole = as_expr(a), as_expr(b)
        made: Expr | Cond = divide(op, *whole) if op in ops.DIVISIONS else make_node(op, whole)
        return made
    are_addresses = all(isinstance(x, Value) and x.dtype == "handle" for x in (a, b))
    if op in (ops.EQ, ops.NE) and (are_addresses or (is_truth(a) and is_truth(b))):
        same = make(ops.EQ, (a, b), "bool")  # type: ignore[arg-type]  # both are operands
        return same if op is ops.EQ else negation(same)
    if (op in ops.COMPARISONS or op is ops.MUL) and is_truth(a) != is_truth(b):  # a truth value counts 1 or 0
        return binary(op, *(cast(dtypes.INDEX, x) if is_truth(x) else x for x in (a, b)))
    x, y = matched(a, b)
    if x.op is y.op is NUMBER and x.dtype != "bool":
        folded = _folded(op, x, y)
        if folded is not None:
            return folded
    return make(op, (x, y), "bool" if op in ops.COMPARISONS else x.dtype)


_ON_CONSTANTS: Final = {ops.ADD: add, ops.SUB: sub, ops.MUL: mul, DIV: truediv}
_COMPARED: Final = {ops.LT: lt, ops.LE: le, ops.GT: gt, ops.GE: ge}


def _folded(op: Op, x: Value, y: Value) -> Value | None:
    """The value of an operation on two float constants, rounded to their type; `None` where it is not finite.

    A double sum, product or quotient, rounded to a narrower type, equals the narrower type's own operation: doubles
    have more than twice its digits.
    """
    if op in _COMPARED:
        return constant(_COMPARED[op](x.data, y.data), "bool")
    if op not in _ON_CONSTANTS or (op is DIV and not y.data):
        return None
    result = dtypes.rounded(_ON_CONSTANTS[op](x.data, y.data), x.dtype)
    return constant(result, x.dtype) if isfinite(result) else None


def arithmetic(op: Op, a: object, b: object) -> Number:
    """Return `a op b` for an operation that yields a number."""
    return _number(binary(op, a, b))


def _number(x: Operand) -> Number:
    if isinstance(x, Cond):
        raise InputError(f"a truth value is not a number: {shown(x)} (use tir.Select or astype)")
    return x


def unary(op: Op, a: object) -> Number:
    """Return the negation or the absolute value."""
    if is_integer(a):
        return -as_expr(a) if op is ops.NEG else abs(as_expr(a))
    (x,) = matched(operand(a))
    if op is ops.NEG and x.op is NUMBER:
        return constant(-x.data, x.dtype)
    return make(op, (x,), x.dtype)


def truth_value(x: object, what: str = "a condition") -> Truth:
    """Return `x` as a truth value.

    Raises
    ------
    InputError: `x` is a number or a Python bool; names `what`.
    """
    if isinstance(x, Cond) or (isinstance(x, Value) and x.dtype == "bool"):
        return x
    raise InputError(f"{what} must be a truth value such as i < 8 or A[i] > 0, not {shown(x)}")


def logical(op: Op, a: object, b: object) -> Truth:
    """Return `a and b`, or `a or b`; a `Cond` if both are."""
    x, y = truth_value(a, f"an operand of {op.name}"), truth_value(b, f"an operand of {op.name}")
    if isinstance(x, Cond) and isinstance(y, Cond):
        return x & y if op is ops.AND else x | y
    return make(op, (x, y), "bool")


def negation(a: object) -> Truth:
    """`not a`."""
    x = truth_value(a, "the operand of not")
    return ~x if isinstance(x, Cond) else make(ops.NOT, (x,), "bool")


def all_of(*conditions: object) -> Truth:
    """Return the conjunction of one or more conditions."""
    return _joined(ops.AND, "tir.all", conditions)


def any_of(*conditions: object) -> Truth:
    """Return the disjunction of one or more conditions."""
    return _joined(ops.OR, "tir.any", conditions)


def _joined(op: Op, what: str, conditions: tuple[object, ...]) -> Truth:
    if not conditions:
        raise InputError(f"{what} needs at least one condition")
    return reduce(lambda a, b: logical(op, a, b), [truth_value(c, f"an argument of {what}") for c in conditions])


def together(*conditions: object) -> Truth:
    """Return the conjunction of conditions, skipping `True`; `True` for none."""
    kept = [c for c in conditions if c is not truth(True)]
    return all_of(*kept) if kept else truth(True)


def select(condition: object, if_true: object, if_false: object) -> Operand:
    """Return `if_true` if the condition holds, else `if_false`; the other branch is not evaluated."""
    cond = truth_value(condition, "the condition of select")
    if is_integer(if_true) and is_integer(if_false):
        a, b = as_expr(if_true), as_expr(if_false)
        if isinstance(cond, Cond):
            return ints.select(cond, a, b)
        return integer(make(ops.SELECT, (cond, a, b), dtypes.promote(dtype_of(a), dtype_of(b))))
    if is_truth(if_true) and is_truth(if_false):
        return any_of(all_of(cond, if_true), all_of(negation(cond), if_false))
    x, y = matched(if_true, if_false)
    return make(ops.SELECT, (cond, x, y), x.dtype)


def fold(op: Op, what: str, values: tuple[object, ...]) -> Number:
    """Return the minimum or maximum of one or more values."""
    if not values:
        raise InputError(f"{what} needs at least one value")
    first, *others = [operand(v, f"an argument of {what}") for v in values]
    return reduce(lambda a, b: arithmetic(op, a, b), others, _number(first))


_OF_FLOATS: Final = {
    "add": ops.ADD,
    "sub": ops.SUB,
    "mul": ops.MUL,
    "truediv": DIV,
    "lt": ops.LT,
    "le": ops.LE,
    "gt": ops.GT,
    "ge": ops.GE,
    "eq": ops.EQ,
    "ne": ops.NE,
}


def _with_float(name: str, a: object, b: object) -> Operand:
    """An operation of an integer and a Python float, both as `float32`, or a product with a condition, as in TVM."""
    if name not in _OF_FLOATS:
        raise InputError(f"{name} of {shown(a)} and {shown(b)}: it is for integers")
    counted = (select(x, 1, 0) if isinstance(x, Cond) else x for x in (a, b))
    return binary(_OF_FLOATS[name], *counted)


FLOATS.binary = _with_float
OPERATORS.binary = binary
OPERATORS.cast = cast
OPERATORS.logical = logical
OPERATORS.negation = negation
OPERATORS.unary = unary
ELEMENT_TYPES.of, ELEMENT_TYPES.cast = dtype_of, cast
