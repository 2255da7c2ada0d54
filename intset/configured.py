"""`Configured`: objects that keep the configuration they were made under, and compute their answers under it.

A lazy answer must not depend on the place of the question: a `with using(...)` block with small budgets, another
thread, the time after the block in which the object was made. This class keeps budgets and domain; a private context
(`Context.extended()`), which the blocks of the caller's context do not reach, keeps facts and ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from intset.config import Config, current, is_in_force, pinned

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="Configured")
C = TypeVar("C", bound="type[Configured]")

# Special methods that may compute.
_SPECIAL = ("__call__", "__contains__", "__getitem__", "__repr__", "__eq__", "__le__", "__lt__", "__ge__", "__gt__")
_OPERATORS = ("__or__", "__and__", "__sub__")


class Configured:
    """Keeps the configuration in force when the object was made; copies and pickles keep it as well.

    Guarantee: a method marked `as_configured` gives one answer, wherever and in whatever order it is asked.
    """

    __slots__ = ()
    _config: Config | None = None  # None: of an object whose class makes its instances in another way; not pinned

    def __new__(cls, *args: Any, **named: Any) -> Self:
        make: Any = super().__new__
        made: Self = make(cls) if make is object.__new__ else make(cls, *args, **named)
        object.__setattr__(made, "_config", current())
        return made


def as_configured(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Run a method of a `Configured` object under the configuration of that object."""

    @wraps(method)
    def asked(self: S, *args: P.args, **named: P.kwargs) -> T:
        config = self._config
        if config is None or is_in_force(config):
            return method(self, *args, **named)
        with pinned(config):
            return method(self, *args, **named)

    return cast(Callable[Concatenate[S, P], T], asked)


def all_as_configured(cls: C) -> C:
    """Mark every public method, operator and property that a class defines itself with `as_configured`."""
    for name, member in tuple(vars(cls).items()):
        if name.startswith("_") and name not in _SPECIAL and name not in _OPERATORS:
            continue
        if isinstance(member, property) and member.fget is not None:
            setattr(cls, name, property(as_configured(member.fget), member.fset, member.fdel, member.__doc__))
        elif isinstance(member, cached_property):
            found: cached_property[Any] = cached_property(as_configured(member.func))
            found.__set_name__(cls, name)
            setattr(cls, name, found)
        elif callable(member) and not isinstance(member, type):
            setattr(cls, name, as_configured(member))
    return cls
