"""`Value`: data that is not an integer. Hash-consed: equal structure is the same object.

A tensor program has three disjoint classes of operands:

- `intset.Expr`: integers, loop indices and elements of integer tensors alike;
- `intset.Cond`: conditions on integers;
- `Value`: floats, truth values that depend on floats, and reductions.

A Value is `(op, args, data, dtype)`. `args` contains Values, Exprs and Conds, so `intset.expr.dag.postorder` visits
the
whole DAG, indices included.

===========  ======================================  ==================================
op           args                                    data
===========  ======================================  ==================================
NUMBER                                               `float` of the type, or `bool`
PARAM                                                `(name, number)`, a scalar argument
UNDEF                                                identity of an undefined value
READ         the indices, each an Expr               the `Tensor`
ADD ... ABS  the operands, Values of one dtype
LT ... NE    two operands
AND OR NOT   truth values: Values of `bool`, Conds
CALL         the arguments                           the name of the function
CONVERT      one Value, Expr or Cond
SELECT       condition, value if true, if false; the branch that is not taken is not evaluated
REDUCE       sources, condition (then initial values) the `Reduction`
===========  ======================================  ==================================
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, NoReturn, SupportsFloat, SupportsIndex, TypeAlias

from bound import dtypes
from bound.itervar import IterVar
from intset.errors import InputError
from intset.expr import ops
from intset.expr.dag import LOCK, OperandNames, WeakTable
from intset.expr.node import Cond, Expr, Guest, truth
from intset.expr.ops import REGISTERED, Op
from intset.expr.printer import INFIX as WHOLE_INFIX
from intset.expr.printer import Placed, Precedence, TextPiece, abbreviated, layout_of, listed, shown

Operand: TypeAlias = "Value | Expr | Cond"
Number: TypeAlias = "Value | Expr"
Truth: TypeAlias = "Value | Cond"
ValueLike: TypeAlias = "Value | Expr | Cond | SupportsIndex | SupportsFloat"


class OperatorTable:
    """Functions of modules above this one, which operators of values call; `tir.build` and `operation` set them."""

    __slots__ = ("binary", "buffer_tensor", "cast", "logical", "negation", "unary")
    binary: Callable[[Op, object, object], Operand]
    buffer_tensor: Callable[[Any], Any]
    cast: Callable[[str, ValueLike], Operand]
    logical: Callable[[Op, Operand, Operand], Operand]
    negation: Callable[[Operand], Operand]
    unary: Callable[[Op, ValueLike], Operand]


OPERATORS = OperatorTable()


def _row(name: str, operands: str | None, doc: str) -> Op:
    return Op(name, operands, doc, table=REGISTERED)


# what only values have; their other operations are those of integers
NUMBER: Final = _row("number", "", "the float or truth value data")
PARAM: Final = _row("param", "", "a scalar argument; data is (name, number)")
UNDEF: Final = _row("undef", "", "an undefined value; data is its identity")
READ: Final = _row("read", None, "the element of the tensor data at the indices")
DIV: Final = _row("div", "vv", "the quotient of floats")
CALL: Final = _row("call", None, "the result of the function named data")
CONVERT: Final = _row("convert", "v", "a as a number of the type of the node")
REDUCE: Final = _row("reduce", None, "the combination of the sources; data is the Reduction")

INFIX = frozenset((ops.ADD, ops.SUB, ops.MUL, DIV))

_TABLE: WeakTable[tuple[object, ...], Value] = WeakTable()


class Value(OperandNames, Guest):
    """A float, a truth value that depends on data, or a reduction; the module describes its fields.

    Arithmetic with integers promotes: `A[i] * i` casts `i` to the type of `A`. `==` builds a comparison whose `bool()`
    is structural identity, as for `intset` expressions; `&`, `|` and `~` combine truth values.

    Invariant: immutable and interned.
    """

    __slots__ = ("__weakref__", "_below", "_operations", "args", "data", "dtype", "op")
    op: Op
    args: tuple[Operand, ...]
    data: Any
    dtype: str

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("values are immutable")

    remember = object.__setattr__  # as of `intset` nodes: a slot for what follows from the structure alone
    __hash__ = object.__hash__

    def with_args(self, args: tuple[Operand, ...]) -> Value:
        """The value of this operation, type and payload with other operands; itself, if they are its own."""
        same = all(map(operator.is_, args, self.args))
        return self if same else make(self.op, args, self.dtype, self.data)

    def __add__(self, other: ValueLike) -> Value:
        return NotImplemented if _is_tensor(other) else _binary(ops.ADD, self, other)

    def __radd__(self, other: ValueLike) -> Value:
        return _binary(ops.ADD, other, self)

    def __sub__(self, other: ValueLike) -> Value:
        return NotImplemented if _is_tensor(other) else _binary(ops.SUB, self, other)

    def __rsub__(self, other: ValueLike) -> Value:
        return _binary(ops.SUB, other, self)

    def __mul__(self, other: ValueLike) -> Value:
        return NotImplemented if _is_tensor(other) else _binary(ops.MUL, self, other)

    def __rmul__(self, other: ValueLike) -> Value:
        return _binary(ops.MUL, other, self)

    def __truediv__(self, other: ValueLike) -> Value:
        return NotImplemented if _is_tensor(other) else _binary(DIV, self, other)

    def __rtruediv__(self, other: ValueLike) -> Value:
        return _binary(DIV, other, self)

    def __floordiv__(self, other: ValueLike) -> Value:
        return _binary(ops.FLOORDIV, self, other)

    def __rfloordiv__(self, other: ValueLike) -> Value:
        return _binary(ops.FLOORDIV, other, self)

    def __mod__(self, other: ValueLike) -> Value:
        return _binary(ops.FLOORMOD, self, other)

    def __rmod__(self, other: ValueLike) -> Value:
        return _binary(ops.FLOORMOD, other, self)

    def __neg__(self) -> Value:
        return _own(OPERATORS.unary(ops.NEG, self))

    def __abs__(self) -> Value:
        return _own(OPERATORS.unary(ops.ABS, self))

    def __lt__(self, other: ValueLike) -> Value:
        return _binary(ops.LT, self, other)

    def __le__(self, other: ValueLike) -> Value:
        return _binary(ops.LE, self, other)

    def __gt__(self, other: ValueLike) -> Value:
        return _binary(ops.GT, self, other)

    def __ge__(self, other: ValueLike) -> Value:
        return _binary(ops.GE, self, other)

    def __eq__(self, other: object) -> Any:
        return _binary(ops.EQ, self, other) if _is_operand(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return _binary(ops.NE, self, other) if _is_operand(other) else NotImplemented

    def equal(self, other: ValueLike) -> Value:
        """Return the truth value of equality."""
        return _binary(ops.EQ, self, other)

    def __and__(self, other: Operand) -> Value:
        return _own(OPERATORS.logical(ops.AND, self, other))

    def __rand__(self, other: Operand) -> Value:
        return _own(OPERATORS.logical(ops.AND, other, self))

    def __or__(self, other: Operand) -> Value:
        return _own(OPERATORS.logical(ops.OR, self, other))

    def __ror__(self, other: Operand) -> Value:
        return _own(OPERATORS.logical(ops.OR, other, self))

    def __invert__(self) -> Value:
        return _own(OPERATORS.negation(self))

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The axes of a reduction, as in TVM's `Reduce`; other values have none."""
        if self.op is not REDUCE:
            raise AttributeError(f"{self!r} is no reduction and has no axis")
        answer: tuple[IterVar, ...] = self.data.axis
        return answer

    @property
    def producer(self) -> object:
        """The tensor of an element, as in TVM's `ProducerLoad`; other values have none."""
        if self.op is not READ:
            raise AttributeError(f"{self!r} is no element and has no producer")
        return self.data

    buffer = producer

    @property
    def indices(self) -> tuple[Operand, ...]:
        """The indices of an element; other values have none."""
        return self.args if self.producer is not None else ()

    @property
    def value(self) -> object:
        """The number of a constant, the operand of a conversion; other values have none."""
        if self.op is CONVERT:
            return self.args[0]
        if self.op is not NUMBER:
            raise AttributeError(f"{self!r} is no constant and has no value")
        return self.data

    @property
    def name(self) -> str:
        """The name of a parameter; other values have none."""
        if self.op is not PARAM:
            raise AttributeError(f"{self!r} is no parameter and has no name")
        return str(self.data[0])

    def astype(self, dtype: str) -> Operand:
        """Convert to another type; an integer type yields an `Expr`."""
        return OPERATORS.cast(dtype, self)

    def _no_bits(self, other: object) -> NoReturn:
        raise InputError(f"{self!r} is a {self.dtype}, which has no bits to shift or combine")

    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __xor__ = __rxor__ = _no_bits

    def __bool__(self) -> bool:
        if self.op is ops.EQ or self.op is ops.NE:
            return (self.args[0] is self.args[1]) is (self.op is ops.EQ)
        if self.op is NUMBER and self.dtype == "bool":
            return bool(self.data)
        raise InputError(f"the truth value of {self!r} is not known here: use tir.Select, tir.all, tir.any, or & | ~")

    def __iter__(self) -> NoReturn:
        raise TypeError("a value is not iterable")

    def __copy__(self) -> Value:
        return self

    def __deepcopy__(self, memo: object) -> Value:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return make, (self.op, self.args, self.dtype, self.data)

    def __repr__(self) -> str:
        return abbreviated(self, 2000, layout)


def make(op: Op, args: tuple[Operand, ...], dtype: str, data: Any = None) -> Value:
    """Return the interned value with these fields, unchecked."""
    key = (op, args, float(data).hex() if op is NUMBER else data, dtype)
    with LOCK:
        value = _TABLE.get(key)
        if value is None:
            value = object.__new__(Value)
            fill: Callable[[object, str, object], None] = object.__setattr__
            for slot, part in (("op", op), ("args", args), ("data", data), ("dtype", dtype)):
                fill(value, slot, part)
            _TABLE.put(key, value)
        return value


def constant(value: float | bool, dtype: str) -> Value:
    """Return a float or truth constant, rounded to its type."""
    return make(NUMBER, (), dtype, bool(value) if dtype == "bool" else dtypes.rounded(value, dtype))


SPELLED: Final[dict[Op, str]] = {  # between operands
    **{op: WHOLE_INFIX[op][0] for op in (ops.ADD, ops.SUB, ops.MUL, *ops.COMPARISONS)},
    DIV: "/",
    ops.AND: "and",
    ops.OR: "or",
}
SHORT: Final = {ops.MIN: "min", ops.MAX: "max"}


def layout(node: Operand) -> Placed:
    """The pieces of the text of an operand, in Python's syntax; every operation between operands has parentheses."""
    if not isinstance(node, Value):
        return layout_of(node)
    op, args, data = node.op, node.args, node.data
    if op in SPELLED:
        return Precedence.ATOM, ["(", (args[0], 0), f" {SPELLED[op]} ", (args[1], 0), ")"]
    if op is NUMBER:
        return Precedence.ATOM, [str(data) if node.dtype == "bool" else dtypes.decimal(data, node.dtype)]
    if op is PARAM:
        return Precedence.ATOM, [str(data[0])]
    if op is ops.NEG:
        return Precedence.ATOM, ["-", (args[0], 0)]
    if op is ops.SELECT:
        return Precedence.ATOM, ["(", (args[1], 0), " if ", (args[0], 0), " else ", (args[2], 0), ")"]
    if op is READ:
        return Precedence.ATOM, listed(f"{data.name}[", args, "]")
    if op is REDUCE:
        count = data.arity
        axes = ", ".join(axis.name for axis in data.axis)
        where: list[TextPiece] = [] if args[count] is truth(True) else [", where=", (args[count], 0)]
        chosen = f")[{data.index}]" if count > 1 else ")"
        return Precedence.ATOM, [*listed(f"{data.combiner.name}(", args[:count], f", axis=[{axes}]"), *where, chosen]
    name = data if op is CALL else node.dtype if op is CONVERT else SHORT.get(op, op.name)
    return Precedence.ATOM, listed(f"{name}(", args, ")")


_serial = iter(range(1 << 62))


def parameter(name: str, dtype: str) -> Value:
    """Return a fresh scalar parameter that is not an integer."""
    if not isinstance(name, str) or not name:
        raise InputError(f"a parameter's name is a non-empty text, not {shown(name)}")
    if dtypes.is_int(dtype):
        raise InputError(f"the parameter {name} of type {dtype} is an integer: use a variable")
    return make(PARAM, (), dtype, (name, next(_serial)))


def _is_tensor(x: object) -> bool:
    """Whether the other operand is a tensor, which combines element by element."""
    return isinstance(x, Guest) and hasattr(x, "value_index")


def _binary(op: Op, a: object, b: object) -> Value:
    return _own(OPERATORS.binary(op, a, b))


def _own(result: Operand) -> Value:
    assert isinstance(result, Value), "what is computed with a value is one"
    return result


def _is_operand(other: object) -> bool:
    return isinstance(other, (Value, Expr, Cond, int, float)) and not isinstance(other, bool)
