"""From schedules to loop nests; division lowering; interpreter, C output and the command line."""

from intset.expr.printer import show_by
from lowering import tvm  # noqa: F401  # it provides te.schedule.ScheduleOps
from lowering.banks import AddressAnswer, alignment, bank_conflicts, contiguity
from lowering.codegen.c import to_c
from lowering.dataflow import CheckedAccess, Dataflow, Source, dataflow
from lowering.division import lower_division
from lowering.errors import AccessError, CheckError, CompilerError, ExplorationError, InterfaceError, LayoutError
from lowering.explore import Exploration, Footprints, Lowering, Measure, ModelledCost, Timing, explore
from lowering.interpreter import run
from lowering.layout import IndexMap, Layout
from lowering.layout.padding_value import element
from lowering.layout.transform import add_constraint, cache_read, cache_write, transform_layout, with_layouts
from lowering.lower import annotate_shapes, lower
from lowering.nest.ir import Function, undef
from lowering.nest.parser import parse_nest
from lowering.padding.contract import Contract, contract, pad_options
from lowering.padding.graph import Graph
from lowering.padding.hoist import Hoisted, hoist_layouts
from lowering.padding.plan import GraphTensor, Plan, Step
from lowering.padding.states import NOTHING, READABLE, UNDEF, UNTOUCHED, PadValue
from lowering.passes import (
    Width,
    drop_dead,
    hoist_expression,
    lower_divisions,
    merge_adjacent_loops,
    narrow,
    rebase,
    reduce_loop_extents,
    remove_assume,
    remove_branching_through_overcompute,
    remove_no_op,
    remove_overcompute_through_branching,
    remove_undef,
    sequential_buffer_access,
    simplify,
    strength_reduce,
    unique_names,
)

__all__ = [
    "NOTHING",
    "READABLE",
    "UNDEF",
    "UNTOUCHED",
    "AccessError",
    "AddressAnswer",
    "CheckError",
    "CheckedAccess",
    "CompilerError",
    "Contract",
    "Dataflow",
    "Exploration",
    "ExplorationError",
    "Footprints",
    "Function",
    "Graph",
    "GraphTensor",
    "Hoisted",
    "IndexMap",
    "InterfaceError",
    "Layout",
    "LayoutError",
    "Lowering",
    "Measure",
    "ModelledCost",
    "PadValue",
    "Plan",
    "Source",
    "Step",
    "Timing",
    "Width",
    "add_constraint",
    "alignment",
    "annotate_shapes",
    "bank_conflicts",
    "cache_read",
    "cache_write",
    "contiguity",
    "contract",
    "dataflow",
    "drop_dead",
    "element",
    "explore",
    "hoist_expression",
    "hoist_layouts",
    "lower",
    "lower_division",
    "lower_divisions",
    "merge_adjacent_loops",
    "narrow",
    "pad_options",
    "parse_nest",
    "rebase",
    "reduce_loop_extents",
    "remove_assume",
    "remove_branching_through_overcompute",
    "remove_no_op",
    "remove_overcompute_through_branching",
    "remove_undef",
    "run",
    "sequential_buffer_access",
    "simplify",
    "strength_reduce",
    "to_c",
    "transform_layout",
    "undef",
    "unique_names",
    "with_layouts",
]


@show_by
def _notebook() -> object:
    from lowering import notebook

    return notebook
