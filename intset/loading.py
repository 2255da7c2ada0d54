"""Libraries that are imported on first use, and what they do that no interrupt may fall into."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def load(name: str) -> None:
    """Import a module, if nobody has.

    An extension module that is interrupted while it starts ends the process. An interrupt is raised here, the import
    goes on, and who asks next has all of it.
    """
    if name not in sys.modules:
        uninterrupted(partial(importlib.import_module, name))


def uninterrupted(work: Callable[[], T]) -> T:
    """What `work` returns or raises, done in a thread of its own: Python runs signal handlers in the main thread alone.

    An interrupt is raised here, and the work goes on. What it made dies in that thread, too: where Python calls
    something then, an interrupt would be lost.
    """
    found: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="intset uninterrupted", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]
