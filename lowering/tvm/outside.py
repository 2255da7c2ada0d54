"""Modules and names of TVM that are not here, and its errors.

A script that imports one is told in one line what serves instead. The operator library imports many and uses few:
it gets modules whose functions are refused by name when they are called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NoReturn

from intset.errors import InputError, IntSetError

_HERE: Final = __name__.rpartition(".")[0]
NOT_HERE: Final = {
    name: f"tvm.{name} is not here: {instead}"
    for name, instead in {
        "relay": "lowering.Graph holds graphs of operators, te and lowering.lower single ones",
        "contrib": "tvm.register_func and tir.call_packed call libraries from Python",
        "auto_scheduler": "lowering.explore measures schedules of a space",
        "meta_schedule": "lowering.explore measures schedules of a space",
        "rpc": "nothing runs on another machine; lowering.explore takes any concurrent.futures.Executor",
        "micro": "lowering.to_c prints C99 for any device",
        "script": "lowering.parse_nest reads nests, lowering.adapters.tvm today's TensorIR",
        "relax": "lowering.Graph holds graphs of operators",
    }.items()
}


def _undecorated(*_: object, **__: object) -> Callable[[Any], Any]:
    return lambda function: function


def _no(*_: object, **__: object) -> bool:
    return False


TVMError = InternalError = RPCError = IntSetError
OpError = OpNotImplemented = OpAttributeInvalid = DiagnosticError = InputError

INSTEAD: Final = {  # names of modules, and what serves
    name: text
    for names, text in {
        "te.trace": "tir.call_packed calls a Python function on tensors",
        "tir.Schedule tir.schedule": "a te schedule, or lowering.passes on the nest",
        "tir.usmp": "lowering.lower plans storage",
        "tir.ret": "a function writes its outputs",
        "tir.undef": "lowering.parse_nest reads undef()",
        "tir.tvm_tuple": "an operation of several outputs: te.compute of a tuple",
        "tir.type_annotation": "tir.decl_buffer declares a type",
        "tir.BlockScope tir.BufferRegion tir.MatchBufferRegion tir.StmtSRef": "write the nest with tir.ir_builder",
        "transform.*": "lowering.passes has the passes of nests, lowering.lower runs them",
        "ir.Op ir.register_op_attr": "tvm.register_func and tir.call_packed",
        "ir.register_intrin_lowering": "tir.call_extern names the function of C",
        "ir.GlobalVar": "a function is its own module: f['main']",
        "ir.Span": "nodes have no place in a source",
        "arith.solve_linear_inequalities arith.solve_linear_equations arith.estimate_region_lower_bound "
        "arith.estimate_region_upper_bound arith.estimate_region_strict_bound": "ask intset.Context: value_set, solve, "
        "narrow",
        "arith.detect_iter_map arith.normalize_to_iter_sum": "intset.Context.as_iter_map",
        "runtime.load_module": "te.hybrid.HybridModule.load reads nests; tvm.build compiles C again",
        "runtime.load_param_dict runtime.save_param_dict": "numpy.load and numpy.save",
        "parser": "lowering.parse_nest reads the text of a nest",
        "topi": "install(topi=FOLDER) names a copy of its Python half",
        "autotvm.tuner autotvm.measure_option autotvm.LocalBuilder autotvm.LocalRunner autotvm.callback": "lowering."
        "explore measures schedules of a space",
    }.items()
    for name in names.split()
}


def missing(module: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module: it says what serves instead of a name."""

    def refuse(name: str) -> NoReturn:
        full = f"{module}.{name}".removeprefix("tvm.")
        instead = INSTEAD.get(full) or INSTEAD.get(f"{module}.*", "docs/from-tvm.md lists what is there")
        raise AttributeError(f"tvm.{full} is not here: {instead}")

    return refuse


ANSWERS: Final[dict[str, Callable[..., Any]]] = {  # what operators ask before they choose
    "tvm.contrib.pickle_memoize.memoize": _undecorated,
    "tvm.contrib.thrust.can_use_thrust": _no,
    "tvm.contrib.thrust.can_use_rocthrust": _no,
    "tvm.contrib.nvcc.have_int8": _no,
    "tvm.contrib.nvcc.have_fp16": _no,
    "tvm.contrib.nvcc.have_tensorcore": _no,
    "tvm.auto_scheduler.is_auto_scheduler_enabled": _no,
    "tvm.meta_schedule.is_meta_schedule_enabled": _no,
    "tvm.relay.ty.is_dynamic": _no,
}


class OutsideName:
    """A name of a missing module; calls are refused."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_: object, **__: object) -> NoReturn:
        top = self.name.split(".")[1]
        raise InputError(f"{self.name} is not here: {NOT_HERE[top].partition(': ')[2]}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.name}.{name}"
        return ANSWERS[full] if full in ANSWERS else OutsideName(full)


class OutsideModule(ModuleType):
    """An absent module, as the operator library imports it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(OutsideName(self.__name__), name)


def asked_by_library() -> bool:
    """Whether the code that imports is the operator library."""
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(("importlib", _HERE)):
            return name == "tvm.topi" or name.startswith("tvm.topi.")
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def forget_outside(package: ModuleType) -> None:
    """Remove what the library imported, so that scripts are told."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, OutsideModule):
            del sys.modules[name]
            package.__dict__.pop(name.rpartition(".")[2], None)
