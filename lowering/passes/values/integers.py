"""Parts of operands: lazy operations, and integer parts with the conditions of their evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from bound.infer.accesses import implied
from bound.tir import walk
from bound.tir.value import IntFunction, Operand, Value, integer
from bound.tir.walk import Part
from intset.expr import ops
from intset.expr.dag import opaque_terms, operations, postorder
from intset.expr.node import Cond, Expr, Node

_GUARDING: Final = (ops.SELECT, ops.AND, ops.OR)
LAZY: Final = (ops.SELECT, ops.AND, ops.OR)  # the first operand alone is always evaluated

Whole = TypeVar("Whole", Expr, Cond, "Expr | Cond")
Change: TypeAlias = "Callable[[Expr | Cond, tuple[Cond, ...]], Expr | Cond]"


def with_decided_selects(operand: Part, decide: Callable[[Any], bool | None]) -> Part:
    """Replace selects whose condition `decide` knows by the chosen operand."""
    if ops.SELECT not in walk.operations(operand):
        return operand
    new: dict[Operand, Operand] = {}
    for node in walk.nodes(operand):
        holds = decide(node.args[0]) if node.op is ops.SELECT else None
        if holds is not None:
            new[node] = walk.rewrite(node.args[1 if holds else 2], dict(new))
    return walk.rewrite(operand, new) if new else operand


def map_integers(root: Part, change: Change) -> Part:
    """Replace every maximal integer expression and condition of `root` by `change(part, conditions)`.

    The conditions hold wherever the part is evaluated. Bodies of integer functions of data are changed, too.

    Guarantee: what a part becomes under its conditions stays out of other parts that contain it: of
    `select(j < 3, A[j], x)`, the index alone may use `j < 3`.
    """
    if not isinstance(root, Value):
        changed: Any = change(_inside(root, change), ())
        whole: Part = changed
        return whole
    conditions = _conditions(root)
    parts = ((node, holds) for node, holds in conditions.items() if not isinstance(node, Value))
    new = {node: change(_inside(node, change), holds) for node, holds in parts}  # an unchanged part is kept whole
    return root if all(part is node for node, part in new.items()) else walk.rewrite(root, new)


def parts_of(root: Operand) -> list[tuple[Operand, tuple[Cond, ...]]]:
    """The maximal integer expressions and conditions of `root`, and its values, each with the conditions of its
    evaluation.

    Bodies of integer functions of data are included.
    """
    parts: list[tuple[Operand, tuple[Cond, ...]]] = []

    def note(part: Expr | Cond, conditions: tuple[Cond, ...]) -> Expr | Cond:
        parts.append((part, conditions))
        return part

    map_integers(root, note)
    if isinstance(root, Value):
        parts += [(node, holds) for node, holds in _conditions(root).items() if isinstance(node, Value)]
    return parts


def _inside(e: Expr | Cond, change: Change) -> Expr | Cond:
    """`e` with the formulas of its integer functions of data changed."""
    functions = [load for load in opaque_terms(e) if isinstance(load.data, IntFunction)]
    if not functions:
        return e
    new: dict[Node, Operand] = {}
    for call in functions:
        mapping = dict(zip(call.data.params, (walk.rewrite(a, dict(new)) for a in call.args), strict=True))
        body = walk.substitute(call.data.body, mapping)
        changed = map_integers(body, change)
        assert isinstance(changed, Value), "a formula of data stays one"
        new[call] = integer(changed)
    if isinstance(e, Expr):
        return walk.rewrite(e, new)
    return walk.rewrite(e, new)


def _conditions(root: Value) -> dict[Operand, tuple[Cond, ...]]:
    """For each value below `root`, and each largest integer part, what holds wherever it is evaluated."""
    conditions: dict[Operand, tuple[Cond, ...]] = {root: ()}
    values = _parents_first(root)
    if operations(root).isdisjoint(_GUARDING):
        for node in values:
            conditions.update(dict.fromkeys(node.args, ()))
        return conditions
    for node in values:
        holds = conditions[node]
        for k, child in enumerate(node.args):
            way = (*holds, *(c for c in _added(node, k) if c not in holds))
            known = conditions.get(child)
            conditions[child] = way if known is None else tuple(c for c in known if c in way)
    return conditions


def _parents_first(root: Value) -> list[Value]:
    below: list[Operand] = postorder((root,))
    return [node for node in reversed(below) if isinstance(node, Value)]


def _added(node: Value, k: int) -> tuple[Cond, ...]:
    """What holds where argument `k` of a value is evaluated."""
    if k == 0:
        return ()
    if node.op is ops.SELECT:
        return implied(node.args[0], k == 1)
    if node.op is ops.AND or node.op is ops.OR:
        return implied(node.args[0], node.op is ops.AND)
    return ()
