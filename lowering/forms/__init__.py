"""Which nest a stage gets: the forms it may have, what each is expected to cost, and the choice.

model.py       the kinds of work that a nest does, counted
weights.py     what each kind costs: fitted to compiled nests
made.py        a form: its nest, that taken apart, and its cost, each found once
choose.py      the forms that are considered, and the cheapest
"""

from lowering.forms.choose import COMPUTE, Choice, Form, chosen
from lowering.forms.model import KINDS, modelled, work
from lowering.forms.weights import WEIGHTS

__all__ = ["COMPUTE", "KINDS", "WEIGHTS", "Choice", "Form", "chosen", "modelled", "work"]
