"""The simplex method in exact integers: nonnegative weights under which columns add up to a right-hand side.

Phase one of the two-phase method (Dantzig 1951; Schrijver, *Theory of Linear and Integer Programming*, chapter 11)
over a sparse tableau. Every row is an equation; an artificial variable starts as basic in each, and pivots drive their
sum to 0. Rows are scaled to coprime integers, so nothing is rounded. Entering and leaving variables follow Bland's
rule (*New finite pivoting rules for the simplex method*, 1977), so the method terminates; a `SearchBudget` in steps
stops long runs.

Systems of Farkas combinations have about a dozen sparse columns: this answers them faster than a z3 context starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from math import gcd
from typing import Final

from intset.errors import BudgetError

Row = dict[int, int]  # what is multiplied with each weight; under RIGHT what it adds up to
RIGHT: Final = -1


def weights(
    rows: Iterable[Mapping[int, int]], free: Collection[int], effort: SearchBudget
) -> dict[int, Fraction] | None:
    """Solve the rows for weights that are nonnegative except for the `free` ones; None if the system is infeasible.

    rows: sparse equations {column: coefficient}, with the right-hand side under `RIGHT`. Absent weights are 0.
    effort: charged one step per tableau entry written; raises SearchSpentError.
    """
    return _Tableau(rows, effort).solved(free)


class _Tableau:
    """Tableau rows, one per basic variable.

    For the rows `{0: 1, 1: 2, RIGHT: 5}` and `{0: 1, 1: -1, RIGHT: 1}`, pivoting on column 0 in the second row gives

                 w0   w1 | RIGHT
        None      0    3 |   4       the artificial variable of row 0 is still basic
        w0        1   -1 |   1       w0 is basic: it occurs in this row only

    Invariant: a basic variable occurs in its own row only, with a positive coefficient, and right-hand sides stay
    nonnegative. `lacking`, the sum of the artificial rows, is the objective of phase one.
    """

    def __init__(self, rows: Iterable[Mapping[int, int]], effort: SearchBudget) -> None:
        self.rows: list[Row] = [dict(row) for row in rows]
        self.basic: list[int | None] = [None] * len(self.rows)  # None: the row's artificial variable
        self._effort = effort

    def solved(self, free: Collection[int]) -> dict[int, Fraction] | None:
        solved_for = self._eliminated(free)
        for number, row in enumerate(self.rows):
            if row.get(RIGHT, 0) < 0:
                self.rows[number] = {key: -k for key, k in row.items()}
        lacking: Row = {}
        for row in self.rows:
            for key, k in row.items():
                lacking[key] = lacking.get(key, 0) + k
        while lacking.get(RIGHT, 0) > 0:
            entering = min((key for key, k in lacking.items() if k > 0 and key != RIGHT), default=None)
            if entering is None:
                return None
            leaving = self._leaving(entering)
            self._pivot(leaving, entering)
            lacking = self._without(lacking, self.rows[leaving], entering)
            self.basic[leaving] = entering
        return self._values(solved_for)

    def _eliminated(self, free: Collection[int]) -> list[tuple[int, Row]]:
        """Eliminate free variables; returns (variable, defining row) pairs for back-substitution."""
        eliminated = []
        for column in free:
            number = min((n for n, row in enumerate(self.rows) if column in row), key=self._length, default=None)
            if number is not None:
                self._pivot(number, column)
                eliminated.append((column, self.rows.pop(number)))
                self.basic.pop()
        return eliminated

    def _length(self, number: int) -> int:
        return len(self.rows[number])

    def _leaving(self, entering: int) -> int:
        """The leaving row by the minimum ratio test; ties prefer artificial variables, then the smallest index
        (Bland's rule).
        """
        best, top, bottom, rank = -1, 0, 0, -2
        for number, row in enumerate(self.rows):
            k = row.get(entering, 0)
            if k > 0:
                right, owner = row.get(RIGHT, 0), self.basic[number]
                order = -1 if owner is None else owner
                side = right * bottom - top * k
                if best < 0 or side < 0 or side == 0 and order < rank:
                    best, top, bottom, rank = number, right, k, order
        return best

    def _pivot(self, number: int, column: int) -> None:
        """Eliminate a column from all rows except row `number`."""
        pivot = self.rows[number]
        if pivot[column] < 0:
            self.rows[number] = pivot = {key: -k for key, k in pivot.items()}
        for other, row in enumerate(self.rows):
            if other != number and column in row:
                self.rows[other] = self._without(row, pivot, column)

    def _without(self, row: Row, pivot: Row, column: int) -> Row:
        """The row minus a multiple of the pivot row that cancels `column`, scaled to coprime integers."""
        self._effort.charge(len(row) + len(pivot))
        common = gcd(row[column], pivot[column])
        times, factor = pivot[column] // common, row[column] // common
        new = dict(row) if times == 1 else {key: k * times for key, k in row.items()}
        for key, k in pivot.items():
            value = new.get(key, 0) - factor * k
            if value:
                new[key] = value
            else:
                new.pop(key, None)
        scale = gcd(*new.values())
        return new if scale <= 1 else {key: k // scale for key, k in new.items()}

    def _values(self, solved_for: list[tuple[int, Row]]) -> dict[int, Fraction]:
        values = {
            owner: Fraction(row.get(RIGHT, 0), row[owner])
            for owner, row in zip(self.basic, self.rows, strict=True)
            if owner is not None
        }
        for column, row in reversed(solved_for):
            rest = sum(
                (k * values.get(key, Fraction(0)) for key, k in row.items() if key not in (column, RIGHT)), Fraction(0)
            )
            values[column] = (row.get(RIGHT, 0) - rest) / row[column]
        return values


# -- budget ------------------------------------------------------------------------------------------------------------


class SearchSpentError(BudgetError):
    """A search ran out of steps."""


class SearchBudget:
    """The step budget of one certificate search; deterministic, about a microsecond per step.

    Example
    -------
    >>> effort = SearchBudget(10)
    >>> effort.charge(8)
    >>> effort.charge(8)
    Traceback (most recent call last):
    ...
    intset.prover.simplex.SearchSpentError: the search was given up after 10 steps
    """

    __slots__ = ("left", "steps")

    def __init__(self, steps: int) -> None:
        self.steps = self.left = steps

    def charge(self, steps: int) -> None:
        """Charge steps before the work; raises SearchSpentError if fewer remain."""
        self.left -= steps
        if self.left < 0:
            raise SearchSpentError(f"the search was given up after {self.steps} steps")
