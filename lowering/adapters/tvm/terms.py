"""Expressions of TVM as operands: a table by class, and one of calls by name.

Integers of 32 and 64 bits with a sign are mathematical: their overflow is undefined in the code that TVM writes. Other
integers wrap at each step. Quotients keep their rounding: `Div` and `Mod` are C's, `FloorDiv` and `FloorMod` floor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter, methodcaller
from typing import Any, Final

from tvm.ir import Call, TensorLoad
from tvm.ir import Var as TirVar
from tvm.tirx import expr as tirx

from bound import dtypes
from bound.tir import build
from bound.tir.build import FUNCTIONS, popcount, power
from bound.tir.machine import within
from bound.tir.value import DIV, Operand, constant, parameter
from intset.errors import InputError
from intset.expr import Expr, Var, const, dag, ops
from intset.expr import build as ints
from intset.expr.convert import Converter, OperandsByClass
from intset.expr.node import PlainVar, truth
from intset.expr.ops import Op
from lowering.nest.ir import undef

_MATHEMATICAL: Final = ("int32", "int64", "bool")
Row = Callable[..., Operand]


def dtype_of(term: Any) -> str:
    """The element type of a term or a buffer; for vectors, the lane type.

    Raises
    ------
    InputError: a type that tensors do not hold here.
    """
    found = getattr(term.ty, "dtype", None)
    dtype = _counterpart(str(found))
    if not dtype:
        raise InputError(f"TVM's type {term.ty if found is None else str(found).partition('x')[0]} has no counterpart")
    return dtype


@cache
def _counterpart(name: str) -> str:
    """The element type for a type of TVM by its name; empty where tensors hold none."""
    try:
        dtype = dtypes.check(name.partition("x")[0])
    except InputError:
        return ""
    return "" if dtype in _REFUSED else dtype


def element_type(buffer: Any) -> str:
    """The element type of a buffer by its name, also of a type whose values have no counterpart."""
    try:
        return dtype_of(buffer)
    except InputError:
        name = str(getattr(buffer.ty, "dtype", ""))
        if not name or lanes_of(buffer) != 1:
            raise
        return name


_REFUSED: Final = ("uint64", "bfloat16", *dtypes.OF_STORAGE)


def lanes_of(term: Any) -> int:
    """The lanes of a vector; 1 of a scalar."""
    found = getattr(getattr(term.ty, "dtype", None), "lanes", 1)
    return int(found)


def in_type(term: Any, value: Operand) -> Operand:
    """The result of an operation in its term's type: integers other than indices wrap."""
    if not isinstance(value, Expr):
        return value
    dtype = dtype_of(term)
    return value if dtype in _MATHEMATICAL else in_register(value, dtype)


def in_register(value: Any, dtype: str) -> Expr:
    """An integer wrapped to a type."""
    return ints.cast(value, dtypes.bits(dtype), dtypes.signed(dtype))


def as_value(term: Any, value: Operand) -> Operand:
    """The value of a term wrapped to its type, for uses of more than the low bits."""
    return within(value, dtype_of(term)) if isinstance(value, Expr) and is_data(value) else value


def is_data(value: Expr) -> bool:
    """Whether an integer depends on data."""
    named = any(isinstance(var, DataVar) for var in value.free_vars())
    return named or not _DATA.isdisjoint(dag.operations(value))


class DataVar(PlainVar):
    """A name for an integer that depends on data."""

    __slots__ = ()


_DATA: Final = frozenset((ops.LOAD, ops.CAST))


def converter(rows: dict[object, Row]) -> Converter[Any, Operand]:
    """The converter of terms; `rows` are those of variables, elements, vectors and names, which depend on the place."""
    return Converter(
        {**_ROWS, **rows}, opaque=_refused, kind=type, operands=operands_of, identity=methodcaller("__chandle__")
    )


def _refused(term: Any, *_: Operand) -> Operand:
    raise InputError(f"TVM's {type(term).__name__} has no counterpart: {str(term).splitlines()[-1][:80]}")


CLASSES: Final[dict[Op, type]] = {  # of binary operations; a quotient of floats is `Div`, too
    ops.ADD: tirx.Add, ops.SUB: tirx.Sub, ops.MUL: tirx.Mul, ops.MIN: tirx.Min, ops.MAX: tirx.Max,
    ops.TRUNCDIV: tirx.Div, ops.TRUNCMOD: tirx.Mod, ops.FLOORDIV: tirx.FloorDiv, ops.FLOORMOD: tirx.FloorMod,
    ops.LT: tirx.LT, ops.LE: tirx.LE, ops.GT: tirx.GT, ops.GE: tirx.GE, ops.EQ: tirx.EQ, ops.NE: tirx.NE,
}  # fmt: skip


def _binary(op: Op) -> Row:
    """The row of a binary operation; sums and products need the low bits of their operands alone."""
    if op in (ops.ADD, ops.SUB, ops.MUL):
        return lambda term, a, b: in_type(term, build.arithmetic(op, a, b))
    if op in ops.COMPARISONS:
        return lambda term, a, b: build.binary(op, as_value(term.a, a), as_value(term.b, b))
    return lambda term, a, b: in_type(term, build.arithmetic(op, as_value(term.a, a), as_value(term.b, b)))


def _function(f: Callable[..., Operand]) -> Row:
    return lambda term, *args: f(*map(as_value, term.args, args))


def _bitwise(op: Callable[[Any, Any], Any], logical: Op | None = None) -> Row:
    def row(term: Any, a: Operand, b: Operand) -> Operand:
        if logical is not None and build.is_truth(a) and build.is_truth(b):
            return build.logical(logical, a, b)
        return in_type(term, op(a, b))

    return row


def _cast(term: Any, value: Operand) -> Operand:
    dtype, own = dtype_of(term), dtype_of(term.value)
    if not isinstance(value, Expr):
        return build.cast(dtype, value)
    if not dtypes.is_int(dtype) or dtypes.bits(dtype) > dtypes.bits(own):
        value = as_value(term.value, value)
    return in_type(term, value) if dtypes.is_int(dtype) else build.cast(dtype, value)


def _selected(term: Any, cond: Operand, a: Operand, b: Operand) -> Operand:
    """A selection; of truth values as `and` and `or`, lazy as they are."""
    if b is truth(False) and build.is_truth(a):
        return build.logical(ops.AND, cond, a)
    if a is truth(True) and build.is_truth(b):
        return build.logical(ops.OR, cond, b)
    return build.select(cond, a, b)


def _exclusive(term: Any, a: Any, b: Any) -> Operand:
    if not (build.is_truth(a) and build.is_truth(b)):
        return in_type(term, a ^ b)
    either, both = (build.logical(op, a, b) for op in (ops.OR, ops.AND))
    return build.logical(ops.AND, either, build.negation(both))


_CALLS: Final[dict[str, Row]] = {
    **{name: _function(f) for name, f in FUNCTIONS.items() if name != "ldexp"},
    "pow": _function(power),
    "abs": lambda term, a: in_type(term, build.unary(ops.ABS, as_value(term.args[0], a))),
    "fabs": lambda term, a: build.unary(ops.ABS, a),
    "if_then_else": _selected,
    "likely": lambda term, a: a,
    "popcount": lambda term, a: popcount(in_register(a, dtype_of(term.args[0]))),
    "undef": lambda term: undef(dtype_of(term)),
    "bitwise_and": _bitwise(lambda a, b: a & b, ops.AND),
    "bitwise_or": _bitwise(lambda a, b: a | b, ops.OR),
    "bitwise_xor": _exclusive,
    "bitwise_not": lambda term, a: build.negation(a) if build.is_truth(a) else in_type(term, ~a),
    "shift_left": _bitwise(lambda a, b: a << b),
    "shift_right": lambda term, a, b: in_type(term, as_value(term.args[0], a) >> b),
}


def call_name(term: Any) -> str:
    """The name of what a call calls, without TVM's dialect in front."""
    return str(getattr(term.op, "name", term.op)).rpartition(".")[2]


def _call(term: Any, *args: Operand) -> Operand:
    row = _CALLS.get(call_name(term))
    if row is None:
        raise InputError(f"TVM's call of {call_name(term)} has no counterpart")
    return row(term, *args)


_BINARY: Final[dict[object, Row]] = {
    **{kind: _binary(op) for op, kind in CLASSES.items()},
    tirx.Div: lambda term, a, b: _binary(ops.TRUNCDIV if isinstance(a, Expr) else DIV)(term, a, b),
    tirx.And: lambda term, a, b: build.logical(ops.AND, a, b),
    tirx.Or: lambda term, a, b: build.logical(ops.OR, a, b),
    tirx.BitwiseAnd: _CALLS["bitwise_and"],
    tirx.BitwiseOr: _CALLS["bitwise_or"],
    tirx.BitwiseXor: _CALLS["bitwise_xor"],
    tirx.LShift: _CALLS["shift_left"],
    tirx.RShift: lambda term, a, b: in_type(term, as_value(term.a, a) >> b),
}

_ROWS: Final[dict[object, Row]] = {
    **_BINARY,
    tirx.IntImm: lambda term: truth(bool(term.value)) if dtype_of(term) == "bool" else const(int(term.value)),
    tirx.FloatImm: lambda term: constant(float(term.value), dtype_of(term)),
    tirx.BitwiseNot: _CALLS["bitwise_not"],
    tirx.Not: lambda term, a: build.negation(a),
    tirx.Select: _selected,
    tirx.Cast: _cast,
    Call: _call,
}


def is_supported(call: Any) -> bool:
    """Whether a call has a counterpart: it computes a value and does nothing else."""
    return call_name(call) in _CALLS


# Operands in constructor order; a `Let` contributes only its value. The row of an unsupported call refuses it by name.
operands_of: Final = OperandsByClass(
    {
        **dict.fromkeys(_BINARY, attrgetter("a", "b")),
        **dict.fromkeys((tirx.BitwiseNot, tirx.Not), lambda term: (term.a,)),
        **dict.fromkeys((tirx.Cast, tirx.Broadcast, tirx.Let), lambda term: (term.value,)),
        tirx.Select: attrgetter("condition", "true_value", "false_value"),
        tirx.Ramp: attrgetter("base", "stride"),
        TensorLoad: lambda term: tuple(term.indices),
        Call: lambda call: tuple(call.args) if is_supported(call) else (),
    }
)


def term_of(term: Any, known: dict[Any, Operand]) -> Operand:
    """An expression; new variables are added to the known ones."""

    def variable(var: Any) -> Operand:
        if var not in known:
            dtype = dtype_of(var)
            known[var] = Var(var.name) if dtypes.is_int(dtype) else parameter(var.name, dtype)
        return known[var]

    return converter({TirVar: variable})(term)
