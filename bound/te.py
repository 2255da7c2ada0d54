"""The tensor-expression language under TVM's names: `from bound import te`.

A schedule script for TVM 0.8 to 0.19 runs after changing its import line to `from bound import te, tir`.
"""

from bound import te_schedule as schedule
from bound.declare import (
    add,
    annotate_shapes,
    compute,
    extern,
    multiply,
    placeholder,
    scan,
    size_var,
    subtract,
    tag_scope,
    var,
)
from bound.errors import ScheduleError
from bound.itervar import IterVar, reduce_axis, thread_axis
from bound.schedule import Schedule, Stage, create_schedule
from bound.tensor import (
    ComputeOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
    TensorComputeOp,
    TensorIntrin,
    TensorSlice,
    decl_tensor_intrin,
)
from bound.tir import scalars
from bound.tir.reduce import max_of as max
from bound.tir.reduce import min_of as min
from bound.tir.reduce import product_of as prod
from bound.tir.reduce import sum_of as sum
from bound.tir.scalars import *

__all__ = [
    "ComputeOp",
    "ExternOp",
    "IterVar",
    "Operation",
    "PlaceholderOp",
    "ScanOp",
    "Schedule",
    "ScheduleError",
    "Stage",
    "Tensor",
    "TensorComputeOp",
    "TensorIntrin",
    "TensorSlice",
    "add",
    "annotate_shapes",
    "compute",
    "create_schedule",
    "decl_tensor_intrin",
    "extern",
    "max",
    "min",
    "multiply",
    "placeholder",
    "prod",
    "reduce_axis",
    "scan",
    "schedule",
    "size_var",
    "subtract",
    "sum",
    "tag_scope",
    "thread_axis",
    "var",
]
__all__ += scalars.__all__
