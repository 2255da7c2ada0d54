"""Names in texts: an identifier as it is, everything else between quotes, so that no name reads as something else."""

from __future__ import annotations

import ast
import re
from typing import Final

_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
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
