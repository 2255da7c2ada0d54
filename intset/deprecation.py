"""Old names of public functions and classes, kept with a warning until 1.0.

CHANGELOG.md has the table of renamed names.

>>> import types
>>> shop = types.ModuleType("shop")
>>> shop.lexmin = min
>>> get = renamed(vars(shop), {"smallest": "lexmin"})
>>> import warnings
>>> with warnings.catch_warnings(record=True) as caught:
...     warnings.simplefilter("always")
...     get("smallest") is min
True
>>> str(caught[0].message)
'shop.smallest is now shop.lexmin; the old name goes in 1.0'
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def renamed(namespace: Mapping[str, Any], names: Mapping[str, str]) -> Callable[[str], Any]:
    """A module-level `__getattr__` that serves old names with a `DeprecationWarning`.

    Parameters
    ----------
    namespace: `globals()` of the module that had the old names.
    names: old name to new name, in the same module or as `package.module:name`.
    """
    module = namespace["__name__"]

    def serve(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, target = names[name].rpartition(":")
        _warn(f"{module}.{name}", f"{home or module}.{target}")
        return getattr(import_module(home), target) if home else namespace[target]

    return serve


class RenamedMethod:
    """A method or property under its old name: `smallest = RenamedMethod("lexmin")` in the class body."""

    def __init__(self, target: str) -> None:
        self._target = target

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner.__name__, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        _warn(f"{self._owner}.{self._name}", f"{self._owner}.{self._target}")
        return getattr(owner if instance is None else instance, self._target)


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is now {new}; the old name goes in 1.0", DeprecationWarning, stacklevel=3)
