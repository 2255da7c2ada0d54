"""`undef()`: a value nobody knows. Each occurrence in a text is another one, and so is each time it is reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bound import dtypes
from bound.tir.value import Operand, Value, ValueOp, make
from bound.tir.walk import nodes
from intset.expr import ops
from intset.expr.intern import ORIGIN
from intset.expr.node import Expr, Opaque


class Undef(Opaque):
    """The symbol of one `undef()` that is an integer of the type `dtype`."""

    __slots__ = ("dtype",)
    dtype: str

    def __init__(self, dtype: str) -> None:
        super().__init__("undef()")
        self.dtype = dtype

    @staticmethod
    def _restored(dtype: str, uid: tuple[int, int]) -> Undef:
        self = Undef(dtype)
        self._fill("undef()", 0, None, None, uid)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Undef._restored, (self.dtype, self.uid)


def undef(dtype: str = dtypes.INDEX) -> Operand:
    """A value of the type that nobody knows; every call gives another one.

    Raises
    ------
    InputError: `dtype` names no type.

    >>> undef("float32")
    undef()
    """
    if dtypes.is_int(dtypes.check(dtype)):
        return Undef(dtype)()
    return make(ValueOp.UNDEF, (), dtype, ORIGIN.next_uid())


def is_undef(node: Any) -> bool:
    """Whether a node is an `undef()`."""
    return node.op is ValueOp.UNDEF or (node.op is ops.LOAD and isinstance(node.data, Undef))


def undefs(*roots: Operand) -> Iterator[Value | Expr]:
    """The `undef()`s below operands, each once."""
    return (node for node in nodes(*roots) if is_undef(node))


def has_undef(*roots: Operand) -> bool:
    """Whether a value is made of an `undef()`."""
    return next(undefs(*roots), None) is not None
