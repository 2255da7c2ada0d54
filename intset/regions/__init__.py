"""Sets of integer tuples with parameters.

Guarantee: a shape answers exactly or refuses with a `BudgetError`.

shape.py      `Shape`: the abstract class; nine core methods, and others that stand on them
derived.py    products of intervals, counts of instances, operations spent
listed.py     finite sets as lists of points

`intset.domains.sets.region` has `Region`: a shape with claims.
"""
