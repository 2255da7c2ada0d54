"""Layouts: maps from the indices of a tensor to those of its storage.

index_map.py   `IndexMap`
declare.py     `with_layouts`: a function that was written in layouts
given.py       what a user gives for a map, checked
vectors.py     index expressions on whole numpy arrays
"""

from lowering.layout.index_map import IndexMap

__all__ = ["IndexMap"]
