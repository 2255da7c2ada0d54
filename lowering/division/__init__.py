"""Floor and ceiling division lowered to machine operations.

rules.py  one division in the terms of the rules, and their table
lower.py  `lower_division`: the walk with the cheapest rule proved in its scope; its answer, the facts it lacks

Guarantee: the lowered expression equals the original at the stated width wherever that has a value.
"""

from lowering.division.lower import Lowered, LoweringStep, MissingFact, lower_division, missing_facts

__all__ = ["Lowered", "LoweringStep", "MissingFact", "lower_division", "missing_facts"]
