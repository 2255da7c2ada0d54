"""Names that are loaded together when one of them is first used, so that a plain question loads little."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


class Later:
    """A placeholder for an object of another module, which its first use loads."""

    __slots__ = ("_name", "_space", "_table")

    def __init__(self, name: str, space: dict[str, Any], table: Mapping[str, str]) -> None:
        self._name, self._space, self._table = name, space, table

    def _loaded(self) -> Any:
        for name, module in self._table.items():
            if isinstance(self._space[name], Later):
                self._space[name] = getattr(import_module(module), name)
        return self._space[self._name]

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._loaded()(*args, **named)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._loaded(), attribute)


def load_later(space: dict[str, Any], modules: Mapping[str, tuple[str, ...]]) -> None:
    """Put placeholders into the namespace of a module; the first use of one loads the objects of all.

    Parameters
    ----------
    space: `globals()` of the module.
    modules: names by the module that defines them. Type checkers read them from imports for type checking.
    """
    table = {name: module for module, names in modules.items() for name in names}
    space.update({name: Later(name, space, table) for name in table})
