"""Choice of the nest of each stage among several forms, by a cost model.

model.py       counts the work of a nest by kind; weights of kinds, fitted to compiled nests
candidates.py  nests in each form, priced by the model
choose.py      the cheapest form
"""

from lowering.forms.candidates import NESTS
from lowering.forms.choose import COMPUTE, Choice, Form, chosen
from lowering.forms.model import KINDS, WEIGHTS, modelled, work

__all__ = ["COMPUTE", "KINDS", "NESTS", "WEIGHTS", "Choice", "Form", "chosen", "modelled", "work"]
