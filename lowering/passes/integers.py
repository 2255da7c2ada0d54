"""The integer parts of operands, each with what holds where it is evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from bound.infer.program.accesses import implied
from bound.tir import walk
from bound.tir.opaque import IntFunction, integer
from bound.tir.value import Operand, Value, ValueOp
from intset.expr import ops
from intset.expr.node import Cond, Node
from intset.expr.walk import postorder

Change: TypeAlias = "Callable[[Any, tuple[Cond, ...]], Any]"


def map_integers(root: Operand, change: Change) -> Any:
    """`root` with every largest integer expression and condition in it replaced by `change(part, conditions)`.

    The conditions hold wherever the part is evaluated. Integer functions of data are entered: the formula that one
    stands for at its arguments is changed, and becomes a function again.
    """
    if isinstance(root, Node):
        return change(_inside(root, change), ())
    conditions = _conditions(root)
    new = {node: change(_inside(node, change), holds) for node, holds in conditions.items() if isinstance(node, Node)}
    return walk.rewrite(root, new)


def parts_of(root: Operand) -> list[tuple[Any, tuple[Cond, ...]]]:
    """The largest integer expressions and conditions in `root`, and its values, each with what holds where it stands.

    The formulas of integer functions of data are among them.
    """
    found: list[tuple[Any, tuple[Cond, ...]]] = []

    def note(part: Any, conditions: tuple[Cond, ...]) -> Any:
        found.append((part, conditions))
        return part

    map_integers(root, note)
    if isinstance(root, Value):
        found += [(node, holds) for node, holds in _conditions(root).items() if isinstance(node, Value)]
    return found


def _inside(e: Node, change: Change) -> Any:
    """`e` with the formulas of its integer functions of data changed."""
    functions = [n for n in postorder((e,)) if n.op is ops.LOAD and isinstance(n.data, IntFunction)]
    if not functions:
        return e
    new: dict[Any, Any] = {}
    for call in functions:
        mapping = dict(zip(call.data.params, (walk.rewrite(a, dict(new)) for a in call.args), strict=True))
        body = walk.substitute(call.data.body, mapping)
        new[call] = integer(map_integers(body, change))
    return walk.rewrite(e, new)


def _conditions(root: Value) -> dict[Any, tuple[Cond, ...]]:
    """For each value below `root`, and each largest integer part, what holds wherever it is evaluated."""
    found: dict[Any, tuple[Cond, ...]] = {root: ()}
    for node in _parents_first(root):
        holds = found[node]
        for k, child in enumerate(node.args):
            way = (*holds, *(c for c in _added(node, k) if c not in holds))
            known = found.get(child)
            found[child] = way if known is None else tuple(c for c in known if c in way)
    return found


def _parents_first(root: Value) -> list[Value]:
    below: list[Operand] = list(postorder((root,)))
    return [node for node in reversed(below) if isinstance(node, Value)]


def _added(node: Value, k: int) -> tuple[Cond, ...]:
    """What holds where argument `k` of a value is evaluated."""
    if k == 0:
        return ()
    if node.op is ValueOp.SELECT:
        return implied(node.args[0], k == 1)
    if node.op is ValueOp.AND or node.op is ValueOp.OR:
        return implied(node.args[0], node.op is ValueOp.AND)
    return ()
