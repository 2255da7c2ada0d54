"""`Effort`: the steps that one search may take."""

from __future__ import annotations

from intset.errors import BudgetError


class SpentError(BudgetError):
    """A search had no steps left."""


class Effort:
    """Steps of a search, counted alike on every machine; one takes about a microsecond.

    Example
    -------
    >>> effort = Effort(10)
    >>> effort.charge(8)
    >>> effort.charge(8)
    Traceback (most recent call last):
    ...
    intset.prover.effort.SpentError: the search was given up after 10 steps
    """

    __slots__ = ("left", "steps")

    def __init__(self, steps: int) -> None:
        self.steps = self.left = steps

    def charge(self, steps: int) -> None:
        """Take steps, before what they stand for is done; `SpentError` where fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise SpentError(f"the search was given up after {self.steps} steps")
