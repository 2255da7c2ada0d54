"""`Account`: what the budgets of one question may spend together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


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


_COLLECTED: ContextVar[dict[str, None] | None] = ContextVar("intset_remarks", default=None)


def remark(text: str) -> None:
    """Add a remark to every `collected` block around this."""
    collected = _COLLECTED.get()
    if collected is not None:
        collected[text] = None


@contextmanager
def collected() -> Iterator[dict[str, None]]:
    """`with collected() as remarks:` gathers the remarks made in the block, in order, each once; blocks around it get
    them, too."""
    outer, own = _COLLECTED.get(), dict[str, None]()
    token = _COLLECTED.set(own)
    try:
        yield own
    finally:
        _COLLECTED.reset(token)
        if outer is not None:
            outer.update(own)
