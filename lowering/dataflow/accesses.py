"""Which elements an operand reads, and under which conditions; which elements an assumption defines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from bound.tensor import Tensor
from bound.tir.opaque import IntFunction
from bound.tir.reduce import Parameter
from bound.tir.value import COMPARISONS, Operand, Value, ValueOp
from bound.tir.walk import Part, loaded_tensor, nodes, read_indices
from intset.budgets import WAY_VISITS
from intset.expr import ops
from intset.expr.node import Cond, Expr, as_expr
from intset.expr.walk import conjuncts, opaque_terms
from lowering.nest.ir import ShapeOf
from lowering.nest.undef import has_undef
from lowering.nest.walk import replaced

Names: TypeAlias = "Mapping[Parameter, Operand]"  # what variables of a nest stand for
_COMPARISONS = (*COMPARISONS, ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE)
MAX_WAYS = 8  # to one element that are told apart


class Way(NamedTuple):
    """Conditions on integers that hold where something is reached; where `is_all` is false there are others."""

    conditions: tuple[Cond, ...]
    is_all: bool

    def also(self, cond: Operand, holds: bool = True) -> Way:
        """The way on to where another condition holds (or does not)."""
        own, is_all = conditions_of(cond, holds)
        return Way((*self.conditions, *own), self.is_all and is_all)

    def joined(self, other: Way) -> Way:
        return Way((*self.conditions, *other.conditions), self.is_all and other.is_all)


def meaning(operand: Part, names: Names) -> Part:
    """An operand with what names stand for, and the extents of parameters in the place of their arrays' shapes."""
    found: dict[Operand, Operand] = dict(names.items())
    for node in nodes(operand):
        if node.op is ops.LOAD and isinstance(node.data, ShapeOf) and node.args[0].is_const:
            found[node] = node.data.tensor.extents[node.args[0].data]
    return replaced(operand, found) if found else operand


def conditions_of(cond: Operand, holds: bool = True) -> tuple[tuple[Cond, ...], bool]:
    """The conjuncts of a condition, or of its opposite, that are about integers alone; whether these are all."""
    found: list[Cond] = []
    is_all = True
    stack: list[tuple[Operand, bool]] = [(cond, holds)]
    while stack:
        node, positive = stack.pop()
        if node.op in (ops.NOT, ValueOp.NOT):
            stack.append((node.args[0], not positive))
        elif node.op in ((ops.AND, ValueOp.AND) if positive else (ops.OR, ValueOp.OR)):
            stack += [(node.args[1], positive), (node.args[0], positive)]
        elif isinstance(node, Cond) and not opaque_terms(node):
            found += conjuncts(node if positive else ~node)
        elif not (isinstance(node, Value) and node.op is ValueOp.CONST and bool(node.data) is positive):
            is_all = False
    return tuple(found), is_all


def reads_of(
    operands: Sequence[Operand], meant: Callable[[Operand], Operand]
) -> Iterator[tuple[Operand, Tensor, tuple[Expr | None, ...], tuple[Way, ...]]]:
    """Each element that operands read, its tensor and indices, and the ways to it: choices read one branch only.

    Indices and ways are in the terms of `meant`, the elements as they are written.
    """
    found: dict[Operand, list[Way]] = {}
    done: set[tuple[Operand, Way]] = set()
    always = Way((), True)
    stack: list[tuple[Operand, Way]] = [(operand, always) for operand in reversed(operands)]
    visits = 0
    while stack:
        node, way = stack.pop()
        if (node, way) in done or (node, always) in done:
            continue
        done.add((node, way))
        visits += 1
        if visits > WAY_VISITS:
            way = Way((), False)
        if loaded_tensor(node) is not None:
            found.setdefault(node, []).append(way)
        inner = _branches(node)
        if inner is None or visits > WAY_VISITS:
            stack.extend((arg, way) for arg in reversed(_inside(node)))
            continue
        for arg, cond, holds in reversed(inner):
            if cond is None:
                stack.append((arg, way))
                continue
            own, is_all = conditions_of(meant(cond), holds)
            stack.append((arg, way.joined(Way(own, is_all))))
    for node, ways in found.items():
        tensor = loaded_tensor(node)
        assert tensor is not None
        told = tuple(ways) if len(ways) <= MAX_WAYS else (Way((), False),)
        yield (
            node,
            tensor,
            indices_of([as_expr(meant(e)) for e in read_indices(node)]),
            (always,) if always in told else told,
        )


def always_read(*operands: Operand) -> set[Operand]:
    """The elements that operands read whenever they are computed: in no branch of an `and`, an `or` or a `select`."""
    always = (Way((), True),)
    return {node for node, _, _, ways in reads_of(operands, lambda operand: operand) if ways == always}


def indices_of(args: Sequence[Expr]) -> tuple[Expr | None, ...]:
    """The indices that depend on integers alone; `None` for one that depends on data."""
    return tuple(None if opaque_terms(e) else e for e in args)


def _inside(node: Operand) -> Sequence[Operand]:
    if node.op is ops.LOAD and isinstance(node.data, IntFunction):
        body = replaced(node.data.body, dict(zip(node.data.params, node.args, strict=True)))
        return (body, *node.args)
    return node.args


def _branches(node: Operand) -> list[tuple[Operand, Operand | None, bool]] | None:
    """The arguments of a choice, each with the condition under which it is computed, and whether that has to hold."""
    args = node.args
    if node.op in (ops.SELECT, ValueOp.SELECT):
        return [(args[0], None, True), (args[1], args[0], True), (args[2], args[0], False)]
    if node.op in (ops.AND, ValueOp.AND) and len(args) == 2:
        return [(args[0], None, True), (args[1], args[0], True)]
    if node.op in (ops.OR, ValueOp.OR) and len(args) == 2:
        return [(args[0], None, True), (args[1], args[0], False)]
    return None


def definitions(cond: Operand) -> list[tuple[Way, Tensor, tuple[Expr | None, ...], Operand | None]]:
    """The elements that an assumption gives a value: where, which, and the value (`None` for `undef()`).

    Only what is certain counts: `i < n or A[i] == 0` defines `A[i]` where `i >= n`.
    """
    return [defined for node, way in _certain(cond) for defined in _equation(node, way)]


def bounds(cond: Operand) -> list[tuple[Way, Operand, Operand]]:
    """The comparisons of one element with what depends on no data that an assumption makes: where, which element, and
    the comparison."""
    found: list[tuple[Way, Operand, Operand]] = []
    for node, way in _certain(cond):
        elements = [part for part in nodes(node) if loaded_tensor(part) is not None]
        is_bound = node.op in _COMPARISONS and len(elements) == 1 and not has_undef(node) and not _equation(node, way)
        if is_bound and None not in indices_of(read_indices(elements[0])):
            found.append((way, elements[0], node))
    return found


def _certain(cond: Operand) -> Iterator[tuple[Operand, Way]]:
    """The parts of an assumption, each with the way to where it holds for certain."""
    stack: list[tuple[Operand, Way]] = [(cond, Way((), True))]
    while stack:
        node, way = stack.pop()
        if node.op in (ops.AND, ValueOp.AND):
            stack += [(arg, way) for arg in reversed(node.args)]
        elif node.op in (ops.OR, ValueOp.OR):
            for k, arg in enumerate(node.args):
                own, is_all = _none_of([other for j, other in enumerate(node.args) if j != k])
                if is_all:
                    stack.append((arg, way.joined(Way(own, True))))
        else:
            yield node, way


def _none_of(conds: Sequence[Operand]) -> tuple[tuple[Cond, ...], bool]:
    parts = [conditions_of(cond, False) for cond in conds]
    return tuple(part for own, _ in parts for part in own), all(is_all for _, is_all in parts)


def _equation(node: Operand, way: Way) -> list[tuple[Way, Tensor, tuple[Expr | None, ...], Operand | None]]:
    if node.op not in (ops.EQ, ValueOp.EQ):
        return []
    for element, value in (node.args, node.args[::-1]):
        tensor = loaded_tensor(element)
        if tensor is None:
            continue
        indices = indices_of(read_indices(element))
        if None in indices:
            continue
        if has_undef(value):
            return [(way, tensor, indices, None)]
        if not any(loaded_tensor(part) is not None for part in nodes(value)):
            return [(way, tensor, indices, value)]
    return []
