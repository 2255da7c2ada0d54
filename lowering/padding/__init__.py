"""Padding contracts of functions, and layout plans for graphs.

states.py         layouts of parameters; states of their paddings, and values as far as no data decides them
contract.py       `contract`, by dataflow; `pad_options`: the function in other layouts
hoist.py          `hoist_layouts`: copies between parameters and local storage, outside of the function

Graphs of functions with contracts:

graph.py          `Graph`, and its cheapest plan
metavariables.py  padding values that a plan may choose, and equations for them
plan.py           `Plan`: the steps, their execution and explanation
"""

from lowering.padding.contract import Contract, contract, pad_options
from lowering.padding.graph import Graph
from lowering.padding.plan import GraphTensor, Plan, Step
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
