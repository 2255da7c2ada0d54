"""Anti-unification: generalize one value per padding element to a single expression over the element's indices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from bound.tir.build import select
from bound.tir.value import Operand, Value
from bound.tir.walk import loaded_tensor
from intset.expr import ops
from intset.expr.build import logical_and, logical_or, sum_of
from intset.expr.node import Cond, Expr, const
from intset.expr.node import make as make_node
from lowering.nest.walk import Recursion, drive
from lowering.padding.states import PLACE

Places = Sequence[tuple[int, ...]]
MAX_PIECES: Final = 8
MAX_PLACES: Final = 64  # elements that a piecewise value lists explicitly


def generalized(values: Sequence[Operand], places: Places) -> Operand | None:
    """Generalize values to one operand over `PLACE`; `None` if no common form exists.

    Guarantee: at `places[k]` the operand equals `values[k]`.

    Integer constants become affine functions of `PLACE`; all other nodes must agree. A load index equal to the
    element's own index becomes that index; any other constant of a single place stays constant.
    """
    known: dict[tuple[object, ...], Operand | None] = {}

    def visit(nodes: tuple[Operand, ...], axis: int | None) -> Recursion[Operand | None]:
        key = (*nodes, axis)
        if key not in known:
            known[key] = yield build(nodes, axis)
            integers = [node for node in nodes if isinstance(node, Expr)]
            for op, split in _PARTS if known[key] is None and len(integers) == len(nodes) else ():
                parts = [split(node) for node in integers]
                bases = [base for base, _ in parts if base is not None]
                if len(bases) < len(nodes) or all(map(operator.is_, bases, nodes)):
                    continue
                base = yield visit(tuple(bases), None)
                number = _fitted([number for _, number in parts], places, None)
                if base is not None and number is not None:
                    known[key] = make_node(op, (base, number))
                    break
        return known[key]

    def build(nodes: tuple[Operand, ...], axis: int | None) -> Recursion[Operand | None]:
        first = nodes[0]
        if all(isinstance(node, Expr) and node.is_const for node in nodes):
            return _fitted([int(node.data) for node in nodes], places, axis)
        if all(node is first for node in nodes) and not first.args:
            return first
        if any(not _is_like(node, first) for node in nodes):
            return None
        is_element = loaded_tensor(first) is not None
        args = []
        for k in range(len(first.args)):
            arg = yield visit(tuple(node.args[k] for node in nodes), k if is_element else None)
            if arg is None:
                return None
            args.append(arg)
        return first.with_args(tuple(args))

    return drive(visit(tuple(values), None))


def piecewise(values: Sequence[Operand], places: Places) -> Operand | None:
    """Generalize by groups and join the groups with `select`; `None` beyond `MAX_PIECES` or `MAX_PLACES`."""
    groups: list[tuple[list[Operand], list[tuple[int, ...]], Operand | None]] = []
    for value, place in zip(values, places, strict=True):
        for k, (some, where, _) in enumerate(groups):
            together = generalized([*some, value], [*where, place])
            if together is not None:
                groups[k] = ([*some, value], [*where, place], together)
                break
        else:
            if len(groups) == MAX_PIECES:
                return None
            groups.append(([value], [place], generalized([value], [place])))
    groups.sort(key=lambda group: len(group[1]))
    if sum(len(where) for _, where, _ in groups[:-1]) > MAX_PLACES:
        return None
    joined = groups[-1][2]
    for _, where, there in reversed(groups[:-1]):
        if joined is None or there is None:
            return None
        joined = select(logical_or(*map(_is_at, where)), there, joined)
    return joined


def _is_at(place: tuple[int, ...]) -> Cond:
    return logical_and(*(PLACE[k].eq(i) for k, i in enumerate(place)))


def _summand(node: Expr) -> tuple[Expr | None, int]:
    """Split `base + constant`; the constant is 0 if folding dropped the addition, the base `None` for a constant."""
    if node.op in (ops.ADD, ops.SUB) and node.args[1].is_const:
        return node.args[0], int(node.args[1].data) * (1 if node.op is ops.ADD else -1)
    return (None, 0) if node.is_const else (node, 0)


def _factor(node: Expr) -> tuple[Expr | None, int]:
    """Split `base * constant`; the constant is 1 if folding dropped the product, the base `None` for a constant."""
    if node.op is ops.MUL and node.args[1].is_const:
        return node.args[0], int(node.args[1].data)
    return (None, 0) if node.is_const else (node, 1)


_PARTS: Final = ((ops.ADD, _summand), (ops.MUL, _factor))


def _is_like(node: Operand, other: Operand) -> bool:
    is_same = type(node) is type(other) and node.op is other.op and len(node.args) == len(other.args)
    if not is_same or (isinstance(node, Value) and isinstance(other, Value) and node.dtype != other.dtype):
        return False
    return node.data is other.data or bool(node.data == other.data)


def _fitted(numbers: list[int], places: Places, axis: int | None) -> Expr | None:
    """Fit an affine function of `PLACE` through the numbers; `None` if there is none."""
    if axis is not None and axis < len(places[0]) and all(n == p[axis] for n, p in zip(numbers, places, strict=True)):
        return PLACE[axis]
    if len(set(numbers)) == 1:
        return const(numbers[0])
    coefficients = _affine(numbers, places)
    if coefficients is None:  # an index equal in all places duplicates the constant term: retry without its fractions
        same = [len({p[k] for p in places}) == 1 for k in range(len(places[0]))]
        reduced = [tuple(0 if s else i for s, i in zip(same, p, strict=True)) for p in places]
        coefficients = _affine(numbers, reduced)
    if coefficients is None:
        return None
    terms = [PLACE[k] * int(c) if c != 1 else PLACE[k] for k, c in enumerate(coefficients[1:]) if c]
    total = sum_of(terms)
    offset = int(coefficients[0])
    return total if not offset else total + offset if offset > 0 or not terms else total - abs(offset)


def _affine(numbers: list[int], places: Places) -> list[Fraction] | None:
    """Solve `c[0] + c[1] * p[0] + ... = n` over all places for integers c, by Gauss-Jordan elimination."""
    width = len(places[0]) + 1
    rows: list[tuple[int, list[Fraction]]] = []
    for number, place in zip(numbers, places, strict=True):
        row = [Fraction(1), *map(Fraction, place), Fraction(number)]
        for pivot, other in rows:
            if row[pivot]:
                row = [a - row[pivot] * b for a, b in zip(row, other, strict=True)]
        lead = next((k for k in range(width - 1, -1, -1) if row[k]), None)
        if lead is None:
            if row[-1]:
                return None
            continue
        row = [a / row[lead] for a in row]
        rows = [(p, [a - other[lead] * b for a, b in zip(other, row, strict=True)]) for p, other in rows]
        rows.append((lead, row))
    coefficients = [Fraction(0)] * width
    for pivot, row in rows:
        coefficients[pivot] = row[-1]
    return coefficients if all(c.denominator == 1 for c in coefficients) else None
