"""Maps of indices: split-and-fuse structure, injectivity, inverses, padding.

structure.py   index expressions read as digits of fused variables, and back
listed.py      `Verdict` on a property of a map; small maps as a table of all points
general.py     any map, by the prover and by relations
itermap.py     `IterMap`, which asks the cheapest of these that can answer
"""
