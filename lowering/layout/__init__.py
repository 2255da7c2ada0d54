"""Layouts: maps from the indices of a tensor to the indices of its storage.

Guarantee: a transformed function stores the same elements in another layout; padding has the stated value or is
never accessed.

index_map.py      `IndexMap`; packing.py packs numpy arrays by one
transform.py      `transform_layout`, `with_layouts`
cache.py          `cache_read`, `cache_write`
constraint.py     `add_constraint`
padding_value.py  the value of a padding, as a user states it; `element`
contents.py       nests that store or assume values of elements
relocation.py     redirection of all accesses of a tensor to another storage
"""

from lowering.layout.index_map import IndexMap

__all__ = ["IndexMap"]
