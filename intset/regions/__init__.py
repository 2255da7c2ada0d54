"""Sets of integer tuples with parameters.

Guarantee: a shape answers exactly or refuses with a `BudgetError`.

`shape.py` has `Shape`, the abstract class of nine core methods and others that stand on them, and finite sets as lists;
`intset.domains.sets.region` has `Region`: a shape with claims.
"""
