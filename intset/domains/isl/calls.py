"""What stands around a C function of isl: an answer that says "failed" becomes an error, text and numbers Python's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import c_void_p, py_object
from typing import Any, Final, NamedTuple, TypeAlias

from intset.expr.text import number_of

INT, LONG = 1 << 30, 1 << 63  # isl negates an `int` before it looks at its size
# What isl calls back, of one object or two and a user that is none. It succeeds by 0, which is also a null pointer.
MEETS: Final = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_void_p)


class Error(Exception):
    """isl refused an operation."""


Failure: TypeAlias = Callable[[Sequence[Any]], Error]  # made of what the function was given
Method: TypeAlias = Callable[..., Any]


def bound(function: Any) -> Any:
    """A C function as a method, without a line of Python."""
    make = ctypes.pythonapi.PyInstanceMethod_New
    make.restype, make.argtypes = py_object, (py_object,)
    return make(function)


def objects(call: Any, failure: Failure) -> Method:
    def method(*given: Any) -> Any:
        made = call(*given)
        if made:
            return made
        raise failure(given)

    return method


def objects_of_numbers(call: Any, with_int: Any, small: Any, failure: Failure) -> Method:
    """The last argument is a number: an isl value, or an `int` of 64 bits."""

    def method(*given: Any) -> Any:
        value = given[-1]
        if type(value) is not int:
            made = call(*given)
        elif small and -INT <= value < INT:
            made = small(*given)
        else:
            made = with_int(*given)
        if made:
            return made
        raise failure(given)

    return method


def truths(call: Any, failure: Failure) -> Method:
    def method(*given: Any) -> bool:
        found: int = call(*given)
        if found >= 0:
            return found > 0
        raise failure(given)

    return method


def sizes(call: Any, failure: Failure) -> Method:
    def method(*given: Any) -> int:
        found: int = call(*given)
        if found >= 0:
            return found
        raise failure(given)

    return method


def texts(call: Any, failure: Failure) -> Method:
    def method(*given: Any) -> str:
        text = call(*given)
        if text:
            return ctypes.string_at(text).decode()
        raise failure(given)

    return method


def names(call: Any, _: Failure) -> Method:
    def method(*given: Any) -> str | None:
        name: bytes | None = call(*given)
        return None if name is None else name.decode()

    return method


class Reads(NamedTuple):
    """C functions of bare pointers to isl values."""

    is_int: Any
    is_zero: Any
    numerator: Any  # 0, too, where it does not fit 64 bits
    free: Any


def numbers(call: Any, value_class: Any, reads: Reads, failure: Failure) -> Method:
    """An `int` where the value is an integer."""

    def method(*given: Any) -> Any:
        pointer = call(*given)
        if not pointer:
            raise failure(given)
        found = reads.numerator(pointer)
        if (reads.is_int if found else reads.is_zero)(pointer) == 1:
            reads.free(pointer)
            return found
        value = value_class(pointer)
        return number_of(value.to_str()) if value.is_int() else value

    return method


def visiting(call: Any, kinds: Sequence[Any], failure: Failure) -> Method:
    """What isl visits is collected and handed out afterwards, so what is called may raise what it likes.

    It is collected by a method of `dict`: an interrupt would not come out of a function that isl calls. Each object is
    a pointer of its own; of a pair, the first is the domain of a piece, and domains are disjoint.
    """

    def method(visited: Any, visit: Callable[..., object]) -> None:
        found: dict[int, int | None] = {}
        done = call(visited, MEETS(found.setdefault if len(kinds) == 1 else found.__setitem__), None)
        met = [[kind(part) for kind, part in zip(kinds, pair, strict=False)] for pair in found.items()]
        if done < 0:
            raise failure((visited,))
        for parts in met:
            visit(*parts)

    return method


def elements(listed: Callable[[Any], Any]) -> Method:
    """The elements of a list of isl's."""

    def method(whole: Any) -> list[Any]:
        found = listed(whole)
        return [found.get_at(k) for k in range(found.size())]

    return method
