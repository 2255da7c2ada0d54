"""An interrupt while the command `intset` is imported is one line. This module is the first, and imports none."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


def is_command() -> bool:
    """Whether this process runs `intset` or `python -m intset`; also answers during startup."""
    begun = sys.argv[0] if getattr(sys, "argv", None) else ""  # "-m" while a module is being located
    if begun == "-m":
        return "intset" in sys.orig_argv
    return begun.replace("\\", "/").rpartition("/")[2].partition(".")[0] == "intset"


def show_in_one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an uncaught exception: one line for an interrupt, a traceback for another exception."""
    if issubclass(kind, KeyboardInterrupt):
        print("intset: error: interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)
