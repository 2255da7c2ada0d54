"""Text of users in C: names and messages as comments, in printable ASCII."""

from __future__ import annotations

import re
from typing import Final

_OTHER: Final = re.compile(r"[^ -\[\]-~]")  # everything but printable ASCII, and the backslash


def comment(*lines: str) -> str:
    """A comment of C with a line for each text, whatever the texts are.

    Guarantee: the comment ends where its text ends. Line ends, backslashes (which would join lines) and what is no
    printable ASCII are written as Python's escapes with `%` for the backslash; `*/`, `/*` and `??`, with which
    delimiters and trigraphs begin, are taken apart by a blank.
    """
    return f"/* {f'{chr(10)}   '.join(map(_line, lines))} */"


def _line(text: str) -> str:
    plain = _OTHER.sub(_escaped, text)
    return re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", plain)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"%x{code:02x}" if code < 0x100 else f"%u{code:04x}" if code < 0x10000 else f"%U{code:08x}"
