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


class Row(weakref.ref[Any]):
    """The value of a key, while it lives."""

    __slots__ = ("key",)
    key: Any


class WeakTable(Generic[K, V]):
    """The value of each key, for as long as something else holds the value.

    What Python calls when an object dies cannot raise: an interrupt that falls there is printed and lost. So all that
    is called is a method of `deque`; whoever adds a row next takes out the dead ones. To be used under `LOCK` where two
    threads must not make a value of their own each. The standard library's weak dictionaries cost four times as much.
    """

    __slots__ = ("bury", "dead", "rows")

    def __init__(self) -> None:
        self.rows: dict[K, Row] = {}
        self.dead: deque[Row] = deque()
        self.bury = self.dead.append

    def get(self, key: K) -> V | None:
        row = self.rows.get(key)
        return None if row is None else row()

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def put(self, key: K, value: V) -> None:
        """Add a row, or put a living one in the place of a dead one."""
        row = Row(value, self.bury)
        row.key = key
        with LOCK:
            if self.dead:
                self.tidy()
            self.rows[key] = row

    def tidy(self) -> None:
        """Take out the dead rows; what their keys are made of dies with them, and is next."""
        rows, dead = self.rows, self.dead
        while dead:
            row = dead[0]
            key = row.key
            if rows.get(key) is row:  # else an equal one has been made since
                del rows[key]
            del row, key
            dead.popleft()  # last: interrupted before, it is found again

    def __len__(self) -> int:
        with LOCK:
            self.tidy()
            return len(self.rows)


N = TypeVar("N")


class Origin:
    """Numbers variables uniquely over processes: a random token for each process, and a count."""

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
    """Base of objects of other layers that combine with expressions by their own reflected operators."""

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
    __setattr__ = object.__setattr__  # type: ignore[assignment]  # what its base refuses


Key: TypeAlias = "tuple[Op, tuple[Any, ...], Any]"


NODES: Final[WeakTable[Key, Any]] = WeakTable()
_ROWS, _DEAD, _BURY = NODES.rows, NODES.dead, NODES.bury


def intern(cls: type[N], op: Op, args: tuple[Any, ...], data: Any) -> N:
    """The node of this class with this operation, these argument nodes and this payload."""
    key = (op, args, data)
    row = _ROWS.get(key)
    found: N | None = None if row is None else row()
    if found is not None:
        return found
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
        row = Row(node, _BURY)  # what `put` does, without a call
        row.key = key
        _ROWS[key] = row
        made: N = node
        return made
