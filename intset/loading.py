"""Import on first use, and library calls that no interrupt may abort."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def load(name: str) -> None:
    """Import a module once.

    Guarantee: an interrupt raises in the caller while the import completes in the background, because interrupting the
    initialization of an extension module may abort the process.
    """
    if name not in sys.modules:
        uninterrupted(partial(importlib.import_module, name))


def uninterrupted(work: Callable[[], T]) -> T:
    """Run `work` in another thread and return or raise its outcome.

    Guarantee: an interrupt raises in the caller and never inside `work`, since Python runs signal handlers in the main
    thread. Temporaries of `work` die in its thread, where finalizers cannot swallow an interrupt.
    """
    outcome: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="intset uninterrupted", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return outcome[0]
