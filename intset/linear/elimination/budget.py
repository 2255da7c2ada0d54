"""`Steps`: a counter for what is computed in Python, with budgets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from intset.errors import BudgetError

if TYPE_CHECKING:
    from intset.regions.account import Account


class Steps:
    """A counter of steps with nested budgets: what an inner block spends counts for those around it, too.

    Example
    -------
    >>> steps = Steps("lists")
    >>> with steps.budget(2):
    ...     steps.spend(2)
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._left: ContextVar[int | None] = ContextVar(name, default=None)

    @contextmanager
    def budget(self, operations: int, account: Account | None = None) -> Iterator[None]:
        """At most so many steps in the block, as `Shape.budget` promises."""
        outer = self._left.get()
        allowed = operations if account is None else account.allowed(operations)
        allowed = allowed if outer is None else min(allowed, outer)
        token = self._left.set(allowed)
        try:
            yield
        finally:
            spent = allowed - max(self._left.get() or 0, 0)
            self._left.reset(token)
            if outer is not None:
                self._left.set(outer - spent)
            elif account is not None:
                account.charge(spent)

    def spend(self, steps: int) -> None:
        """Count so many steps.

        Raises
        ------
        BudgetError: there are no more left.
        """
        left = self._left.get()
        if left is not None:
            self._left.set(left - steps)
            if left < steps:
                raise BudgetError(f"{self.name} gave up: more operations would be needed")
