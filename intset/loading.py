"""Libraries that are imported on first use, whole or not at all."""

from __future__ import annotations

import importlib
import sys
import threading


def load(name: str) -> None:
    """Import a module, if nobody has.

    That runs in a thread of its own: Python runs signal handlers in the main thread alone, and an extension module that
    is interrupted while it starts ends the process. An interrupt is raised here, the import goes on, and who asks next
    has all of it.
    """
    if name in sys.modules:
        return
    failed: list[BaseException] = []

    def run() -> None:
        try:
            importlib.import_module(name)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name=f"import {name}", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
