"""The package that stands for `tvm` in scripts of TVM 0.8 to 0.19: `import lowering.tvm as tvm`.

te, tir, arith, ir    the languages of a script: tensors, expressions, questions, TVM's classes of nodes
building.py           `lower`, `build` and the module that is called with arrays; passes
target, nd, runtime   targets, devices, arrays; `testing` is in runtime.py, too
topi                  the user's own copy of the operator library
builders.py           nests written statement by statement, or read from Python functions
outside.py            `install()`: scripts run with their own import lines; what is not here
"""

import sys
from typing import Any

from intset.errors import IntSetError as TVMError
from lowering.tvm import arith, autotvm, building, ir, outside, runtime, target, te, tir
from lowering.tvm.building import build, lower
from lowering.tvm.ir import IRModule, Range, container, load_json, save_json
from lowering.tvm.outside import contrib, install
from lowering.tvm.runtime import NDArray, device
from lowering.tvm.te import decl_tensor_intrin
from lowering.tvm.tir import IndexMap

_ffi, libinfo, support, transform = outside, outside.libinfo, outside.support, building
__version__ = libinfo.__version__  # the last release whose scripts run
globals().update(
    (name, getattr(runtime, name))
    for name in "DataType convert cpu cuda ext_dev get_global_func gpu metal opencl register_func rocm vulkan".split()
)
context, build_config = device, building.PassContext
build_module = driver = building
error = outside
nd = testing = runtime
building.__dict__["build_module"] = building
runtime.__dict__.update(Module=building.BuiltModule, load_module=building.load_module)

for module, names in (  # TVM splits each of these modules: every part has the names of the whole
    (outside, ("base", "object", "registry")),
    (arith, ("analyzer", "int_set")),
    (autotvm, ("dispatcher", "space", "task", "topi_integration")),
    (ir, ("base", "container", "expr", "op")),
    (runtime, ("module", "ndarray", "object", "packed_func", "utils")),
    (target, ("target",)),
    (te, ("operation", "tag", "tensor_intrin")),
    (tir, ("buffer", "data_layout", "function", "op", "stmt")),
):
    for name in names:
        module.__dict__.setdefault(name, module)
for module, more in (
    (building, "build_module driver transform"),
    (outside, "_ffi error"),
    (contrib, "contrib"),
    (runtime, "nd testing"),
):
    sys.modules.update({f"{__name__}.{name}": module for name in more.split()})
for module in (arith, autotvm, building, ir, runtime, target, te, tir):
    module.__dict__["__getattr__"] = outside.missing(module.__name__.removeprefix(f"{__name__}."))


def __getattr__(name: str) -> Any:
    if name == "topi" and "tvm.topi" in sys.modules:
        return sys.modules["tvm.topi"]  # while it is imported
    return outside.outside(name) if name in outside.NOT_HERE else outside.missing("tvm")(name)
