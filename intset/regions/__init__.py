"""The points of regions: sets of integer tuples with parameters, and the algebra on them.

shape.py      `Shape`: what a domain keeps; it does exactly what is asked of it, or refuses
derived.py    the algebra on the core of `Shape`
account.py    operations that several budgets share
product.py    products of intervals: what a shape is where loops can run over it

`intset.domains.sets.region` has `Region`: a shape with claims.
"""
