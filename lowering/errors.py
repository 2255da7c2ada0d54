"""What can go wrong while a nest runs."""

from __future__ import annotations

from intset.errors import InputError, IntSetError


class AccessError(IntSetError, IndexError):
    """An access outside the storage of a tensor, or a read of an element that holds nothing yet."""


class CheckError(IntSetError, AssertionError):
    """An assertion of a nest that does not hold."""


class LayoutError(InputError):
    """A map of indices that is none, or that cannot be used as asked; `points` are those that the message names."""

    def __init__(self, message: str, points: tuple[tuple[int, ...], ...] = ()) -> None:
        super().__init__(message)
        self.points = points


class CompilerError(IntSetError, RuntimeError):
    """A nest cannot be compiled here: no compiler, a text it refuses, or a call that C cannot make."""


class InterfaceError(InputError):
    """A function in the place of another that its neighbours in a graph could not tell from it, but can."""
