"""What a caller hands over, looked at where a public name takes it.

Each function gives back what it was given as what it has to be, or says which argument is wrong and what came instead.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from intset.errors import InputError
from intset.expr.text import shown

T = TypeVar("T")
M = TypeVar("M", bound=Mapping[Any, Any])


def refusal(what: str, wanted: str, value: object) -> InputError:
    """The error for an argument that is not what is wanted."""
    return InputError(f"{what} must be {wanted}, not {shown(value)} of type {type(value).__name__}")


def of_kind(kind: type[object], value: T, what: str, wanted: str = "") -> T:
    """An instance of a class."""
    if not isinstance(value, kind):
        raise refusal(what, wanted or f"a {kind.__name__}", value)
    return value


def listed(values: object, what: str, wanted: str = "a list") -> tuple[Any, ...]:
    """The parts of a sequence, or of anything that can be gone through once; a text is none."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise refusal(what, wanted, values)
    try:
        parts = iter(values)
    except TypeError:  # an expression, which says so of itself
        raise refusal(what, wanted, values) from None
    return tuple(parts)


def mapped(values: M, what: str, wanted: str = "a mapping") -> M:
    """A mapping."""
    return values if type(values) is dict else of_kind(Mapping, values, what, wanted)


def a_name(value: object, what: str) -> str:
    """A text to print something by."""
    if not isinstance(value, str) or not value:
        raise refusal(what, "a non-empty text", value)
    return value


def a_function(value: object, what: str) -> Callable[..., Any]:
    """Something that can be called."""
    if not callable(value):
        raise refusal(what, "a function", value)
    return value


def as_int(value: Any, what: str = "value") -> int:
    """`value` as a Python int; a bool, a float or anything else is refused, naming `what`."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        raise InputError(f"{what} must be an integer, not the truth value {shown(value)}")
    try:
        return operator.index(value)
    except TypeError:
        raise refusal(what, "an integer", value) from None


def as_count(value: Any, what: str) -> int:
    """`value` as a number of things."""
    number = as_int(value, what)
    if number < 0:
        raise InputError(f"{what} must not be negative, not {shown(number)}")
    return number
