"""Packed parameters: which of their elements are padding, and what indices mean."""

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
    """The places of a map of constant shape.

    Attributes
    ----------
    shape: the extents of the new indices.
    first: the smallest new indices; storage counts from 0, a place in it is that many less.
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
        """An array over the storage, true in the padding."""
        import numpy as np

        return self.layout.pack(np.zeros(self.layout.shape, np.bool_), True)

    @cached_property
    def padding(self) -> tuple[Place, ...]:
        """The places of the padding, as new indices of the map, in lexicographic order."""
        import numpy as np

        return tuple(tuple(int(x) + m for x, m in zip(p, self.first, strict=True)) for p in np.argwhere(self.mask))

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What two grids have in common exactly if every element lies in the same place of both."""
        import numpy as np

        old = tuple(int(e) for e in self.layout.shape)
        numbers = np.arange(int(np.prod(old)), dtype=np.int64).reshape(old)
        return old, self.shape, self.first, self.layout.pack(numbers, -1).tobytes()

    @property
    def elements(self) -> int:
        """How many elements the storage has."""
        return math.prod(self.shape)

    @cached_property
    def _padding(self) -> frozenset[Place]:
        return frozenset(self.padding)

    def is_padding(self, place: Place) -> bool:
        return place in self._padding

    def __reduce__(self) -> tuple[object, ...]:
        return Grid, (self.layout,)

    def storage(self, place: Place) -> Place:
        """Where the element with these new indices lies in the storage."""
        return tuple(i - m for i, m in zip(place, self.first, strict=True))

    def place(self, storage: Place) -> Place:
        """The new indices of an element of the storage."""
        return tuple(i + m for i, m in zip(storage, self.first, strict=True)) if any(self.first) else storage


class Packed(NamedTuple):
    """A parameter with its layout."""

    tensor: Tensor
    grid: Grid

    @property
    def layout(self) -> IndexMap:
        return self.grid.layout


def packed_of(f: Function, layouts: Mapping[str, IndexMap]) -> dict[Tensor, Packed]:
    """The packed parameters of a function.

    Raises
    ------
    LayoutError: a layout is of no parameter, is none, or has another shape than the parameter.
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
