"""`name_ends`: ranges of loops use the names in sight."""

from __future__ import annotations

from collections.abc import Mapping

from bound.tir import walk
from bound.tir.reduce import Parameter
from bound.tir.value import Operand
from intset.expr import ops
from intset.expr.dag import size
from intset.expr.node import Expr, Var, const, constant_value
from intset.expr.range import Range
from lowering.nest.driver import Descent, rewritten
from lowering.nest.ir import For, Function, Let, Stmt, with_fields
from lowering.nest.walk import range_ends, replaced
from lowering.passes.values.cse import MOST, SUMS, is_short


def name_ends(f: Function) -> Function:
    """Use the names in sight in the ranges of loops, where that makes these shorter.

    Only names that `inline_values` replaces are used: passes over C, which need the expressions, get them back.

    Guarantee: equal values.
    """
    return f.with_body(rewritten(f.body, _ShortNames({}, {}), enter={For: (_shorten_range,)}))


class _ShortNames(Descent):
    """The names in sight that `inline_values` replaces, by their values; and these without names."""

    __slots__ = ("inlined", "names")

    def __init__(self, names: dict[Operand, Expr], inlined: dict[Parameter, Operand]) -> None:
        self.names, self.inlined = names, inlined

    def after(self, old: Stmt, new: Stmt) -> _ShortNames:
        if not isinstance(old, Let) or not isinstance(old.var, Var):
            return self
        value = replaced(old.value, self.inlined)
        if not is_short(value, MOST):
            return self
        return _ShortNames({**self.names, old.value: old.var}, {**self.inlined, old.var: value})


def _shorten_range(loop: For, around: _ShortNames) -> For:
    if not around.names:
        return loop
    low, extent = range_ends(loop.range)
    shorter = [_by_names(e, around.names) for e in (low, extent)]
    return loop if shorter == [low, extent] else with_fields(loop, range=Range(*shorter))


def _by_names(e: Expr, names: Mapping[Operand, Expr]) -> Expr:
    new: dict[Operand, Operand] = {}
    for node in walk.nodes(e):
        known = walk.rewrite(node, new) if new else node
        named = names.get(known, known)
        if isinstance(named, Expr) and named.op in SUMS:
            named = _sum_by_names(named, names)
        if named is not node:
            new[node] = named
    found: Expr = walk.rewrite(e, new)
    return found


def _sum_by_names(e: Expr, names: Mapping[Operand, Expr]) -> Expr:
    """Replace terms of a sum by a name with these terms, or their opposites, if that makes the sum shorter."""
    terms, number = _terms_of(e)
    for value, name in names.items():
        parts, constant = _terms_of(value) if isinstance(value, Expr) and value.op in SUMS else ([], 0)
        for sign in (1, -1):
            own = [(sign * k, term) for k, term in parts]
            if len(own) > 1 and all(terms.count(part) >= own.count(part) for part in own):
                place = terms.index(own[0])
                for part in own:
                    terms.remove(part)
                terms.insert(min(place, len(terms)), (sign, name))
                number -= sign * constant
    first = next((k for k, (sign, _) in enumerate(terms) if sign > 0), None)
    if first is None and number <= 0:
        return e
    total = const(number) if first is None else terms.pop(first)[1]
    number = 0 if first is None else number
    for sign, term in terms:
        total = total + term if sign > 0 else total - term
    total = total + number if number > 0 else total - -number if number < 0 else total
    return total if size(total) < size(e) else e


def _terms_of(e: Expr) -> tuple[list[tuple[int, Expr]], int]:
    """Split a sum into signed terms, in order, and a constant."""
    terms: list[tuple[int, Expr]] = []
    number = 0
    stack = [(e, 1)]
    while stack:
        node, sign = stack.pop()
        value = constant_value(node)
        if value is not None:
            number += sign * value
        elif node.op in SUMS:
            left, right = node.args
            stack += [(right, sign if node.op is ops.ADD else -sign), (left, sign)]
        else:
            terms.append((sign, node))
    return terms, number
