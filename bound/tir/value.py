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
CONST                                                `float` of the type, or `bool`
PARAM                                                `(name, number)`, a scalar argument
UNDEF                                                identity of an undefined value
LOAD         the indices, each an Expr               the `Tensor`
ADD ... ABS  the operands, Values of one dtype
LT ... NE    two operands
AND OR NOT   truth values: Values of `bool`, Conds
CALL         the arguments                           the name of the function
CAST         one Value, Expr or Cond
SELECT       condition, value if true, if false; the branch that is not taken is not evaluated
REDUCE       sources, condition (then initial values) the `Reduction`
===========  ======================================  ==================================
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NoReturn, SupportsFloat, SupportsIndex, TypeAlias

from bound import dtypes
from bound.itervar import IterVar
from intset.errors import InputError
from intset.expr.dag import LOCK, OperandNames, WeakTable
from intset.expr.node import Cond, Expr, Guest
from intset.expr.printer import shown

Operand: TypeAlias = "Value | Expr | Cond"
Number: TypeAlias = "Value | Expr"
Truth: TypeAlias = "Value | Cond"
ValueLike: TypeAlias = "Value | Expr | Cond | SupportsIndex | SupportsFloat"


class OperatorTable:
    """Functions of modules above this one, which operators of values call; `tir.build` and `operation` set them."""

    __slots__ = ("binary", "buffer_tensor", "cast", "logical", "negation", "text", "unary")
    binary: Callable[[ValueOp, object, object], Operand]
    buffer_tensor: Callable[[Any], Any]
    cast: Callable[[str, ValueLike], Operand]
    logical: Callable[[ValueOp, Operand, Operand], Operand]
    negation: Callable[[Operand], Operand]
    text: Callable[[Value], str]
    unary: Callable[[ValueOp, ValueLike], Operand]


OPERATORS = OperatorTable()


class ValueOp(StrEnum):
    """The operations of values; `repr` and error messages show the value of the enum."""

    CONST = "const"
    PARAM = "param"
    UNDEF = "undef"
    LOAD = "load"
    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    FLOORDIV = "floordiv"
    FLOORMOD = "floormod"
    TRUNCDIV = "truncdiv"
    TRUNCMOD = "truncmod"
    MIN = "min"
    MAX = "max"
    NEG = "neg"
    ABS = "abs"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    EQ = "=="
    NE = "!="
    AND = "and"
    OR = "or"
    NOT = "not"
    CALL = "call"
    CAST = "cast"
    SELECT = "select"
    REDUCE = "reduce"


INFIX = frozenset((ValueOp.ADD, ValueOp.SUB, ValueOp.MUL, ValueOp.DIV))
DIVISIONS = frozenset((ValueOp.FLOORDIV, ValueOp.FLOORMOD, ValueOp.TRUNCDIV, ValueOp.TRUNCMOD))
ARITHMETIC = INFIX | DIVISIONS | {ValueOp.MIN, ValueOp.MAX}
COMPARISONS = frozenset((ValueOp.LT, ValueOp.LE, ValueOp.GT, ValueOp.GE, ValueOp.EQ, ValueOp.NE))

_TABLE: WeakTable[tuple[object, ...], Value] = WeakTable()


class Value(OperandNames, Guest):
    """A float, a truth value that depends on data, or a reduction; the module describes its fields.

    Arithmetic with integers promotes: `A[i] * i` casts `i` to the type of `A`. `==` builds a comparison whose `bool()`
    is structural identity, as for `intset` expressions; `&`, `|` and `~` combine truth values.

    Invariant: immutable and interned.
    """

    __slots__ = ("__weakref__", "_below", "_operations", "args", "data", "dtype", "op")
    op: ValueOp
    args: tuple[Operand, ...]
    data: Any
    dtype: str

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("values are immutable")

    remember = object.__setattr__  # as of `intset` nodes: a slot for what follows from the structure alone
    __hash__ = object.__hash__

    def __add__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.ADD, self, other)

    def __radd__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.ADD, other, self)

    def __sub__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.SUB, self, other)

    def __rsub__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.SUB, other, self)

    def __mul__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.MUL, self, other)

    def __rmul__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.MUL, other, self)

    def __truediv__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.DIV, self, other)

    def __rtruediv__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.DIV, other, self)

    def __floordiv__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.FLOORDIV, self, other)

    def __rfloordiv__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.FLOORDIV, other, self)

    def __mod__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.FLOORMOD, self, other)

    def __rmod__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.FLOORMOD, other, self)

    def __neg__(self) -> Value:
        return _own(OPERATORS.unary(ValueOp.NEG, self))

    def __abs__(self) -> Value:
        return _own(OPERATORS.unary(ValueOp.ABS, self))

    def __lt__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.LT, self, other)

    def __le__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.LE, self, other)

    def __gt__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.GT, self, other)

    def __ge__(self, other: ValueLike) -> Value:
        return _binary(ValueOp.GE, self, other)

    def __eq__(self, other: object) -> Any:
        return _binary(ValueOp.EQ, self, other) if _is_operand(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return _binary(ValueOp.NE, self, other) if _is_operand(other) else NotImplemented

    def equal(self, other: ValueLike) -> Value:
        """Return the truth value of equality."""
        return _binary(ValueOp.EQ, self, other)

    def __and__(self, other: Operand) -> Value:
        return _own(OPERATORS.logical(ValueOp.AND, self, other))

    def __rand__(self, other: Operand) -> Value:
        return _own(OPERATORS.logical(ValueOp.AND, other, self))

    def __or__(self, other: Operand) -> Value:
        return _own(OPERATORS.logical(ValueOp.OR, self, other))

    def __ror__(self, other: Operand) -> Value:
        return _own(OPERATORS.logical(ValueOp.OR, other, self))

    def __invert__(self) -> Value:
        return _own(OPERATORS.negation(self))

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The axes of a reduction, as in TVM's `Reduce`; other values have none."""
        if self.op is not ValueOp.REDUCE:
            raise AttributeError(f"{self!r} is no reduction and has no axis")
        answer: tuple[IterVar, ...] = self.data.axis
        return answer

    def astype(self, dtype: str) -> Operand:
        """Convert to another type; an integer type yields an `Expr`."""
        return OPERATORS.cast(dtype, self)

    def __bool__(self) -> bool:
        if self.op is ValueOp.EQ or self.op is ValueOp.NE:
            return (self.args[0] is self.args[1]) is (self.op is ValueOp.EQ)
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
        return OPERATORS.text(self)


def make(op: ValueOp, args: tuple[Operand, ...], dtype: str, data: Any = None) -> Value:
    """Return the interned value with these fields, unchecked."""
    key = (op, args, float(data).hex() if op is ValueOp.CONST else data, dtype)
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
    return make(ValueOp.CONST, (), dtype, bool(value) if dtype == "bool" else dtypes.rounded(value, dtype))


_serial = iter(range(1 << 62))


def parameter(name: str, dtype: str) -> Value:
    """Return a fresh scalar parameter that is not an integer."""
    if not isinstance(name, str) or not name:
        raise InputError(f"a parameter's name is a non-empty text, not {shown(name)}")
    if dtypes.is_int(dtype):
        raise InputError(f"the parameter {name} of type {dtype} is an integer: use a variable")
    return make(ValueOp.PARAM, (), dtype, (name, next(_serial)))


def _binary(op: ValueOp, a: object, b: object) -> Value:
    return _own(OPERATORS.binary(op, a, b))


def _own(result: Operand) -> Value:
    assert isinstance(result, Value), "what is computed with a value is one"
    return result


def _is_operand(other: object) -> bool:
    return isinstance(other, (Value, Expr, Cond, int, float)) and not isinstance(other, bool)
