"""Hash-consing: the base class of nodes, and the weak table that makes equal structure the same object."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Self, TypeAlias, TypeVar

from intset.expr import ops
from intset.expr.ops import Op

if TYPE_CHECKING:
    from intset.expr.node import Var

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
    finalizer is a method of `deque`; the next `put` deletes dead rows. Hold `LOCK` around a lookup and its `put`.
    """

    __slots__ = ("bury", "dead", "rows")

    def __init__(self) -> None:
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
        with LOCK:
            if self.dead:
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


class Origin:
    """Source of unique identifiers across processes: a random token for each process, and a counter."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.token = int.from_bytes(os.urandom(8), "big")
        self.count = itertools.count()

    def next_uid(self) -> tuple[int, int]:
        return (self.token, next(self.count))


ORIGIN = Origin()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ORIGIN.renew)


class Guest:
    """Base class of objects of other layers whose reflected operators accept expressions."""

    __slots__ = ()


class Interned:
    """Base of all nodes: an operation, argument nodes and a payload.

    Invariant: two nodes of equal operation, arguments and payload are one object, and a node never changes. The other
    slots remember what follows from the structure alone.
    """

    __slots__ = ("__weakref__", "_free", "_loads", "_number", "_order", "_partial", "args", "data", "glance", "op")
    op: Op
    args: tuple[Any, ...]
    data: Any
    _free: tuple[Var, ...]  # remembered by `free_vars`
    _loads: tuple[Any, ...]  # remembered by `walk.opaque_terms`
    _number: int  # remembered by `domains.isl.translate`
    _order: tuple[int, ...]  # remembered by `linear.form`
    _partial: bool  # remembered by `definedness.is_partial`
    glance: Any  # remembered by `simplify.shapes`

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("expressions are immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("expressions are immutable")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def free_vars(self) -> tuple[Var, ...]:
        """The variables that occur, in the order of their first occurrence."""
        try:
            return self._free
        except AttributeError:
            variables = leaf_vars((self,))
            self.remember("_free", variables)
            return variables

    remember = object.__setattr__  # node.remember(slot, value) stores a value that follows from the structure alone


def leaf_vars(roots: Iterable[Any]) -> tuple[Var, ...]:
    """The variables below `roots`, in the order of their first occurrence from left to right, by one walk."""
    variables: dict[Var, None] = {}
    seen: set[Any] = set()
    stack = list(roots)
    stack.reverse()
    while stack:
        node = stack.pop()
        op = node.op
        if op is ops.CONST or node in seen:
            continue
        if op is ops.VAR:
            variables[node] = None
            continue
        seen.add(node)
        known = getattr(node, "_free", None)
        if known is None:
            stack.extend(node.args[::-1])
        else:
            variables.update(dict.fromkeys(known))
    return tuple(variables)


class Draft(Interned):
    """A node under construction: its slots can be set until it is assigned its final class."""

    __slots__ = ()
    __setattr__ = object.__setattr__  # type: ignore[assignment]  # mutable until final


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
        node: Any = Draft()
        node.op, node.args, node.data = op, args, data
        node.__class__ = cls
        row = WeakRow(node, _BURY)  # `put`, inlined
        row.key = key
        _ROWS[key] = row
        interned: N = node
        return interned
