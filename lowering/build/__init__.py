"""From a schedule and its bounds to a loop nest.

arguments.py   parameters, sizes, and the assertions that bind shapes
formulas.py    what an operation computes, as stores over its root axes
stages.py      the loops of one stage: guards at their places, init and update nests of a reduction
scans.py       the loops of a scan
predicates.py  store predicates of stages that run on threads
pieces.py      what may become of a stage whose region is no box
function.py    the whole function
checks.py      accesses outside their tensors: refused, asserted, checked
fold.py        accesses of tensors whose storage is compact or circular
double.py      double buffers
pipeline.py    ScheduleOps: the stages put together, each inside the loop it is attached to
"""

from lowering.build.pipeline import schedule_ops

__all__ = ["schedule_ops"]
