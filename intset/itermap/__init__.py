"""Maps of indices: split-and-fuse structure, injectivity, inverses, padding.

verdict.py     the answer to "is it injective, surjective, bijective?", with points where it is not
scalars.py     numbers and sizes: arithmetic that stays in `int` as long as it can
structure.py   index expressions read as digits of fused variables, and back
listed.py      a map that is small enough to be listed
general.py     what relations and the prover say of any map
itermap.py     `IterMap`, which asks the cheapest of these that knows
"""
