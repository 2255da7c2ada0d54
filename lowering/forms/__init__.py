"""Choice of the nest of each stage among several forms, by a cost model.

model.py       counts the work of a nest by kind; weights of kinds, fitted to compiled nests
choose.py      nests in each form, priced by the model, and the cheapest
"""

from lowering.forms.choose import COMPUTE, NESTS, Choice, Form, chosen
from lowering.forms.model import KINDS, WEIGHTS, modelled, work

__all__ = ["COMPUTE", "KINDS", "NESTS", "WEIGHTS", "Choice", "Form", "chosen", "modelled", "work"]
