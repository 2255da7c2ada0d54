"""Passes over integers: how indices are written, named, divided, and how wide they are.

cse.py               `name_values`, `name_minima`, `inline_values`: names for common subexpressions, and their inverse.
                     Guarantee: equal values; what gets a name is defined wherever the name stands.
labels.py            how such a name is called.
reassociation.py     sums in the order of loops. Guarantee: no partial sum needs a wider type.
constant_folding.py  `fold_constants` and conditions decided by a caller. Guarantee: equal values, no wider step.
divisions.py         `lower_divisions`. Guarantee: equal wherever the division is defined and fits the width.
index_width.py       `narrow`, and sizes for which 32 bits suffice. Guarantee: "32" is proved for every index.
intervals.py         whether an expression fits a width, by the intervals of its operands. Guarantee: sound.
integers.py          the largest integer parts of operands, each with the conditions under which it is evaluated.
"""
