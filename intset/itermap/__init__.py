"""Maps of indices: split-and-fuse structure, injectivity, inverses, padding.

structure.py   index expressions read as digits of fused variables, and back
general.py     `Verdict` on a property of any map: small maps as a table, others by the prover and by relations
itermap.py     `IterMap`, which asks the cheapest of these that can answer
"""
