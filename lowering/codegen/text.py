"""Parentheses."""

from __future__ import annotations


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
