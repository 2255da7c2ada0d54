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

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final, cast

SHAPE_METHODS: Final = {
    "counted": "change_basis",
    "fibred": "dims_to_params",
    "lifted": "params_to_dims",
    "parts": "disjuncts",
    "restricted": "filter",
    "sides": "dim_bounds",
    "united": "union_all",
    "within": "intersect_params",
}
"""Methods of `intset.regions.shape.Shape`: old name to new name."""


_moved_names: dict[str, str] = {}


def note_moved_names(names: Mapping[str, str]) -> None:
    """Let `renamed` serve names that moved to another module: `package.module:name`, old to new.

    The package calls it, so that the old module imports nothing from the new one.
    """
    _moved_names.update(names)


def renamed(namespace: Mapping[str, Any], names: Mapping[str, str]) -> Callable[[str], Any]:
    """A module-level `__getattr__` that serves old names with a `DeprecationWarning`.

    Parameters
    ----------
    namespace: `globals()` of the module that had the old names.
    names: old name to new name, in the same module; `note_moved_names` has those of others.
    """
    module = namespace["__name__"]

    def serve(name: str) -> Any:
        found = names.get(name) or _moved_names.get(f"{module}:{name}")
        if found is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, target = found.rpartition(":")
        _warn(f"{module}.{name}", f"{home or module}.{target}")
        return getattr(import_module(home), target) if home else namespace[target]

    return serve


class MovedModules:
    """An import finder that serves modules under their old names with a `DeprecationWarning`.

    Parameters
    ----------
    names: old name to new name, both in full.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, cast(Any, self)) if name in self._names else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None  # the default module, until `exec_module` replaces it

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        _warn(old, self._names[old])
        sys.modules[old] = import_module(self._names[old])  # the import system returns this entry


class RenamedMethod:
    """A method or property under its old name: `smallest = RenamedMethod("lexmin")` in the class body."""

    def __init__(self, target: str) -> None:
        self._target = target

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner.__name__, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        _warn(f"{self._owner}.{self._name}", f"{self._owner}.{self._target}")
        return getattr(owner if instance is None else instance, self._target)


def serve_old_methods(cls: type, names: Mapping[str, str]) -> None:
    """Let callers use the methods of a class under their old names. `names`: old name to new name."""
    for old, new in names.items():
        method = RenamedMethod(new)
        method.__set_name__(cls, old)
        setattr(cls, old, method)


def adopt_old_names(cls: type, names: Mapping[str, str]) -> None:
    """Give the methods that a subclass defines under old names their new ones, with a warning.

    Call it in `__init_subclass__` of a public base class. `names`: old name to new name.
    """
    for old, new in names.items():
        if old in vars(cls) and new not in vars(cls):
            _warn(f"{cls.__name__}.{old}", f"{cls.__name__}.{new}", stacklevel=4)
            setattr(cls, new, vars(cls)[old])


def _warn(old: str, new: str, stacklevel: int = 3) -> None:
    warnings.warn(f"{old} is now {new}; the old name goes in 1.0", DeprecationWarning, stacklevel=stacklevel)
