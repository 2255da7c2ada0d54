"""From a schedule and its bounds to a loop nest.

function.py    the whole function: parameters, sizes, assertions that bind shapes
pipeline.py    ScheduleOps: the nests of all stages, each inside the loop it is attached to; checks of accesses; compact
               and circular storage, double buffers
stages.py      the loops of one stage, and the stores of its operation: guards, reductions, scans, predicates
"""

from lowering.build.pipeline import schedule_ops

__all__ = ["schedule_ops"]
