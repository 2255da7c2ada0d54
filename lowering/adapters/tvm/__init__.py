"""TVM's TensorIR (`PrimFunc`), both ways.

`lowering.tvm` is another module: the names of TVM's removed schedules of tensor expressions, without TVM.

reading.py         statements of a `PrimFunc` as statements of a nest
terms.py           expressions of TVM as operands
views.py           views of buffers as elements of tensors
foreign.py         statements without a counterpart as opaque calls
threads.py         loops on threads as TVM launches them
initialization.py  initializations in front of reductions, or in their first iteration
writing.py         a nest as a `PrimFunc` without blocks
iterations.py      iteration variables of blocks, and what they claim
blocks.py          a nest as a `PrimFunc` with blocks
"""

from __future__ import annotations

from lowering.adapters.tvm.blocks import to_tvm
from lowering.adapters.tvm.reading import from_tvm

__all__ = ["from_tvm", "to_tvm"]
