"""TVM's TensorIR (`PrimFunc`), both ways.

`lowering.tvm` is another module: the names of TVM's removed schedules of tensor expressions, without TVM.

reading.py  statements of a `PrimFunc` as statements of a nest, or as opaque calls; its expressions as operands
writing.py  a nest as a `PrimFunc`, plain or with blocks, whose iteration variables make claims
"""

from lowering.adapters.tvm.reading import from_tvm
from lowering.adapters.tvm.writing import to_tvm

__all__ = ["from_tvm", "to_tvm"]
