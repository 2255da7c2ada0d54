"""Floor and ceiling division lowered to machine operations.

site.py       one division, in the terms of the rules
rules.py      the table of rules
scope.py      what holds where a part of an expression is evaluated, and proofs under a budget
search.py     the walk: the cheapest rule whose side condition is proved; shared quotients
lower.py      `lower_division`, its answer, and the facts that a cheaper form lacks
induction.py  quotients and remainders carried by a loop

Guarantee: the lowered expression equals the original at the stated width wherever that has a value.
"""

from lowering.division.induction import CarriedDivision, induction
from lowering.division.lower import Lowered, MissingFact, lower_division, missing_facts
from lowering.division.search import LoweringStep

__all__ = ["CarriedDivision", "Lowered", "LoweringStep", "MissingFact", "induction", "lower_division", "missing_facts"]
