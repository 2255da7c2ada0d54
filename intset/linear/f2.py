"""Linear algebra over F2, the field of two elements: rows are integers whose bit `k` is the coefficient of column `k`.

Column 0 is the constant 1, so a row is an affine form of the other columns: `0b101` is `1 + x2`. Sums of rows are `^`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class ReducedRow(NamedTuple):
    """A row of a reduced basis: it alone has its pivot column. `made_of`: a mask of the given rows that sum to it."""

    row: int
    made_of: int


class RowBasis:
    """A reduced basis of the space that rows span, by Gauss and Jordan.

    Attributes
    ----------
    rows: by pivot, the highest column of a row; no other row of the basis has that column.
    relations: masks of given rows that sum to a constant, with that constant: 0, or 1 for a contradiction.
    """

    def __init__(self, rows: Iterable[int] = ()) -> None:
        self.rows: dict[int, ReducedRow] = {}
        self.relations: list[tuple[int, int]] = []
        self._given = 0
        for row in rows:
            self.add(row)

    def add(self, row: int) -> None:
        """Add a row to the space."""
        left, how = self.reduced(row)
        how ^= 1 << self._given
        self._given += 1
        if left < 2:
            self.relations.append((how, left))
            return
        pivot = left.bit_length() - 1
        for other, (kept, made_of) in self.rows.items():
            if kept >> pivot & 1:
                self.rows[other] = ReducedRow(kept ^ left, made_of ^ how)
        self.rows[pivot] = ReducedRow(left, how)

    def reduced(self, row: int) -> ReducedRow:
        """The row without pivot columns, and the mask of given rows that were added to it."""
        how = 0
        for pivot, (kept, made_of) in self.rows.items():
            if row >> pivot & 1:
                row, how = row ^ kept, how ^ made_of
        return ReducedRow(row, how)

    @property
    def is_contradictory(self) -> bool:
        """Whether the rows, each 0, have no solution."""
        return any(constant for _, constant in self.relations)

    @property
    def rank(self) -> int:
        return len(self.rows)


def rank(rows: Iterable[int]) -> int:
    """The rank of the linear parts of rows."""
    return RowBasis(row & ~1 for row in rows).rank


def kernel_vector(rows: Sequence[int], columns: int) -> int | None:
    """A nonzero assignment of the columns from 1 on at which all linear parts are 0; `None` if none exists."""
    basis = RowBasis(row & ~1 for row in rows)
    free = next((c for c in range(1, columns + 1) if c not in basis.rows), None)
    if free is None:
        return None
    return 1 << free | sum(1 << pivot for pivot, (row, _) in basis.rows.items() if row >> free & 1)


def extreme(rows: Sequence[int], side: int) -> int:
    """The smallest (`side` -1) or largest number whose bit `p` is `rows[p]`, over all values of the columns.

    From the highest bit on, each bit takes the better value that the bits above it leave open.
    """
    chosen: list[tuple[int, int]] = []  # pivots and rows that are 0 for the choices made
    value = 0
    for p in reversed(range(len(rows))):
        row = rows[p]
        for pivot, zero in chosen:
            if row >> pivot & 1:
                row ^= zero
        bit = row if row < 2 else int(side > 0)
        if row >= 2:
            chosen.append((row.bit_length() - 1, row ^ bit))
        value |= bit << p
    return value
