"""Integers of any size as text and back: Python refuses to convert more than some 4,300 decimal digits."""

from __future__ import annotations

import ast
import re
from typing import Final, TypeVar

K = TypeVar("K")
_WIDE: Final = 2048  # bits from which on a number is written in hexadecimal
_CHUNK: Final = 600  # decimal digits that Python converts under every limit it can be set to


def number_text(value: int) -> str:
    """`value` as an integer literal of Python: decimal, or hexadecimal where it is long."""
    return str(value) if value.bit_length() < _WIDE else hex(value)


def number_of(text: str) -> int:
    """The integer that decimal digits, with an optional minus sign, write.

    Raises
    ------
    ValueError: the text is not that.
    """
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise ValueError(f"no decimal integer: {text[:40]!r}")
    if len(digits) <= _CHUNK:
        return int(text)
    parts = [int(digits[max(end - _CHUNK, 0) : end]) for end in range(len(digits), 0, -_CHUNK)]  # the lowest first
    base = 10**_CHUNK
    while len(parts) > 1:  # halves are joined, so that the work is that of a few large products
        parts += [0] * (len(parts) % 2)
        parts = [low + high * base for low, high in zip(parts[::2], parts[1::2], strict=True)]
        base *= base
    return -parts[0] if text.startswith("-") else parts[0]


def decimal(value: int) -> str:
    """`value` in decimal digits, however many they are: what z3 and isl read."""
    if value.bit_length() < _WIDE:
        return str(value)
    bases = [10**_CHUNK]
    while bases[-1] ** 2 <= abs(value):
        bases.append(bases[-1] ** 2)
    parts = [abs(value)]  # the highest first
    for base in reversed(bases):
        parts = [half for part in parts for half in divmod(part, base)]
    digits = "".join(f"{part:0{_CHUNK}d}" for part in parts).lstrip("0")
    return f"-{digits}" if value < 0 else digits


def short_number(value: int) -> str:
    """`value` in decimal, or the first hexadecimal digits of a long one, and how long it is."""
    return str(value) if value.bit_length() < _WIDE else f"{hex(value)[:20]}... of {value.bit_length()} bits"


class Point(dict[K, int]):
    """Values of variables and opaque terms: a `dict` whose `repr` has short numbers."""

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{key!r}: {short_number(value)}' for key, value in self.items())}}}"


def shown(value: object) -> str:
    """What a user handed over, as a message repeats it: a number of any length, alone or inside of something."""
    if type(value) is int:
        return number_text(value)
    try:
        return repr(value)
    except ValueError:
        return f"a {type(value).__name__} with a number of too many digits to show"
    except Exception:  # a foreign object may fail to say what it is
        return f"a {type(value).__name__} that cannot be shown"


_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
KEYWORDS: Final = frozenset(("and", "or", "not", "if", "else", "True", "False"))
_NUMBERS: Final = frozenset(("inf", "nan"))


def name_text(name: str) -> str:
    """A name as it stands in an expression; one that is no identifier, a keyword or a number is quoted.

    The quoted form is Python's literal in printable ASCII, which `parse` reads back as the name.
    """
    if _IDENTIFIER.fullmatch(name) and name not in KEYWORDS and name not in _NUMBERS:
        return name
    return ascii(name)


def name_of(quoted: str) -> str:
    """The name that a quoted text stands for; `ValueError` where it is no literal."""
    try:
        found = ast.literal_eval(quoted)
    except (SyntaxError, MemoryError) as error:
        raise ValueError(str(error)) from None
    return str(found)
