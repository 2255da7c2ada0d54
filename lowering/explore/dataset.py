"""`explore`: the configurations of a space, measured and written as they finish; the folder of their results.

The folder is a dataset of Parquet files, one a batch. Columns are the configuration, the values, `error`, `seconds` and
`version`. The metadata of each file contains the key of the exploration and a digest of the whole file, so damaged
files are refused.

Guarantee: a file appears whole or not at all, and one process at a time writes. Killed processes
never duplicate the row of a configuration. A value that needs a wider type than before, or that appears late, has the
earlier files rewritten one by one; the next run completes that if it was cut short.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Executor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import chain
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from intset.errors import InputError
from intset.expr import arguments, shown
from intset.expr.node import as_int
from intset.expr.printer import Displayed
from intset.installation import install_advice, library_version
from intset.spaces.space import Space, SpaceValue
from lowering.errors import ExplorationError
from lowering.explore import engines
from lowering.explore.engines import RESERVED, Measurement, Row, is_text
from lowering.explore.measures import key_of, settings

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


_META: Final = b"inferbound.explore"  # the entry of a file's metadata
_FORMAT: Final = 2
MAX_INT64: Final = 2**63
_PART: Final = re.compile(r"part-\d{8}\.parquet")
Types = dict[str, str]  # "int64", "double", "bool" or "string" by the name of a column


def require(module: str, extra: str = "sweep") -> Any:
    """A module of an optional dependency.

    Raises
    ------
    InputError: it is not installed; the message says how to install it.
    """
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise InputError(f"this needs {name}: {install_advice(extra)}") from None


def type_of(value: Any) -> str:
    """The type of the column in which a value fits; `None` fits in any."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if -MAX_INT64 <= value < MAX_INT64 else "double"
    return "string" if isinstance(value, str) else "double"


def joined(one: str, other: str) -> str:
    """The narrower type that both convert to; an integer beyond 64 bits is a float."""
    if one == other:
        return one
    return "int64" if {one, other} == {"bool", "int64"} else "double"


def parts(folder: Path) -> list[Path]:
    """The files of rows, in the order of their numbers; copies of them under other names are none.

    Raises
    ------
    InputError: the folder is there and cannot be read.
    """
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if _PART.fullmatch(name)]
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a name with a zero byte
        return []
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror}") from None


def described(folder: Path) -> dict[str, Any] | None:
    """The key of a folder, and the types of its names and values; `None` if no exploration is there.

    Raises
    ------
    InputError: a file is no part of an exploration.
    """
    found: dict[str, Any] | None = None
    for file in parts(folder):
        meta = _meta(file)
        if found is None:
            found = meta
        for name, kind in meta["values"].items():
            found["values"][name] = joined(found["values"].get(name, kind), kind)
    return found


def _meta(file: Path) -> dict[str, Any]:
    try:
        text = (require("pyarrow.parquet").read_schema(file).metadata or {}).get(_META)
    except Exception as error:  # what a damaged file raises is pyarrow's choice
        raise _unreadable(file, error) from None
    try:
        meta = None if text is None else json.loads(text)
    except ValueError:
        meta = None
    tables = [meta.get(part) for part in ("key", "names", "values")] if isinstance(meta, dict) else [None]
    are_texts = all(isinstance(part, dict) and all(isinstance(v, str) for v in part.values()) for part in tables)
    if not isinstance(meta, dict) or meta.get("format") != _FORMAT or not are_texts:
        raise InputError(f"{file} is no file of an exploration (of format {_FORMAT}): name another folder")
    return meta


class DamagedResultsError(InputError):
    """A file of results that pyarrow cannot read."""


def _unreadable(file: Path, error: Exception) -> InputError:
    if isinstance(error, OSError) and error.errno:  # the system refused to read the file
        return InputError(f"{file} cannot be read: {os.strerror(error.errno)}")
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DamagedResultsError(f"{file} cannot be read: {first}; delete it, and its rows are measured again")


def schema_of(names: Mapping[str, str], values: Mapping[str, str]) -> Any:
    """The columns of every file: configuration, values, then the error, the seconds and the version."""
    told = {"error": "string", "seconds": "double", "version": "string"}
    return arrow_schema([*names.items(), *values.items(), *told.items()])


def arrow_schema(columns: Iterable[tuple[str, str]]) -> Any:
    """The schema of columns, each a name and a type."""
    pa = require("pyarrow")
    types = {"int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_(), "string": pa.string()}
    return pa.schema([pa.field(name, types[kind]) for name, kind in columns])


def _read(file: Path, columns: Sequence[str] | None = None) -> Any:
    try:
        data = file.read_bytes()
        if data != _signed(data):
            raise ValueError("its digest is another")
        source = require("pyarrow").BufferReader(data)
        return require("pyarrow.parquet").ParquetFile(source).read(columns=columns).replace_schema_metadata()
    except Exception as error:  # what a damaged file raises is pyarrow's choice
        raise _unreadable(file, error) from None


_DIGEST: Final = b'"digest": "'
_UNSIGNED: Final = b"0" * 32  # placeholder for the digest during hashing


def _signed(data: bytes) -> bytes:
    """A file with the digest of its other bytes in the digest field of its footer."""
    head, field, tail = data.rpartition(_DIGEST)
    before, after = head + field, tail[len(_UNSIGNED) :]
    digest = hashlib.blake2b(before + _UNSIGNED + after, digest_size=len(_UNSIGNED) // 2).hexdigest()
    return before + digest.encode() + after


def _conformed(table: Any, schema: Any) -> Any:
    """A table with the columns of a schema; what a column lacks is null."""
    if table.schema.equals(schema):
        return table
    pa = require("pyarrow")
    columns = [
        table.column(field.name).cast(field.type, safe=False)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


class ResultFolder:
    """A folder opened for writing by one driver, which holds its lock up to `close`.

    Parameters
    ----------
    names: the type of each name of a configuration, in order.
    key: what the results belong to, as texts by what they describe.
    fresh: whether results that are there are deleted first.

    Attributes
    ----------
    values: the type of each value.
    number: that of the next file.

    Raises
    ------
    InputError: results of another key are there, another process writes, or the folder cannot be made.
    """

    def __init__(self, folder: Path, names: Types, key: Mapping[str, str], fresh: bool) -> None:
        self.folder, self.names, self._key = folder, names, dict(key)
        self._pa, self._pq = require("pyarrow"), require("pyarrow.parquet")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock: Any = _locked(folder)
        except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
            raise InputError(f"{folder} cannot be used: {getattr(error, 'strerror', None) or error}") from None
        try:
            self.values = self._opened(fresh)
            existing = parts(folder)
            self.number = 1 + max((int(file.stem.removeprefix("part-")) for file in existing), default=-1)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._lock is not None:
            _HELD.discard(self._lock)
            os.close(self._lock)
            self._lock = None

    def _opened(self, fresh: bool) -> Types:
        """The types of the values that are there; temporary files and, if `fresh`, all results are deleted."""
        for file in self.folder.glob(".part-*.tmp"):
            file.unlink(missing_ok=True)
        if fresh:
            self._delete()
        found = described(self.folder)
        if found is None:
            return {}
        stored = {**found["key"], "names": _typed(found["names"])}
        asked = {**self._key, "names": _typed(self.names)}
        if different := [what for what in asked if stored.get(what) != asked[what]]:
            raise InputError(
                f"{self.folder} has results of another {' and '.join(different)}: name another folder, or delete them "
                "by fresh=True"
            )
        values: Types = found["values"]
        self._conform(values)
        return values

    def _delete(self) -> None:
        """Delete the results, damaged ones included; any file other than a result is refused before the first
        deletion."""
        files = parts(self.folder)
        for file in files:
            with suppress(DamagedResultsError):
                _meta(file)
        for file in files:
            try:
                file.unlink()
            except OSError as error:
                raise InputError(f"{file} cannot be deleted: {error.strerror or error}") from None

    def done(self) -> set[Row]:
        """The configurations that have a row."""
        rows: set[Row] = set()
        for file in parts(self.folder):
            table = _read(file, list(self.names))
            rows.update(zip(*(table.column(name).to_pylist() for name in self.names), strict=True))
        return rows

    def append(self, rows: Sequence[Row], outcomes: Sequence[Measurement], version: str) -> None:
        """Write one batch as one file."""
        if not rows:
            return
        self._widen(outcomes)
        lists: list[Iterable[Any]] = [list(column) for column in zip(*rows, strict=True)]
        for name, kind in self.values.items():
            column = [outcome.values.get(name) for outcome in outcomes]
            lists.append(column if kind != "double" else [None if v is None else _float(v) for v in column])
        lists += [[o.error for o in outcomes], [o.seconds for o in outcomes], [version] * len(rows)]
        schema = schema_of(self.names, self.values)
        arrays = [self._pa.array(values, field.type) for values, field in zip(lists, schema, strict=True)]
        self._write(self._pa.table(arrays, schema=schema), self.folder / f"part-{self.number:08d}.parquet", self.values)
        self.number += 1

    def _widen(self, outcomes: Sequence[Measurement]) -> None:
        """Give values new columns or wider types where these outcomes need them, also in files that are there."""
        values = dict(self.values)
        for outcome in outcomes:
            for name, value in outcome.values.items():
                if value is not None:
                    kind = type_of(value)
                    values[name] = joined(values[name], kind) if name in values else kind
        if values != self.values:
            self._conform(values)
            self.values = values

    def _conform(self, values: Types) -> None:
        """Rewrite the files with other columns than these values."""
        schema = schema_of(self.names, values)
        for file in parts(self.folder):
            if not self._pq.read_schema(file).equals(schema):
                self._write(_conformed(_read(file), schema), file, values)

    def _write(self, table: Any, file: Path, values: Types) -> None:
        meta = {"format": _FORMAT, "key": self._key, "names": self.names, "values": values}
        meta["digest"] = _UNSIGNED.decode()
        table = table.replace_schema_metadata({_META: json.dumps(meta)})
        whole = io.BytesIO()
        self._pq.write_table(table, whole)
        target = file.with_name(f".{file.name}.tmp")
        try:
            with target.open("wb") as sink:
                sink.write(_signed(whole.getvalue()))
                sink.flush()
                os.fsync(sink.fileno())
            target.replace(file)
        except OSError as error:
            with suppress(OSError):
                target.unlink()
            raise InputError(f"{file} cannot be written: {error.strerror or error}; run again to go on") from None


def _typed(names: Types) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in names.items())


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _locked(folder: Path) -> int | None:
    """The folder, opened and held by this process alone until it closes it or ends."""
    try:
        import fcntl
    except ImportError:  # no locks of folders here: that one driver writes is left to the caller
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise InputError(f"{folder}: another process explores into this folder") from None
    _HELD.add(descriptor)
    return descriptor


_HELD: set[int] = set()  # folders that this process holds


def _release_in_child() -> None:
    """Close the folders in a forked process, which may live longer than this one and does not write."""
    while _HELD:
        os.close(_HELD.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)


def named_rows(space: Iterable[Any], names: Types) -> Iterator[Row]:
    """The configurations of a space as rows.

    Raises
    ------
    InputError: a configuration is not a mapping, or its names or types differ from the first configuration's.
    """
    kinds = tuple({"int64": int, "bool": bool, "string": str}[kind] for kind in names.values())
    for config in space:
        if not isinstance(config, Mapping) or len(config) != len(names):
            raise InputError(f"a configuration must map {', '.join(names)}, not {shown(config)}")
        try:
            row = tuple([plain_value(config[name]) for name in names])
        except KeyError as error:
            raise InputError(f"a configuration lacks the name {shown(error.args[0])}: {shown(config)}") from None
        if tuple(map(type, row)) != kinds:
            raise InputError(f"a configuration has other types than the first one, {_typed(names)}: {shown(config)}")
        yield row


def plain_value(value: Any) -> Any:
    """A value of a configuration as a Python integer, boolean or string."""
    plain = value
    if type(value) not in (int, bool, str) and hasattr(value, "item"):
        plain = value.item()
    if type(plain) is int:
        if -MAX_INT64 <= plain < MAX_INT64:
            return plain
        raise InputError(f"a value of a configuration does not fit into 64 bits: {shown(plain)}")
    if type(plain) is bool or is_text(plain):
        return plain
    if isinstance(plain, str):
        raise InputError(f"a value of a configuration is no text of UTF-8: {shown(plain)}")
    raise InputError(f"a configuration has integers, booleans and strings, not {shown(value)}")


def checked_names(first: Mapping[Any, Any]) -> Types:
    """The names of a configuration with the types of their columns."""
    names: Types = {}
    for name, value in first.items():
        if not is_text(name) or not name or name in RESERVED:
            raise InputError(f"a configuration's name must be a text other than {', '.join(RESERVED)}: {shown(name)}")
        names[name] = type_of(plain_value(value))
    if not names:
        raise InputError("a configuration must have a name")
    return names


Stored: TypeAlias = "SpaceValue | float | None"


@dataclass(frozen=True)
class Totals:
    """How many configurations a run found, measured and failed at.

    Attributes
    ----------
    rows: configurations with a row, of this run and of earlier ones.
    added: those of this run.
    failed: rows with an error.
    seconds: of work at all rows; `elapsed`: of this run, on the clock.
    """

    rows: int
    added: int
    failed: int
    seconds: float
    elapsed: float

    def __str__(self) -> str:
        text = f"{self.rows:,} configurations, {self.added:,} of them now in {self.elapsed:.1f} s"
        return f"{text}; {self.failed:,} failed" if self.failed else text


class Exploration(Displayed):
    """The rows of a folder, whoever explores into it; of `explore`, those of its space.

    >>> Exploration("results/conv").best(3, by="bytes")     # doctest: +SKIP

    Parameters
    ----------
    folder: the folder that `explore(..., out=...)` named.

    Raises
    ------
    InputError: the folder contains no exploration, or pyarrow is not installed.
    """

    def __init__(
        self, folder: str | PathLike[str], added: int = 0, elapsed: float = 0.0, outside: Collection[Row] = ()
    ) -> None:
        if not isinstance(folder, (str, PathLike)):
            raise InputError(f"a folder of results is expected, not {shown(folder)}")
        self.folder = Path(folder)
        require("pyarrow")
        found = described(self.folder)
        if found is None:
            raise InputError(f"{self.folder}: no exploration is there")
        self._described = found
        self.names: tuple[str, ...] = tuple(found["names"])
        self.values: tuple[str, ...] = tuple(found["values"])
        self._added, self._elapsed, self._outside = added, elapsed, outside

    @cached_property
    def _table(self) -> Any:
        schema = schema_of(self._described["names"], self._described["values"])
        tables = [_conformed(_read(file), schema) for file in parts(self.folder)]
        table = require("pyarrow").concat_tables(tables) if tables else schema.empty_table()
        if not self._outside:
            return table
        rows = zip(*(table.column(name).to_pylist() for name in self.names), strict=True)
        return table.filter(require("pyarrow").array([row not in self._outside for row in rows]))

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table: configuration, values, `error` (null where there is none), seconds, version."""
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """The same as a pandas data frame."""
        require("pandas", "sweep")
        return self._table.to_pandas()

    @cached_property
    def summary(self) -> Totals:
        errors = self._table.column("error")
        seconds = sum(chunk.sum().as_py() or 0.0 for chunk in self._table.column("seconds").chunks)
        return Totals(len(errors), self._added, len(errors) - errors.null_count, seconds, self._elapsed)

    def best(self, k: int = 10, by: str | None = None, largest: bool = False) -> list[dict[str, Stored]]:
        """The `k` rows with the least value `by`, as dicts of configuration and values.

        Rows with an error, or missing that value, are skipped. Ties are in the order of the configuration's values.

        Parameters
        ----------
        by: a value or a name; default: the first value that `measure` gave.
        largest: the greatest values instead.
        """
        count = as_int(k, "k")
        if count < 0:
            raise InputError(f"k must not be negative: {shown(k)}")
        column = self.checked_column(by)
        compute = require("pyarrow.compute")
        table = self._table.filter(compute.is_null(self._table.column("error")))
        present = table.column(column)
        wanted = compute.is_valid(present)
        if str(present.type) == "double":
            wanted = compute.and_(wanted, compute.invert(compute.is_nan(compute.fill_null(present, 0.0))))
        table = table.filter(wanted)
        order = [(column, "descending" if arguments.a_flag(largest, "largest") else "ascending")]
        order += [(name, "ascending") for name in self.names if name != column]
        table = table.take(compute.sort_indices(table, sort_keys=order)[:count])
        rows: list[dict[str, Stored]] = table.select([*self.names, *self.values]).to_pylist()
        return rows

    def checked_column(self, by: str | None) -> str:
        """The column `by`, by default the first value.

        Raises
        ------
        InputError: there is no such column.
        """
        return check_column(by, self.values, self.names)

    def failures(self, k: int = 10) -> list[dict[str, Stored]]:
        """The first `k` rows with an error, as dicts of configuration and `error`."""
        compute = require("pyarrow.compute")
        table = self._table.filter(compute.is_valid(self._table.column("error")))
        rows: list[dict[str, Stored]] = table.select([*self.names, "error"]).slice(0, as_int(k, "k")).to_pylist()
        return rows

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return (
            f"<Exploration {self.folder}: {self.summary}; {', '.join(self.names)} -> {', '.join(self.values) or '-'}>"
        )


def check_column(by: str | None, values: Iterable[str], names: Iterable[str]) -> str:
    """The column `by`, by default the first value; raises `InputError` if there is no such column."""
    values = tuple(values)
    if by is None:
        return values[0] if values else "seconds"
    known = (*values, *names, "seconds")
    if not isinstance(by, str) or by not in known:
        raise InputError(f"unknown column {shown(by)}; known: {', '.join(known)}")
    return by


# -- the run ------------------------------------------------------------------------------------------------------

Made = TypeVar("Made")
Advance: TypeAlias = Callable[[Sequence[Measurement]], None]  # notes finished configurations


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
) -> Exploration:
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
    require("pyarrow")
    configs, first, total = _listed(space)
    names = checked_names(first)
    task = engines.Task(make, measure, tuple(names), settings())
    begin = monotonic()
    folder = Path(out)
    is_strict = arguments.a_flag(strict, "strict")
    with closing(ResultFolder(folder, names, key_of(make, measure), arguments.a_flag(fresh, "fresh"))) as results:
        done = results.done()
        pace = engines.Pace(max(total - len(done), 0), batch)
        found_rows = named_rows(configs, names)
        if not isinstance(space, Space):
            found_rows = iter(dict.fromkeys(found_rows))  # a list may name a configuration twice
        outside = set(done)  # rows of the folder outside this space

        def waiting() -> Iterator[Row]:
            for row in found_rows:
                outside.discard(row)
                if row not in done:
                    yield row

        feed = engines.Feed(waiting())
        if engine is None:
            running = engines.in_this_process(task, feed, pace)
        else:
            running = engines.on_workers(task, feed, pace, engine, workers)
        with _progress(arguments.a_flag(progress, "progress"), total, min(len(done), total), by) as advance:
            added = _written(running, results, advance, by)
    found = Exploration(folder, added, monotonic() - begin, outside)
    if is_strict and found.summary.failed:
        (failure,) = found.failures(1)
        raise ExplorationError(f"{found.summary.failed:,} configurations failed, the first by {failure['error']}")
    return found


def _written(running: Any, results: ResultFolder, advance: Advance, by: str | None) -> int:
    """Write every batch that an engine yields; the number of rows. An interrupt waits for the file that is begun.

    Raises
    ------
    InputError: the results have values, but no column named `by`.
    """
    version, added = library_version(), 0
    if results.values:
        check_column(by, results.values, results.names)
    try:
        batch = next(running, None)
        while batch is not None:
            rows, outcomes = batch
            number = results.number
            try:
                results.append(rows, outcomes, version)
                advance(outcomes)
                if results.values:
                    check_column(by, results.values, results.names)
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

    def advance(outcomes: Sequence[Measurement]) -> None:
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
