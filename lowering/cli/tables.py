"""Tables and progress: drawn on a terminal, plain columns when piped; progress goes to stderr alone."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

T = TypeVar("T")

_MIN_ITEMS = 20  # work on fewer items is over before a bar is read


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()) -> None:
    """Print a table; the columns numbered in `right` hold numbers."""
    listed = [["" if cell is None else visible(str(cell), keep="") for cell in row] for row in rows]
    say(title)
    if sys.stdout.isatty():
        _draw(columns, listed, right)
    else:
        _write(columns, listed, right)
    say("")


def _draw(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int]) -> None:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for k, column in enumerate(columns):
        drawn.add_column(Text(column), justify="right" if k in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(drawn)


def _write(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> None:
    """Aligned columns without lines: one row is one line, whatever its length."""
    widths = [max(len(row[k]) for row in (columns, *rows)) for k in range(len(columns))]
    for row in (columns, *rows):
        cells = [
            cell.rjust(w) if k in right else cell.ljust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        say("  ".join(cells).rstrip())


def say(text: str) -> None:
    """Print lines, what a terminal would obey made visible."""
    print(visible(text))


def visible(text: str, keep: str = "\n\t") -> str:
    """`text` with every character that is not printed (of a name, a file, an error) as its escape, but for `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


def track(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    """`items`, with a progress bar on stderr while they are worked on, when stderr is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal or total < _MIN_ITEMS:
        yield from items
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield from progress.track(items, total=total, description=label)


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
