"""A total order on expressions that depends on structure and on the order in which variables were made."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from intset.expr import ops
from intset.expr.node import Node, Opaque, Var
from intset.expr.walk import postorder_until

if TYPE_CHECKING:
    from intset.linear.form import Linear

_KEYS: weakref.WeakKeyDictionary[Node, tuple[int, int]] = weakref.WeakKeyDictionary()
_OP_NUMBER = {op: number for number, op in enumerate(ops.OPS.values())}
_NO_VARIABLE = 1 << 62


def order_key(node: Node) -> tuple[int, int]:
    """(serial of the oldest variable below, digest of the structure): deterministic, never an address."""
    found = _KEYS.get(node)
    if found is not None:
        return found
    if isinstance(node, Var):
        key = (node.serial, 0)
        _KEYS[node] = key
        return key
    for below in postorder_until(node, _KEYS):
        if isinstance(below, Var):
            _KEYS[below] = (below.serial, 0)
            continue
        keys = [_KEYS[arg] for arg in below.args]
        data = below.data.serial if isinstance(below.data, Opaque) else below.data
        oldest = min((key[0] for key in keys), default=_NO_VARIABLE)
        if isinstance(below.data, Opaque):
            oldest = min(oldest, data)
        _KEYS[below] = (oldest, hash((_OP_NUMBER[below.op], data, *keys)) | 1)
    return _KEYS[node]


def form_key(form: Linear) -> tuple[Any, ...]:
    """A key that orders forms."""
    return (*order_key(form.expr()), form.const)
