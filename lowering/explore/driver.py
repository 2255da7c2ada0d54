"""`explore`: the configurations of a space, measured and written as they finish."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Executor
from contextlib import closing, contextmanager
from itertools import chain
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias, TypeVar

from intset.errors import InputError
from intset.expr import arguments, shown
from intset.expr.node import as_int
from intset.installation import library_version
from intset.spaces.space import Space, SpaceValue
from lowering.errors import ExplorationError
from lowering.explore import dataset, engines
from lowering.explore.measures import key_of, settings

Made = TypeVar("Made")
Advance: TypeAlias = Callable[[Sequence[engines.Measurement]], None]  # notes finished configurations


def explore(
    make: Callable[[dict[str, SpaceValue]], Made],
    space: Iterable[Mapping[str, SpaceValue]],
    measure: Callable[[Made], Mapping[str, float]] | None = None,
    executor: Executor | int | None = None,
    *,
    out: str | PathLike[str],
    progress: bool = True,
    fresh: bool = False,
    strict: bool = False,
    by: str | None = None,
    workers: int | None = None,
    batch: float | None = None,
) -> dataset.Exploration:
    """Measure `make(configuration)` at every configuration of a space, into a dataset of Parquet files.

    Guarantee: a finished configuration is never measured again and has exactly one row, whatever was killed. A worker
    that is killed repeats at most its batch, a driver at most one batch of each worker.

    Parameters
    ----------
    make: maps a configuration, a dict by name, to a schedule, a nest, or whatever `measure` takes.
    space: a `Space`, or a list of dicts with equal names: integers, booleans and strings.
    measure: maps that to a dict of numbers; `None`: `make` gives it. `Footprints() + Timing()` and others are built in.
    executor: `None` for this process, a number of processes, or a `concurrent.futures.Executor`, such as Dask's
        `client.get_executor()`.
    out: the folder of the results; finished configurations are kept, the others are measured.
    progress: whether a terminal shows the rate, the time left and the best value so far.
    fresh: delete the results that are there.
    strict: raise an error at the end if a configuration failed.
    by: the value that `progress` shows the least of; default: the first one. An unknown name is refused as soon as one
        configuration is measured.
    workers: batches in flight on an executor that does not tell its number of workers.
    batch: seconds of work in a batch; default: 1, and a hundredth of the time elapsed in a long run, at most 60.

    Returns
    -------
    The results of this space, without other rows of the folder. A configuration at which `make` or `measure` raised has
    a row with the error's text.

    Raises
    ------
    InputError: an argument cannot be used, or `out` has results of other functions, another configuration or version.
    ExplorationError: no worker can run a batch, or `strict` and a configuration failed.
    KeyboardInterrupt: after what was done is written.
    """
    _check(make, measure, out, workers, batch)
    if by is not None and not isinstance(by, str):
        raise InputError(f"by must name a value, not {shown(by)}")
    engine = engines.checked_executor(executor)
    dataset.require("pyarrow")
    configs, first, total = _listed(space)
    names = dataset.checked_names(first)
    task = engines.Task(make, measure, tuple(names), settings())
    begin = monotonic()
    folder = Path(out)
    is_strict = arguments.a_flag(strict, "strict")
    with closing(
        dataset.ResultFolder(folder, names, key_of(make, measure), arguments.a_flag(fresh, "fresh"))
    ) as results:
        done = results.done()
        pace = engines.Pace(max(total - len(done), 0), batch)
        found_rows = dataset.named_rows(configs, names)
        if not isinstance(space, Space):
            found_rows = iter(dict.fromkeys(found_rows))  # a list may name a configuration twice
        outside = set(done)  # rows of the folder outside this space

        def waiting() -> Iterator[engines.Row]:
            for row in found_rows:
                outside.discard(row)
                if row not in done:
                    yield row

        feed = engines.Feed(waiting())
        running: Iterator[engines.Finished]
        if engine is None:
            running = engines.in_this_process(task, feed, pace)
        elif isinstance(engine, int):
            running = engines.in_pool(task, feed, pace, engine)
        else:
            running = engines.in_executor(task, feed, pace, engine, workers)
        with _progress(arguments.a_flag(progress, "progress"), total, min(len(done), total), by) as advance:
            added = _written(running, results, advance, by)
    found = dataset.Exploration(folder, added, monotonic() - begin, outside)
    if is_strict and found.summary.failed:
        (failure,) = found.failures(1)
        raise ExplorationError(f"{found.summary.failed:,} configurations failed, the first by {failure['error']}")
    return found


def _written(running: Any, results: dataset.ResultFolder, advance: Advance, by: str | None) -> int:
    """Write every batch that an engine yields; the number of rows. An interrupt waits for the file that is begun.

    Raises
    ------
    InputError: the results have values, but no column named `by`.
    """
    version, added = library_version(), 0
    if results.values:
        dataset.check_column(by, results.values, results.names)
    try:
        batch = next(running, None)
        while batch is not None:
            rows, outcomes = batch
            number = results.number
            try:
                results.append(rows, outcomes, version)
                advance(outcomes)
                if results.values:
                    dataset.check_column(by, results.values, results.names)
            except KeyboardInterrupt as interrupt:
                if results.number == number:
                    results.append(rows, outcomes, version)
                batch = running.throw(interrupt)
            else:
                batch = next(running, None)
            finally:
                added += len(rows)
    finally:
        running.close()
    return added


def _check(make: Any, measure: Any, out: Any, workers: Any, batch: Any) -> None:
    if not callable(make):
        raise InputError(f"make must be a function of a configuration, not {shown(make)}")
    if measure is not None and not callable(measure):
        raise InputError(f"measure must be a function of what make gives, not {shown(measure)}")
    if not isinstance(out, (str, PathLike)) or not str(out):
        raise InputError(f"out must name a folder, not {shown(out)}")
    if workers is not None and as_int(workers, "workers") < 1:
        raise InputError(f"workers must be at least 1: {shown(workers)}")
    if batch is not None and (isinstance(batch, bool) or not isinstance(batch, (int, float)) or not 0 < batch < 1e9):
        raise InputError(f"batch must be a positive number of seconds, not {shown(batch)}")


def _listed(space: Any) -> tuple[Iterable[Any], Mapping[Any, Any], int]:
    """The configurations, the first one, and their number.

    Raises
    ------
    InputError: `space` is no collection of dicts, or empty.
    """
    count = getattr(space, "count", None)
    is_collection = isinstance(space, Iterable) and isinstance(space, Sized)
    if not is_collection or isinstance(space, (str, bytes, Mapping)) or getattr(space, "ndim", 1) != 1:
        raise InputError(f"space must be a Space or a list of dicts, not {shown(space)}")
    total = count() if callable(count) and not isinstance(space, (list, tuple)) else len(space)
    if not isinstance(total, int) or total < 1:
        raise InputError("the space is empty: there is nothing to explore")
    configs = iter(space)
    first = next(configs)
    if not isinstance(first, Mapping):
        raise InputError(f"a configuration must be a dict, not {shown(first)}")
    return chain([first], configs), first, total


@contextmanager
def _progress(wanted: bool, total: int, done: int, by: str | None) -> Iterator[Advance]:
    """A line on a terminal: the share done, rows a second, the time left, the best value so far."""
    if not (wanted and sys.stderr.isatty()):
        yield lambda outcomes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate, best = TextColumn("{task.fields[rate]}"), TextColumn("{task.fields[best]}")
    columns = (BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn(), best)
    least: Any = None
    failed = 0

    def advance(outcomes: Sequence[engines.Measurement]) -> None:
        nonlocal by, least, failed
        for outcome in outcomes:
            failed += outcome.error is not None
            name = next(iter(outcome.values), None) if by is None else by
            value = None if name is None else outcome.values.get(name)
            if isinstance(value, (int, float)) and value == value and (least is None or value < least):
                by, least = name, value
        speed = bar.tasks[0].speed
        told = ("" if least is None else f"{by} {least:.6g}") + (f"  {failed} failed" if failed else "")
        bar.update(task, advance=len(outcomes), rate="" if speed is None else f"{speed:.4g}/s", best=told, refresh=True)

    with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as bar:
        task = bar.add_task("", total=total, completed=done, rate="", best="")
        yield advance
