"""Output streams whose readers may have left: `intset bounds ... | head`."""

from __future__ import annotations

import os
from typing import Any, TextIO


class Messages:
    """A stream of messages. Guarantee: a reader that has closed its end changes neither answers nor the exit status."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
            self._stream.flush()
        except BrokenPipeError:
            discard(self._stream)
        return len(text)


def discard(stream: TextIO) -> None:
    """Send what a stream holds, and all that follows, nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
