"""What can go wrong while a nest runs."""

from __future__ import annotations

from intset.errors import IntSetError


class AccessError(IntSetError, IndexError):
    """An access outside the storage of a tensor."""


class CheckError(IntSetError, AssertionError):
    """An assertion of a nest that does not hold."""
