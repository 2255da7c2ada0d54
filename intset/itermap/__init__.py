"""Maps of indices: split-and-fuse structure, injectivity, inverses, padding.

structure.py   index expressions read as digits of fused variables, and back
itermap.py     `IterMap`: a `Verdict` on each property, by structure, bits, a table of points, the prover, relations
"""
