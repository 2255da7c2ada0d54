"""Passes over loop nests: functions from `Function` to `Function`, made of rules for the driver of `lowering.nest`.

loops/             loops: splitting, interchange, fusion, unswitching, tightening, strength reduction, dependence
values/            integers: common subexpressions, constants, divisions, widths
stores/            stores: dead code, copies, what elements hold, assumptions, storage
simplify.py        `simplify`, and its rules for use in other passes: shorter ends, decided branches, single iterations
alpha_renaming.py  `unique_names`, and copies of statements with names of their own
affine.py          ends of loops as linear forms; comparisons that they decide
profitability.py   estimates of operations and iterations
report.py          reports of passes; definedness.py the definedness of operands at a position
fixpoint.py        a pass until it changes nothing

Guarantee of every pass: parameters end with the same elements wherever the nest it was given is defined. The docstring
of each folder states what else its passes keep.
"""

from lowering.nest.ir import ABOVE
from lowering.passes.alpha_renaming import unique_names
from lowering.passes.loops.fusion import merge_adjacent_loops
from lowering.passes.loops.index_set_splitting import partition_loops
from lowering.passes.loops.interchange import sequential_buffer_access
from lowering.passes.loops.licm import name_choices
from lowering.passes.loops.strength_reduction import strength_reduce
from lowering.passes.loops.tightening import follow_guards, reduce_loop_extents
from lowering.passes.loops.unswitching import decide_rows, hoist_expression
from lowering.passes.report import Entry
from lowering.passes.simplify import simplify
from lowering.passes.stores.assumptions import remove_assume, with_checked_claims
from lowering.passes.stores.dead_code import drop_dead, remove_no_op
from lowering.passes.stores.overcompute import (
    remove_branching_through_overcompute,
    remove_overcompute_through_branching,
)
from lowering.passes.stores.rebase import rebase
from lowering.passes.stores.scalar_replacement import accumulate
from lowering.passes.stores.undef_removal import remove_undef
from lowering.passes.values.cse import inline_values, name_minima, name_values
from lowering.passes.values.divisions import lower_divisions, lowered_parts
from lowering.passes.values.index_width import Width, narrow
from lowering.passes.values.named_ends import name_ends

__all__ = [
    "Entry",
    "Width",
    "accumulate",
    "decide_rows",
    "drop_dead",
    "follow_guards",
    "hoist_expression",
    "inline_values",
    "lower_divisions",
    "lowered_parts",
    "merge_adjacent_loops",
    "name_choices",
    "name_ends",
    "name_minima",
    "name_values",
    "narrow",
    "partition_loops",
    "rebase",
    "reduce_loop_extents",
    "remove_assume",
    "remove_branching_through_overcompute",
    "remove_no_op",
    "remove_overcompute_through_branching",
    "remove_undef",
    "sequential_buffer_access",
    "simplify",
    "strength_reduce",
    "unique_names",
]

ABOVE.with_checked_claims = with_checked_claims
