"""From a schedule and its bounds to a loop nest.

function.py    the whole function: parameters, sizes, assertions that bind shapes
pipeline.py    ScheduleOps: the nests of all stages, each inside the loop it is attached to
stages.py      the loops of one stage: guards, init and update nests of a reduction, scans
formulas.py    the stores of an operation over its root axes
predicates.py  store predicates of stages on threads
checks.py      accesses outside their tensors: refused, asserted, checked
buffers.py     compact and circular storage, double buffers
"""

from lowering.build.pipeline import schedule_ops

__all__ = ["schedule_ops"]
