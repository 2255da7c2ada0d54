"""Padding contracts of functions, and layout plans for graphs.

states.py              packed parameters; states and values of their paddings
partial_evaluation.py  operands evaluated as far as they do not depend on data
concrete.py            the concrete interpreter, padding elements as symbols
anti_unification.py    one value for all padding elements
symbolic.py            contracts by dataflow, for symbolic sizes and long nests
contract.py            `contract`; the interface of a function in a graph
options.py             `pad_options`: a function in other layouts, with different promises
copies.py              copies between parameters and local storage, recognized by their result
hoist.py               `hoist_layouts`: these copies, outside of the function

Graphs of functions with contracts:

graph.py               `Graph`
planner.py             the cheapest plan
metavariables.py       padding values that a plan may choose, and equations for them
plan.py                `Plan`: the steps, their execution and explanation
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
