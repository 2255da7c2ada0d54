"""Elimination over the integers in Python alone: what a region domain of one's own may be built on.

No domain of this package stands on it: isl has the same inside. It is public because the algebra of regions asks every
implementation for projections and images, which nobody writes again who only wants another way to write sets down, and
because it needs no library: a domain on it answers where islpy cannot be imported. `examples/boxes` is one.

`cases.py` reads a condition as cases of affine forms, `systems.py` takes variables out of inequalities and congruences,
`budget.py` counts what that costs.
"""
