"""Floor and ceiling division lowered to what the machine does.

site.py    one division, in the words that rules are written in
rules.py   the table of rules
scope.py   what is known where a part of an expression is evaluated
search.py  the walk: the cheapest rule whose side condition is proved
lower.py   `lower_division` and its answer
share.py   quotient and remainder of one pair, computed once
missing.py what would have to be known for a cheaper form
induction.py   quotients and remainders carried by a loop
"""

from lowering.division.induction import Carried, induction
from lowering.division.lower import Lowered, lower_division
from lowering.division.missing import MissingFact, missing_facts
from lowering.division.search import Step

__all__ = ["Carried", "Lowered", "MissingFact", "Step", "induction", "lower_division", "missing_facts"]
