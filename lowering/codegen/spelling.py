"""Identifiers, parentheses and comments of emitted text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

_PREFIXES: Final = ("_", "INTSET_", "omp_")  # of the language, of our macros, of OpenMP
_LEVELS: Final = {  # operators whose precedence every reader of C knows; all others keep their parentheses
    "*": 4, "/": 4, "%": 4, "+": 3, "-": 3,
    "<": 2, "<=": 2, ">": 2, ">=": 2, "==": 2, "!=": 2,
    "&&": 1,
}  # fmt: skip
_CHAINS: Final = ("*", "+", "-", "&&")  # left-associative: need no parentheses as left operands of equal precedence
_NOT_IN_COMMENTS: Final = re.compile(r"[^ -\[\]-~]")  # everything but printable ASCII, and the backslash


class Identifiers:
    """Unique identifiers, one for each object.

    Invariant: no two objects in scope share an identifier, and none gets a reserved one.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = set(reserved)
        self._of: dict[Any, str] = {}
        self._next: dict[str, int] = {}
        self._local: list[tuple[str, Any]] = []  # identifiers to be released at the end of a block

    def of(self, thing: Any, label: str) -> str:
        """The identifier of `thing`; the first call chooses it."""
        if thing not in self._of:
            self._of[thing] = self.fresh(label)
        return self._of[thing]

    def fresh(self, label: str) -> str:
        """An unused ASCII identifier derived from a label, without reserved prefixes."""
        stem = re.sub(r"\W", "_", label, flags=re.ASCII)
        if not stem or stem[0].isdigit() or stem.startswith(_PREFIXES):
            stem = f"v{stem}"
        name = stem
        while name in self._taken:
            self._next[stem] = self._next.get(stem, 0) + 1
            name = f"{stem}_{self._next[stem]}"
        self._taken.add(name)
        return name

    def local(self, label: str, thing: Any = None) -> str:
        """An identifier, of `thing` if given, up to the end of the innermost open block."""
        name = self.fresh(label)
        self._local.append((name, thing))
        if thing is not None:
            self._of[thing] = name
        return name

    def begin(self) -> int:
        """Open a block; returns the argument of `end`."""
        return len(self._local)

    def end(self, begun: int) -> None:
        """Close a block and release its identifiers."""
        for name, thing in self._local[begun:]:
            self._taken.discard(name)
            self._of.pop(thing, None)
            self._next.pop(re.sub(r"_\d+$", "", name), None)
        del self._local[begun:]


def indented(lines: Iterable[str]) -> list[str]:
    """The lines one level deeper."""
    return [f"    {line}" for line in lines]


def infix(left: str, op: str, right: str) -> str:
    """`left op right` in parentheses, with parentheses around an operand only if it needs them.

    Guarantee: operands are not regrouped: `(a + b) + c` becomes `a + b + c`, `a + (b + c)` stays. Comparisons of
    comparisons, and operands of `/` and `%` on the same level, keep their parentheses for the reader.
    """
    level = _LEVELS.get(op, 0)
    return f"({_operand(left, level, op in _CHAINS)} {op} {_operand(right, level, False)})"


def _operand(text: str, level: int, may_chain: bool) -> str:
    inner = opened(text)
    if not level or inner is text:
        return text
    operators = _outer_operators(inner)
    if not operators or operators[0] not in _LEVELS:
        return text
    own = _LEVELS[operators[0]]
    return inner if own > level or (own == level and may_chain and set(operators) <= set(_CHAINS)) else text


def _outer_operators(text: str) -> list[str]:
    """The words at operator positions outside of parentheses, the loosest first."""
    words, depth, begin = [], 0, 0
    for k, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == " " and depth == 0:
            words.append(text[begin:k])
            begin = k + 1
    return sorted(words[1::2], key=lambda word: _LEVELS.get(word, 0))


def opened(text: str) -> str:
    """Strip one pair of outer parentheses."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for k, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and k < len(text) - 1:
            return text
    return text[1:-1]


def compared(text: str) -> str:
    """An operand of a comparison: parentheses stay around operators that bind no closer."""
    return text if any(char in "?&|^<>=!" for char in text) else opened(text)


def comment(*lines: str) -> str:
    """A comment of C with one line for each text.

    Guarantee: the comment ends at the end of its text, whatever the texts are. Line ends, backslashes (which would join
    lines) and all but printable ASCII are written as Python's escapes with `%` for the backslash; `*/`, `/*` and `??`,
    which begin delimiters and trigraphs, are separated by a blank.
    """
    return f"/* {f'{chr(10)}   '.join(map(_comment_line, lines))} */"


def _comment_line(text: str) -> str:
    plain = _NOT_IN_COMMENTS.sub(_escaped, text)
    return re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", plain)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"%x{code:02x}" if code < 0x100 else f"%u{code:04x}" if code < 0x10000 else f"%U{code:08x}"
