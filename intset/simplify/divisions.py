"""Rewrites of divisions, masks and casts.

(x*z) // (y*z) = x // y             (x*z) % (y*z) = (x % y) * z          likewise for the other divisions
(g*x + k) // (g*d) = (x + k//g) // d, constants g, d > 0             (c*x + y) // c = x + y // c
(k*x + m*y + a) % c = (k'*x + m'*y + a') % c        where k - k', m - m', a - a' are multiples of c
min(x, y) // c = min(x // c, y // c), c > 0; likewise for max and truncdiv
(x*16 + y) & 15 = y & 15            the mask has no bit from bit 4 on
cast(cast(x, a), b) = cast(x, b)    where b <= a;  = cast(x, a) where type b contains type a

A sum is a factor like a variable; nothing is multiplied out.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod
from typing import Any

from intset.expr import ops
from intset.expr.node import Expr, const, make
from intset.linear.canonical import Normalizer
from intset.simplify import sums
from intset.simplify.pattern import folded

_REMAINDERS = (ops.FLOORMOD, ops.TRUNCMOD)
_QUOTIENTS = (ops.FLOORDIV, ops.TRUNCDIV, ops.CEILDIV)
_BOUNDS = (ops.MIN, ops.MAX)


def division_candidates(node: Expr, known: Normalizer, for_machine: bool) -> Iterator[tuple[str, Expr]]:
    """Rewrites of a division: common factors cancelled, coefficients reduced.

    for_machine: keep a nonnegative dividend nonnegative, because unsigned division is a cheaper instruction.
    """
    a, b = node.args
    if a is b:
        return
    if node.op is ops.FLOORDIV and b.op is ops.CONST and b.data > 1 and a.op is not ops.VAR:
        yield from _coarser(a, b.data)
    if node.op is ops.FLOORMOD and b.op is ops.CONST and b.data > 1 and a.op is not ops.VAR:
        for rule, inner in _congruent(a, b.data, for_machine):
            if not for_machine or known.is_nonneg(known.form(inner)) or not known.is_nonneg(known.form(a)):
                yield rule, folded(ops.FLOORMOD, (inner, b))
    if node.op in _QUOTIENTS and a.op in _BOUNDS and b.op is ops.CONST and b.data > 0:
        yield "quotient of a bound", make(a.op, tuple(make(node.op, (arg, b)) for arg in a.args))
    (ka, fa), (kb, fb) = _taken_apart(a), _taken_apart(b)
    if not kb or not ka:
        return
    shared: list[Expr] = []
    left = list(fa)
    rest: list[Expr] = []
    for factor in fb:
        position = next((k for k, f in enumerate(left) if f is factor), None)
        if position is None:
            rest.append(factor)
        else:
            shared.append(left.pop(position))
    g = gcd(ka, kb)
    if not shared and g == 1:
        return
    upper, lower = _product(ka // g, left), _product(kb // g, rest)
    if lower.op is ops.CONST and abs(lower.data) == 1:
        if node.op in _REMAINDERS:
            yield "multiple of the divisor", const(0)
        else:
            yield "divisor cancels", upper if lower.data == 1 else sums.write(sums.scaled(sums.read(upper), -1))
        return
    reduced = folded(node.op, (upper, lower))
    if reduced is None:
        return
    if node.op in _REMAINDERS:
        reduced = _times(reduced, g, shared)
    yield f"common factor, {node.op.name}", reduced


def _congruent(a: Expr, c: int, for_machine: bool) -> Iterator[tuple[str, Expr]]:
    """The dividend with coefficients reduced modulo `c`; for a machine, to nonnegative residues."""
    total = sums.read(a)
    for least in (0,) if for_machine else (0, -((c - 1) // 2)):  # residues from there on
        near = {t: (k - least) % c + least for t, k in total.terms.items()}
        inner = sums.of(total.const % c, {t: k for t, k in near.items() if k})
        if inner != total:
            yield "congruent dividend", sums.write(inner)


def _coarser(a: Expr, c: int) -> Iterator[tuple[str, Expr]]:
    """`(g*x + k) // (g*d)` as `(x + k//g) // d`; `(c*x + y) // c` as `x + y//c`."""
    total = sums.read(a)
    g = gcd(c, *total.terms.values())
    if g > 1 and total.terms:
        inner = sums.write(sums.of(total.const // g, {t: k // g for t, k in total.terms.items()}))
        yield "common factor of terms and divisor", inner if c == g else make(ops.FLOORDIV, (inner, const(c // g)))
    whole = {t: k // c for t, k in total.terms.items() if k % c == 0}
    if whole and len(whole) < len(total.terms):
        few = {t: k for t, k in total.terms.items() if k % c}
        g = gcd(c, *few.values())
        rest = sums.of(total.const // g, {t: k // g for t, k in few.items()})
        quotient = make(ops.FLOORDIV, (sums.write(rest), const(c // g)))
        yield "multiples of the divisor", sums.write(sums.of(0, whole).plus(sums.of(0, {quotient: 1})))


def _taken_apart(e: Expr) -> tuple[int, list[Expr]]:
    """(k, factors) with `e = k * product(factors)`, no factor a constant."""
    parts = sums.factors_of(e)
    scale = prod(f.data for f in parts if f.op is ops.CONST)
    return scale, [f for f in parts if f.op is not ops.CONST]


def _product(scale: int, factors: list[Expr]) -> Expr:
    if not factors or scale == 0:
        return const(scale)
    e = sums.multiplied(factors)
    return e if scale == 1 else make(ops.MUL, (e, const(scale)))


def _times(e: Expr, scale: int, factors: list[Expr]) -> Expr:
    result = e if not factors else make(ops.MUL, (e, sums.multiplied(factors)))
    return result if scale == 1 else make(ops.MUL, (result, const(scale)))


# -- masks and casts ---------------------------------------------------------------------------------------------------


def bit_candidates(node: Expr, known: Normalizer) -> Iterator[tuple[str, Any]]:
    """Rewrites of a mask or a cast."""
    if node.op is ops.CAST:
        yield from _cast(node, known)
    elif node.op is ops.BITAND:
        for part, mask in (node.args, node.args[::-1]):
            if mask.op is ops.CONST and mask.data >= 0:
                yield from _masked(part, mask)


def _cast(node: Expr, known: Normalizer) -> Iterator[tuple[str, Any]]:
    (inner,) = node.args
    low, high = known.bounds(known.form(inner))
    least, most = _range(node)
    if low is not None and high is not None and least <= low and high <= most:
        yield "cast of what fits", inner
    if inner.op is ops.CAST:
        inner_least, inner_most = _range(inner)
        if least <= inner_least and inner_most <= most:
            yield "cast of what fits", inner
        if node.data[0] <= inner.data[0]:
            yield "cast of a wider cast", make(ops.CAST, inner.args, node.data)


def _range(node: Expr) -> tuple[int, int]:
    """Least and greatest value of the target type of a cast."""
    bits, signed = node.data
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def _masked(part: Expr, mask: Expr) -> Iterator[tuple[str, Any]]:
    """Drop terms that are multiples of a power of two above the mask."""
    total, above = sums.read(part), 1 << mask.data.bit_length()
    inner = sums.of(total.const % above, {t: k for t, k in total.terms.items() if k % above})
    if inner != total:
        yield "above the mask", folded(ops.BITAND, (sums.write(inner), mask))
