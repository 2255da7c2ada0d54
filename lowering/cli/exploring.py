"""`intset space` and `intset explore`: a script's space, and the measurements of its configurations."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from intset import InputError
from intset.expr.printer import shown
from lowering.cli.inputs import executed, script_text
from lowering.cli.reports import JsonObject, say, table
from lowering.explore import explore
from lowering.explore.dataset import Totals, require
from lowering.explore.measures import source_of

MAX_BEST = 20  # columns of a table on a terminal beyond which values are left out


@dataclass(frozen=True)
class ScriptFunction:
    """A function of a script. It travels to workers as the script's text, which each of them executes once."""

    path: str
    text: str
    name: str

    def source_text(self) -> str:
        """The text of the function alone, so that results stay when the space of the script changes."""
        return source_of(_namespace(self.path, self.text)[self.name])

    def __call__(self, given: Any) -> Any:
        with contextlib.redirect_stdout(sys.stderr):  # stdout is the report's
            return _namespace(self.path, self.text)[self.name](given)


@lru_cache(maxsize=4)
def _namespace(path: str, text: str) -> Mapping[str, Any]:
    return executed(Path(path), text)


def load_space(path: Path) -> tuple[Any, ScriptFunction | None, ScriptFunction | None]:
    """A script's `space`, with its optional `make` and `measure`.

    Raises
    ------
    InputError: the script cannot be read or fails, has no space, or something else by one of these names.
    """
    text = script_text(path)
    namespace = _namespace(str(path), text)
    if "space" not in namespace:
        raise InputError(f"{path}: a space is expected: define space = Space(...), and make and measure to explore it")
    functions: list[ScriptFunction | None] = []
    for name in ("make", "measure"):
        value = namespace.get(name)
        if value is not None and not callable(value):
            raise InputError(f"{path}: {name} must be a function, not {shown(value)}")
        functions.append(None if value is None else ScriptFunction(str(path), text, name))
    make, measure = functions
    return namespace["space"], make, measure


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
    rows = [(name, len(values), _shortened(values)) for name, values in report["names"].items()]
    table("names, with the values that are left", ("name", "values", ""), rows, right=(1,))
    for title, key in (("a sample", "sample"), (f"the least by {report.get('by')}", "best")):
        if report.get(key):
            _show_rows(title, report[key])


def _shortened(values: Sequence[object]) -> str:
    texts = [str(value) for value in values]
    return ", ".join(texts) if len(texts) <= 12 else ", ".join([*texts[:6], "...", *texts[-2:]])


def explored(
    path: Path,
    out: str,
    jobs: int | None,
    dask: str | None,
    best: int,
    by: str | None,
    largest: bool,
    strict: bool,
    fresh: bool,
) -> tuple[JsonObject, bool]:
    """Explore the space of a script; the report, and whether the run succeeded: `strict` forbids failures.

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
        found = explore(make, space, measure, executor, out=out, fresh=fresh, by=by)
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


@contextlib.contextmanager
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
    with contextlib.closing(client):
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
