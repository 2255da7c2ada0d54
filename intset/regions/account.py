"""Records of one question: operations spent by its budgets, and wrong answers of a library that were refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Account:
    """A number of operations shared by several budgets.

    Invariant: a budget gets the remaining operations, at least `least`.

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
        """The operations granted to a budget of `max_operations`."""
        return min(max_operations, max(self.left, self.least))

    def charge(self, operations: int) -> None:
        if self._is_open:
            self.left -= operations

    def close(self) -> None:
        """Stop charging, so that later questions get the same answers in any order."""
        self._is_open = False


_COLLECTED: ContextVar[dict[str, None] | None] = ContextVar("intset_remarks", default=None)


def remark(text: str) -> None:
    """Record a remark in every open `collected` block."""
    collected = _COLLECTED.get()
    if collected is not None:
        collected[text] = None


@contextmanager
def collected() -> Iterator[dict[str, None]]:
    """Collect the distinct remarks of a `with` block, in order; outer blocks receive them, too."""
    outer, own = _COLLECTED.get(), dict[str, None]()
    token = _COLLECTED.set(own)
    try:
        yield own
    finally:
        _COLLECTED.reset(token)
        if outer is not None:
            outer.update(own)
