"""TVM's classes of expressions and statements, as types: `isinstance` knows them, and calls construct.

One class of nodes serves here for every operation, so each type is a test and a constructor. Fields are those of the
nodes: `a`, `b`, `value`, `condition`, `extent`, `body`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

from bound import dtypes
from bound.declare import size_var, var
from bound.operation import buffer_tensor
from bound.tensor import ScriptText, Tensor
from bound.tir import build
from bound.tir.build import (
    ExternCall,
    arithmetic,
    call_extern,
    call_intrin,
    call_packed,
    cast,
    const,
    logical,
    negation,
    select,
)
from bound.tir.value import CALL, CONVERT, DIV, NUMBER, PARAM, REDUCE, IntFunction, Value
from bound.tir.walk import loaded_tensor, substitute
from intset.errors import InputError
from intset.expr import ops
from intset.expr.node import Cond, Expr, ShapeVar, as_expr, truth
from intset.expr.node import Var as Variable
from intset.expr.range import Range
from lowering.nest import ir
from lowering.tvm.function import prim_func


@dataclass(frozen=True, eq=False)
class NodeType:
    """A class of TVM: `isinstance(x, T)` asks `holds`, `T(...)` calls `make`."""

    name: str
    holds: Callable[[Any], bool]
    make: Callable[..., Any]

    def __instancecheck__(self, x: object) -> bool:
        return self.holds(x)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.make(*args, **kwargs)

    def __or__(self, other: Any) -> NodeType:
        """The union of two types, as annotations and `isinstance` take it."""
        if not isinstance(other, (NodeType, type)):
            return NotImplemented
        kind: Any = other  # with a test of instances of its own
        name = f"{self.name} | {getattr(other, '__name__', getattr(other, 'name', other))}"
        return NodeType(name, lambda x: self.holds(x) or isinstance(x, kind), _refused(name))

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"<type {self.name}>"


def with_truths(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with conditions in the place of Python's truth values among its arguments."""

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        return function(*(truth(a) if isinstance(a, bool) else a for a in args), **named)

    return call


def _of_ops(*known: Any) -> Callable[[Any], bool]:
    return lambda x: isinstance(x, (Expr, Cond, Value)) and x.op in known


def _binary(op: ops.Op) -> Callable[..., Any]:
    return lambda a, b, span=None: build.binary(op, a, b)


_BINARY: Final = {
    "Add": ops.ADD,
    "Sub": ops.SUB,
    "Mul": ops.MUL,
    "Mod": ops.TRUNCMOD,
    "FloorDiv": ops.FLOORDIV,
    "FloorMod": ops.FLOORMOD,
    "Min": ops.MIN,
    "Max": ops.MAX,
    "EQ": ops.EQ,
    "NE": ops.NE,
    "LT": ops.LT,
    "LE": ops.LE,
    "GT": ops.GT,
    "GE": ops.GE,
}


def _divided(a: Any, b: Any, span: object = None) -> Any:
    return arithmetic(ops.TRUNCDIV if build.is_integer(a) and build.is_integer(b) else DIV, a, b)


def _is_cast(x: Any) -> bool:
    if isinstance(x, Expr) and x.op is ops.LOAD and isinstance(x.data, IntFunction):
        return _is_cast(x.data.body)
    return isinstance(x, (Expr, Cond, Value)) and x.op in (ops.CAST, CONVERT)


def _is_integer_constant(x: Any) -> bool:
    is_typed = isinstance(x, Expr) and x.op is ops.CAST and x.args[0].is_const
    return is_typed or (isinstance(x, (Expr, Cond)) and hasattr(x, "value"))


def _call(dtype: str, op: Any, args: Any = (), span: object = None) -> Any:
    name = str(op).removeprefix("tir.")
    if name in ("call_extern", "call_pure_extern"):
        return call_extern(dtype, *args)
    return call_packed(*args) if name in ("call_packed", "tvm_call_packed") else call_intrin(dtype, str(op), *args)


def _float(dtype: str, value: float, span: object = None) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"value of FloatImm must be a number, not {value!r}")
    if not dtypes.is_float(dtype):
        raise InputError(f"the type of FloatImm is a float, not {dtype!r}")
    return const(build.as_float(value), dtype)


def _selected(condition: Any, true_value: Any, false_value: Any, span: object = None) -> Any:
    return select(condition, true_value, false_value)


def _load(producer: Any, indices: Any, span: object = None) -> Any:
    return producer[tuple(indices)]


def _is_call(x: Any) -> bool:
    if isinstance(x, ExternCall):
        return True
    if not isinstance(x, (Expr, Value)):
        return False
    return x.op is CALL or (x.op is ops.LOAD and loaded_tensor(x) is None)


def _for(
    loop_var: Any, min: Any, extent: Any, kind: Any = 0, body: Any = None, thread: Any = None, annotations: Any = None
) -> ir.For:
    kinds = (ir.LoopKind.SERIAL, ir.LoopKind.PARALLEL, ir.LoopKind.VECTORIZED, ir.LoopKind.UNROLLED)
    chosen = kinds[kind] if isinstance(kind, int) else ir.LoopKind(kind)
    return ir.For(loop_var, Range(as_expr(min), as_expr(extent)), body, chosen)


def _store(target: Any, value: Any, indices: Any, *_: object, **__: object) -> ir.Store:
    tensor = target if isinstance(target, Tensor) else buffer_tensor(target)
    places = indices if isinstance(indices, (list, tuple)) else (indices,)
    return ir.Store(tensor, tuple(map(as_expr, places)), build.operand(value))


def _refused(name: str) -> Callable[..., Any]:
    def make(*_: object, **__: object) -> Any:
        raise InputError(f"tir.{name} is not constructed here: lower a schedule, or write the nest with tir.ir_builder")

    return make


def declared(x: object) -> ir.Stmt | None:
    """The storage or the name that a statement declares, or a sequence at its start: TVM nests the rest in it."""
    first = x.stmts[0] if isinstance(x, ir.Seq) and x.stmts else x
    return first if isinstance(first, (ir.Allocate, ir.Let)) else None


def _evaluate(value: Any, span: object = None) -> ir.Stmt:
    """The call as a statement; the value of an expression is dropped."""
    return ir.Evaluate(value) if isinstance(value, ExternCall) else ir.seq()


_OF_OTHER_NESTS: Final = (  # classes without a counterpart among statements and expressions
    *("AllocateConst", "AttrStmt", "Block", "BlockRealize", "Broadcast", "BufferRealize", "CommReducer", "DeclBuffer"),
    *("Prefetch", "Ramp", "Shuffle", "While"),
)


def _sequence(*stmts: Any, **__: object) -> ir.Stmt:
    return ir.seq(*(part for s in stmts for part in (s if isinstance(s, (list, tuple)) else (s,))))


def _types() -> dict[str, NodeType]:
    table: dict[str, tuple[Callable[[Any], bool], Callable[..., Any]]] = {
        name: (_of_ops(op), _binary(op)) for name, op in _BINARY.items()
    }
    table |= {
        "Div": (_of_ops(ops.TRUNCDIV, DIV), _divided),
        "And": (_of_ops(ops.AND), lambda a, b, span=None: logical(ops.AND, a, b)),
        "Or": (_of_ops(ops.OR), lambda a, b, span=None: logical(ops.OR, a, b)),
        "Not": (_of_ops(ops.NOT), lambda a, span=None: negation(a)),
        "Select": (_of_ops(ops.SELECT), with_truths(_selected)),
        "Cast": (_is_cast, lambda dtype, value, span=None: cast(dtype, value)),
        "IntImm": (_is_integer_constant, lambda dtype, value, span=None: cast(dtype, as_expr(value))),
        "FloatImm": (lambda x: isinstance(x, Value) and x.op is NUMBER and dtypes.is_float(x.dtype), _float),
        "StringImm": (lambda x: isinstance(x, str), lambda value, span=None: ScriptText(value)),
        "Call": (_is_call, _call),
        "Reduce": (_of_ops(REDUCE), _refused("Reduce")),
        **dict.fromkeys(
            ("ProducerLoad", "BufferLoad", "Load"),
            (lambda x: isinstance(x, (Expr, Value)) and loaded_tensor(x) is not None, _load),
        ),
        "Var": (
            lambda x: isinstance(x, Variable) or (isinstance(x, Value) and x.op is PARAM),
            lambda name, dtype="int32", span=None: var(name, dtype),
        ),
        "SizeVar": (lambda x: isinstance(x, ShapeVar), lambda name, dtype="int32", span=None: size_var(name, dtype)),
        "Let": (lambda x: False, lambda var, value, body, span=None: substitute(body, {var: build.operand(value)})),
        "PrimExpr": (lambda x: isinstance(x, (Expr, Cond, Value)), build.operand),
        "PrimFunc": (lambda x: isinstance(x, ir.Function), prim_func),
        "Stmt": (lambda x: isinstance(x, ir.Stmt), _refused("Stmt")),
        "For": (lambda x: isinstance(x, ir.For), _for),
        "IfThenElse": (
            lambda x: isinstance(x, ir.If),
            lambda condition, then_case, else_case=None, span=None: ir.If(condition, then_case, else_case),
        ),
        **dict.fromkeys(("BufferStore", "Store", "ProducerStore"), (lambda x: isinstance(x, ir.Store), _store)),
        "SeqStmt": (lambda x: isinstance(x, ir.Seq) and len(x) > 1 and declared(x) is None, _sequence),
        "Evaluate": (lambda x: isinstance(x, ir.Evaluate) or (isinstance(x, ir.Stmt) and ir.is_empty(x)), _evaluate),
        "Allocate": (lambda x: isinstance(declared(x), ir.Allocate), _refused("Allocate")),
        "LetStmt": (
            lambda x: isinstance(declared(x), ir.Let),
            lambda var, value, body, span=None: ir.Seq((ir.Let(var, build.operand(value)), *ir.flat(body))),
        ),
        "AssertStmt": (lambda x: isinstance(x, ir.Assert), _refused("AssertStmt")),
        "ProducerRealize": (lambda x: isinstance(declared(x), ir.Allocate), _refused("ProducerRealize")),
        **{name: (lambda x: False, _refused(name)) for name in _OF_OTHER_NESTS},
        "Any": (lambda x: False, lambda span=None: var("any_dim")),
    }
    return {name: NodeType(name, holds, make) for name, (holds, make) in table.items()}


TYPES: Final = _types()
