"""The storage of nodes: the core in C where it was built, else Python's (`expr.pure`).

`INTSET_PURE=1` in the environment chooses Python's, at build and at import.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from intset.expr import ops, pure

PURE_VARIABLE = "INTSET_PURE"
REVISION = 1  # of what `intset/_core.c` and Python agree on
OPERATIONS = (
    *(ops.ADD, ops.SUB, ops.MUL, ops.FLOORDIV, ops.FLOORMOD, ops.NEG, ops.CONST, ops.VAR),
    *(ops.MIN, ops.MAX, ops.LT, ops.LE, ops.GT, ops.GE),
)


def is_pure(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for Python's storage."""
    return environment.get(PURE_VARIABLE, "0") not in ("", "0")


def _core_in_c() -> Any:
    """The extension module, or `None` if it is not built, was built from other sources, or is switched off."""
    if is_pure(os.environ):
        return None
    try:
        built = importlib.import_module("intset._core")
    except ImportError:
        return None
    return built if built.revision == REVISION else None


_core = _core_in_c()
core = "python" if _core is None else "c"
plain_ends: Callable[..., tuple[int, int, bool] | None] | None = None if _core is None else _core.ends

if TYPE_CHECKING:
    from intset.expr.pure import Arithmetic as Arithmetic
    from intset.expr.pure import StoredNode as StoredNode
    from intset.expr.pure import bind as bind
    from intset.expr.pure import count as count
    from intset.expr.pure import fresh as fresh
    from intset.expr.pure import intern as intern
else:
    _chosen = pure if _core is None else _core
    Arithmetic, StoredNode = _chosen.Arithmetic, _chosen.StoredNode
    bind, count, fresh, intern = _chosen.bind, _chosen.count, _chosen.fresh, _chosen.intern
