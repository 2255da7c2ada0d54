"""Bit operations: what lies above a mask, and casts of what fits.

(x*16 + y) & 15 = y & 15            the mask has no bit from 16 on
cast(cast(x, a), b) = cast(x, b)    where b <= a;  = cast(x, a)  where all of that fits b
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from intset.expr import ops
from intset.expr.node import Expr, make
from intset.linear.canonical import Normalizer
from intset.simplify import sums
from intset.simplify.pattern import folded


def candidates(node: Expr, known: Normalizer) -> Iterator[tuple[str, Any]]:
    """What a mask or a cast may be written as."""
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
    """The least and the greatest value of the type that is cast to."""
    bits, signed = node.data
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def _masked(part: Expr, mask: Expr) -> Iterator[tuple[str, Any]]:
    """Without what is a multiple of a power of two above the mask."""
    total, above = sums.read(part), 1 << mask.data.bit_length()
    inner = sums.of(total.const % above, {t: k for t, k in total.terms.items() if k % above})
    if inner != total:
        yield "above the mask", folded(ops.BITAND, (sums.write(inner), mask))
