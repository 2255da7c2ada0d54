"""Layouts: maps from the indices of a tensor to those of its storage.

index_map.py   `IndexMap`
transform.py   `transform_layout`; on it
padding_value.py   what a padding is to hold, as a user says it; `element`
border.py      `cache_read`, `cache_write`
constraint.py  `add_constraint`
blocks.py      where a tensor lives in a nest
numbers.py     numbers where a function of indices is not told by variables
fill.py        nests that store that, or assume it
moved.py       every access of a tensor follows to another storage
declare.py     `with_layouts`: a function that was written in layouts
given.py       what a user gives for a map, checked
vectors.py     index expressions on whole numpy arrays
"""

from lowering.layout.index_map import IndexMap

__all__ = ["IndexMap"]
