"""Checks of arguments at the public interface.

Each function returns its argument in the required type, or raises `InputError` naming the argument and its value.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from intset.errors import InputError
from intset.expr.printer import shown

T = TypeVar("T")
M = TypeVar("M", bound=Mapping[Any, Any])


def refusal(what: str, wanted: str, value: object) -> InputError:
    """The error for an argument of the wrong type."""
    return InputError(f"{what} must be {wanted}, not {shown(value)} of type {type(value).__name__}")


def of_kind(kind: type[object], value: T, what: str, wanted: str = "") -> T:
    """An instance of a class."""
    if not isinstance(value, kind):
        raise refusal(what, wanted or f"a {kind.__name__}", value)
    return value


def listed(values: object, what: str, wanted: str = "a list", most: int | None = None) -> tuple[Any, ...]:
    """The items of an iterable other than a text, limited to `most`."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise refusal(what, wanted, values)
    try:
        parts = iter(values)
    except TypeError:  # an expression, which says so of itself
        raise refusal(what, wanted, values) from None
    if most is None:
        return tuple(parts)
    found = tuple(islice(parts, most + 1))
    if len(found) > most:
        raise InputError(f"{what} are more than {most:,}")
    return found


def mapped(values: M, what: str, wanted: str = "a mapping") -> M:
    """A mapping."""
    return values if type(values) is dict else of_kind(Mapping, values, what, wanted)


def a_name(value: object, what: str) -> str:
    """A nonempty label."""
    if not isinstance(value, str) or not value:
        raise refusal(what, "a non-empty text", value)
    return value


def one_of(words: Iterable[str], value: object, what: str) -> str:
    """One of several words."""
    if not isinstance(value, str) or value not in words:
        raise InputError(f"{what} must be one of {', '.join(words)}, not {shown(value)}")
    return value


def a_flag(value: object, what: str) -> bool:
    """A truth value: a bool of Python or numpy, 0 or 1."""
    if type(value) is bool:
        return value
    if type(value).__name__ in ("bool_", "bool") or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise refusal(what, "True or False", value)


def a_function(value: object, what: str) -> Callable[..., Any]:
    """A callable."""
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
    """`value` as a nonnegative int."""
    number = as_int(value, what)
    if number < 0:
        raise InputError(f"{what} must not be negative, not {shown(number)}")
    return number
