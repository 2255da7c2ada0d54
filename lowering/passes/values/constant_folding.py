"""Constant folding: of operands without variables, and of operands with decided conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from bound.schedule import simple
from bound.tir import build, walk
from bound.tir.value import NUMBER, REDUCE, Operand, Value
from intset.expr import build as ints
from intset.expr import ops
from intset.expr.dag import opaque_terms, postorder
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, const, constant_value, truth
from lowering.nest.ir import Function
from lowering.nest.walk import transform

_ARITHMETIC: Final = {ops.ADD: simple.add, ops.SUB: simple.sub, ops.MUL: simple.mul}
LARGE: Final = 1 << 31  # constants from here on need 64 bits
_SIGNS: Final = {ops.ADD: 1, ops.SUB: -1}


def fold_constants(f: Function) -> Function:
    """Fold constants in every operand.

    Guarantee: equal values; no step is wider than the steps of the original.
    """
    return f.with_body(transform(f.body, decided))


def decided(operand: Operand) -> Operand:
    """Fold constants, decided selections, `+ 0` and `* 1` in an operand; `x + 2 - 1` becomes `x + 1`."""
    new: dict[Operand, Operand] = {}
    order: Iterable[Any] = postorder((operand,)) if isinstance(operand, (Expr, Cond)) else walk.nodes(operand)
    for node in order:
        if not node.args:
            continue
        new_node: Operand | None = None
        if isinstance(node, Value):
            holds = constant_truth(new.get(node.args[0], node.args[0])) if node.op is ops.SELECT else None
            if holds is not None:
                arm = node.args[1 if holds else 2]
                new_node = new.get(arm, arm)
        elif node.free_vars() or opaque_terms(node):
            new_node = _made(node, tuple([new.get(arg, arg) for arg in node.args]))
        else:
            new_node = _constant(node)
        if new_node is None:
            new_node = _with_new(node, new)
        if new_node is not node:
            new[node] = new_node
    return new.get(operand, operand)


def _with_new(node: Operand, new: Mapping[Operand, Operand]) -> Operand:
    """The operation on what replaces its operands."""
    if node.op is REDUCE:  # its combiner may refer to the program
        return walk.rewrite(node, new) if new else node
    if any([arg in new for arg in node.args]):  # noqa: C419  # hot
        args: list[Any] = [new.get(arg, arg) for arg in node.args]
        return node.with_args(tuple(args))
    return node


def _made(node: Expr | Cond, args: tuple[Any, ...]) -> Expr | Cond:
    """The operation on these operands."""
    if isinstance(node, Expr) and node.op in _ARITHMETIC:
        left, right = args
        if node.op is ops.ADD and left.is_const and not right.is_const:  # as one writes it: the number last
            left, right = right, left
        last = constant_value(right)
        first = constant_value(left.args[1]) if left.op in _SIGNS and node.op in _SIGNS else None
        if first is not None and last is not None:  # (x + first) - last
            total = _SIGNS[left.op] * first + _SIGNS[node.op] * last
            return simple.add(left.args[0], total) if total >= 0 else simple.sub(left.args[0], -total)
        if node.op is left.op is ops.MUL and last is not None:  # x * factor * last
            factor = constant_value(left.args[1])
            if factor is not None and abs(factor * last) < LARGE:
                return simple.mul(left.args[0], factor * last)
        if node.op is ops.ADD and last is not None and -LARGE < last < 0:
            return simple.sub(left, -last)
        if last in (0, 1) or constant_value(left) in (0, 1) or left is args[1]:
            return _ARITHMETIC[node.op](left, right)
    return node.with_args(args)


def _constant(node: Expr | Cond) -> Operand | None:
    """What a node without variables is; `None` where it has no value."""
    try:
        value = evaluate(node, {})
    except ArithmeticError:
        return None
    return truth(bool(value)) if isinstance(node, Cond) else const(value)


def constant_truth(cond: Operand) -> bool | None:
    """The value of `true` and `false`, else `None`."""
    return bool(cond.data) if cond.op is ops.BOOL else None


_JUNCTIONS: Final = {ops.AND: False, ops.OR: True}  # what decides each alone


FOLDED: Final = frozenset((*ops.COMPARISONS, *_JUNCTIONS, ops.SELECT, ops.NOT, ops.MIN, ops.MAX))


def folded(operand: Operand, decide: Callable[[Cond], bool | None]) -> Any:
    """Replace comparisons that `decide` knows by constants, and a minimum or maximum by its known smaller or larger
    operand.

    The dead branch of a selection disappears; laziness never evaluated it.
    """
    if FOLDED.isdisjoint(walk.operations(operand)):
        return operand
    new: dict[Any, Any] = {}
    for node in walk.nodes(operand):
        new_node = _folded(node, new, decide)
        if new_node is None:
            new_node = _with_new(node, new)
        if new_node is not node:
            new[node] = new_node
    return new.get(operand, operand)


def order_of(node: Expr, is_moving: bool) -> Cond:
    """The comparison under which a minimum or maximum equals one operand.

    Parameters
    ----------
    is_moving: selects the operand with more variables; otherwise the other one.
    """
    a, b = node.args
    assert isinstance(a, Expr) and isinstance(b, Expr)
    moving, still = (a, b) if len(a.free_vars()) > len(b.free_vars()) else (b, a)
    return moving <= still if (node.op is ops.MIN) is is_moving else still <= moving


class DecidingNodes:
    """The comparisons, minima and maxima of operands, found once for each operand."""

    def __init__(self) -> None:
        self._nodes: dict[Operand, tuple[Expr | Cond, ...]] = {}
        self._asked: dict[Operand, tuple[Cond, ...]] = {}

    def nodes(self, operand: Operand) -> tuple[Expr | Cond, ...]:
        """The nodes, arguments first."""
        found = self._nodes.get(operand)
        if found is None:
            is_without = _DECIDING.isdisjoint(walk.operations(operand))
            every = () if is_without else walk.nodes(operand)
            found = tuple([n for n in every if n.op in _DECIDING and isinstance(n, (Expr, Cond))])
            self._nodes[operand] = found
        return found

    def asked(self, operand: Operand) -> tuple[Cond, ...]:
        """The comparisons of integers that `folded` asks about."""
        found = self._asked.get(operand)
        if found is None:
            plain = [node for node in self.nodes(operand) if not opaque_terms(node)]
            orders = [order_of(n, moving) for n in plain if isinstance(n, Expr) for moving in (False, True)]
            found = self._asked[operand] = (*(n for n in plain if isinstance(n, Cond)), *orders)
        return found


_DECIDING: Final = frozenset((*ops.COMPARISONS, ops.MIN, ops.MAX))


def _folded(node: Any, new: dict[Any, Any], decide: Callable[[Cond], bool | None]) -> Any:
    if node.op in ops.COMPARISONS and isinstance(node, Cond):
        holds = None if opaque_terms(node) else decide(node)
        return None if holds is None else truth(holds)
    if node.op in _JUNCTIONS:
        return _junction(node, new)
    if node.op is ops.NOT:
        known = _truth(new.get(node.args[0]))
        return None if known is None else truth(not known)
    if node.op is ops.SELECT:
        known = _truth(new.get(node.args[0], node.args[0]))
        if known is not None:
            arm = node.args[1 if known else 2]
            return new.get(arm, arm)
    if node.op in (ops.MIN, ops.MAX) and isinstance(node, Expr):
        return _chosen(node, new, decide)
    return None


def _chosen(node: Expr, new: dict[Any, Any], decide: Callable[[Cond], bool | None]) -> Any:
    if opaque_terms(node):
        return None
    a, b = node.args
    for is_moving in (False, True):
        cond = order_of(node, is_moving)
        holds = decide(cond)
        if holds is not None:
            chosen = a if ((cond.args[0] is a) is holds) is (node.op is ops.MIN) else b
            return new.get(chosen, chosen)
    return None


def _junction(node: Any, new: dict[Any, Any]) -> Any:
    if not any(arg in new for arg in node.args):
        return None
    args = [new.get(arg, arg) for arg in node.args]
    strong = _JUNCTIONS[node.op]
    if any(_truth(arg) is strong for arg in args):
        return truth(strong)
    rest = [arg for arg in args if _truth(arg) is None]
    if not rest:
        return truth(not strong)
    if len(rest) == 1:
        return rest[0]
    if all(isinstance(arg, Cond) for arg in rest):
        return ints.logical_or(*rest) if strong else ints.logical_and(*rest)
    return build.any_of(*rest) if strong else build.all_of(*rest)


def _truth(node: Any) -> bool | None:
    if node is None:
        return None
    if node.op is ops.BOOL or (isinstance(node, Value) and node.op is NUMBER and node.dtype == "bool"):
        return bool(node.data)
    return None
