"""A total order on expressions that depends on structure and on the order in which variables were made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intset.expr import ops
from intset.expr.node import Node, Opaque, Var

if TYPE_CHECKING:
    from intset.linear.form import Linear

_OP_NUMBER = {op: number for number, op in enumerate(ops.OPS.values())}
_NO_LEAF = 1 << 62

Key = tuple[int, ...]  # three numbers, then the serials of the leaves


def order_key(node: Node) -> Key:
    """(serial of the oldest leaf below, two digests, the serials of all): deterministic, never an address.

    Leaves are variables and symbols of loads. The digests see in what order the leaves were made, not what was made
    between them; the first sees of each argument its oldest leaf alone.
    """
    try:
        return node._order
    except AttributeError:
        return _found_order(node)


def _found_order(root: Node) -> Key:
    stack = [root]
    while stack:
        node = stack[-1]
        waiting = [arg for arg in node.args if not hasattr(arg, "_order")]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        node.remember("_order", _key_from(node))
    return root._order


def _key_from(node: Node) -> Key:
    """The key of a node whose arguments have theirs."""
    if isinstance(node, Var):
        return (node.serial, 0, 0, node.serial)
    keys, number = [arg._order for arg in node.args], _OP_NUMBER[node.op]
    data = -1 if node.data is None else node.data  # the hash of None is an address
    if len(keys) == 2 and len(keys[0]) > 3 == len(keys[1]):  # `x // 4`: what is below, written out for its number
        (first, one, every, *leaves), (_, digest, _) = keys
        by_oldest = hash((number, data, (0, one), (-1, digest))) | 1
        return (first, by_oldest, hash((number, data, (every, *range(len(leaves))), (digest,))) | 1, *leaves)
    own = (data.serial,) if isinstance(data, Opaque) else ()
    leaves = keys[0][3:] if len(keys) == 1 and not own else sorted({*own, *(leaf for key in keys for leaf in key[3:])})
    if not leaves:
        digest = hash((number, data, *((-1, key[1]) for key in keys))) | 1
        return (_NO_LEAF, digest, digest)
    place = {leaf: k for k, leaf in enumerate(leaves)}
    if own:
        data = place[own[0]]
    oldest = [(place[key[3]] if len(key) > 3 else -1, key[1]) for key in keys]
    all_of = [(key[2], *[place[leaf] for leaf in key[3:]]) for key in keys]
    return (leaves[0], hash((number, data, *oldest)) | 1, hash((number, data, *all_of)) | 1, *leaves)


def form_key(form: Linear) -> tuple[object, ...]:
    """A key that orders forms."""
    return (*order_key(form.expr()), form.const)
