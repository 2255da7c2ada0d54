"""`Account`: what the budgets of one question may spend together."""

from __future__ import annotations


class Account:
    """Operations that several budgets share: each leaves less for the later ones, never below `least`.

    Example
    -------
    >>> account = Account(1_000_000, least=5_000)
    >>> with shape.budget(200_000, account):  # doctest: +SKIP
    ...     shape.includes(other)
    """

    __slots__ = ("_is_open", "least", "left")

    def __init__(self, operations: int, least: int) -> None:
        self.left, self.least, self._is_open = operations, least, True

    def allowed(self, max_operations: int) -> int:
        """How many of `max_operations` a budget gets."""
        return min(max_operations, max(self.left, self.least))

    def charge(self, operations: int) -> None:
        if self._is_open:
            self.left -= operations

    def close(self) -> None:
        """Charge nothing from now on: what is asked later gets the same answer in any order."""
        self._is_open = False
