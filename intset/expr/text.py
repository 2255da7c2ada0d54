"""Numbers and names as text, and back.

Python refuses to convert integers of more than about 4,300 decimal digits; these functions do not. Names other than
identifiers are quoted, so that no name reads as another token.
"""

from __future__ import annotations

import ast
import re
from typing import Final, TypeVar

K = TypeVar("K")
_WIDE: Final = 2048  # bits; longer numbers are hexadecimal
_CHUNK: Final = 600  # decimal digits that Python converts under any configured limit


def number_text(value: int) -> str:
    """`value` as an integer literal of Python: decimal, or hexadecimal where it is long."""
    return str(value) if value.bit_length() < _WIDE else hex(value)


def number_of(text: str) -> int:
    """The integer of a decimal numeral with an optional minus sign.

    Raises
    ------
    ValueError: the text is no decimal numeral.
    """
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise ValueError(f"no decimal integer: {text[:40]!r}")
    if len(digits) <= _CHUNK:
        return int(text)
    parts = [int(digits[max(end - _CHUNK, 0) : end]) for end in range(len(digits), 0, -_CHUNK)]  # the lowest first
    base = 10**_CHUNK
    while len(parts) > 1:  # join pairs: few large products
        parts += [0] * (len(parts) % 2)
        parts = [low + high * base for low, high in zip(parts[::2], parts[1::2], strict=True)]
        base *= base
    return -parts[0] if text.startswith("-") else parts[0]


def decimal(value: int) -> str:
    """`value` in decimal, of any length, for z3 and isl."""
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
    """`value` in decimal; of a long one the first hexadecimal digits and the bit length."""
    return str(value) if value.bit_length() < _WIDE else f"{hex(value)[:20]}... of {value.bit_length()} bits"


class Point(dict[K, int]):
    """Values of variables and opaque terms: a `dict` whose `repr` has short numbers."""

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{key!r}: {short_number(value)}' for key, value in self.items())}}}"


def shown(value: object) -> str:
    """`repr` of a user's value for a message; safe for numbers of any length and failing `__repr__`."""
    if type(value) is int:
        return number_text(value)
    try:
        return repr(value)
    except ValueError:
        return f"a {type(value).__name__} with a number of too many digits to show"
    except Exception:  # foreign __repr__ may fail
        return f"a {type(value).__name__} that cannot be shown"


_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
KEYWORDS: Final = frozenset(("and", "or", "not", "if", "else", "True", "False"))
_NUMBERS: Final = frozenset(("inf", "nan"))


def name_text(name: str) -> str:
    """A name as written in an expression; keywords, numbers and names other than identifiers are quoted.

    The quoted form is Python's literal in printable ASCII, which `parse` reads back as the name.
    """
    if _IDENTIFIER.fullmatch(name) and name not in KEYWORDS and name not in _NUMBERS:
        return name
    return ascii(name)


def name_of(quoted: str) -> str:
    """The name of a quoted text; `ValueError` for anything but a string literal."""
    try:
        name = ast.literal_eval(quoted)
    except (SyntaxError, MemoryError) as error:
        raise ValueError(str(error)) from None
    return str(name)
