"""Every exception the package raises on purpose, under one root."""

from __future__ import annotations


class IntSetError(Exception):
    """Root of all errors raised by `intset`, `bound` and `lowering`."""


class InputError(IntSetError, ValueError):
    """An argument cannot be used: the message names the argument and what was expected."""


class ParseError(InputError):
    """A text is not what it should be: an expression, a nest.

    Attributes
    ----------
    position: the offset of the first character that is wrong.
    line, column: the same of a text of several lines, both counted from 1.
    """

    def __init__(
        self, message: str, position: int | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(message)
        self.position, self.line, self.column = position, line, column

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (str(self), self.position, self.line, self.column))


class EvaluationError(IntSetError, ArithmeticError):
    """An expression has no value at the given point."""


class UndefinedError(EvaluationError):
    """A division by 0, a negative shift, or an assertion that does not hold at the given point."""


class MachineOverflowError(EvaluationError, OverflowError):
    """A step of an expression leaves the fixed width it was asked to be computed in."""


class CountError(IntSetError):
    """A set cannot be counted: the message says why (`count` never guesses)."""


class DomainError(IntSetError):
    """A domain from outside answered with what is no answer, raised, or cannot be loaded; the message names it."""


class PluginWarning(UserWarning):
    """A domain that an installed package announces cannot be loaded; it is left out."""


class UndecidedError(IntSetError):
    """Whether a point is an element of a set is not known, or cannot be written: the message says why."""


class ContradictionWarning(UserWarning):
    """Declared, asserted or assumed facts exclude one another: nothing satisfies them, so everything is proved."""


class ShapeWarning(UserWarning):
    """A plain variable is used as a shape: it counts as a size, at least 0, although it does not say so itself."""


class BudgetError(IntSetError):
    """An exact computation ran out of its budget. Queries catch it and answer with a sound superset."""
