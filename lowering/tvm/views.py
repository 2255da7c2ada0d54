"""Calls and `Let` under the fields that TVM gives them.

A view stands for a value: as an operand it is that value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from bound import dtypes
from bound.tensor import ScriptText
from bound.tir import build, walk
from bound.tir.value import CALL, IntFunction, Value
from intset.expr.node import Expr, Guest
from lowering.nest.ir import SCRIPT_FIELDS

_EXTERN: Final = {"extern": "tir.call_extern", "packed": "tir.tvm_call_packed"}  # their first argument is the name


@dataclass(frozen=True)
class CalledOp:
    """TVM's `Op`, which a call names: `tvm.ir.Op.get("tir.exp")`."""

    name: str

    @staticmethod
    @lru_cache(None)
    def get(op_name: str) -> CalledOp:
        """The operation of a name; always the same."""
        return CalledOp(op_name)

    def same_as(self, other: object) -> bool:
        return self == other

    def __str__(self) -> str:
        return self.name


class ScriptView(Guest):
    """A value under fields of TVM.

    Attributes
    ----------
    node: the value, or the call that a statement makes.
    kind: the name of TVM's class.
    fields: by name.
    """

    def __init__(self, node: Any, kind: str, **fields: Any) -> None:
        self.node, self.kind, self.fields = node, kind, fields

    def as_operand(self) -> Any:
        return self.node

    def __getattr__(self, name: str) -> Any:
        fields: dict[str, Any] = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        if name.startswith("__") or "node" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.node, name)

    def __hash__(self) -> int:
        return hash(self.node)

    def __repr__(self) -> str:
        return repr(self.node)


def _applied(function: Callable[..., Any], is_reflected: bool) -> Callable[..., Any]:
    def apply(self: ScriptView, *others: Any) -> Any:
        plain = [unviewed(other) for other in others]
        return function(*plain, self.node) if is_reflected else function(self.node, *plain)

    return apply


for name in "add sub mul truediv floordiv mod and or xor lshift rshift".split():
    called = getattr(operator, f"__{name}__")
    for prefix in ("", "r"):
        setattr(ScriptView, f"__{prefix}{name}__", _applied(called, bool(prefix)))
for name in "lt le gt ge eq ne neg abs invert".split():
    setattr(ScriptView, f"__{name}__", _applied(getattr(operator, f"__{name}__"), False))


def unviewed(x: Any) -> Any:
    """The value for which a view stands; other objects are themselves."""
    return x.node if isinstance(x, ScriptView) else x


def viewed(x: Any) -> Any:
    """The view of a call; other objects are themselves."""
    if isinstance(x, ScriptView):
        return x
    node = x.data.body if isinstance(x, Expr) and isinstance(x.data, IntFunction) else x
    if isinstance(node, build.ExternCall):
        return _call(x, "int32", node.kind, node.name, node.args)
    if isinstance(node, Value) and node.op is CALL:
        is_known = node.data in build.FUNCTIONS or node.data.startswith("tir.")
        return _call(x, node.dtype, "" if is_known else "extern", node.data, node.args)
    return x


def _call(node: Any, dtype: str, kind: str, name: str, args: tuple[Any, ...]) -> ScriptView:
    called = (_EXTERN[kind], (ScriptText(name),)) if kind in _EXTERN else (f"tir.{name.removeprefix('tir.')}", ())
    return ScriptView(node, "Call", dtype=dtype, op=CalledOp.get(called[0]), args=(*called[1], *map(viewed, args)))


def is_call(x: object) -> bool:
    """Whether an object views a call."""
    return isinstance(x, ScriptView) and x.kind == "Call"


def has_effect(x: Any) -> bool:
    """Whether a statement of this value does something: it calls no known function."""
    return is_call(viewed(x)) and viewed(x).op.name.removeprefix("tir.") not in build.FUNCTIONS


def is_inner(x: object) -> bool:
    """Whether a value is the body of an integer, which is visited itself."""
    return isinstance(x, Value) and dtypes.is_int(x.dtype)


def let(var: Any, value: Any, body: Any, span: object = None) -> ScriptView:
    """`Let`: the body with the variable's value."""
    bound, inside = build.operand(value), build.operand(body)
    return ScriptView(walk.substitute(inside, {var: bound}), "Let", var=var, value=bound, body=inside)


SCRIPT_FIELDS["Evaluate", "value"] = lambda stmt: viewed(stmt.call)
