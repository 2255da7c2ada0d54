"""Output of the commands: tables and sentences within the width of the output; progress on stderr."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")

_WORD = re.compile(r"(?:\[[^\]]*\]|\S)+")
JSON_VERSION = 1
_MIN_ITEMS = 20  # fewer items show no progress bar


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()) -> None:
    """Print a table within the width of the output, with the columns in `right` right-aligned; no word is broken."""
    listed = [["" if cell is None else visible(str(cell), keep="") for cell in row] for row in rows]
    prose(title)
    for line in _table_lines(columns, listed, right, output_width()):
        say(line)
    say("")


def output_width() -> int | None:
    """The columns of the output: those of the terminal, or what the environment variable COLUMNS says; else `None`."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated):
        return int(stated)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int], width: int | None
) -> Iterator[str]:
    """Lines of at most `width` characters, unless a word is longer.

    Cells are wrapped between words, the widest columns first. A table whose longest words do not stand side by side is
    written as one block of lines for each row.
    """
    every = [columns, *rows]
    widths = [max(len(row[k]) for row in every) for k in range(len(columns))]
    least = [max(_longest_word(row[k]) for row in every) for k in range(len(columns))]
    gaps = 2 * (len(columns) - 1)
    if width is not None and sum(least) + gaps > width:
        yield from _blocks(columns, rows, width)
        return
    while width is not None and sum(widths) + gaps > width:
        k = max((k for k in range(len(widths)) if widths[k] > least[k]), key=lambda k: widths[k])
        widths[k] = max(least[k], widths[k] - (sum(widths) + gaps - width))
    for row in every:
        cells = [_wrapped(cell, w) for cell, w in zip(row, widths, strict=True)]
        for line in zip_longest(*cells, fillvalue=""):
            parts = [
                part.rjust(w) if k in right else part.ljust(w)
                for k, (part, w) in enumerate(zip(line, widths, strict=True))
            ]
            yield "  ".join(parts).rstrip()


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    indent = max(map(len, columns)) + 2
    for row in rows:
        for column, cell in zip(columns, row, strict=True):
            lines = _wrapped(cell, max(width - indent, 1)) if cell else []
            yield from ((column if not k else "").ljust(indent) + line for k, line in enumerate(lines))
        yield ""


def _words(text: str) -> list[str]:
    """The parts of a text that stay on one line: words, with what stands in square brackets as one."""
    return _WORD.findall(text)


def _longest_word(text: str) -> int:
    return max(map(len, _words(text)), default=0)


def _wrapped(text: str, width: int, later: str = "") -> list[str]:
    """Lines of at most `width` characters, unless a word is longer; later lines begin with `later`."""
    if len(text) <= width:
        return [text]
    lines = [text[: len(text) - len(text.lstrip())]]
    for word in _words(text):
        gap = " " if lines[-1].strip() else ""
        if gap and len(lines[-1]) + 1 + len(word) > width:
            lines.append(later + word)
        else:
            lines[-1] += gap + word
    return lines


def prose(text: str) -> None:
    """Print sentences, wrapped between words at the width of the output; a line's indentation is kept."""
    width = output_width()
    for line in visible(text).split("\n"):
        margin = line[: len(line) - len(line.lstrip())]
        for part in [line] if width is None else _wrapped(line, width, f"{margin}  "):
            say(part)


def say(text: str) -> None:
    """Print lines with control characters, and those that the output cannot encode, escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(visible(text).encode(encoding, "backslashreplace").decode(encoding))


def print_json(report: dict[str, Any]) -> None:
    """Print a report as JSON."""
    print(json.dumps(_finite({"version": JSON_VERSION, **report}), indent=1, allow_nan=False))


def _finite(value: Any) -> Any:
    """A report without numbers that JSON lacks: not a number and the infinities are null."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def visible(text: str, keep: str = "\n\t") -> str:
    """`text` with unprintable characters, except those in `keep`, replaced by their escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


def track(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    """Yield `items`, with a progress bar on stderr if that is a terminal."""
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


# -- reports ------------------------------------------------------------------------------------------------------


def show_bounds(report: dict[str, Any]) -> None:
    """Print the report of `intset bounds`."""
    if report["kind"] == "corpus":
        rows = []
        for entry in report["rows"]:
            if "holds" in entry:
                answer, flag = f"true: {entry['holds']}", ""
            else:
                answer, flag = f"[{entry['min']}, {entry['max']}]", "tight" if entry["tight"] else "superset"
            rows.append((entry["row"], entry["op"], entry["kind"], answer, flag, entry["by"], entry["expr"]))
        columns = ("row", "operator", "kind", "bounds", "", "by", "expression")
        table(f"{report['file']}: bounds by {report['domain']}", columns, rows, right=(0,))
        return
    for schedule in _headed(report):
        stages = schedule["stages"]
        table(
            "tensors: what one instance requires and computes, and what is allocated; sides are [min; extent]",
            ("tensor", "made", "required", "elements", "computed", "allocated", "elements"),
            [_tensor_row(stage, entry) for stage in stages for entry in stage["tensors"]],
            right=(3, 6),
        )
        table(
            "loops: leaf axes, outermost first",
            ("stage", "axis", "min", "extent"),
            [(s["stage"], a["name"], a["min"], a["extent"]) for s in stages for a in s["axes"] if a["leaf"]],
        )
        _show_outside(schedule)


def _headed(report: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Print a heading for each schedule, and yield the accepted ones."""
    for schedule in report["schedules"]:
        at = ", ".join(f"{name}={value}" for name, value in schedule.get("at", {}).items())
        say(f"{report['file']}: {schedule['name']}{f' at {at}' if at else ''}")
        if "refused" in schedule:
            prose(f"refused: {schedule['refused']}\n")
        else:
            yield schedule


def _tensor_row(stage: dict[str, Any], entry: dict[str, Any]) -> tuple[object, ...]:
    where = f"at {stage['attach'][0]}" if stage["attach"] else stage["kind"]
    if stage["slid"]:
        where += f", kept over {', '.join(reversed(stage['slid']))}"
    required, computed, allocated = entry["required"], entry["computed"], entry["allocated"]
    count = "" if required is None else required["count_max" if required["count_max"] is not None else "count"]
    return (
        entry["tensor"],
        where,
        "not read" if required is None else _box(required["box"]),
        count,
        "" if computed is None else "as required" if computed == required else _box(computed["box"]),
        "" if allocated is None else _box(allocated),
        "" if allocated is None else entry["allocated_elements"],
    )


def _box(sides: Sequence[dict[str, Any]]) -> str:
    return " x ".join(f"[{side['min']}; {side['extent']}]" for side in sides) or "scalar"


def _show_outside(schedule: dict[str, Any]) -> None:
    if schedule["outside"]:
        say("accesses outside their tensors")
        for entry in schedule["outside"]:
            prose(f"  {entry['text']}")
        say("")


def show_domains(report: dict[str, Any]) -> None:
    """Print the report of `intset domains`."""
    rows = [
        (d["name"], d["origin"], d["exact_on"] if not d["failure"] else f"skipped: {d['failure']}")
        for d in report["domains"]
    ]
    table("domains", ("name", "from", "exact on"), rows)


def show_comparison(report: dict[str, Any]) -> None:
    """Print the report of `intset compare`."""
    if report["kind"] == "corpus":
        _show_corpus_comparison(report)
        return
    for schedule in _headed(report):
        rows = [
            (row["tensor"], domain, sizes["allocated"], sizes["required_max"], sizes["required_total"])
            for row in schedule["tensors"]
            for domain, sizes in row["domains"].items()
        ]
        columns = ("tensor", "domain", "allocated", "required in one instance", "required in all")
        table("elements by domain", columns, rows, right=(2, 3, 4))


def _show_corpus_comparison(report: dict[str, Any]) -> None:
    heads = "domain|exact|mean ratio|unbounded|sets exact|sizes finite|sizes tight|wrong|median|total"
    rows: list[tuple[object, ...]] = [
        (
            row["domain"],
            percent(row["exact"]),
            "-" if row["mean_ratio"] is None else f"{row['mean_ratio']:.3f}",
            row["unbounded"],
            percent(row["sets_exact"]),
            percent(row["sized_finite"]),
            percent(row["sized_tight"]),
            *_outcome(row),
        )
        for row in report["domains"]
    ]
    table(f"{report['file']}: {report['rows']} rows", heads.split("|"), rows, right=tuple(range(1, 10)))
    rows = [
        (label, row["conditions"], percent(row["decided"]), *_outcome(row))
        for label, row in (("of the corpus", report["predicates"]), ("from bounds", report["bound_predicates"]))
    ]
    columns = ("conditions", "number", "decided", "wrong", "median", "total")
    table("conditions, by the prover; every counterexample was evaluated", columns, rows, right=(1, 2, 3, 4, 5))
    for text in report["violations"]:
        say(f"WRONG: {text}")


def _outcome(row: dict[str, Any]) -> tuple[object, ...]:
    return row["violations"], duration(row["median_seconds"]), duration(row["total_seconds"])


def show_lowered(report: dict[str, Any]) -> None:
    """Print the report of `intset lower`; the text of a nest has no heading."""
    if report["kind"] == "corpus":
        rows = [(e["row"], e["op"], e["lowered"], ", ".join(e["rules"]), e["expr"]) for e in report["rows"]]
        columns = ("row", "operator", "lowered", "rules", "expression")
        table(f"{report['file']}: divisions lowered", columns, rows, right=(0,))
        return
    for schedule in report["schedules"]:
        if "refused" in schedule:
            say(f"{report['file']}: {schedule['name']}\nrefused: {schedule['refused']}\n")
        else:
            say(schedule["text"].rstrip("\n") + "\n")


def show_explained(report: dict[str, Any]) -> None:
    """Print the report of `intset explain`."""
    if report["kind"] == "corpus":
        for entry in report["rows"]:
            prose(f"row {entry['row']} ({entry['op']}): {entry['expr']}\n{entry['text']}\n")
        return
    for schedule in _headed(report):
        for entry in schedule["tensors"]:
            prose(f"{entry['text']}\n")
        for entry in schedule["divisions"]:
            prose(f"in the loop nest, {entry['text']}\n")
        _show_outside(schedule)
