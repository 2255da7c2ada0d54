"""The elements of a set or region for a picture: blocks of its bounding box with an element."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias

from intset.budgets import COUNTED_POINTS
from intset.domains.sets.bounds import Pair, Represented, range_between
from intset.errors import BudgetError, CountError
from intset.expr.node import Expr
from intset.regions.derived import coordinates
from intset.regions.shape import Shape

DRAWN_LENGTH: Final = 1_200  # cells of a picture along one axis

Side: TypeAlias = tuple[int, int]  # first element, number of elements


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of a region, projected to the axes drawn.

    Attributes
    ----------
    count: the number of elements along all axes; `None` beyond the counting budget.
    box: the bounding box along the axes drawn.
    block: the extents of a block: 1 along each axis, or larger if the box is too large to list.
    blocks: the nonempty blocks, counted from the low corner of the box; `None`: the box is full.
    """

    count: int | None
    box: tuple[Side, ...]
    block: tuple[int, ...]
    blocks: frozenset[tuple[int, ...]] | None

    @property
    def is_empty(self) -> bool:
        return any(extent == 0 for _, extent in self.box)

    def cells(self) -> Iterator[tuple[Side, ...]]:
        """The boxes to fill, one per nonempty block."""
        if self.blocks is None:
            for point in itertools.product(*(range(low, low + extent) for low, extent in self.box)):
                yield tuple((x, 1) for x in point)
            return
        for block in sorted(self.blocks):
            yield tuple((low + k * b, b) for (low, _), k, b in zip(self.box, block, self.block, strict=True))


def elements_of(region: Represented, drawn: Sequence[int], max_blocks: int, operations: int) -> Elements:
    """The elements of a region, free of parameters, projected to the axes `drawn`.

    Raises
    ------
    BudgetError: the region has no finite box, or takes more operations of its domain.
    """
    whole = region.shape
    with whole.budget(operations):
        return _elements(whole.without(whole.atoms()).project(drawn), _count(whole), max_blocks)


def _elements(seen: Shape, number: int | None, max_blocks: int) -> Elements:
    dims = seen.dims
    box = tuple(_side(ends) for ends in seen.dim_bounds())
    ones = (1,) * dims
    if any(extent == 0 for _, extent in box):
        return Elements(0, box, ones, None)
    if seen.includes(seen.hull()):
        return Elements(number, box, ones, None)
    block = _block([extent for _, extent in box], max_blocks)
    if number is not None and number <= min(max_blocks, COUNTED_POINTS):
        points = seen.listed(number)
        return Elements(number, box, block, frozenset(_place(x, box, block) for x in points))
    point = coordinates(dims)
    places = [(x - low) // b for x, (low, _), b in zip(point, box, block, strict=True)]
    return Elements(number, box, block, frozenset(seen.image(point, places).listed(max_blocks)))


def _place(point: Sequence[int], box: Sequence[Side], block: Sequence[int]) -> tuple[int, ...]:
    return tuple((x - low) // b for x, (low, _), b in zip(point, box, block, strict=True))


def _side(ends: Pair) -> Side:
    found = range_between(*ends)
    if not (isinstance(found.min, Expr) and isinstance(found.extent, Expr)):
        raise BudgetError("a region without end")
    return int(found.min), max(int(found.extent), 0)


def _block(extents: Sequence[int], max_blocks: int) -> tuple[int, ...]:
    """The extents of a block. Blocks double along the longest axis until they are few enough."""
    block, numbers = [1] * len(extents), list(extents)
    while max(numbers) > DRAWN_LENGTH or prod(numbers) > max_blocks:
        k = numbers.index(max(numbers))
        block[k] *= 2
        numbers[k] = -(-extents[k] // block[k])
    return tuple(block)


def _count(shape: Shape) -> int | None:
    try:
        found = shape.count()
    except CountError:
        return None
    return found if isinstance(found, int) else None
