"""Parentheses."""

from __future__ import annotations

from typing import Final

_LEVELS: Final = {  # of operators of C that bind as every reader knows; all others keep their parentheses
    "*": 4, "/": 4, "%": 4, "+": 3, "-": 3,
    "<": 2, "<=": 2, ">": 2, ">=": 2, "==": 2, "!=": 2,
    "&&": 1,
}  # fmt: skip
_CHAINS: Final = ("*", "+", "-", "&&")  # may stand unparenthesised to the left of their own level


def infix(left: str, op: str, right: str) -> str:
    """`left op right` in parentheses, where an operand has its own only if it needs them.

    Operands are not regrouped: `(a + b) + c` is `a + b + c`, `a + (b + c)` stays. A comparison of comparisons, and
    `/` or `%` beside an operator of its level, keep theirs for the reader.
    """
    level = _LEVELS.get(op, 0)
    return f"({_operand(left, op, level, op in _CHAINS)} {op} {_operand(right, op, level, False)})"


def _operand(text: str, op: str, level: int, may_chain: bool) -> str:
    inner = opened(text)
    if not level or inner is text:
        return text
    found = _outer_operators(inner)
    if not found or found[0] not in _LEVELS:
        return text
    own = _LEVELS[found[0]]
    return inner if own > level or (own == level and may_chain and set(found) <= set(_CHAINS)) else text


def _outer_operators(text: str) -> list[str]:
    """The words outside of parentheses that stand where operators do, the loosest first."""
    words, depth, begin = [], 0, 0
    for k, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == " " and depth == 0:
            words.append(text[begin:k])
            begin = k + 1
    return sorted(words[1::2], key=lambda word: _LEVELS.get(word, 0))


def opened(text: str) -> str:
    """A text without the parentheses around all of it."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for k, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and k < len(text) - 1:
            return text
    return text[1:-1]


def compared(text: str) -> str:
    """A text to stand beside a comparison: parentheses stay around what binds no closer."""
    return text if any(char in "?&|^<>=!" for char in text) else opened(text)
