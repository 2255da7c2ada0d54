"""What is made when it is first used: names of other modules, so that a plain question loads little, and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, Concatenate, ParamSpec, TypeVar

S = TypeVar("S")
R = TypeVar("R")
P = ParamSpec("P")


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


def memoized(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """A method whose answers stay in its object, by the arguments: hashable ones, by position."""
    name = f"_answers_of_{method.__name__}"

    @wraps(method)
    def answer(self: S, /, *key: P.args, **none: P.kwargs) -> R:
        answers: dict[object, R] = self.__dict__.setdefault(name, {})
        if key not in answers:
            answers[key] = method(self, *key, **none)
        return answers[key]

    return answer
