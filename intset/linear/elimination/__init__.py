"""Elimination over the integers in Python alone: a toolkit for region domains of one's own.

No domain of this package is built on it; isl has its own. `examples/boxes` shows a domain that is: it needs no library,
so it answers where islpy cannot be imported.

`cases.py` reads a condition as cases of affine forms. `systems.py` eliminates variables from inequalities and
congruences under a counted budget.
"""
