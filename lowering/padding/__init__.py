"""Paddings as contracts between functions.

states.py      what is asked of a padding, and what is promised of it
packed.py      packed parameters: which of their elements are padding
arithmetic.py  operations on numbers, as `run` computes them
partial.py     operands evaluated as far as they do not depend on data
trace.py       a nest followed element by element, paddings as unknowns
alike.py       one value for all places
registers.py   conversions that make no difference
applied.py     values of paddings put into expressions that are made of them
contract.py    `contract`
"""

from lowering.padding.contract import Contract, contract
from lowering.padding.states import NOTHING, READABLE, UNDEF, UNTOUCHED, PadValue

__all__ = ["NOTHING", "READABLE", "UNDEF", "UNTOUCHED", "Contract", "PadValue", "contract"]
