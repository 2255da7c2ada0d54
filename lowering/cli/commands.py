"""What each command does: read the files, ask, print tables or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from intset import InputError, IntSetError, domain_names, using
from intset.config import current
from intset.context import Context
from intset.expr.node import Cond, Expr
from intset.expr.text import shown
from intset.infinity import Infinity
from intset.names import check_name
from lowering.cli import lowered, stages, tables
from lowering.cli.corpus import Problem, Row, read_rows
from lowering.cli.outside import show_outside
from lowering.cli.script import Case, load_script

JSON_VERSION = 1
_BY_NAME_ONLY = ("points",)  # compared only when asked for by name: it enumerates

Sizes: TypeAlias = Mapping[str, int]
Report: TypeAlias = "dict[str, Any]"


def bounds(files: Sequence[str], domain: str | None, as_json: bool, at: Sequence[str], compact: bool = False) -> None:
    """`intset bounds`."""
    sizes, chosen = integers(at), _domain(domain)
    _over_files(
        files,
        as_json,
        lambda path: _schedule_reports(path, sizes, lambda case, given: stages.bounds_of(case, given, chosen, compact)),
        lambda path: {"rows": _row_bounds(read_rows(path), chosen), "domain": chosen or _configured()},
        _show_bounds,
    )


def compare(files: Sequence[str], domain: str | None, as_json: bool, at: Sequence[str]) -> int:
    """`intset compare`; the exit status is 1 when an answer was wrong."""
    sizes, chosen = integers(at), _domains(domain)
    reports = _over_files(
        files,
        as_json,
        lambda path: _schedule_reports(
            path, sizes, lambda case, given: stages.compare_domains(case, given, chosen or SCHEDULE_DOMAINS)
        ),
        lambda path: _compare_corpus(path, chosen),
        _show_comparison,
    )
    return 1 if any(report.get("violations") for report in reports) else 0


def lower(
    files: Sequence[str],
    domain: str | None,
    as_json: bool,
    at: Sequence[str],
    options: lowered.Lowering,
) -> None:
    """`intset lower`."""
    sizes, chosen = integers(at), _domain(domain)
    _over_files(
        files,
        as_json,
        lambda path: _schedule_reports(
            path,
            sizes,
            lambda case, given: lowered.lowered_schedule(case, given, chosen, options),
        ),
        lambda path: {"rows": lowered.lowered_rows(read_rows(path), chosen)},
        _show_lowered,
    )


def explain(files: Sequence[str], domain: str | None, as_json: bool, at: Sequence[str]) -> None:
    """`intset explain`."""
    sizes, chosen = integers(at), _domain(domain)
    _over_files(
        files,
        as_json,
        lambda path: _schedule_reports(
            path, sizes, lambda case, given: lowered.explained_schedule(case, given, chosen)
        ),
        lambda path: {"rows": lowered.explained_rows(read_rows(path), chosen)},
        _show_explained,
    )


# -- arguments ----------------------------------------------------------------------------------------------------

SCHEDULE_DOMAINS = ("interval", "isl", "auto")


def _domain(name: str | None) -> str | None:
    return None if name is None else check_name(name, "--domain")


def _domains(names: str | None) -> tuple[str, ...]:
    """The domains named, with commas between; empty when none was."""
    return tuple(check_name(name.strip(), "--domain") for name in names.split(",")) if names else ()


def _configured() -> str:
    return current().domain


def integers(texts: Sequence[str], option: str = "--at") -> Sizes:
    """The values in texts such as `n=1024`."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals or not value.strip().removeprefix("-").isdecimal():
            raise InputError(f"{option} takes NAME=VALUE with an integer, not {shown(text)}")
        values[name.strip()] = int(value)
    return values


def _over_files(
    files: Sequence[str],
    as_json: bool,
    script: Callable[[Path], Report],
    corpus: Callable[[Path], Report],
    show: Callable[[Report], None],
) -> list[Report]:
    """Report on each file; with JSON all reports are printed together at the end, so that an error prints none."""
    paths = [existing(name) for name in files]
    reports = []
    for path in paths:
        is_corpus = path.suffix == ".json"
        report = {
            "file": str(path),
            "kind": "corpus" if is_corpus else "script",
            **(corpus if is_corpus else script)(path),
        }
        reports.append(report)
        if not as_json:
            show(report)
    if as_json:
        print(json.dumps({"version": JSON_VERSION, "files": reports}, indent=1))
    return reports


def existing(name: str) -> Path:
    """The path of a script or a corpus that can be read."""
    path = Path(name)
    if not path.exists():
        raise InputError(f"{name}: no such file")
    if not path.is_file():
        raise InputError(f"{name}: not a file")
    if path.suffix not in (".py", ".json"):
        raise InputError(f"{name}: a Python script (.py) or a corpus (.json) is expected")
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from None
    return path


# -- reports ------------------------------------------------------------------------------------------------------


def _schedule_reports(path: Path, sizes: Sizes, ask: Callable[[Case, Sizes], Report]) -> Report:
    """What `ask` says of each schedule of a script; where one of several is refused, it says why instead."""
    cases = load_script(path)
    found: list[Report] = []
    for case in tables.track(cases, len(cases), path.name):
        if case.schedule is None:
            found.append({"name": case.name, "refused": case.refused})
            continue
        try:
            found.append(ask(case, {**case.sizes, **sizes}))
        except IntSetError as error:
            found.append({"name": case.name, "refused": str(error).splitlines()[0]})
    if all("refused" in entry for entry in found):
        first = found[0]
        reason = (
            first["refused"]
            if first["refused"].startswith(str(path))
            else f"{path}: {first['name']}: {first['refused']}"
        )
        raise InputError(reason)
    return {"schedules": found}


def _row_bounds(rows: Sequence[Row], domain: str | None) -> list[Report]:
    found: list[Report] = []
    for row in tables.track(rows, len(rows), "bounds"):
        problem = Problem(row)
        ctx = problem.context(domain)
        for k, expr in enumerate(problem.exprs):
            entry: Report = {"row": row.number, "op": row.op, "kind": row.kind, "expr": row.exprs[k]}
            found.append(entry)
            if row.is_predicate:
                entry |= _verdict(ctx, expr)
                continue
            ends = ctx.bounds(expr)
            entry |= {"min": _end(ends[0]), "max": _end(ends[1]), "tight": ends.is_tight}
            entry |= {"by": ends.by, "notes": list(ends.notes)}
    return found


def _verdict(ctx: Context, condition: Cond) -> Report:
    with using(domain=ctx.domain or _configured()):
        direct, opposite = ctx.prove(condition), ctx.prove(~condition)
    holds = {"proved": "true", "refuted": "both" if opposite.status == "refuted" else "unknown"}
    value = "false" if opposite.status == "proved" and not direct else holds.get(direct.status, "unknown")
    counterexamples = [
        None if proof.counterexample is None else {str(e): value for e, value in proof.counterexample.items()}
        for proof in (direct, opposite)
    ]
    return {"holds": value, "by": direct.by, "fails_at": counterexamples[0], "holds_at": counterexamples[1]}


def _end(end: Expr | Infinity) -> int | str:
    return int(end) if getattr(end, "is_const", False) else str(end)


def _compare_corpus(path: Path, chosen: Sequence[str]) -> Report:
    rows = read_rows(path)
    names = chosen or [name for name in domain_names() if name not in _BY_NAME_ONLY]
    return {"rows": len(rows), **_scoring().compare_rows(rows, names, tables.track).as_json()}


def _scoring() -> Any:
    """The module that holds answers against the truth; it is no part of the installed package."""
    try:
        return import_module("benchmarks.scoring")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("benchmarks"):
            raise
        raise InputError(
            "compare holds a corpus against the truth by the folder benchmarks/: run it in a checkout of the project"
        ) from None


# -- tables -------------------------------------------------------------------------------------------------------


def _show_bounds(report: Report) -> None:
    if report["kind"] == "corpus":
        _show_row_bounds(report)
        return
    for schedule in report["schedules"]:
        if not _show_head(report, schedule):
            continue
        stages = schedule["stages"]
        tables.table(
            "tensors: what one instance requires and computes, and what is allocated; sides are [min; extent]",
            ("tensor", "made", "required", "elements", "computed", "allocated", "elements"),
            [row for stage in stages for row in _tensor_rows(stage)],
            right=(3, 6),
        )
        tables.table(
            "loops: leaf axes, outermost first",
            ("stage", "axis", "min", "extent"),
            [
                (stage["stage"], axis["name"], axis["min"], axis["extent"])
                for stage in stages
                for axis in stage["axes"]
                if axis["leaf"]
            ],
        )
        show_outside(schedule["outside"])


def _tensor_rows(stage: Report) -> list[tuple[object, ...]]:
    where = f"at {stage['attach'][0]}" if stage["attach"] else stage["kind"]
    if stage["slid"]:
        where += f", kept over {', '.join(reversed(stage['slid']))}"
    rows = []
    for entry in stage["tensors"]:
        cells: list[object] = [entry["tensor"], where]
        required, computed = entry["required"], entry["computed"]
        cells += ["not read", ""] if required is None else [_box(required["box"]), _count(required)]
        cells.append("" if computed is None else "as required" if computed == required else _box(computed["box"]))
        allocated = entry["allocated"]
        cells += ["", ""] if allocated is None else [_box(allocated), entry["allocated_elements"]]
        rows.append(tuple(cells))
    return rows


def _count(region: Report) -> object:
    return region["count"] if region["count_max"] is None else region["count_max"]


def _box(sides: Sequence[Report]) -> str:
    return " x ".join(f"[{side['min']}; {side['extent']}]" for side in sides) or "scalar"


def _show_head(report: Report, schedule: Report) -> bool:
    """Name the schedule; whether there is anything to show of it."""
    at = ", ".join(f"{name}={value}" for name, value in schedule.get("at", {}).items())
    tables.say(f"{report['file']}: {schedule['name']}{f' at {at}' if at else ''}")
    if "refused" in schedule:
        tables.say(f"refused: {schedule['refused']}\n")
        return False
    return True


def _show_row_bounds(report: Report) -> None:
    rows = []
    for entry in report["rows"]:
        if "holds" in entry:
            answer, flag = f"true: {entry['holds']}", ""
        else:
            answer, flag = f"[{entry['min']}, {entry['max']}]", "tight" if entry["tight"] else "superset"
        rows.append((entry["row"], entry["op"], entry["kind"], answer, flag, entry["by"], entry["expr"]))
    columns = ("row", "operator", "kind", "bounds", "", "by", "expression")
    tables.table(f"{report['file']}: bounds by {report['domain']}", columns, rows, right=(0,))


def _show_comparison(report: Report) -> None:
    if report["kind"] == "corpus":
        _show_corpus_comparison(report)
        return
    for schedule in report["schedules"]:
        if not _show_head(report, schedule):
            continue
        rows = [
            (row["tensor"], domain, found["allocated"], found["required_max"], found["required_total"])
            for row in schedule["tensors"]
            for domain, found in row["domains"].items()
        ]
        columns = ("tensor", "domain", "allocated", "required in one instance", "required in all")
        tables.table("elements by domain", columns, rows, right=(2, 3, 4))


def _show_corpus_comparison(report: Report) -> None:
    tables.table(
        f"{report['file']}: {report['rows']} rows",
        (
            "domain",
            "exact",
            "mean ratio",
            "unbounded",
            "sets exact",
            "sizes finite",
            "sizes tight",
            "wrong",
            "median",
            "total",
        ),
        [
            (
                row["domain"],
                tables.percent(row["exact"]),
                "-" if row["mean_ratio"] is None else f"{row['mean_ratio']:.3f}",
                row["unbounded"],
                tables.percent(row["sets_exact"]),
                tables.percent(row["sized_finite"]),
                tables.percent(row["sized_tight"]),
                row["violations"],
                tables.duration(row["median_seconds"]),
                tables.duration(row["total_seconds"]),
            )
            for row in report["domains"]
        ],
        right=tuple(range(1, 10)),
    )
    tables.table(
        "conditions, by the prover; every counterexample was evaluated",
        ("conditions", "number", "decided", "wrong", "median", "total"),
        [
            (
                label,
                row["conditions"],
                tables.percent(row["decided"]),
                row["violations"],
                tables.duration(row["median_seconds"]),
                tables.duration(row["total_seconds"]),
            )
            for label, row in (("of the corpus", report["predicates"]), ("from bounds", report["bound_predicates"]))
        ],
        right=(1, 2, 3, 4, 5),
    )
    for text in report["violations"]:
        tables.say(f"WRONG: {text}")


def _show_lowered(report: Report) -> None:
    if report["kind"] == "corpus":
        rows = [(e["row"], e["op"], e["lowered"], ", ".join(e["rules"]), e["expr"]) for e in report["rows"]]
        columns = ("row", "operator", "lowered", "rules", "expression")
        tables.table(f"{report['file']}: divisions lowered", columns, rows, right=(0,))
        return
    for schedule in report["schedules"]:
        if "refused" in schedule:
            _show_head(report, schedule)
        else:
            tables.say(schedule["text"].rstrip("\n") + "\n")


def _show_explained(report: Report) -> None:
    if report["kind"] == "corpus":
        for entry in report["rows"]:
            tables.say(f"row {entry['row']} ({entry['op']}): {entry['expr']}")
            tables.say(f"{entry['text']}\n")
        return
    for schedule in report["schedules"]:
        if _show_head(report, schedule):
            for entry in schedule["tensors"]:
                tables.say(f"{entry['text']}\n")
            for entry in schedule["divisions"]:
                tables.say(f"in the loop nest, {entry['text']}\n")
            show_outside(schedule["outside"])
