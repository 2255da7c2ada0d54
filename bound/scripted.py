"""Texts and numbers of scripts that have TVM's field `value`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from intset.errors import InputError


class ScriptText(str):
    """A text in a program: TVM's `StringImm`.

    Attributes
    ----------
    value: the text itself.
    """

    __slots__ = ()
    dtype = "handle"

    @property
    def value(self) -> str:
        return str(self)

    def astype(self, dtype: str) -> NoReturn:
        """Refuse: a text has no other type."""
        raise InputError(f"the text {self!r} cannot be cast to {dtype}")


class Whole(int):
    """A number among the attributes of an operation.

    Attributes
    ----------
    value: the number itself.
    """

    __slots__ = ()

    @property
    def value(self) -> int:
        return int(self)


def scripted(x: object) -> object:
    """Plain texts and numbers with the field `value`, in lists and dictionaries too; anything else as it is."""
    if isinstance(x, Mapping):
        return {key: scripted(part) for key, part in x.items()}
    if isinstance(x, list):
        return [scripted(part) for part in x]
    if type(x) is tuple:
        return tuple(scripted(part) for part in x)
    return ScriptText(x) if type(x) is str else Whole(x) if type(x) is int else x


__all__ = ["ScriptText", "Whole", "scripted"]
