"""One rule for each operation: the linear form of a node from the linear forms of its arguments.

Guarantee: under the assumptions of the normalizer, the form equals the node wherever the node is defined.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING, Final

from intset.expr import ops
from intset.expr.node import Node, make
from intset.linear.division import ceildiv, floordiv, floordiv_const, floormod, truncdiv, truncmod
from intset.linear.form import ZERO, Linear, atom, constant, form_key
from intset.linear.multiples import folded

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

MASK_RUNS: Final = 4  # runs of ones in a mask that becomes remainders
LINEAR_SHIFT: Final = 4_096  # bits of a shift that becomes a product or quotient


def extremum(known: Normalizer, op: ops.Op, a: Linear, b: Linear) -> Linear:
    """The minimum or maximum of two forms: one of them if the sign of `a - b` is known, else a new atom."""
    sign = known.sign(b.minus(a) if op is ops.MIN else a.minus(b))
    if sign:
        return a if sign > 0 else b
    common, *parts = without_shared(a, b)
    first, second = sorted(parts, key=_without_constant)
    offset = first.const
    apart = tuple(known.atomized(part.shift(-offset)) for part in (first, second))
    return common.shift(offset).plus(atom(make(op, apart)))


def without_shared(a: Linear, b: Linear) -> tuple[Linear, Linear, Linear]:
    """(s, a - s, b - s) for the common terms s."""
    common = Linear(0, {t: k for t, k in a.terms.items() if b.terms.get(t) == k})
    return (common, a.minus(common), b.minus(common)) if common.terms else (common, a, b)


def _without_constant(form: Linear) -> tuple[object, ...]:
    """A sort key that ignores the constant; constant forms come last."""
    return (form.is_const, form_key(form.shift(-form.const)))


def low_bits(known: Normalizer, form: Linear, bits: int) -> Linear:
    """`form % 2**bits`."""
    return form.plus(floordiv_const(known, form, 1 << bits), -(1 << bits))


def bit_and(known: Normalizer, a: Linear, b: Linear) -> Linear | None:
    """`a & b` if linear (a constant mask of few runs of ones, or disjoint bits); else `None`."""
    if a.is_const and b.is_const:
        return constant(a.const & b.const)
    if a.is_const:
        a, b = b, a
    if b.is_const:
        if b.const < 0:  # a & m = a - (a & ~m)
            rest = _masked(known, a, ~b.const)
            return None if rest is None else a.minus(rest)
        return _masked(known, a, b.const)
    return ZERO if _no_common_bit(known, a, b) or _no_common_bit(known, b, a) else None


def _masked(known: Normalizer, a: Linear, mask: int) -> Linear | None:
    total, low, runs = ZERO, 0, 0
    while mask >> low:
        low += ((mask >> low) & -(mask >> low)).bit_length() - 1
        ones = (mask >> low) ^ ((mask >> low) + 1)
        width = ones.bit_length() - 1
        total = total.plus(low_bits(known, floordiv_const(known, a, 1 << low), width), 1 << low)
        low, runs = low + width, runs + 1
        if runs > MASK_RUNS:
            return None
    return total


def _no_common_bit(known: Normalizer, high: Linear, low: Linear) -> bool:
    step = gcd(high.content(), high.const)
    step &= -step
    first, last = known.bounds(low)
    return first is not None and last is not None and first >= 0 and last < step


# -- rules: one for each operation, of the forms of its arguments ----------------------------------------------


def _minimum(known: Normalizer, a: Linear, b: Linear) -> Linear:
    return extremum(known, ops.MIN, a, b)


def _maximum(known: Normalizer, a: Linear, b: Linear) -> Linear:
    return extremum(known, ops.MAX, a, b)


def _bitand(known: Normalizer, a: Linear, b: Linear) -> Linear:
    return bit_and(known, a, b) or _opaque_bits(known, ops.BITAND, a, b)


def _bitor(known: Normalizer, a: Linear, b: Linear) -> Linear:
    common = bit_and(known, a, b)  # a | b = a + b - (a & b)
    return _opaque_bits(known, ops.BITOR, a, b) if common is None else a.plus(b).minus(common)


def _bitxor(known: Normalizer, a: Linear, b: Linear) -> Linear:
    common = bit_and(known, a, b)  # a ^ b = a + b - 2*(a & b)
    return _opaque_bits(known, ops.BITXOR, a, b) if common is None else a.plus(b).plus(common, -2)


def _opaque_bits(known: Normalizer, op: ops.Op, a: Linear, b: Linear) -> Linear:
    return atom(make(op, tuple(known.atomized(part) for part in sorted((a, b), key=form_key))))


def _shl(known: Normalizer, a: Linear, b: Linear) -> Linear:
    if b.is_const and 0 <= b.const <= LINEAR_SHIFT:
        return a.scale(1 << b.const)
    return atom(make(ops.SHL, (known.atomized(a), known.atomized(b))))


def _shr(known: Normalizer, a: Linear, b: Linear) -> Linear:
    if b.is_const and 0 <= b.const <= LINEAR_SHIFT:
        return floordiv_const(known, a, 1 << b.const)
    return atom(make(ops.SHR, (known.atomized(a), known.atomized(b))))


def _bitnot(known: Normalizer, a: Linear) -> Linear:
    return a.scale(-1).shift(-1)  # ~a = -a - 1


def _abs(known: Normalizer, a: Linear) -> Linear:
    sign = known.sign(a)
    if sign:
        return a if sign > 0 else a.scale(-1)
    first = a.ordered()[0][1]
    return atom(make(ops.ABS, (known.atomized(a if first > 0 else a.scale(-1)),)))


def _mul(known: Normalizer, a: Linear, b: Linear) -> Linear:
    form = known.product(a, b)
    return folded(known, form) if known.may_know_multiples(form) else form


# -- rules of operations with lazy arguments or a payload: of the node -----------------------------------------


def _cast(known: Normalizer, node: Node) -> Linear:
    bits, signed = node.data
    a = known.forms[node.args[0]]
    offset = 1 << (bits - 1) if signed else 0
    return low_bits(known, a.shift(offset), bits).shift(-offset)  # wrap(a) = (a + h) mod 2^bits - h


def _split_common(a: Linear, b: Linear) -> tuple[Linear, Linear, Linear]:
    """(s, a - s, b - s) for the common terms s, plus the constant of `a` unless `a - s` would be that constant."""
    common, a, b = without_shared(a, b)
    offset = a.const if a.const == b.const or a.terms else 0
    return common.shift(offset), a.shift(-offset), b.shift(-offset)


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


def _asserting(known: Normalizer, node: Node) -> Linear:
    return known.form(node.args[1])


def _load(known: Normalizer, node: Node) -> Linear:
    args = tuple(known.atomized(known.forms[arg]) for arg in node.args)
    symbol = node.data
    if symbol.lower is not None and symbol.lower == symbol.upper:
        return constant(symbol.lower)
    return atom(make(ops.LOAD, args, symbol))


RULES: dict[ops.Op, Callable[..., Linear]] = {
    ops.MUL: _mul,
    ops.FLOORDIV: floordiv,
    ops.FLOORMOD: floormod,
    ops.CEILDIV: ceildiv,
    ops.TRUNCDIV: truncdiv,
    ops.TRUNCMOD: truncmod,
    ops.MIN: _minimum,
    ops.MAX: _maximum,
    ops.ABS: _abs,
    ops.BITAND: _bitand,
    ops.BITOR: _bitor,
    ops.BITXOR: _bitxor,
    ops.BITNOT: _bitnot,
    ops.SHL: _shl,
    ops.SHR: _shr,
}

NODE_RULES: dict[ops.Op, Callable[[Normalizer, Node], Linear]] = {
    ops.LOAD: _load,
    ops.SELECT: _select,
    ops.ASSERTING: _asserting,
    ops.CAST: _cast,
}
