"""Remarks: wrong answers of a library that were refused while a question was answered, for the notes of its answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
