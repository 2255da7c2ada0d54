"""One rule an operation: the linear form of a node from the linear forms of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from intset.expr import ops
from intset.expr.node import Node, make
from intset.linear import bits, division, remainders
from intset.linear.form import Linear, atom, constant
from intset.linear.order import form_key

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

Rule = Callable[["Normalizer", Node], Linear]


def _division(combine: Callable[[Normalizer, Linear, Linear], Linear]) -> Rule:
    def rule(known: Normalizer, node: Node) -> Linear:
        return combine(known, known.forms[node.args[0]], known.forms[node.args[1]])

    return rule


def _minmax(op: ops.Op) -> Callable[[Normalizer, Node], Linear]:
    def rule(known: Normalizer, node: Node) -> Linear:
        a, b = known.forms[node.args[0]], known.forms[node.args[1]]
        sign = known.sign(b.minus(a) if op is ops.MIN else a.minus(b))
        if sign:
            return a if sign > 0 else b
        common, a, b = _split_common(a, b)
        parts = sorted((a, b), key=lambda form: (form.is_const, form_key(form)))
        return common.plus(atom(make(op, tuple(known.atomized(part) for part in parts))))

    return rule


def _split_common(a: Linear, b: Linear) -> tuple[Linear, Linear, Linear]:
    """(s, a - s, b - s) with the terms that both forms share in s."""
    shared = {t: k for t, k in a.terms.items() if b.terms.get(t) == k}
    offset = a.const if a.const == b.const or (len(a.terms) > len(shared) and a.const) else 0
    common = Linear(offset, shared)
    return common, a.minus(common), b.minus(common)


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
    known.has_parameters |= yes.has_parameters or no.has_parameters
    known.met_partial |= yes.met_partial or no.met_partial
    known.met_claim |= yes.met_claim or no.met_claim
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
    claim = known.cond(node.args[0])
    if claim.op is not ops.BOOL or not claim.data:  # one that never holds leaves no point
        known.met_partial = known.met_claim = True
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
