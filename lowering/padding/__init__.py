"""Padding contracts of functions, and layout plans for graphs.

states.py              states and values of paddings
packed.py              packed parameters and their padding elements
partial_evaluation.py  operands evaluated as far as they do not depend on data
concrete.py            the concrete interpreter, padding elements as symbols
anti_unification.py    one value for all padding elements
symbolic.py            contracts by dataflow, for symbolic sizes and long nests
contract.py            `contract`
options.py             `pad_options`: a function in other layouts, with different promises
copies.py              copies between parameters and local storage, recognized by their result
hoist.py               `hoist_layouts`: these copies, outside of the function

Graphs of functions with contracts:

interface.py           ports of a function in a graph
graph.py               `Graph`
moves.py plan.py       the steps of a plan; `Plan`
execute.py explain.py  a plan on arrays; in words
unknowns.py inverted.py  metavariables, and the values that equations give them
search_states.py       search states and their dominance
call_alternatives.py   the alternatives of one call
planner.py             the cheapest plan; resolve.py: from the last search state to a plan
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
