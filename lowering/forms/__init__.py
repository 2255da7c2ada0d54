"""Which nest a stage gets: the forms it may have, what each is expected to cost, and the choice."""

from lowering.forms.choose import COMPUTE, Form, chosen
from lowering.forms.model import WEIGHTS, modelled

__all__ = ["COMPUTE", "WEIGHTS", "Form", "chosen", "modelled"]
