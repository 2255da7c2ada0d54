"""Identifiers for variables and tensors: valid, and different from one another."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

_PREFIXES: Final = ("_", "INTSET_", "omp_")


class Names:
    """Gives each object one identifier, made from a label."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = set(reserved)
        self._known: dict[Any, str] = {}
        self._next: dict[str, int] = {}
        self._local: list[tuple[str, Any]] = []  # names that are free again at the end of a block

    def of(self, thing: Any, label: str) -> str:
        """The identifier of `thing`; the first call chooses it."""
        found = self._known.get(thing)
        if found is None:
            found = self._known[thing] = self.fresh(label)
        return found

    def fresh(self, label: str) -> str:
        """An identifier of ASCII that is nothing else's now.

        It begins with none of the prefixes of others: an underscore (the language's), `INTSET_` (our macros), `omp_`.
        """
        stem = re.sub(r"\W", "_", label, flags=re.ASCII)
        if not stem or stem[0].isdigit() or stem.startswith(_PREFIXES):
            stem = f"v{stem}"
        name = stem
        while name in self._taken:
            self._next[stem] = self._next.get(stem, 0) + 1
            name = f"{stem}_{self._next[stem]}"
        self._taken.add(name)
        return name

    def local(self, label: str, thing: Any = None) -> str:
        """An identifier until the block ends that is open now, of `thing` where that is given."""
        name = self.fresh(label)
        self._local.append((name, thing))
        if thing is not None:
            self._known[thing] = name
        return name

    def begin(self) -> int:
        """Open a block; what `end` is given."""
        return len(self._local)

    def end(self, begun: int) -> None:
        """End a block: its identifiers may be given again."""
        for name, thing in self._local[begun:]:
            self._taken.discard(name)
            self._known.pop(thing, None)
            self._next.pop(re.sub(r"_\d+$", "", name), None)
        del self._local[begun:]
