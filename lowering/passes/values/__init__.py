"""Passes over integers: how indices are written, named, divided, and how wide they are.

cse.py               `name_values`, `name_minima`, `inline_values`: names for common subexpressions, and their inverse.
                     Guarantee: equal values; what gets a name is defined wherever the name stands.
named_ends.py        `name_ends`: ranges of loops use the names in sight. Guarantee: equal values.
constant_folding.py  `fold_constants` and conditions decided by a caller. Guarantee: equal values, no wider step.
divisions.py         `lower_divisions`. Guarantee: equal wherever the division is defined and fits the width.
index_width.py       `narrow`, and sizes for which 32 bits suffice. Guarantee: "32" is proved for every index.
integers.py          lazy operations; integer parts of operands with the conditions of their evaluation.
"""
