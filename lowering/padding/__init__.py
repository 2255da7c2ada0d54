"""Paddings as contracts between functions.

states.py      what is asked of a padding, and what is promised of it
packed.py      packed parameters: which of their elements are padding
arithmetic.py  operations on numbers, as `run` computes them
partial.py     operands evaluated as far as they do not depend on data
trace.py       a nest followed element by element, paddings as unknowns
alike.py       one value for all places
registers.py   conversions that make no difference
applied.py     values of paddings put into expressions that are made of them
symbolic.py    the same by dataflow, where sizes are symbolic or a nest is long
contract.py    `contract`
options.py     `pad_options`: a function in other layouts, with different promises
copies.py      copies between parameters and local storage, by what they compute
hoist.py       `hoist_layouts`: they go outside of the function

Graphs of functions with contracts:

interface.py   what a function shows to its neighbours
graph.py       `Graph`
moves.py plan.py   the steps of a plan; `Plan`
execute.py explain.py   a plan on arrays; in words
unknowns.py inverted.py   values that are free, and what they have to be
worlds.py dominance.py   what has been decided so far; what another one makes needless
serving.py     the ways in which one call can be made
planner.py     a cheapest plan; resolve.py: from decisions to a plan
"""

from lowering.padding.contract import Contract, contract
from lowering.padding.graph import Graph, GraphTensor
from lowering.padding.moves import Step
from lowering.padding.options import pad_options
from lowering.padding.plan import Plan
from lowering.padding.states import NOTHING, READABLE, UNDEF, UNTOUCHED, PadValue

__all__ = [
    "NOTHING",
    "READABLE",
    "UNDEF",
    "UNTOUCHED",
    "Contract",
    "Graph",
    "GraphTensor",
    "PadValue",
    "Plan",
    "Step",
    "contract",
    "pad_options",
]
