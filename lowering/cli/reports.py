"""Answers of the commands, on schedules, spaces and rows of a corpus: as plain data, as tables and sentences.

Plain data is ready for JSON. Tables and sentences keep within the width of the output; progress goes to stderr.
`compare --report` writes a row for each question and each domain or peer, as Parquet and HTML.
"""

import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from html import escape
from importlib import metadata
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from string import Template
from typing import Any, Final, TypeAlias, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bound.infer import BoundsMap, Outside, infer_bound
from bound.infer.answers.outside import ALWAYS, SIZES
from bound.schedule import AttachType, Schedule
from bound.schedule.stage import Stage
from bound.tensor import PlaceholderOp, Tensor
from intset import Context, Expr, InputError, IntSetError, Range, domain_names, using
from intset.config import BUILT_IN, announced, current, entry_points
from intset.domains.registry import domain_named
from intset.domains.sets.region import Region
from intset.errors import DomainError
from intset.expr import Cond, Var, shown
from intset.expr.printer import visible
from lowering.cli.inputs import CorpusRow, Problem, ScriptSchedule, load_space
from lowering.codegen.c import program_text, to_c
from lowering.division import lower_division
from lowering.explore import explore
from lowering.explore.dataset import MAX_INT64, Totals, arrow_schema, require
from lowering.lower import arguments_of, before_divisions, lower
from lowering.nest import ir
from lowering.nest.walk import statements
from lowering.passes import lowered_parts, narrow

T = TypeVar("T")

_WORD = re.compile(r"(?:\[[^\]]*\]|\S)+")  # what stays on one line: words, and what stands in square brackets
JSON_VERSION = 1
_MIN_ITEMS = 20  # fewer items show no progress bar


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()) -> None:
    """Print a table within the width of the output, with the columns in `right` right-aligned; no word is broken."""
    listed = [["" if cell is None else visible(str(cell)) for cell in row] for row in rows]
    prose(title)
    for line in _table_lines(columns, listed, right, output_width()):
        say(line)
    say("")


def output_width() -> int | None:
    """The columns of the output: the terminal's, or the value of the environment variable COLUMNS; else `None`."""
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
    least = [max(max(map(len, _WORD.findall(row[k])), default=0) for row in every) for k in range(len(columns))]
    gaps = 2 * (len(columns) - 1)
    if width is not None and sum(least) + gaps > width:
        indent = max(map(len, columns)) + 2
        for row in rows:
            for column, cell in zip(columns, row, strict=True):
                lines = _wrapped(cell, max(width - indent, 1)) if cell else []
                yield from ((column if not k else "").ljust(indent) + line for k, line in enumerate(lines))
            yield ""
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


def _wrapped(text: str, width: int, later: str = "") -> list[str]:
    """Lines of at most `width` characters, unless a word is longer; later lines begin with `later`."""
    if len(text) <= width:
        return [text]
    lines = [text[: len(text) - len(text.lstrip())]]
    for word in _WORD.findall(text):
        gap = " " if lines[-1].strip() else ""
        if gap and len(lines[-1]) + 1 + len(word) > width:
            lines.append(later + word)
        else:
            lines[-1] += gap + word
    return lines


def prose(text: str) -> None:
    """Print sentences, wrapped between words at the width of the output; a line's indentation is kept."""
    width = output_width()
    for line in visible(text, keep="\n\t").split("\n"):
        margin = line[: len(line) - len(line.lstrip())]
        for part in [line] if width is None else _wrapped(line, width, f"{margin}  "):
            say(part)


def say(text: str) -> None:
    """Print lines with control characters, and those that the output cannot encode, escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(visible(text, keep="\n\t").encode(encoding, "backslashreplace").decode(encoding))


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


JsonObject: TypeAlias = "dict[str, Any]"
SizeValues: TypeAlias = Mapping[str, int]
OfSchedule: TypeAlias = Callable[[Schedule, SizeValues], JsonObject]

SCHEDULE_DOMAINS = ("interval", "isl", "auto")
SCORERS = "intset.scorers"  # the group of entry points that score domains on a corpus
_BY_NAME_ONLY = ("points",)  # enumeration is too slow for a default comparison
_KINDS = {
    AttachType.GROUP_ROOT: "root",
    AttachType.INLINE: "inline",
    AttachType.INLINED_ALREADY: "inlined",
    AttachType.SCOPE: "attached",
    AttachType.SCAN_UPDATE: "scan update",
}

# -- bounds of a schedule -----------------------------------------------------------------------------------------


def schedule_bounds(schedule: Schedule, sizes: SizeValues, domain: str | None, compact: bool) -> JsonObject:
    """The stages of a schedule with their axes, and the required, computed and allocated elements of each tensor."""
    bounds = _inferred(schedule, sizes, domain, compact)
    return {
        "stages": [_stage(bounds, stage) for stage in bounds.schedule.stages],
        "outside": [_outside(access) for access in bounds.outside],
    }


def _inferred(schedule: Schedule, sizes: SizeValues, domain: str | None, compact: bool = False) -> Any:
    return infer_bound(schedule, at=dict(sizes) or None, domain=domain, compact=compact)


def _stage(bounds: BoundsMap, stage: Stage) -> JsonObject:
    op = stage.op
    is_input = isinstance(op, PlaceholderOp)
    leaves = list(stage.leaf_iter_vars)  # outermost first
    axes = [] if is_input else [*leaves, *(axis for axis in stage.all_iter_vars if axis not in leaves)]
    ranges = [(axis, _attempt(partial(bounds.__getitem__, axis))) for axis in axes]  # none of an inlined stage
    attach_path = [bounds.loop_name(at, axis) for at, axis in bounds.attach_path(stage)]
    return {
        "stage": stage.name,
        "kind": "placeholder" if is_input else _KINDS[stage.attach_type],
        "scope": stage.scope,
        "slid": attach_path[: len(bounds.slid(stage))],
        "attach": attach_path,
        "axes": [{"name": a.name, "leaf": a in leaves, **_range(limits)} for a, limits in ranges if limits is not None],
        "tensors": [_tensor(bounds, tensor) for tensor in op.outputs],
    }


def _tensor(bounds: BoundsMap, tensor: Tensor) -> JsonObject:
    required, computed = (_attempt(partial(ask, tensor)) for ask in (bounds.required, bounds.computed))
    storage = _attempt(partial(bounds.storage, tensor))
    allocated, flat = (None, None) if storage is None else (storage.allocated, storage.flat)
    return {
        "tensor": tensor.name,
        "shape": [_value(extent) for extent in tensor.extents],
        "dtype": str(tensor.dtype),
        "required": None if required is None else _region(required),
        "computed": None if computed is None else _region(computed),
        "allocated": None if allocated is None else [_range(side) for side in allocated],
        "flat_axes": [] if flat is None else list(flat.dims),
        "allocated_elements": None if allocated is None else _elements(allocated),
    }


def _region(region: Region) -> JsonObject:
    return {
        "box": [_range(side) for side in region.box],
        "params": [param.name for param in region.params],
        "is_exact": region.is_exact,
        "notes": list(region.notes),
        "count": _attempt(lambda: _value(region.count())),
        "count_max": _attempt(lambda: _value(region.count_max())),
        "count_total": _attempt(lambda: _value(region.count_total())),
    }


def _elements(sides: Sequence[Range]) -> int | str:
    """The number of elements of a box: an integer for constant extents, otherwise a formula."""
    product: Any = 1
    for side in sides:
        product = side.extent * product
    return _value(Context().simplify(product) if isinstance(product, Expr) else product)


def _range(side: Range) -> JsonObject:
    return {"min": _value(side.min), "extent": _value(side.extent)}


def _value(value: object) -> int | str:
    if isinstance(value, Expr):
        return int(value) if value.is_const else str(value)
    return value if isinstance(value, int) else str(value)


def _attempt(ask: Callable[[], T]) -> T | None:
    """An answer; `None` for an unread tensor, an inlined axis, or a count without closed form."""
    try:
        return ask()
    except (IntSetError, KeyError):
        return None


def _outside(access: Outside) -> JsonObject:
    """An access that may leave its tensor."""
    if access.depends == ALWAYS:
        consequence = "an error, lower refuses it"
    elif access.depends == SIZES:
        consequence = f"the function asserts {access.requires}"
    else:
        consequence = "checked before it is read"
    point = access.point
    return {
        "stage": access.stage.name,
        "tensor": access.tensor.name,
        "index": [str(e) for e in access.index],
        "dim": access.dim,
        "extent": _value(access.extent),
        "point": None if point is None else {e.name if isinstance(e, Var) else str(e): k for e, k in point.items()},
        "depends": access.depends,
        "requires": None if access.requires is None else str(access.requires),
        "text": f"{access}: {consequence}",
    }


# -- other reports on a schedule ----------------------------------------------------------------------------------


def schedule_comparison(schedule: Schedule, sizes: SizeValues, domains: Sequence[str]) -> JsonObject:
    """The elements that each domain requires and allocates, for every tensor with storage."""
    rows: dict[str, JsonObject] = {}
    for domain in domains or SCHEDULE_DOMAINS:
        bounds = _inferred(schedule, sizes, domain)
        for stage in bounds.schedule.stages:
            if not bounds.is_computed(stage):
                continue
            for tensor in stage.op.outputs:
                entry = _tensor(bounds, tensor)
                required = entry["required"] or {}
                row = rows.setdefault(tensor.name, {"stage": stage.name, "tensor": tensor.name, "domains": {}})
                row["domains"][domain] = {
                    "allocated": entry["allocated_elements"],
                    "required_max": required.get("count_max") or required.get("count"),
                    "required_total": required.get("count_total"),
                    "is_exact": required.get("is_exact"),
                }
    return {"tensors": list(rows.values())}


def schedule_nest(
    schedule: Schedule, sizes: SizeValues, domain: str | None, emit: str, compact: bool, **options: Any
) -> JsonObject:
    """The loop nest of a schedule, or its C, as text; what the function takes, gives, allocates and asserts.

    Parameters
    ----------
    emit: "nest", "c", or "main" for C with a program.
    options: further keywords of `lower`.
    """
    with using(domain=domain) if domain else nullcontext():
        f = lower(schedule, arguments_of(schedule), at=dict(sizes) or None, compact=compact or None, **options)
    stmts = list(statements(f.body))
    return {
        "emit": emit,
        "text": program_text(f, sizes) if emit == "main" else to_c(f) if emit == "c" else str(f),
        "name": f.name,
        "parameters": [_storage(tensor) | {"output": tensor in f.outputs} for tensor in f.params],
        "sizes": [size.name for size in f.sizes],
        "allocated": [_storage(stmt.tensor) for stmt in stmts if isinstance(stmt, ir.Allocate)],
        "asserts": [str(stmt.cond) for stmt in stmts if isinstance(stmt, ir.Assert)],
        "loops": [
            {"variable": loop.var.name, **_range(loop.range), "kind": str(loop.kind), "thread": loop.thread}
            for loop in stmts
            if isinstance(loop, ir.For)
        ],
        "index_bits": narrow(f).bits,
    }


def _storage(tensor: Tensor) -> JsonObject:
    return {"tensor": tensor.name, "dtype": tensor.dtype, "shape": [_value(extent) for extent in tensor.extents]}


def all_domains() -> JsonObject:
    """Every domain: its name, its package, where it is exact, and the reason if it fails to load."""
    found: list[JsonObject] = []
    for name in announced():
        point = next((p for p in entry_points() if p.name == name), None)
        if name in BUILT_IN:
            origin = "intset"
        elif point is None:
            origin = "a call"
        else:
            origin = point.value if point.dist is None else f"{point.dist.name} {point.dist.version}"
        try:
            exact_on, failure = str(getattr(domain_named(name), "exact_on", "not stated")), ""
        except DomainError as error:
            exact_on, failure = "", str(error).splitlines()[0]
        found.append({"name": name, "origin": origin, "exact_on": exact_on, "failure": failure})
    return {"domains": found}


def schedule_explanation(schedule: Schedule, sizes: SizeValues, domain: str | None) -> JsonObject:
    """Explanations of each tensor's region and form, and of each lowered division."""
    bounds = _inferred(schedule, sizes, domain)
    bounds.forms = infer_bound(schedule, at=dict(sizes) or None, domain=domain, compute="auto").forms
    stages = [stage for stage in bounds.schedule.stages if not stage.is_inlined]
    tensors = [tensor for stage in stages for tensor in stage.op.outputs]
    is_refused = any(access.depends == ALWAYS for access in bounds.outside)
    function, bits = before_divisions(schedule, arguments_of(schedule), bounds=bounds, unsafe=is_refused)
    return {
        "tensors": [
            {**_tensor(bounds, tensor), **_made(bounds, tensor), "text": str(bounds.explain(tensor))}
            for tensor in tensors
        ],
        "divisions": [
            {
                "expr": str(part.asked[0]),
                "lowered": str(part.expr),
                "missing": [str(missing.fact) for missing in part.missing],
                "rules": list(dict.fromkeys(str(step.rule) for step in part.steps)),
                "requires": [str(condition) for condition in part.requires],
                "bits": part.bits,
                "text": part.explain(),
            }
            for part in lowered_parts(function, bits)
        ],
        "outside": [_outside(access) for access in bounds.outside],
    }


def _made(bounds: BoundsMap, tensor: Tensor) -> JsonObject:
    """Where a tensor is computed, the loops around it, what its stage guards, and its forms that were considered."""
    stage = bounds.stage(tensor)
    return {
        "kind": "placeholder" if isinstance(stage.op, PlaceholderOp) else _KINDS[stage.attach_type],
        "attach": [bounds.loop_name(at, axis) for at, axis in bounds.attach_path(stage)],
        "forms": [str(form) for form in bounds.forms.get(tensor.name, ())],
    }


def schedule_reports(path: str, schedules: Sequence[ScriptSchedule], sizes: SizeValues, ask: OfSchedule) -> JsonObject:
    """One report for each schedule of a script; a refused schedule reports the reason.

    Raises
    ------
    InputError: all schedules are refused.
    """
    reports: list[JsonObject] = []
    for entry in track(schedules, len(schedules), path.rpartition("/")[2]):
        refused = entry.refused
        if entry.schedule is not None:
            values = {**entry.sizes, **sizes}
            try:
                reports.append({"name": entry.name, "at": values, **ask(entry.schedule, values)})
                continue
            except IntSetError as error:
                refused = str(error).splitlines()[0]
        reports.append({"name": entry.name, "refused": refused})
    if all("refused" in report for report in reports):
        name, reason = reports[0]["name"], reports[0]["refused"]
        raise InputError(reason if reason.startswith(path) else f"{path}: {name}: {reason}")
    return {"schedules": reports}


# -- spaces and explorations ----------------------------------------------------------------------------------------

MAX_BEST = 20  # columns of a table on a terminal beyond which values are left out


def space_report(path: Path, sample: int, seed: int, best: int, by: str | None) -> JsonObject:
    """The number of members of a script's space, what each name takes, some members, and the least by an expression."""
    space, _, _ = load_space(path)
    for name in ("count", "ranges", "sample", "minimize"):
        if not callable(getattr(space, name, None)):
            raise InputError(f"{path}: space must be a Space, not {shown(space)}")
    count, ranges = space.count(), space.ranges()
    report: JsonObject = {
        "file": str(path),
        "count": count,
        "names": {name: list(values) for name, values in ranges.items()},
        "sample": space.sample(min(sample, count), seed=seed),
    }
    if not count:
        report["contradiction"] = [str(condition) for condition in ranges.contradiction]
    if by is not None:
        report["by"] = by
        try:
            report["best"] = space.minimize(by, k=best) if count else []
        except InputError as error:
            raise InputError(f"--by: {error}") from error
    return report


def show_space(report: JsonObject) -> None:
    """Print the report of `intset space`."""
    say(f"{report['file']}: {report['count']:,} configurations")
    if report.get("contradiction"):
        say(f"no configuration satisfies all of: {'; '.join(report['contradiction'])}")
    rows = []
    for name, values in report["names"].items():
        texts = [str(value) for value in values]
        rows.append((name, len(values), ", ".join(texts if len(texts) <= 12 else [*texts[:6], "...", *texts[-2:]])))
    table("names, with the values that are left", ("name", "values", ""), rows, right=(1,))
    for title, key in (("a sample", "sample"), (f"the least by {report.get('by')}", "best")):
        if report.get(key):
            _show_rows(title, report[key])


def explored(
    path: Path, jobs: int | None, dask: str | None, best: int, by: str | None, largest: bool, strict: bool, **more: Any
) -> tuple[JsonObject, bool]:
    """Explore the space of a script; the report, and whether the run succeeded: `strict` forbids failures.

    Parameters
    ----------
    more: further keywords of `explore`.

    Raises
    ------
    InputError: the script lacks `make`, both `jobs` and `dask` are given, or as `explore`.
    """
    space, make, measure = load_space(path)
    if make is None:
        raise InputError(f"{path}: a function make(configuration) is expected")
    if jobs is not None and dask is not None:
        raise InputError("--jobs and --dask exclude one another")
    with _executor(jobs, dask) as executor:
        found = explore(make, space, measure, executor, by=by, **more)
    totals: Totals = found.summary
    report: JsonObject = {
        "file": str(path),
        "out": str(found.folder),
        "configurations": totals.rows,
        "added": totals.added,
        "failed": totals.failed,
        "seconds": totals.seconds,
        "elapsed": totals.elapsed,
        "by": found.checked_column(by),
        "best": found.best(best, by, largest),
        "failures": found.failures(best),
    }
    return report, not (strict and totals.failed)


@contextmanager
def _executor(jobs: int | None, dask: str | None) -> Iterator[Any]:
    """The executor that the options name; a client of Dask ends with the block."""
    if dask is None:
        yield jobs
        return
    distributed = require("distributed", "dask")
    try:
        client = distributed.Client(dask, timeout="10s")
    except (OSError, ValueError) as error:
        raise InputError(f"--dask: no scheduler answers at {shown(dask)}: {error}") from None
    with closing(client):
        yield client.get_executor(pure=False)


def show_explored(report: JsonObject) -> None:
    """Print the report of `intset explore`."""
    say(
        f"{report['out']}: {report['configurations']:,} configurations, {report['added']:,} of them now in "
        f"{report['elapsed']:.1f} s; {report['failed']:,} failed"
    )
    if report["best"]:
        _show_rows(f"the best by {report['by']}", report["best"])
    if report["failures"]:
        _show_rows("failures", report["failures"])


def _show_rows(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    columns = list(rows[0])[:MAX_BEST]
    table(title, columns, [[_cell(row.get(name)) for name in columns] for row in rows], right=range(len(columns)))


def _cell(value: Any) -> object:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value.splitlines()[0] if isinstance(value, str) and value else value


# -- rows of a corpus ---------------------------------------------------------------------------------------------


def _problems(
    rows: Sequence[CorpusRow], domain: str | None, label: str
) -> Iterator[tuple[CorpusRow, Context, str, Any]]:
    """Each expression of each row, with its context and text."""
    for row in track(rows, len(rows), label):
        problem = Problem(row)
        ctx = problem.context(domain)
        yield from ((row, ctx, row.exprs[k], expr) for k, expr in enumerate(problem.exprs))


def row_bounds(rows: Sequence[CorpusRow], domain: str | None) -> JsonObject:
    """The bounds of each index expression, and the verdict on each condition."""
    entries = [
        {"row": row.number, "op": row.op, "kind": row.kind, "expr": text}
        | (_verdict(ctx, expr) if row.is_predicate else _ends(ctx, expr))
        for row, ctx, text, expr in _problems(rows, domain, "bounds")
    ]
    return {"rows": entries, "domain": domain or current().domain}


def _ends(ctx: Context, expr: Expr) -> JsonObject:
    ends = ctx.bounds(expr)
    low, high = map(_value, ends)
    return {"min": low, "max": high, "tight": ends.is_tight, "by": ends.by, "notes": list(ends.notes)}


def _verdict(ctx: Context, condition: Cond) -> JsonObject:
    with using(domain=ctx.domain or current().domain):
        direct, opposite = ctx.prove(condition), ctx.prove(~condition)
    holds = {"proved": "true", "refuted": "both" if opposite.status == "refuted" else "unknown"}
    value = "false" if opposite.status == "proved" and not direct else holds.get(direct.status, "unknown")
    fails_at, holds_at = (
        None if proof.counterexample is None else {str(e): value for e, value in proof.counterexample.items()}
        for proof in (direct, opposite)
    )
    return {"holds": value, "by": direct.by, "fails_at": fails_at, "holds_at": holds_at}


def row_divisions(rows: Sequence[CorpusRow], domain: str | None) -> JsonObject:
    """Each index expression with its divisions lowered, and the names of the rules used."""
    entries: list[JsonObject] = []
    for row, ctx, text, expr in _problems([row for row in rows if not row.is_predicate], domain, "lowering"):
        result = lower_division(expr, ctx)
        rules = list(dict.fromkeys(str(step.rule) for step in result.steps))
        entry = {"row": row.number, "op": row.op, "expr": text, "lowered": str(result.expr), "rules": rules}
        entries.append(entry | {"requires": [str(condition) for condition in result.requires]})
    return {"rows": entries}


def row_explanations(rows: Sequence[CorpusRow], domain: str | None) -> JsonObject:
    """An explanation of each bound and verdict."""
    return {
        "rows": [
            {"row": row.number, "op": row.op, "kind": row.kind, "expr": text, "text": str(ctx.explain(expr))}
            | (_verdict(ctx, expr) if isinstance(expr, Cond) else _ends(ctx, expr))
            for row, ctx, text, expr in _problems(rows, domain, "explaining")
        ]
    }


def default_domains() -> list[str]:
    """The domains of a comparison, plug-ins included."""
    return [name for name in domain_names() if name not in _BY_NAME_ONLY]


def row_comparison(rows: Sequence[CorpusRow], domains: Sequence[str], with_peers: bool = False) -> JsonObject:
    """The answers of several domains against the recorded truth, by the scorer that a checkout installs.

    `with_peers` asks the other installed analyzers, too.
    """
    for point in metadata.entry_points(group=SCORERS):
        try:
            scorer: Callable[..., JsonObject] = point.load()
        except ModuleNotFoundError as error:
            if error.name is None or not point.value.startswith(error.name):
                raise
        else:
            return {"rows": len(rows), **scorer(rows, domains or default_domains(), track, with_peers)}
    raise InputError(
        "compare holds a corpus against the truth by the benchmarks: install them, pip install -e . in a checkout"
    )


# -- files of `compare --report` ------------------------------------------------------------------------------------

Row = dict[str, Any]
COLUMNS: Final = {
    "file": "string",
    "question": "int64",  # the row of a corpus, the tensor of a schedule, from 0
    "source": "string",  # the operator, or the schedule
    "kind": "string",  # "index", "sized index", "region"
    "asked": "string",  # the expression, or the tensor
    "domain": "string",  # the domain, or the peer
    "is_peer": "bool",
    "low": "string",
    "high": "string",
    "true_low": "int64",
    "true_high": "int64",
    "elements": "int64",  # of a region, in one instance
    "allocated": "int64",
    "ratio": "double",  # the size of the answer's hull or region, divided by the true size; 1 is tight
    "is_tight": "bool",  # found by the comparison, not claimed; null where the truth is not known
    "is_claimed": "bool",
    "by": "string",
    "notes": "string",
    "refused": "string",
    "wrong": "string",
    "seconds": "double",
}


def write_report(reports: Sequence[JsonObject], folder: Path) -> tuple[Path, int]:
    """Write `tightness.parquet` and `tightness.html` from the reports of `compare`; the page and the number of rows.

    Raises
    ------
    InputError: pyarrow is not installed, or the folder cannot be written.
    """
    pa, parquet = require("pyarrow"), require("pyarrow.parquet")
    rows = [{**dict.fromkeys(COLUMNS), **row} for report in reports for row in rows_of(report)]
    schema = arrow_schema(COLUMNS.items())
    page = folder / "tightness.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "tightness.parquet").open("wb") as sink:
            parquet.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
        page.write_text(page_of(rows), encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise InputError(f"--report: {folder} cannot be written: {getattr(error, 'strerror', None) or error}") from None
    return page, len(rows)


def rows_of(report: JsonObject) -> Iterator[Row]:
    """The rows of one file's report."""
    if report["kind"] == "corpus":
        for is_peer, answerers in ((False, report["domains"]), (True, report.get("peers", []))):
            for answerer in answerers:
                told = {"file": report["file"], "domain": answerer["domain"], "is_peer": is_peer}
                yield from ({**told, **_index_row(score, is_peer)} for score in answerer["index"])
                for score in answerer["sized"]:
                    tight = score["attained"] == score["samples"] if score["samples"] else None
                    yield {**told, **_asked(score), "kind": "sized index", "is_tight": tight}
        return
    for schedule in report["schedules"]:
        for number, tensor in enumerate(schedule.get("tensors", ())):
            told = {"file": report["file"], "source": schedule["name"], "question": number}
            yield from ({**told, **row} for row in _region_rows(tensor))


def _asked(score: Mapping[str, Any]) -> Row:
    told = {name: score[name] for name in ("low", "high", "by", "seconds")}
    told |= {"question": score["row"], "source": score["op"], "asked": score["expr"], "is_claimed": score["tight"]}
    return told | {"wrong": "; ".join(score["violations"]) or None}


def _index_row(score: Mapping[str, Any], is_peer: bool) -> Row:
    low, high = score["truth"] or (None, None)
    row = _asked(score) | {"kind": "index", "true_low": _fitting(low), "true_high": _fitting(high)}
    row |= {"ratio": score["ratio"], "notes": "; ".join(score["notes"]) or None, "is_tight": score["ratio"] == 1}
    if is_peer and not score["by"]:
        row |= {"refused": row["notes"], "notes": None, "low": None, "high": None, "is_tight": None}
    if score["truth"] is None:  # an empty set
        row["is_tight"] = score["low"] == "POS_INF"
    return row | ({"is_claimed": None} if is_peer else {})


def _region_rows(tensor: Mapping[str, Any]) -> Iterator[Row]:
    """The regions of a tensor. An exact region of any domain gives the true size."""
    domains = tensor["domains"]
    exact = [_fitting(found["required_max"]) for found in domains.values() if found.get("is_exact")]
    true = next((count for count in exact if count is not None), None)
    for domain, found in domains.items():
        elements = _fitting(found.get("required_max"))
        ratio = None if elements is None or not true else elements / true
        yield {
            "kind": "region",
            "asked": tensor["tensor"],
            "domain": domain,
            "is_peer": False,
            "elements": elements,
            "allocated": _fitting(found.get("allocated")),
            "ratio": ratio,
            "is_tight": None if ratio is None else ratio == 1,
            "is_claimed": found.get("is_exact"),
        }


def _fitting(value: object) -> int | None:
    return value if isinstance(value, int) and -MAX_INT64 <= value < MAX_INT64 else None


# -- the page -----------------------------------------------------------------------------------------------------

_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Tightness of bounds</title>
<style>
body { font: 14px sans-serif; margin: 2em; color: #1b1f24 }
table { border-collapse: collapse; margin: 1em 0 }
th, td { padding: 2px 8px; border-bottom: 1px solid #d8dde2; text-align: left; vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums }
td.text { font-family: monospace; max-width: 40em; overflow-wrap: anywhere }
tr.wide td { background: #fcebdb }
tr.wrong td { background: #f6c9c9 }
</style>
<h1>Tightness of bounds</h1>
<p>A ratio is the size of an answer over that of the true set, 1 where it is tight. Shaded rows are not tight; red ones
are wrong. The same rows, with all columns, are in <a href="tightness.parquet">tightness.parquet</a>.</p>
$summary
<h2>Questions</h2>
$questions
</html>
""")


def page_of(rows: Sequence[Row]) -> str:
    """The page: a line for each domain and peer, then every row."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["kind"], row["domain"]), []).append(row)
    heads = ("kind", "domain or peer", "questions", "refused", "tight", "mean ratio", "wrong", "seconds")
    summary = _html_table(heads, (("", _summed(kind, domain, group)) for (kind, domain), group in groups.items()))
    shown = ("question", "source", "kind", "asked", "domain", "low", "high", "ratio", "by", "notes", "refused", "wrong")
    order = sorted(rows, key=lambda row: (row["file"], row["source"], row["question"], row["kind"]))
    questions = []
    for row in order:
        kind = "wrong" if row["wrong"] else "wide" if row["is_tight"] is False else ""
        size = {"high": row["elements"]} if row["kind"] == "region" else {}  # the ends of a region are its number
        questions.append((kind, [{**row, **size}[name] for name in shown]))
    return _PAGE.substitute(summary=summary, questions=_html_table(shown, questions))


def _summed(kind: str, domain: str, rows: Sequence[Row]) -> list[object]:
    answered = [row for row in rows if row["refused"] is None]
    known = [row["is_tight"] for row in answered if row["is_tight"] is not None]
    ratios = [row["ratio"] for row in answered if row["ratio"] is not None]
    return [
        kind,
        domain,
        len(rows),
        len(rows) - len(answered),
        percent(sum(known) / len(known) if known else None),
        f"{fmean(ratios):.3f}" if ratios else "-",
        sum(row["wrong"] is not None for row in rows),
        duration(sum(row["seconds"] or 0 for row in rows)),
    ]


def _html_table(heads: Sequence[str], rows: Iterable[tuple[str, Sequence[object]]]) -> str:
    head = "".join(f"<th>{escape(name)}" for name in heads)
    lines = [f'<tr class="{kind}">{"".join(map(_html_cell, cells))}' for kind, cells in rows]
    return "\n".join([f"<table>\n<tr>{head}", *lines, "</table>"])


def _html_cell(value: object) -> str:
    if isinstance(value, float):
        value = f"{value:.4g}"
    kind = "number" if not isinstance(value, str) or value[:1].isdecimal() else "text"
    return f'<td class="{kind}">{"" if value is None else escape(str(value))}'
