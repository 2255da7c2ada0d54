"""One rule an operation: the linear form of a node from the linear forms of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from intset.expr import ops
from intset.expr.node import Node, make
from intset.linear import bits, division, remainders
from intset.linear.extremum import extremum, without_shared
from intset.linear.form import Linear, atom, constant

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

Rule = Callable[["Normalizer", Node], Linear]


def _division(combine: Callable[[Normalizer, Linear, Linear], Linear]) -> Rule:
    def rule(known: Normalizer, node: Node) -> Linear:
        return combine(known, known.forms[node.args[0]], known.forms[node.args[1]])

    return rule


def _minmax(op: ops.Op) -> Rule:
    def rule(known: Normalizer, node: Node) -> Linear:
        return extremum(known, op, known.forms[node.args[0]], known.forms[node.args[1]])

    return rule


def _split_common(a: Linear, b: Linear) -> tuple[Linear, Linear, Linear]:
    """(s, a - s, b - s) with the terms that both forms share in s, and the constant of `a` where it does not stand
    alone there."""
    common, a, b = without_shared(a, b)
    offset = a.const if a.const == b.const or a.terms else 0
    return common.shift(offset), a.shift(-offset), b.shift(-offset)


def _abs(known: Normalizer, node: Node) -> Linear:
    a = known.forms[node.args[0]]
    sign = known.sign(a)
    if sign:
        return a if sign > 0 else a.scale(-1)
    first = a.ordered()[0][1]
    return atom(make(ops.ABS, (known.atomized(a if first > 0 else a.scale(-1)),)))


def _select(known: Normalizer, node: Node) -> Linear:
    condition = known.conds[node.args[0]]
    if condition.op is ops.BOOL:
        return known.form(node.args[1 if condition.data else 2])
    (yes, if_true), (no, if_false) = known.branches(node)
    a, b = yes.form(if_true), no.form(if_false)
    if yes.empty or no.empty:
        return b if yes.empty else a
    if a.same(b):
        return a
    common, a, b = _split_common(a, b)
    e = make(ops.SELECT, (condition, known.atomized(a), known.atomized(b)))
    known.remember_branches(e, yes, a, no, b)
    return common.plus(atom(e)) if common.terms or common.const else atom(e)


def _mul(known: Normalizer, node: Node) -> Linear:
    return known.product(known.forms[node.args[0]], known.forms[node.args[1]])


def _asserting(known: Normalizer, node: Node) -> Linear:
    return known.form(node.args[1])


def _load(known: Normalizer, node: Node) -> Linear:
    args = tuple(known.atomized(known.forms[arg]) for arg in node.args)
    symbol = node.data
    if symbol.lower is not None and symbol.lower == symbol.upper:
        return constant(symbol.lower)
    return atom(make(ops.LOAD, args, symbol))


RULES: dict[ops.Op, Rule] = {
    ops.LOAD: _load,
    ops.MUL: _mul,
    ops.FLOORDIV: _division(division.floordiv),
    ops.FLOORMOD: _division(remainders.floormod),
    ops.CEILDIV: _division(division.ceildiv),
    ops.TRUNCDIV: _division(division.truncdiv),
    ops.TRUNCMOD: _division(division.truncmod),
    ops.MIN: _minmax(ops.MIN),
    ops.MAX: _minmax(ops.MAX),
    ops.ABS: _abs,
    ops.SELECT: _select,
    ops.ASSERTING: _asserting,
    ops.BITAND: bits.bitand,
    ops.BITOR: bits.bitor,
    ops.BITXOR: bits.bitxor,
    ops.BITNOT: bits.bitnot,
    ops.SHL: bits.shl,
    ops.SHR: bits.shr,
    ops.CAST: bits.cast,
}
