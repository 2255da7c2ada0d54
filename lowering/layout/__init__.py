"""Layouts: maps from the indices of a tensor to the indices of its storage.

Guarantee: a transformed function stores the same elements in another layout; padding has the stated value or is
never accessed.

index_map.py      `IndexMap`, which also packs numpy arrays
strided.py        `Layout`, shapes and strides with their algebra
transform.py      `transform_layout`, `with_layouts`, `cache_read`, `cache_write`, `add_constraint`
padding_value.py  the value of a padding, as a user states it; `element`
"""

from lowering.layout.index_map import IndexMap
from lowering.layout.strided import Layout

__all__ = ["IndexMap", "Layout"]
