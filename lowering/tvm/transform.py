"""`tvm.transform`: blocks of options of another compiler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def PassContext(*args: object, **options: object) -> Iterator[None]:
    """A block whose options are those of TVM's passes; it changes nothing."""
    yield


__all__ = ["PassContext"]
