"""Values made of an `undef()`, while a nest runs: a number was drawn, but nothing may depend on which."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from lowering.errors import CheckError

WRITTEN: Final = 1
UNKNOWN: Final = 2


class Unknown:
    """A number or truth value that an `undef()` went into; what is computed from it is unknown too."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __bool__(self) -> bool:
        return bool(self.value)


def plain(x: Any) -> Any:
    """The number that was drawn."""
    return x.value if isinstance(x, Unknown) else x


def lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, unknown where an argument is."""

    def lift(*args: Any) -> Any:
        if not any(isinstance(a, Unknown) for a in args):
            return function(*args)
        return Unknown(function(*map(plain, args)))

    return lift


def _operator(name: str) -> None:
    function = lifted(getattr(operator, name))
    setattr(Unknown, name, lambda self, other: function(self, other))
    if name not in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
        setattr(Unknown, f"__r{name[2:]}", lambda self, other: function(other, self))


for _name in "add sub mul floordiv mod truediv and or xor lshift rshift lt le gt ge eq ne".split():
    _operator(f"__{_name}__")
for _name in ("__neg__", "__invert__", "__abs__"):
    setattr(Unknown, _name, lifted(getattr(operator, _name)))


def known(index: Any) -> Any:
    """An index, or the end of a range."""
    if isinstance(index, Unknown):
        raise CheckError("an index, or the end of a range, depends on an undef()")
    return index


def decided(cond: Any) -> bool:
    """A condition."""
    if isinstance(cond, Unknown):
        raise CheckError("a condition depends on an undef()")
    return bool(cond)


def both(a: Any, b: Callable[[], Any]) -> Any:
    """`a and b`."""
    if isinstance(a, Unknown):
        return Unknown(bool(a.value and plain(b())))
    return a and b()


def either(a: Any, b: Callable[[], Any]) -> Any:
    """`a or b`."""
    if isinstance(a, Unknown):
        return Unknown(bool(a.value or plain(b())))
    return a or b()


def keep(value: Any, state: int) -> Any:
    """What an element in this state holds."""
    return Unknown(value) if state == UNKNOWN else value


def store(elements: Any, states: bytearray | None, place: int, value: Any) -> None:
    """Put a value into an element."""
    elements[place] = plain(value)
    if states is not None:
        states[place] = UNKNOWN if isinstance(value, Unknown) else WRITTEN


def permit(states: bytearray, place: int) -> None:
    """An element that holds nothing yet may be read."""
    states[place] = states[place] or UNKNOWN


def filled(states: bytearray) -> None:
    """A host call has written every element."""
    states[:] = bytes([WRITTEN]) * len(states)


def of_unknown(environment: dict[str, Any]) -> dict[str, Any]:
    """What the source refers to, for values that may be unknown."""
    lift = {name: lifted(f) for name, f in environment.items() if name not in _PLAIN and callable(f)}
    builtins = {f.__name__: lifted(f) for f in (min, max, abs, float)}
    return {
        **environment,
        **lift,
        **builtins,
        "range": lambda *ends: range(*map(known, ends)),
        "known": known,
        "decided": decided,
        "both": both,
        "either": either,
        "negated": lifted(operator.not_),
        "popcount": lifted(int.bit_count),
        "keep": keep,
        "store": store,
        "permit": permit,
    }


_PLAIN: Final = frozenset(("allocate", "failed", "refuted", "outside", "unread", "opaque", "filled"))
