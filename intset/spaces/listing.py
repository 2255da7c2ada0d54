"""Members in the order of the names: as nested loops over the values list them, the first name outermost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from intset.expr.node import Var
from intset.spaces.join import Columns
from intset.spaces.vectors import Array

if TYPE_CHECKING:
    from intset.spaces.members import Factor

_KEY_BITS = 62
_TABLE = 1 << 16  # numbers between the least and the greatest value, so that places are looked up in a table
_PARTS = 16  # into how many the values of a name are divided where the members are too many


class NameOrder:
    """The order of the names, and of the values of each.

    Parameters
    ----------
    columns: the values of each name, in the order in which they were given; the first name varies slowest.
    """

    def __init__(self, columns: Mapping[Var, Array]) -> None:
        self.values = dict(columns)
        self.number = {var: k for k, var in enumerate(columns)}
        self._tables: dict[Var, tuple[int, Array]] = {}
        self._sorted: dict[Var, tuple[Array, Array]] = {}

    def places(self, var: Var, column: Array) -> Array:
        """Of each number of a column, its place among the values of a name."""
        values = self.values[var]
        if var not in self._tables and var not in self._sorted:
            low, high = int(values.min()), int(values.max())
            if high - low < _TABLE:
                table = np.zeros(high - low + 1, np.int64)
                table[(values - low).astype(np.int64)] = np.arange(len(values))
                self._tables[var] = low, table
            else:
                ranked = np.argsort(values, kind="stable")
                self._sorted[var] = values[ranked], ranked
        if var in self._tables:
            low, table = self._tables[var]
            found: Array = table[(column - low).astype(np.int64, copy=False)]
        else:
            ascending, ranked = self._sorted[var]
            found = ranked[np.searchsorted(ascending, column)]
        return found

    def sorted(self, columns: Columns) -> Columns:
        """Distinct rows in order."""
        size = len(next(iter(columns.values())))
        ranked = sorted((var for var in columns if len(self.values[var]) > 1), key=self.number.__getitem__)
        if size < 2 or not ranked:
            return columns
        bits = [(len(self.values[var]) - 1).bit_length() for var in ranked]
        if sum(bits) > _KEY_BITS:
            rows = np.lexsort([self.places(var, columns[var]) for var in reversed(ranked)])
            return {var: column[rows] for var, column in columns.items()}
        key = np.zeros(size, np.int64)
        for var, width in zip(ranked, bits, strict=True):
            key <<= width
            key |= self.places(var, columns[var])
        if (key[1:] > key[:-1]).all():
            return columns
        key.sort()
        found = {var: column for var, column in columns.items() if len(self.values[var]) < 2}
        for var, width in zip(reversed(ranked), reversed(bits), strict=True):
            found[var] = self.values[var][key & ((1 << width) - 1)]
            key >>= width
        return found

    def listed(self, factors: Sequence[Factor]) -> Columns:
        """All rows of a product of factors in order."""
        columns: Columns = {}
        size = 1
        for together in self._interleaved(factors):
            own: Columns = {}
            number = 1
            for factor in together:
                own = _times(own, number, factor.rows(), factor.count)
                number *= factor.count
            columns = _times(columns, size, self.sorted(own), number)
            size *= number
        return columns

    def _interleaved(self, factors: Sequence[Factor]) -> list[list[Factor]]:
        """Factors in groups whose names follow one another, each group as small as possible."""
        spans = []
        for k, factor in enumerate(factors):
            numbers = [self.number[var] for var in factor.variables]
            spans.append((min(numbers), max(numbers), k))
        groups: list[list[Factor]] = []
        end = -1
        for low, high, k in sorted(spans):
            if low > end:
                groups.append([])
            groups[-1].append(factors[k])
            end = max(end, high)
        return groups

    def blocks(self, factors: Sequence[Factor], limit: int) -> Iterator[tuple[int, Columns]]:
        """All rows of a product of factors in order, in blocks of at most about `limit` rows with their numbers.

        Where these are too many, or too many to count soon, the values of the first names are divided.
        """
        waiting = [(tuple(factors), 0)]
        while waiting:
            parts, first = waiting.pop()
            counts = [factor.count_soon for factor in parts]
            if 0 in counts:
                continue
            total = None if None in counts else prod(count for count in counts if count is not None)
            if total is not None and total <= limit:
                yield total, self.listed(parts)
                continue
            var, k, source = self._open(parts, first)
            if var is None:
                if total := prod(factor.count for factor in parts):
                    yield total, self.listed(parts)
                continue
            places = self.places(var, source)
            taken = np.unique(places)
            for some in reversed(np.array_split(taken, min(_PARTS, len(taken)))):
                part = parts[k].holding(var, self.values[var][some])
                waiting.append(((*parts[:k], part, *parts[k + 1 :]), self.number[var]))

    def _open(self, factors: Sequence[Factor], first: int) -> tuple[Var | None, int, Array]:
        """The first name with several values, from a number on, with the place of its factor and its values there."""
        owner = {var: k for k, factor in enumerate(factors) for var in factor.variables}
        for var in list(self.number)[first:]:
            if var in owner:
                column = factors[owner[var]].column(var)
                if len(column) > 1 and not (column == column[0]).all():
                    return var, owner[var], column
        return None, 0, np.zeros(0, np.int64)


def _times(columns: Columns, size: int, more: Columns, number: int) -> Columns:
    """The product of rows, the first ones varying slowest."""
    if size == 1 and not columns:
        return more
    slow = {var: np.repeat(column, number) for var, column in columns.items()} if number > 1 else columns
    return slow | ({var: np.tile(column, size) for var, column in more.items()} if size > 1 else more)
