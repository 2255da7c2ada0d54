"""Names in the text of a nest.

Guarantee: every name is an identifier that the parser reads back, and two things in scope have different names.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from intset.expr.dag import free_vars
from lowering.nest.ir import Allocate, Stmt
from lowering.nest.walk import statements

# Keywords of the text format.
RESERVED: Final = frozenset(
    "allocate and assert assume at def else False for holding if in inf nan not on or pass then True with".split()
)
IDENTIFIER: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_PLACE: Final = re.compile(r"y[0-9]+")


def identifier(label: str) -> str:
    """Turn a label into an identifier, changing as little as possible; reserved words get a `_`."""
    if IDENTIFIER.fullmatch(label) is None:
        parts = [re.sub(r"\W", "_", part) or "_" for part in label.split(".")]
        label = ".".join(f"_{part}" if part[0].isdigit() else part for part in parts)
        label = label if IDENTIFIER.fullmatch(label) else "_" + re.sub(r"\W", "_", label)
    return f"{label}_" if label in RESERVED else label


class Naming:
    """The names in scope while a text is written from top to bottom.

    Attributes
    ----------
    of: the names that differ from an object's own label, by object.
    """

    def __init__(self, reserved: Collection[str] = ()) -> None:
        self.of: dict[object, str] = {}
        self._taken: dict[str, int] = dict.fromkeys(reserved, 0)
        self._bound: list[tuple[Any, str, int]] = []

    def bound(self, thing: Any, label: str, depth: int) -> str:
        """Name a thing up to the end of the block at this depth: by its label, with a number if taken."""
        stem = name = identifier(label)
        k = 0
        while name in self._taken:
            k += 1
            name = f"{stem}_{k}"
        self._taken[name] = depth
        self._bound.append((thing, name, depth))
        if name == label:
            self.of.pop(thing, None)
        else:
            self.of[thing] = name
        return name

    def leave(self, depth: int) -> None:
        """Forget what the blocks deeper than this one have named."""
        while self._bound and self._bound[-1][2] > depth:
            thing, name, _ = self._bound.pop()
            del self._taken[name]
            self.of.pop(thing, None)


def place_names(root: Stmt) -> frozenset[str]:
    """The names `y0`, `y1`, ... of variables in the origin of a storage, where `holding T[y0]` uses them for places."""
    used = (
        var.name
        for stmt in statements(root)
        if isinstance(stmt, Allocate) and stmt.steps is not None
        for var in free_vars(*(stmt.origin or ()))
    )
    return frozenset(name for name in used if _PLACE.fullmatch(name))
