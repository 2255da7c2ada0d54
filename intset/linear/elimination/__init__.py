"""Elimination over the integers in Python alone: a toolkit for region domains of one's own.

The domains of this package use isl instead. `examples/boxes` builds a domain on this toolkit, which
answers without islpy.

`cases.py` reads a condition as cases of affine forms. `systems.py` eliminates variables from inequalities and
congruences under a counted budget.
"""
