"""A domain and a shape from outside the package.

Known bits, masks of fixed bits, are a domain. `CoreShape` implements the core of a shape alone, so that tests reach the
default implementations of all other methods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from intset import CountError, IntervalSet, IntSet, register
from intset.domains.isl.presburger import IslShape, of
from intset.domains.registry import unregister
from intset.domains.value import ValueDomain
from intset.expr import NEG_INF, POS_INF, ops
from intset.expr.build import logical_and
from intset.expr.node import Cond, Expr, Var, as_expr, truth
from intset.regions.shape import End, Shape

WIDTH = 12  # bits looked at; the value is known modulo 2**WIDTH
MASK = (1 << WIDTH) - 1
TOP = (0, 0)  # (bits known to be 0, bits known to be 1)


class KnownBitSet(IntSet):
    """All integers whose low bits agree with the known ones."""

    def __init__(self, zeros: int, ones: int) -> None:
        super().__init__("known_bits", False, False)
        self.zeros, self.ones = zeros, ones

    def ends(self):
        return NEG_INF, POS_INF

    def condition(self, e):
        if not self.zeros and not self.ones:
            return truth(True)
        x = as_expr(e)
        return logical_and((x & self.ones).eq(self.ones), (x & self.zeros).eq(0))

    def count(self):
        raise CountError("only some bits are known")


def _trailing(value) -> int:
    """How many low bits are known."""
    known = value[0] | value[1]
    return ((known + 1) & -(known + 1)).bit_length() - 1


def _low(value, bits: int):
    mask = (1 << bits) - 1
    return (~value & mask & MASK, value & mask & MASK)


def add(a, b):
    return _low(a[1] + b[1], min(_trailing(a), _trailing(b)))


def _zeros(value) -> int:
    """How many low bits are known to be 0."""
    return ((value[0] + 1) & -(value[0] + 1)).bit_length() - 1


def mul(a, b):
    return _low(a[1] * b[1], min(_trailing(a) + _zeros(b), _trailing(b) + _zeros(a), WIDTH))


class KnownBits(ValueDomain):
    """Knows sums, products and bit operations; every other operation is left to the interval."""

    name = "known_bits"
    transfer: ClassVar = {
        ops.ADD: add,
        ops.MUL: mul,
        ops.BITAND: lambda a, b: (a[0] | b[0], a[1] & b[1]),
        ops.BITOR: lambda a, b: (a[0] & b[0], a[1] | b[1]),
    }

    def constant(self, x):
        return _low(x, WIDTH)

    def between(self, low, high):
        if low is None or high is None or low < 0:
            return self.constant(low) if low is not None and low == high else TOP
        same = ~((1 << (low ^ high).bit_length()) - 1) & MASK
        return (~low & same, low & same) if high <= MASK else TOP

    def join(self, a, b):
        return (a[0] & b[0], a[1] & b[1])

    def meet(self, a, b):
        return (a[0] | b[0], a[1] | b[1])

    def represent(self, value):
        if value[0] & value[1]:
            return IntervalSet(POS_INF, NEG_INF, self.name)
        return KnownBitSet(*value)


@contextmanager
def registered(domain: Any, name: str = "") -> Iterator[str]:
    """Registers a domain during the block, under its name or another name."""
    register(domain, name or None)
    try:
        yield name or domain.name
    finally:
        unregister(name or domain.name)


class CoreShape(Shape):
    """The nine methods of the core, answered by isl; everything else is by default."""

    def __init__(self, shape: IslShape) -> None:
        self.shape, self.dims = shape, shape.dims

    def union(self, other: Shape) -> CoreShape:
        return CoreShape(self.shape.union(_inside(other)))

    def intersect(self, other: Shape) -> CoreShape:
        return CoreShape(self.shape.intersect(_inside(other)))

    def subtract(self, other: Shape) -> CoreShape:
        return CoreShape(self.shape.subtract(_inside(other)))

    def project(self, dims: Sequence[int]) -> CoreShape:
        return CoreShape(self.shape.project(dims))

    def filter(self, point: Sequence[Var], condition: Cond) -> CoreShape:
        return CoreShape(self.shape.filter(point, condition))

    def is_empty(self) -> bool:
        return self.shape.is_empty()

    def condition(self, point: Sequence[Expr]) -> Cond:
        return self.shape.condition(point)

    def end(self, k: int, side: int) -> End:
        return self.shape.end(k, side)

    def everything(self, dims: int) -> CoreShape:
        return CoreShape(self.shape.everything(dims))


def _inside(shape: Shape) -> IslShape:
    return shape.shape if isinstance(shape, CoreShape) else of(shape)
