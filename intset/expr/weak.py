"""A table that keeps nothing alive, and runs no line of Python when something in it dies."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

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
