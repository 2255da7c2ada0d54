"""Passes over integers: how indices are written, named, divided, and how wide they are.

cse.py          `name_values`, `name_minima`, `inline_values`: names for common subexpressions, and their inverse;
                `name_ends`: ranges of loops use the names in sight. Guarantee: equal values; what gets a name is
                defined wherever the name stands.
divisions.py    `lower_divisions`. Guarantee: equal wherever the division is defined and fits the width.
                `strength_reduce`: loops carry quotients and remainders. Guarantee: equal values at every width.
index_width.py  `narrow`, and sizes for which 32 bits suffice. Guarantee: "32" is proved for every index.
"""
