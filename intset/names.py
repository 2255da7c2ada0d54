"""The valid names of domains, whether or not their implementations are loaded."""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING, Final

from intset.errors import InputError
from intset.expr.printer import shown

if TYPE_CHECKING:
    from importlib import metadata

ENTRY_POINTS: Final = "intset.domains"
BUILT_IN: Final = ("auto", "interval", "stride", "modular", "interval*modular", "bits", "isl", "points")
CHEAPEST: Final = "interval"
AUTO: Final = "auto"  # which asks the plain way first
_registered: dict[str, None] = {}
_changes = itertools.count(1)
generation = 0
"""A counter of changes to names; part of cache keys, since a name may be registered again for another domain."""


def announce(name: str) -> None:
    """Add a valid name."""
    _registered[name] = None
    _change()


def withdraw(name: str) -> None:
    """Remove a name added by `announce`."""
    _registered.pop(name, None)
    _change()


def _change() -> None:
    global generation
    generation = next(_changes)


def has_registered() -> bool:
    """Whether a domain is registered by a call in this process."""
    return bool(_registered)


def announced() -> tuple[str, ...]:
    """All names of domains: built in, registered, and of plugins not loaded yet."""
    return tuple(dict.fromkeys((*BUILT_IN, *_registered, *(point.name for point in entry_points()))))


@cache
def entry_points() -> tuple[metadata.EntryPoint, ...]:
    """The plugins that are installed."""
    from importlib import metadata  # slow to load, and needed where a name is not built in

    return tuple(metadata.entry_points(group=ENTRY_POINTS))


def check_name(name: object, where: str) -> str:
    """`name` if valid; raises `InputError` listing valid names."""
    if isinstance(name, str) and (name in BUILT_IN or name in _registered):
        return name
    known = announced()
    if isinstance(name, str):
        if name in known:
            return name
        parts = [part.strip() for part in name.split("*")]
        if len(parts) > 1 and all(part in known for part in parts):
            return name
    import difflib

    close = difflib.get_close_matches(name, known, 1) if isinstance(name, str) else ()
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    names = ", ".join(known)
    raise InputError(f"{where}: unknown domain {shown(name)}{hint}; known: {names}, and products such as 'a*b'")
