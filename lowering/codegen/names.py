"""Identifiers for variables and tensors: valid, and different from one another."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


class Names:
    """Gives each object one identifier, made from a label."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = set(reserved)
        self._known: dict[Any, str] = {}
        self._next: dict[str, int] = {}

    def of(self, thing: Any, label: str) -> str:
        """The identifier of `thing`; the first call chooses it."""
        found = self._known.get(thing)
        if found is None:
            found = self._known[thing] = self.fresh(label)
        return found

    def fresh(self, label: str) -> str:
        """An identifier that was not given before."""
        stem = re.sub(r"\W", "_", label, flags=re.ASCII)
        if not stem or stem[0].isdigit() or stem.startswith("_"):
            stem = f"v{stem}"
        name = stem
        while name in self._taken:
            self._next[stem] = self._next.get(stem, 0) + 1
            name = f"{stem}_{self._next[stem]}"
        self._taken.add(name)
        return name
