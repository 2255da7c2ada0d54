"""Errors of loop nests: accesses, checks, layouts, compilers, interfaces."""

from intset.errors import InputError, IntSetError


class AccessError(IntSetError, IndexError):
    """An out-of-bounds access, or a read of an unwritten element."""


class CheckError(IntSetError, AssertionError):
    """A violated assertion or assumption of a nest."""


class LayoutError(InputError):
    """An invalid index map, or a request that a map cannot satisfy; `points` are the points in the message."""

    def __init__(self, message: str, points: tuple[tuple[int, ...], ...] = ()) -> None:
        super().__init__(message)
        self.points = points


class CompilerError(IntSetError):
    """A nest cannot be compiled: no compiler, rejected text, or a call of a host function."""


class InterfaceError(InputError):
    """A replacement whose interface differs from the function it replaces."""


class ExplorationError(IntSetError):
    """An exploration cannot go on, or failed at configurations where that was forbidden; what is done is written."""
