"""Passes over loop nests: functions from `Function` to `Function`.

minima.py      names for long minima of allocations
simplify.py    loops of one iteration, conditions that always or never hold, shorter indices
follow.py      guards in the ends of loops
rebase.py      indices of allocated tensors count from the start of their storage
dead.py        storage that nothing reads, and what fills it
divisions.py   floor divisions become machine operations
hoist.py       divisions that a loop does not change, done before it
strength.py    divisions that a loop carries instead of computing
unroll.py      unrolled loops written out
unique.py      every variable in sight has a name of its own
narrow.py      the width of index arithmetic
intervals.py   whether an index is seen to fit, from the intervals of its parts
"""

from lowering.passes.dead import drop_dead
from lowering.passes.divisions import lower_divisions, lowered_parts
from lowering.passes.follow import follow_guards
from lowering.passes.minima import name_minima
from lowering.passes.narrow import Width, narrow
from lowering.passes.rebase import rebase
from lowering.passes.simplify import simplify
from lowering.passes.strength import strength_reduce
from lowering.passes.unique import unique_names

__all__ = [
    "Width",
    "drop_dead",
    "follow_guards",
    "lower_divisions",
    "lowered_parts",
    "name_minima",
    "narrow",
    "rebase",
    "simplify",
    "strength_reduce",
    "unique_names",
]
