"""Sets of integer tuples with parameters.

Guarantee: a shape answers exactly or refuses with a `BudgetError`.

shape.py      `Shape`: the abstract class; nine core methods, and others that stand on them
derived.py    products of intervals, counts of instances
listed.py     finite sets as lists of points
account.py    operations spent, and library answers refused

`intset.domains.sets.region` has `Region`: a shape with claims.
"""
