"""Every exception the package raises on purpose, under one root; how the command shows an uncaught one.

The command `intset` answers an interrupt in one line also while it is imported: this module is the first, and imports
none.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Final


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


class IntSetError(RuntimeError):
    """Root of all errors raised by `intset`, `bound` and `lowering`; a `RuntimeError`, as TVM's are."""


class InputError(IntSetError, ValueError):
    """An argument cannot be used: the message names the argument and what was expected."""


class ParseError(InputError):
    """A text is not a well-formed expression or nest.

    Attributes
    ----------
    position: offset of the first offending character.
    line, column: its line and column in a text of several lines, counted from 1.
    """

    def __init__(
        self, message: str, position: int | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(message)
        self.position, self.line, self.column = position, line, column

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (str(self), self.position, self.line, self.column))


class EvaluationError(IntSetError, ArithmeticError):
    """An expression is undefined at the given point."""


class UndefinedError(EvaluationError):
    """Division by 0, a negative shift or a failed assertion at the given point."""


class MachineOverflowError(EvaluationError, OverflowError):
    """An intermediate value of an expression overflows the requested width."""


class CountError(IntSetError):
    """A set cannot be counted; the message gives the reason."""


class DomainError(IntSetError):
    """A third-party domain gave an invalid answer, raised, or cannot be loaded; the message names it."""


class PluginWarning(UserWarning):
    """A domain announced by an installed package cannot be loaded and is ignored."""


class UndecidedError(IntSetError):
    """Membership in a set cannot be decided or expressed; the message gives the reason."""


class ContradictionWarning(UserWarning):
    """Declared, asserted or assumed facts contradict each other, so every condition is proved vacuously."""


class ShapeWarning(UserWarning):
    """A plain variable used as a shape is taken as a nonnegative size, without being declared as one."""


class BudgetError(IntSetError):
    """An exact computation exceeded its budget; queries catch it and answer with a sound superset.

    Attributes
    ----------
    budget: the budget that ended, by its name in `Config` or of the constant; empty for another reason to refuse.
    """

    def __init__(self, message: str = "", budget: str = "") -> None:
        super().__init__(message)
        self.budget = budget
        for listener in LISTENERS:
            listener(self)


LISTENERS: Final[list[Callable[[BudgetError], None]]] = []  # `intset.trace` hears of every one
