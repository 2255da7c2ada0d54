"""Passes as a caller sees them: `until_stable`, which repeats one, and reports of the places that it considered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from intset.expr import arguments
from lowering.nest import ir
from lowering.nest.printer import statement_lines

OVERCOMPUTE_ROUNDS = 8  # rounds of trying fewer guards; of a pass, until it changes nothing


@dataclass(frozen=True)
class Entry:
    """What a pass decided at a place.

    Attributes
    ----------
    line: the line in the text of the original function; for a guard, the line of its `if`.
    done: whether it was changed.
    reason: why, or why not.
    point: values of the loops around it, outermost first, at which it fails; `None` where none is known.
    """

    line: int
    done: bool
    reason: str
    point: tuple[int, ...] | None = None


class PassReport:
    """The entries of one pass, by place; the last word on a place counts.

    Parameters
    ----------
    lines: the reported line of each path of `f`, if reports refer to another function's text.
    """

    def __init__(self, f: ir.Function, lines: Mapping[tuple[int, ...], int] | None = None) -> None:
        self._lines = statement_lines(f) if lines is None else lines
        self._said: dict[tuple[tuple[int, ...], str], Entry] = {}

    def line(self, path: tuple[int, ...]) -> int:
        """The line of a statement; of a sequence, that of its first."""
        while path not in self._lines:
            path = (*path, 0)
        return self._lines[path]

    def say(
        self, path: tuple[int, ...], done: bool, reason: str, point: tuple[int, ...] | None = None, what: str = ""
    ) -> None:
        self._said[path, what] = Entry(self.line(path), done, reason, point)

    def follow(self, later: PassReport) -> None:
        """Add the entries of a later round, by line; a change overrides a refusal."""
        for entry in later._said.values():
            key = (entry.line,), ""
            if entry.done or not (key in self._said and self._said[key].done):
                self._said[key] = entry

    def give(self, report: list[Entry] | None, *more: PassReport) -> None:
        """Append the entries, and those of other reports, to the caller's list, in the order of the text."""
        if report is not None:
            arguments.of_kind(list, report, "report")
            entries = [entry for one in (self, *more) for entry in one._said.values()]
            report += sorted(entries, key=lambda entry: entry.line)


def until_stable(once: Callable[[ir.Function], ir.Function], f: ir.Function) -> ir.Function:
    """Apply `once` until the text of the nest repeats; of nests that alternate, the one with the shortest text.

    Guarantee: a second call returns a nest of equal text. Beyond `OVERCOMPUTE_ROUNDS` calls: the nest that was given.
    """
    rounds, last = {str(f): f}, f
    for _ in range(OVERCOMPUTE_ROUNDS):
        last = once(last)
        text = str(last)
        if text in rounds:
            texts = list(rounds)
            return rounds[min(texts[texts.index(text) :], key=lambda each: (len(each), each))]
        rounds[text] = last
    return f
