"""Lines of a text and their parts, with their positions for error messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from intset.errors import ParseError
from lowering.nest.names import IDENTIFIER

_WORD: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*|[0-9]\w*|\S")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


class ParsedLine:
    """A line with something in it."""

    __slots__ = ("content", "indent", "number", "offset")

    def __init__(self, content: str, number: int, offset: int) -> None:
        self.content, self.number, self.offset = content, number, offset
        self.indent = len(content) - len(content.lstrip(" "))

    def all(self) -> Part:
        return Part(self, self.indent, len(self.content))

    def error(self, message: str, at: int) -> ParseError:
        """An error at this column, counted from 0."""
        where = f"line {self.number}, column {at + 1}"
        return ParseError(f"{message} ({where})", self.offset + at, self.number, at + 1)


def lines_of(text: str) -> list[ParsedLine]:
    """The lines that say something, without comments."""
    found: list[ParsedLine] = []
    offset = 0
    for number, whole in enumerate(text.split("\n"), 1):
        content = _without_comment(whole).rstrip()
        if content:
            line = ParsedLine(content, number, offset)
            if "\t" in content[: len(content) - len(content.lstrip())]:
                raise line.error("lines are indented by spaces, not by tabs", content.index("\t"))
            found.append(line)
        offset += len(whole) + 1
    return found


def _without_comment(line: str) -> str:
    if "#" not in line:
        return line
    strings = [match.span() for match in _STRING.finditer(line)]
    for match in re.finditer("#", line):
        if not any(start < match.start() < end for start, end in strings):
            return line[: match.start()]
    return line


class Part:
    """A section of a line, read from left to right.

    Attributes
    ----------
    start, stop: where it begins and ends in the line.
    at: where reading goes on.
    """

    __slots__ = ("at", "line", "start", "stop")

    def __init__(self, line: ParsedLine, start: int, stop: int) -> None:
        self.line, self.start, self.stop, self.at = line, start, stop, start

    @property
    def text(self) -> str:
        return self.line.content[self.start : self.stop]

    def error(self, message: str, at: int | None = None) -> ParseError:
        return self.line.error(message, self.at if at is None else at)

    def taken(self, name: str, at: int) -> ParseError:
        return self.error(f"the name {name} is taken", at)

    def unknown(self, name: str, known: Iterable[str], at: int) -> ParseError:
        names = list(known)
        close = get_close_matches(name, names, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return self.error(f"unknown name {name!r} (known: {', '.join(names[:30]) or 'none'}){hint}", at)

    def at_word(self) -> int:
        """Where the next word begins."""
        text = self.line.content
        k = self.at
        while k < self.stop and text[k] == " ":
            k += 1
        return k

    def peek(self) -> str:
        """The next word, or nothing."""
        found = _WORD.match(self.line.content, self.at_word(), self.stop)
        return found[0] if found else ""

    def next_is(self, word: str) -> bool:
        return self.peek() == word

    def is_pair(self) -> bool:
        """Whether the next two words are names."""
        found = _WORD.match(self.line.content, self.at_word(), self.stop)
        rest = self.line.content[found.end() : self.stop].lstrip() if found else ""
        return IDENTIFIER.match(rest) is not None

    def rewind(self, at: int) -> None:
        self.at = at

    def skip(self, word: str) -> bool:
        """Read this word, if it is next."""
        if self.peek() != word:
            return False
        self.at = self.at_word() + len(word)
        return True

    def expect(self, word: str, message: str | None = None) -> None:
        if not self.skip(word):
            raise self.error(message or f"{word!r} is expected here", self.at_word())

    def name(self, what: str) -> str:
        at = self.at_word()
        found = IDENTIFIER.match(self.line.content, at, self.stop)
        if found is None:
            raise self.error(f"{what} is expected here", at)
        self.at = found.end()
        return found[0]

    def end(self) -> None:
        at = self.at_word()
        if at < self.stop:
            raise self.error(f"{self.line.content[at : at + 20]!r} is unexpected here", at)

    def string(self) -> str:
        """A text between quotes."""
        at = self.at_word()
        found = _STRING.match(self.line.content, at, self.stop)
        if found is None:
            raise self.error("a text between quotes is expected here", at)
        self.at = found.end()
        try:
            return str(json.loads(found[0]))
        except ValueError:
            raise self.error("this is no text between quotes", at) from None

    def until(self, stops: str) -> Part:
        """The part in front of the first of these characters outside brackets, or up to the end."""
        start = self.at
        k = self._find(stops)
        self.at = k
        return Part(self.line, start, k)

    def listed(self, close: str) -> list[Part]:
        """The parts between commas up to a closing bracket, which is read too."""
        found: list[Part] = []
        while True:
            part = self.until("," + close)
            if self.at >= self.stop:
                raise self.error(f"{close!r} is expected here", self.stop)
            is_last = self.line.content[self.at] == close
            if not (is_last and not found and not part.text.strip()):
                found.append(part)
            self.at += 1
            if is_last:
                return found

    def _find(self, stops: str) -> int:
        text = self.line.content
        depth = 0
        k = self.at
        while k < self.stop:
            c = text[k]
            if depth == 0 and c in stops and not (c in "=:" and _is_operator(text, k)):
                return k
            if c == '"':
                found = _STRING.match(text, k, self.stop)
                k = found.end() if found else k + 1
                continue
            depth += (c in "([") - (c in ")]")
            k += 1
        return self.stop


def _is_operator(text: str, k: int) -> bool:
    """Whether a `=` or `:` is part of an operator such as `==` or `:=`."""
    if text[k] == ":":
        return text[k + 1 : k + 2] == "="
    return text[k + 1 : k + 2] == "=" or text[k - 1] in "=<>!:"
