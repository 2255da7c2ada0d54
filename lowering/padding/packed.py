"""Packed parameters: padding masks and index conversion."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from bound.tensor import Tensor
from intset.expr.node import as_expr, constant_value
from intset.expr.text import shown
from lowering.errors import LayoutError
from lowering.layout import IndexMap
from lowering.nest.ir import Function

Place = tuple[int, ...]


class Grid:
    """The storage grid of an index map with constant shape.

    Attributes
    ----------
    shape: extents of the new indices.
    first: smallest new indices; storage index = new index - `first`.
    """

    def __init__(self, layout: IndexMap) -> None:
        self.layout = layout
        sizes = [e for e in (*layout.shape, *layout.new_shape) if not isinstance(e, int)]
        if sizes:
            raise LayoutError(f"the layout {shown(layout)} depends on the size {sizes[0]}: here sizes must be numbers")
        self.shape: Place = tuple(int(e) for e in layout.new_shape)
        self.first: Place = tuple(constant_value(as_expr(r.min)) or 0 for r in layout.ranges)

    @cached_property
    def mask(self) -> Any:
        """Boolean array over the storage; true marks padding."""
        import numpy as np

        return self.layout.pack(np.zeros(self.layout.shape, np.bool_), True)

    @cached_property
    def padding(self) -> tuple[Place, ...]:
        """Padding positions as new indices, in lexicographic order."""
        import numpy as np

        return tuple(tuple(int(x) + m for x, m in zip(p, self.first, strict=True)) for p in np.argwhere(self.mask))

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Hashable key; equal keys mean that both grids store every element at equal positions."""
        import numpy as np

        old = tuple(int(e) for e in self.layout.shape)
        numbers = np.arange(int(np.prod(old)), dtype=np.int64).reshape(old)
        return old, self.shape, self.first, self.layout.pack(numbers, -1).tobytes()

    @property
    def elements(self) -> int:
        """Number of storage elements, padding included."""
        return math.prod(self.shape)

    @cached_property
    def _padding(self) -> frozenset[Place]:
        return frozenset(self.padding)

    def is_padding(self, place: Place) -> bool:
        return place in self._padding

    def __reduce__(self) -> tuple[object, ...]:
        return Grid, (self.layout,)

    def storage(self, place: Place) -> Place:
        """Convert new indices to storage indices."""
        return tuple(i - m for i, m in zip(place, self.first, strict=True))

    def place(self, storage: Place) -> Place:
        """Convert storage indices to new indices."""
        return tuple(i + m for i, m in zip(storage, self.first, strict=True)) if any(self.first) else storage


class Packed(NamedTuple):
    """A parameter with its layout."""

    tensor: Tensor
    grid: Grid

    @property
    def layout(self) -> IndexMap:
        return self.grid.layout


def packed_of(f: Function, layouts: Mapping[str, IndexMap]) -> dict[Tensor, Packed]:
    """Pair each packed parameter with its layout.

    Raises
    ------
    LayoutError: a name is not a parameter, a layout is not an `IndexMap`, or shapes differ.
    """
    by_name = {t.name: t for t in f.params}
    return dict(_checked(f, by_name, layouts))


def _checked(
    f: Function, by_name: Mapping[str, Tensor], layouts: Mapping[str, IndexMap]
) -> Iterator[tuple[Tensor, Packed]]:
    for name, layout in layouts.items():
        tensor = by_name.get(name)
        if tensor is None:
            raise LayoutError(f"{shown(name)} is no parameter of {f.name}: the parameters are {', '.join(by_name)}")
        if not isinstance(layout, IndexMap):
            raise LayoutError(f"the layout of {name} in {f.name} must be an IndexMap, not {shown(layout)}")
        grid = Grid(layout)
        extents = tuple(constant_value(e) for e in tensor.extents)
        if extents != grid.shape:
            own = ", ".join(map(str, tensor.extents))
            raise LayoutError(f"{name} of {f.name} has the shape ({own}), its layout the new shape {grid.shape}")
        yield tensor, Packed(tensor, grid)
