"""The storage of nodes and their operators: the core in C where it was built, else the Python here.

Both have the names `StoredNode`, `Arithmetic`, `intern`, `fresh`, `count` and `bind`. `INTSET_PURE=1` in the
environment chooses Python's, at build and at import.

Nodes live in tables with weak values; a lock is held around a lookup and its insertion.
"""

from __future__ import annotations

import importlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from intset.expr import ops
from intset.expr.ops import Op

if TYPE_CHECKING:
    from intset.expr.node import Expr, IntLike

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
LOCK = threading.RLock()


class WeakRow(weakref.ref[Any]):
    """A weak reference to the value of a key."""

    __slots__ = ("key",)
    key: Any


class WeakTable(Generic[K, V]):
    """A dictionary with weak values, four times as fast as `weakref.WeakValueDictionary`.

    Invariant: no Python code runs when a value dies, because an interrupt raised there would be printed and lost. The
    finalizer is a method of `deque`; a `put` that finds more than `patience` dead rows deletes them. Hold `LOCK` around
    a lookup and its `put`.
    """

    __slots__ = ("bury", "dead", "patience", "rows")

    def __init__(self, patience: int = 0) -> None:
        self.patience = patience
        self.rows: dict[K, WeakRow] = {}
        self.dead: deque[WeakRow] = deque()
        self.bury = self.dead.append

    def get(self, key: K) -> V | None:
        row = self.rows.get(key)
        return None if row is None else row()

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def put(self, key: K, value: V) -> None:
        """Add a row, or replace a dead one."""
        row = WeakRow(value, self.bury)
        row.key = key
        if len(self.dead) > self.patience:
            with LOCK:
                self.tidy()
        self.rows[key] = row

    def tidy(self) -> None:
        """Delete dead rows; nodes in their keys die with them and are deleted in turn."""
        rows, dead = self.rows, self.dead
        while dead:
            row = dead[0]
            key = row.key
            if rows.get(key) is row:  # else the key has a newer row
                del rows[key]
            del row, key
            dead.popleft()  # last, so that an interrupt loses no row

    def __len__(self) -> int:
        with LOCK:
            self.tidy()
            return len(self.rows)


N = TypeVar("N")


REMEMBERED: Final = ("_below", "_free", "_loads", "_number", "_operations", "_order", "_partial", "glance")


class StoredNode:
    """The slots of a node."""

    __slots__ = ("__weakref__", "args", "data", "op", *REMEMBERED)


class _Draft(StoredNode):
    """A node under construction, whose class is still to be assigned."""

    __slots__ = ()
    op: Op
    args: tuple[Any, ...]
    data: Any


Key: TypeAlias = "tuple[Op, tuple[Any, ...], Any]"


NODES: Final[WeakTable[Key, Any]] = WeakTable()
_ROWS, _DEAD, _BURY = NODES.rows, NODES.dead, NODES.bury


def intern(cls: type[N], op: Op, args: tuple[Any, ...], data: Any) -> N:
    """The node of a class with an operation, argument nodes and a payload."""
    key = (op, args, data)
    row = _ROWS.get(key)
    known: N | None = None if row is None else row()
    if known is not None:
        return known
    with LOCK:
        row = _ROWS.get(key)
        again: N | None = None if row is None else row()
        if again is not None:
            return again
        if _DEAD:
            NODES.tidy()
        node: Any = _Draft()
        node.op, node.args, node.data = op, args, data
        node.__class__ = cls
        row = WeakRow(node, _BURY)  # `put`, inlined
        row.key = key
        _ROWS[key] = row
        interned: N = node
        return interned


def fresh(cls: type[N], op: Op, args: tuple[Any, ...], data: Any) -> N:
    """A new node in no table."""
    node = object.__new__(cls)
    _set_op(node, op)
    _set_args(node, args)
    _set_data(node, data)
    return node


_set_op, _set_args, _set_data = (StoredNode.__dict__[slot].__set__ for slot in ("op", "args", "data"))


def count() -> int:
    """The number of interned nodes."""
    return len(NODES)


_term: type[Expr]
_MADE: Final[dict[Op, Callable[[Op, object, object], Expr]]] = {}  # what an operator makes, by its operation


def bind(
    term: type[Expr],
    shape_var: type[Any],
    small: tuple[Any, ...],
    binary: Callable[[Op, object, object], Expr],
    divide: Callable[[Op, object, object], Expr],
    operations: tuple[Op, ...],
) -> None:
    """State what operators make, from `expr.node`.

    Parameters
    ----------
    term: the class of their results.
    shape_var: the class of variables that declare bounds of their own.
    small: the constants that are kept alive, ascending, with 0 in the middle.
    binary, divide: the operators of any two operands.
    operations: the core's operations, in the core's order.
    """
    global _term
    _term = term
    _MADE.update(dict.fromkeys(operations, binary) | dict.fromkeys((ops.FLOORDIV, ops.FLOORMOD), divide))


def _operators(op: Op) -> tuple[Callable[[Any, IntLike], Expr], Callable[[Any, IntLike], Expr]]:
    """The operator of an operation, and the one of swapped operands."""
    return lambda self, other: _MADE[op](op, self, other), lambda self, other: _MADE[op](op, other, self)


class Arithmetic(StoredNode):
    """The operators + - * // % of expressions."""

    __slots__ = ()

    __add__, __radd__ = _operators(ops.ADD)
    __sub__, __rsub__ = _operators(ops.SUB)
    __mul__, __rmul__ = _operators(ops.MUL)
    __floordiv__, __rfloordiv__ = _operators(ops.FLOORDIV)
    __mod__, __rmod__ = _operators(ops.FLOORMOD)

    def __neg__(self) -> Expr:
        return intern(_term, ops.NEG, (self,), None)


PURE_VARIABLE = "INTSET_PURE"
REVISION = 2  # of what `intset/_core.c` and Python agree on
OPERATIONS = (
    *(ops.ADD, ops.SUB, ops.MUL, ops.FLOORDIV, ops.FLOORMOD, ops.NEG, ops.CONST, ops.VAR),
    *(ops.MIN, ops.MAX, ops.LT, ops.LE, ops.GT, ops.GE),
)


def is_pure(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for Python's storage."""
    return environment.get(PURE_VARIABLE, "0") not in ("", "0")


def _core_in_c() -> Any:
    """The extension module, or `None` if it is not built, was built from other sources, or is switched off."""
    if is_pure(os.environ):
        return None
    try:
        built = importlib.import_module("intset._core")
    except ImportError:
        return None
    return built if built.revision == REVISION else None


_core = _core_in_c()
core = "python" if _core is None else "c"
plain_ends: Callable[..., tuple[int, int, bool] | None] | None = None if _core is None else _core.ends

if not TYPE_CHECKING and _core is not None:
    Arithmetic, StoredNode = _core.Arithmetic, _core.StoredNode
    bind, count, fresh, intern = _core.bind, _core.count, _core.fresh, _core.intern
