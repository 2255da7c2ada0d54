"""Bitwise operations on linear forms, where they are arithmetic: masks of few runs, operands without a common bit."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from intset.expr import ops
from intset.expr.node import Node, make
from intset.linear.division import floordiv_const
from intset.linear.form import ZERO, Linear, atom, constant
from intset.linear.order import form_key

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

MAX_MASK_RUNS = 4
MAX_SHIFT = 4096


def low_bits(known: Normalizer, form: Linear, bits: int) -> Linear:
    """`form % 2**bits`."""
    return form.plus(floordiv_const(known, form, 1 << bits), -(1 << bits))


def bit_and(known: Normalizer, a: Linear, b: Linear) -> Linear | None:
    """`a & b` where it is linear: a constant mask of few runs of ones, or operands without a common bit."""
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
        if runs > MAX_MASK_RUNS:
            return None
    return total


def _no_common_bit(known: Normalizer, high: Linear, low: Linear) -> bool:
    step = gcd(high.content(), high.const)
    step &= -step
    first, last = known.bounds(low)
    return first is not None and last is not None and first >= 0 and last < step


# -- rules: one entry an operation ------------------------------------------------------------------------------


def bitand(known: Normalizer, node: Node) -> Linear:
    return bit_and(known, known.forms[node.args[0]], known.forms[node.args[1]]) or _opaque_bits(known, node)


def bitor(known: Normalizer, node: Node) -> Linear:
    a, b = known.forms[node.args[0]], known.forms[node.args[1]]
    common = bit_and(known, a, b)  # a | b = a + b - (a & b)
    return _opaque_bits(known, node) if common is None else a.plus(b).minus(common)


def bitxor(known: Normalizer, node: Node) -> Linear:
    a, b = known.forms[node.args[0]], known.forms[node.args[1]]
    common = bit_and(known, a, b)  # a ^ b = a + b - 2*(a & b)
    return _opaque_bits(known, node) if common is None else a.plus(b).plus(common, -2)


def _opaque_bits(known: Normalizer, node: Node) -> Linear:
    parts = sorted((known.forms[arg] for arg in node.args), key=form_key)
    return atom(make(node.op, tuple(known.atomized(part) for part in parts)))


def shl(known: Normalizer, node: Node) -> Linear:
    a, b = (known.forms[arg] for arg in node.args)
    if b.is_const and 0 <= b.const <= MAX_SHIFT:
        return a.scale(1 << b.const)
    return atom(make(ops.SHL, (known.atomized(a), known.atomized(b))))


def shr(known: Normalizer, node: Node) -> Linear:
    a, b = (known.forms[arg] for arg in node.args)
    if b.is_const and 0 <= b.const <= MAX_SHIFT:
        return floordiv_const(known, a, 1 << b.const)
    return atom(make(ops.SHR, (known.atomized(a), known.atomized(b))))


def cast(known: Normalizer, node: Node) -> Linear:
    bits, signed = node.data
    a = known.forms[node.args[0]]
    offset = 1 << (bits - 1) if signed else 0
    return low_bits(known, a.shift(offset), bits).shift(-offset)  # wrap(a) = (a + h) mod 2^bits - h


def bitnot(known: Normalizer, node: Node) -> Linear:
    return known.forms[node.args[0]].scale(-1).shift(-1)  # ~a = -a - 1
