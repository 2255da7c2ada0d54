"""Passes over loop nests: functions from `Function` to `Function`, made of rules for the driver of `lowering.nest`.

loops/             loops: splitting, interchange, fusion, unswitching, tightening
values/            integers: common subexpressions, constants, divisions and their strength reduction, widths
stores/            stores: dead code, copies, what elements hold, assumptions, storage
simplify.py        `simplify`, and its rules for use in other passes: shorter ends, decided branches, single iterations;
                   `until_stable`, which repeats a pass
estimates.py       ends of loops as linear forms, comparisons that they decide, operations and iterations
definedness.py     integer parts of operands at a position, and where they have a value

Guarantee of every pass: parameters end with the same elements wherever the nest it was given is defined. The docstring
of each folder states what else its passes keep.
"""

from lowering.nest.ir import ABOVE
from lowering.nest.names import unique_names
from lowering.nest.printer import Entry
from lowering.passes.loops.fusion import merge_adjacent_loops
from lowering.passes.loops.index_set_splitting import partition_loops
from lowering.passes.loops.interchange import sequential_buffer_access
from lowering.passes.loops.invariants import decide_rows, hoist_expression, name_choices
from lowering.passes.loops.tightening import follow_guards, reduce_loop_extents
from lowering.passes.simplify import simplify
from lowering.passes.stores.dead_code import drop_dead, remove_no_op, remove_undef
from lowering.passes.stores.overcompute import (
    remove_branching_through_overcompute,
    remove_overcompute_through_branching,
)
from lowering.passes.stores.placement import accumulate, rebase
from lowering.passes.stores.reaching_values import remove_assume, with_checked_claims
from lowering.passes.values.cse import inline_values, name_ends, name_minima, name_values
from lowering.passes.values.divisions import lower_divisions, lowered_parts, strength_reduce
from lowering.passes.values.index_width import Width, narrow

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
