"""The results of an exploration, read back from its folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from intset.errors import InputError
from intset.expr.node import as_int
from intset.expr.printer import Displayed, shown
from intset.spaces.space import SpaceValue
from lowering.explore.dataset import described, read_table, require
from lowering.explore.work import Row

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

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
        table = read_table(self.folder, self._described)
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

        Rows with an error, or without that value, are left out. Ties are in the order of the configuration's values.

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
        order = [(column, "descending" if largest else "ascending")]
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


def is_better(value: Any, than: Any) -> bool:
    """Whether a value is a number less than the current best; `than` may be `None`."""
    return isinstance(value, (int, float)) and value == value and (than is None or value < than)


def first_value(values: Mapping[str, Any], by: str | None) -> tuple[str, Any] | None:
    """The value that progress shows: `by`, by default the first one."""
    if by is None:
        return next(iter(values.items()), None)
    return (by, values[by]) if by in values else None
