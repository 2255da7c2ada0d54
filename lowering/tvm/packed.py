"""The Python functions that nests call, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

PACKED: Final[dict[str, Callable[..., Any]]] = {}  # `tvm.register_func`
