"""Tables with weak values, and the lock around a lookup and its insertion."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

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
        if self.dead:
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
