"""Passes over loop nests: functions from `Function` to `Function`.

minima.py      names for long minima of allocations; choices.py: for selects that an inner loop makes alike each time
follow.py      guards in the ends of loops
simplify.py    loops of one iteration, conditions that always or never hold, shorter indices
buffers.py     the same by what elements hold, too
rebase.py      indices of allocated tensors count from the start of their storage
dead.py        storage that nothing reads, and what fills it
divisions.py   floor divisions become machine operations
hoist.py       divisions that a loop does not change, done before it
strength.py    divisions that a loop carries instead of computing
unroll.py      unrolled loops written out
partition.py   loops in pieces, so that conditions inside are decided; affine.py: what is known of such conditions;
               folding.py: what follows from decided ones
rows.py        choices that are the same for all that a loop stores, before it
values.py      names for indices, where they are decided; counted.py: what a name saves; labels.py: how it is called;
               regroup.py: sums in the order of loops; inline.py: the inverse, for what reads the form of indices
races.py       parallel loops whose iterations meet
accumulators.py elements that loops combine into, in variables
unique.py      every variable in sight has a name of its own
narrow.py      the width of index arithmetic
intervals.py   whether an index is seen to fit, from the intervals of its parts

Those of padded layouts stand on the dataflow:

places.py      statements with what is known there; reports
known.py       conditions that what elements hold decides, stores that change nothing
branches.py    branches that are decided, equal, or go together
noop.py        statements that do nothing
hoisting.py    conditions before loops; extents.py: loops over what does something; merge.py: two loops as one
sequential.py  loops over an array, whole and in order: split.py, nests taken apart; turned.py, over its axes;
               meeting.py, where accesses meet
overcompute.py guards that make no difference, dropped; guards against what is for nothing
undefined.py assumptions.py   `undef()` and `assume`, before code is made
claims.py      which assumptions marked "proved" are proved; parser and printer ask it
"""

from lowering.nest.ir import ABOVE
from lowering.passes.accumulators import accumulate
from lowering.passes.assumptions import remove_assume
from lowering.passes.buffers import simplify
from lowering.passes.choices import name_choices
from lowering.passes.claims import with_checked_claims
from lowering.passes.dead import drop_dead
from lowering.passes.divisions import lower_divisions, lowered_parts
from lowering.passes.extents import reduce_loop_extents
from lowering.passes.follow import follow_guards
from lowering.passes.hoisting import hoist_expression
from lowering.passes.inline import inline_values
from lowering.passes.merge import merge_adjacent_loops
from lowering.passes.minima import name_minima
from lowering.passes.narrow import Width, narrow
from lowering.passes.noop import remove_no_op
from lowering.passes.overcompute import remove_branching_through_overcompute, remove_overcompute_through_branching
from lowering.passes.partition import partition_loops
from lowering.passes.places import Entry
from lowering.passes.rebase import rebase
from lowering.passes.rows import decide_rows
from lowering.passes.sequential import sequential_buffer_access
from lowering.passes.strength import strength_reduce
from lowering.passes.undefined import remove_undef
from lowering.passes.unique import unique_names
from lowering.passes.values import name_values

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
