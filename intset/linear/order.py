"""A total order on expressions that depends on structure and on the order in which variables were made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intset.expr import ops
from intset.expr.node import Node, Opaque, Var

if TYPE_CHECKING:
    from intset.linear.form import Linear

_OP_NUMBER = {op: number for number, op in enumerate(ops.OPS.values())}
_NO_VARIABLE = 1 << 62


def order_key(node: Node) -> tuple[int, int]:
    """(serial of the oldest variable below, digest of the structure): deterministic, never an address."""
    if isinstance(node, Var):
        return (node.serial, 0)
    try:
        return node._order
    except AttributeError:
        return _found_order(node)


def _found_order(root: Node) -> tuple[int, int]:
    stack = [root]
    while stack:
        node = stack[-1]
        waiting = [arg for arg in node.args if not hasattr(arg, "_order") and arg.op is not ops.VAR]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        node.remember("_order", _key_from(node))
    return root._order


def _key_from(node: Node) -> tuple[int, int]:
    """The key of a node whose arguments have theirs."""
    keys = [order_key(arg) for arg in node.args]
    oldest = min([key[0] for key in keys], default=_NO_VARIABLE)
    data = -1 if node.data is None else node.data  # the hash of None is an address
    if isinstance(data, Opaque):
        oldest = min(oldest, data.serial)
        data = data.serial - oldest
    # serials count from the oldest: what was made before these does not matter
    relative = [(first - oldest if first != _NO_VARIABLE else -1, digest) for first, digest in keys]
    return (oldest, hash((_OP_NUMBER[node.op], data, *relative)) | 1)


def form_key(form: Linear) -> tuple[object, ...]:
    """A key that orders forms."""
    return (*order_key(form.expr()), form.const)
